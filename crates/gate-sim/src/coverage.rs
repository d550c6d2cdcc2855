//! Which transitions were met by which faults. A cell is reached when an intent made a transition
//! after (or while) that fault hit the work that makes it; nothing is counted that merely happened
//! nearby.

use std::collections::BTreeMap;
use std::fmt;

use gate_core::State;

use crate::faults::Class;

/// What hit the work.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Hit {
    /// The node died before the transition's transaction.
    CrashBeforeCommit,
    /// The node died after the transition was durable, before it knew.
    CrashAfterCommit,
    /// The store refused the transition's transaction.
    StoreDown,
    /// The transition was durable, and the answer lost.
    StoreLost,
    /// The node died before its refund reached Stripe.
    CrashBeforeSend,
    /// The node died after Stripe had acted on its refund.
    CrashAfterSend,
    /// A fault of the way to Stripe, or of Stripe, hit the refund.
    Stripe(Class),
    /// A fault of the way to an authority elsewhere hit the call.
    Wire(Class),
    /// The gateway died over its call to an authority elsewhere.
    CallerDied,
}

/// What becomes of a gateway's keys.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Turn {
    /// A second key, beside the first for a day.
    Rotated,
    /// A second key in place of the first.
    RotatedAtOnce,
    /// None any more.
    Revoked,
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashBeforeCommit => f.write_str("crash before commit"),
            Self::CrashAfterCommit => f.write_str("crash after commit"),
            Self::StoreDown => f.write_str("store down"),
            Self::StoreLost => f.write_str("commit unknown"),
            Self::CrashBeforeSend => f.write_str("crash before send"),
            Self::CrashAfterSend => f.write_str("crash after send"),
            Self::Stripe(class) | Self::Wire(class) => class.fmt(f),
            Self::CallerDied => f.write_str("caller died"),
        }
    }
}

/// A change of state.
pub(crate) type Move = (State, State);

/// How often each cell was reached.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    moves: BTreeMap<(&'static str, &'static str), BTreeMap<Option<Hit>, u64>>,
    turns: BTreeMap<(Turn, &'static str), u64>,
}

impl Coverage {
    /// Counts a transition, hit or not.
    pub(crate) fn note(&mut self, (from, to): Move, hit: Option<Hit>) {
        *self.moves.entry((from.as_str(), to.as_str())).or_default().entry(hit).or_default() += 1;
    }

    /// Counts what a gateway's credential met after a turn.
    pub(crate) fn turn(&mut self, turn: Turn, met: &'static str) {
        *self.turns.entry((turn, met)).or_default() += 1;
    }

    /// Adds what another run reached.
    pub fn add(&mut self, other: &Self) {
        for (cell, count) in &other.turns {
            *self.turns.entry(*cell).or_default() += count;
        }
        for (cell, hits) in &other.moves {
            for (hit, count) in hits {
                *self.moves.entry(*cell).or_default().entry(*hit).or_default() += count;
            }
        }
    }
}

/// Every hit that a transaction can meet.
const STORE: &[Hit] =
    &[Hit::CrashBeforeCommit, Hit::CrashAfterCommit, Hit::StoreDown, Hit::StoreLost];
/// Every hit that a refund can meet.
const SENT: &[Hit] = &[
    Hit::CrashBeforeSend,
    Hit::CrashAfterSend,
    Hit::Stripe(Class::NotSent),
    Hit::Stripe(Class::LostBefore),
    Hit::Stripe(Class::Reset),
    Hit::Stripe(Class::LostAfter),
    Hit::Stripe(Class::Status429),
    Hit::Stripe(Class::Status403),
    Hit::Stripe(Class::Executing),
    Hit::Stripe(Class::Slow),
    Hit::Stripe(Class::Stored500),
    Hit::Stripe(Class::Done500),
    Hit::Stripe(Class::Rolled500),
    Hit::Stripe(Class::Malformed),
];
/// The hits that leave no doubt, and so may end in `not_executed`.
const CLEAR: &[Hit] =
    &[Hit::Stripe(Class::NotSent), Hit::Stripe(Class::Status429), Hit::Stripe(Class::Status403)];

/// Every transition that this world can reach, and the hits on Stripe's side that it can follow.
/// Left out are those by way of an approval of Stripe's own, which no key of this world asks for.
const REACHABLE: [(State, State, &[Hit]); 19] = [
    (State::Asked, State::PendingApproval, &[]),
    (State::Asked, State::Submitted, &[]),
    (State::Asked, State::Denied, &[]),
    (State::PendingApproval, State::Approved, &[]),
    (State::PendingApproval, State::Denied, &[]),
    (State::PendingApproval, State::Expired, &[]),
    (State::PendingApproval, State::Canceled, &[]),
    (State::Approved, State::Submitted, &[]),
    (State::Approved, State::Denied, &[]),
    (State::Approved, State::Expired, &[]),
    (State::Approved, State::Canceled, &[]),
    (State::Submitted, State::Settled, SENT),
    (State::Submitted, State::Failed, SENT),
    (State::Submitted, State::NotExecuted, CLEAR),
    (State::NotExecuted, State::Submitted, &[]),
    (State::NotExecuted, State::Denied, &[]),
    (State::NotExecuted, State::PendingApproval, &[]),
    (State::Settled, State::Reversed, &[]),
    (State::Failed, State::Settled, &[]),
];

/// What cannot be, although the rest of its row can: a 500 that was kept of nothing done is
/// answered for ever, and nothing settles.
const NEVER: [(State, State, Hit); 1] =
    [(State::Submitted, State::Settled, Hit::Stripe(Class::Stored500))];

/// Every hit that a call to an authority elsewhere can meet.
const WIRE: [Hit; 12] = [
    Hit::Wire(Class::CallNotSent),
    Hit::Wire(Class::CallLost),
    Hit::Wire(Class::CallSlow),
    Hit::Wire(Class::CallTwice),
    Hit::Wire(Class::CallAltered),
    Hit::Wire(Class::AnswerLost),
    Hit::Wire(Class::AnswerSlow),
    Hit::Wire(Class::AnswerAltered),
    Hit::Wire(Class::AnswerUnsigned),
    Hit::Wire(Class::AnswerOther),
    Hit::Wire(Class::AuthorityDown),
    Hit::CallerDied,
];
/// Every transition that such a call makes.
const CALLED: [(State, State); 12] = [
    (State::Asked, State::PendingApproval),
    (State::Asked, State::Submitted),
    (State::Asked, State::Denied),
    (State::PendingApproval, State::Canceled),
    (State::Approved, State::Submitted),
    (State::Approved, State::Denied),
    (State::Approved, State::Canceled),
    (State::Submitted, State::Settled),
    (State::Submitted, State::Failed),
    (State::Submitted, State::NotExecuted),
    (State::NotExecuted, State::Submitted),
    (State::Settled, State::Reversed),
];
/// What a gateway's credential meets, and after which turns.
const MET: [(&str, &[Turn]); 7] = [
    ("in flight", &[Turn::Rotated, Turn::RotatedAtOnce, Turn::Revoked]),
    ("new key taken", &[Turn::Rotated, Turn::RotatedAtOnce]),
    ("new key too early", &[Turn::Rotated, Turn::RotatedAtOnce]),
    ("old key taken", &[Turn::Rotated]),
    ("old key refused", &[Turn::Rotated, Turn::RotatedAtOnce, Turn::Revoked]),
    ("not ready", &[Turn::Rotated, Turn::RotatedAtOnce, Turn::Revoked]),
    ("ready again", &[Turn::Rotated, Turn::RotatedAtOnce, Turn::Revoked]),
];

impl Coverage {
    fn of(&self, from: State, to: State, hit: Option<Hit>) -> u64 {
        let hits = self.moves.get(&(from.as_str(), to.as_str()));
        hits.and_then(|hits| hits.get(&hit)).copied().unwrap_or_default()
    }

    /// The reachable cells: all of them, and the names of those that were not reached.
    #[must_use]
    pub fn missing(&self) -> (usize, Vec<String>) {
        let cells: Vec<(State, State, Hit)> = REACHABLE
            .iter()
            .flat_map(|(from, to, sent)| STORE.iter().chain(*sent).map(|hit| (*from, *to, *hit)))
            .filter(|cell| !NEVER.contains(cell))
            .chain(CALLED.iter().flat_map(|(from, to)| WIRE.map(|hit| (*from, *to, hit))))
            .collect();
        let missing = cells.iter().filter(|(from, to, hit)| self.of(*from, *to, Some(*hit)) == 0);
        let named =
            missing.map(|(from, to, hit)| format!("{} → {}: {hit}", from.as_str(), to.as_str()));
        let turns: Vec<(Turn, &str)> =
            MET.iter().flat_map(|(met, turns)| turns.iter().map(|turn| (*turn, *met))).collect();
        let unmet = turns.iter().filter(|cell| !self.turns.contains_key(cell));
        let unmet = unmet.map(|(turn, met)| format!("{turn:?}: {met}"));
        (cells.len() + turns.len(), named.chain(unmet).collect())
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<36}{:>9}{:>9}{:>9}{:>9}{:>9}  hits on the refund itself",
            "transition", "times", "crash", "crash", "store", "commit"
        )?;
        writeln!(f, "{:<45}{:>9}{:>9}{:>9}{:>9}", "", "before", "after", "down", "unknown")?;
        for (from, to, sent) in REACHABLE {
            let name = format!("{} → {}", from.as_str(), to.as_str());
            write!(f, "{name:<36}{:>9}", self.of(from, to, None))?;
            for hit in STORE {
                write!(f, "{:>9}", self.of(from, to, Some(*hit)))?;
            }
            for hit in sent {
                write!(f, "  {hit} {}", self.of(from, to, Some(*hit)))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\nby calls to an authority elsewhere, and what hit them")?;
        for (from, to) in CALLED {
            write!(f, "{:<36}", format!("{} → {}", from.as_str(), to.as_str()))?;
            for hit in WIRE {
                write!(f, "  {hit} {}", self.of(from, to, Some(hit)))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\nwhat a gateway's credential met")?;
        for (met, turns) in MET {
            write!(f, "{met:<36}")?;
            for turn in turns {
                let times = self.turns.get(&(*turn, met)).copied().unwrap_or_default();
                write!(f, "  {turn:?} {times}")?;
            }
            writeln!(f)?;
        }
        let (all, missing) = self.missing();
        writeln!(f, "{} of {all} reachable cells were reached", all - missing.len())?;
        missing.iter().try_for_each(|name| writeln!(f, "not reached: {name}"))
    }
}
