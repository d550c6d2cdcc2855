//! What goes wrong, as a pure function of the seed, the place and how often it was come to there:
//! leaving one fault out leaves all others in place. Each seed switches whole classes on and off.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::draw::{Draw, mixed};
use crate::executor::Node;

macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident = $name:literal),* $(,)?) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
        pub enum Class { $($(#[$doc])* $class),* }

        impl Class {
            /// Every class.
            pub const ALL: &'static [Self] = &[$(Self::$class),*];

            /// Its name, as `--without` takes it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$class => $name),* }
            }
        }
    };
}

classes! {
    /// No connection: nothing is sent.
    NotSent = "not-sent",
    /// The request never reaches Stripe, and no answer comes.
    LostBefore = "lost-before",
    /// The connection breaks before Stripe saw the request.
    Reset = "reset",
    /// Stripe acts, and its answer is lost.
    LostAfter = "lost-after",
    /// Stripe asks for patience.
    Status429 = "429",
    /// The key may not do this for a moment.
    Status403 = "403",
    /// Stripe is at the request for longer than anybody waits; the same key gets a 409.
    Executing = "executing",
    /// The request is on its way for longer than anybody waits.
    Slow = "slow",
    /// A 500 is answered and kept; nothing was done.
    Stored500 = "stored-500",
    /// A 500 is answered and kept; it was done.
    Done500 = "done-500",
    /// A 500 is answered and kept; it is done later.
    Rolled500 = "rolled-500",
    /// The answer is cut off.
    Malformed = "malformed",
    /// The store takes its time.
    StoreSlow = "store-slow",
    /// The store cannot be used; nothing is written.
    StoreDown = "store-down",
    /// What was written is durable, and the answer is lost.
    StoreLost = "store-lost",
    /// A gateway dies and comes back.
    Crash = "crash",
    /// A gateway stands still for a while, and goes on as if nothing had happened.
    Freeze = "freeze",
    /// A clock jumps.
    Jump = "jump",
    /// A client goes away before its answer comes.
    HangUp = "hang-up",
    /// A gateway's call finds no connection.
    CallNotSent = "call-not-sent",
    /// A gateway's call never reaches the authority, and no answer comes.
    CallLost = "call-lost",
    /// A gateway's call is on its way for long.
    CallSlow = "call-slow",
    /// The same signed call reaches the authority twice.
    CallTwice = "call-twice",
    /// A byte of a call is another when it comes.
    CallAltered = "call-altered",
    /// The authority acts, and its answer is lost.
    AnswerLost = "answer-lost",
    /// The authority's answer is on its way for long.
    AnswerSlow = "answer-slow",
    /// A byte of an answer is another when it comes.
    AnswerAltered = "answer-altered",
    /// An answer comes without its signature.
    AnswerUnsigned = "answer-unsigned",
    /// The answer to another call comes in its place.
    AnswerOther = "answer-other",
    /// No authority can be reached for a while.
    AuthorityDown = "authority-down",
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where faults are drawn.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Place {
    /// A refund sent to Stripe.
    Send,
    /// A read of Stripe's.
    Read,
    /// A transaction.
    Transact,
    /// A read of the store.
    StoreRead,
    /// A poll of a node that is in the middle of a transaction or a refund.
    HotPoll,
    /// Any other poll of a node.
    Poll,
    /// The wait of a client.
    Wait,
    /// A gateway's call that decides.
    Call,
    /// A gateway's call about what was decided before; there are few of them.
    Late,
    /// Any other call of a gateway's; there are many of them.
    Ask,
}

impl Place {
    const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Read => "read",
            Self::Transact => "transact",
            Self::StoreRead => "store-read",
            Self::HotPoll => "hot-poll",
            Self::Poll => "poll",
            Self::Wait => "wait",
            Self::Call => "call",
            Self::Late => "late",
            Self::Ask => "ask",
        }
    }

    /// What can go wrong here, and how many times in a thousand where the seed is hard on it.
    const fn classes(self) -> &'static [(Class, u64)] {
        use Class as C;
        match self {
            Self::Send => &[
                (C::NotSent, 250),
                (C::LostBefore, 250),
                (C::Reset, 250),
                (C::LostAfter, 300),
                (C::Status429, 350),
                (C::Status403, 150),
                (C::Executing, 200),
                (C::Slow, 200),
                (C::Stored500, 100),
                (C::Done500, 150),
                (C::Rolled500, 150),
                (C::Malformed, 150),
            ],
            Self::Read => &[
                (C::NotSent, 100),
                (C::LostBefore, 60),
                (C::LostAfter, 60),
                (C::Status429, 120),
                (C::Status403, 30),
                (C::Slow, 120),
                (C::Stored500, 60),
                (C::Malformed, 40),
            ],
            Self::Transact => &[(C::StoreDown, 80), (C::StoreLost, 120), (C::StoreSlow, 100)],
            Self::StoreRead => &[(C::StoreDown, 40), (C::StoreSlow, 40)],
            Self::HotPoll => &[(C::Crash, 80), (C::Freeze, 30)],
            Self::Poll => &[(C::Crash, 2)],
            Self::Wait => &[(C::HangUp, 200)],
            Self::Call => &[
                (C::AuthorityDown, 90),
                (C::CallAltered, 150),
                (C::CallNotSent, 80),
                (C::CallLost, 120),
                (C::CallSlow, 80),
                (C::CallTwice, 150),
                (C::AnswerLost, 150),
                (C::AnswerSlow, 100),
                (C::AnswerAltered, 120),
                (C::AnswerUnsigned, 100),
                (C::AnswerOther, 100),
            ],
            Self::Late => &[
                (C::AuthorityDown, 200),
                (C::CallAltered, 350),
                (C::CallNotSent, 150),
                (C::CallLost, 200),
                (C::CallSlow, 200),
                (C::CallTwice, 250),
                (C::AnswerLost, 250),
                (C::AnswerSlow, 200),
                (C::AnswerAltered, 200),
                (C::AnswerUnsigned, 300),
                (C::AnswerOther, 200),
            ],
            Self::Ask => &[
                (C::CallNotSent, 15),
                (C::CallLost, 15),
                (C::CallSlow, 10),
                (C::CallTwice, 30),
                (C::CallAltered, 20),
                (C::AnswerLost, 15),
                (C::AnswerSlow, 10),
                (C::AnswerAltered, 20),
                (C::AnswerUnsigned, 10),
                (C::AnswerOther, 15),
                (C::AuthorityDown, 4),
            ],
        }
    }
}

/// One fault that came to be.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Fault {
    pub(crate) class: Class,
    pub(crate) place: Place,
    pub(crate) node: Node,
    /// How often this place was come to before.
    pub(crate) n: u64,
    /// Chance that belongs to this fault alone.
    pub(crate) chance: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.class, self.place.name(), self.node.0, self.n)
    }
}

/// The faults of one world.
pub(crate) struct Faults {
    seed: u64,
    without: BTreeSet<String>,
    only: Option<BTreeSet<String>>,
    /// How hard the seed is on each class, in thousandths of the worst; absent: spared.
    weights: BTreeMap<Class, u64>,
    /// Refunds that all meet the same fault, one after the other: by class, from, and how many.
    spells: Vec<(Class, u64, u64)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    on: bool,
    counts: BTreeMap<(Place, Node), u64>,
    fired: Vec<Fault>,
}

impl Faults {
    /// The faults of `seed`, but for those named, or only those; none until they are switched on.
    pub(crate) fn new(
        seed: u64,
        without: BTreeSet<String>,
        only: Option<BTreeSet<String>>,
        remote: bool,
    ) -> Self {
        let mut draw = Draw::of(seed, 3, 0);
        let calm = draw.permille(60);
        let mut weights = BTreeMap::new();
        // The way to the authority has a stream of its own: where there is none, nothing changes.
        let mut way = Draw::of(seed, 3, 1);
        for class in Class::ALL {
            let of_the_way = Place::Call.classes().iter().any(|(of, _)| of == class);
            if of_the_way && !remote {
                continue;
            }
            let (draw, often) = if of_the_way { (&mut way, 550) } else { (&mut draw, 400) };
            let (on, weight) = (draw.permille(often), *draw.pick(&[100, 300, 1000, 2500]));
            if on && !calm && !without.contains(class.name()) {
                weights.insert(*class, weight);
            }
        }
        let among = [Class::Status429, Class::Status403, Class::NotSent, Class::LostBefore];
        let mut spells: Vec<_> = (0..draw.below(4))
            .map(|_| (*draw.pick(&among), draw.below(12), draw.between(3, 14)))
            .collect();
        if draw.permille(100) {
            // Stripe is gone for a day or more.
            spells.push((Class::LostBefore, draw.below(6), 100));
        }
        spells.retain(|(class, ..)| weights.contains_key(class));
        Self { seed, without, only, weights, spells, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets faults happen, or not any more.
    pub(crate) fn switch(&self, on: bool) {
        self.state().on = on;
    }

    /// Whether the seed has this class.
    pub(crate) fn has(&self, class: Class) -> bool {
        self.weights.contains_key(&class)
    }

    /// What was left out by name.
    pub(crate) fn is_left_out(&self, name: &str) -> bool {
        self.without.contains(name) || self.only.as_ref().is_some_and(|only| !only.contains(name))
    }

    /// Comes to a place, and says what goes wrong there.
    pub(crate) fn at(&self, place: Place, node: Node) -> Option<Fault> {
        let mut state = self.state();
        if !state.on {
            return None;
        }
        let count = state.counts.entry((place, node)).or_default();
        let n = *count;
        *count += 1;
        let site = ((place as u64) << 8) | u64::from(node.0);
        let fault = place.classes().iter().find_map(|(class, permille)| {
            let weight = self.weights.get(class)?;
            let chance = mixed(self.seed, 4 + *class as u64 * 1000, site, n);
            // In millionths, from the lower bits; the rest is the fault's own chance.
            let spell = place == Place::Send
                && self
                    .spells
                    .iter()
                    .any(|(of, from, count)| of == class && (*from..from + count).contains(&n));
            let fires = spell || chance % 1_000_000 < permille * weight;
            let fault = Fault { class: *class, place, node, n, chance: chance / 1_000_000 };
            (fires && !self.is_left_out(&fault.to_string())).then_some(fault)
        })?;
        state.fired.push(fault);
        Some(fault)
    }

    /// Everything that went wrong so far.
    pub(crate) fn fired(&self) -> Vec<Fault> {
        self.state().fired.clone()
    }
}
