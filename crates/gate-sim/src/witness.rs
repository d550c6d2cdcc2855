//! Who sees everything: each commit, each request to Stripe and what Stripe did with it, each
//! answer that an agent was given. What contradicts the laws is kept as a violation.

mod calls;
mod stripe;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gate_core::{AttemptId, IntentId, State, Timestamp};
use gate_store::{Judge, Reads, Spent, Write};

use crate::calls::PortCall;
use crate::coverage::{Coverage, Hit, Move, Turn};
use crate::draw::mixed;
use crate::executor::{Handle, Node};
use crate::faults::{Class, Fault};
use crate::ledger::{Booked, Breach, Ledger};

/// How long a node that stood still may act on what it knew before: until its call is over.
const DAZED_MS: u64 = 25_000;

/// A law that was broken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// The invariant or row of the failure model.
    pub law: &'static str,
    /// What contradicts it.
    pub what: String,
    /// How old the world was, in milliseconds.
    pub at_ms: u64,
}

impl Violation {
    /// What it is without the ids and figures of one run, by which failures are told apart.
    #[must_use]
    pub fn kind(&self) -> String {
        let plain = |word: &&str| !word.bytes().any(|byte| byte.is_ascii_digit());
        let words: Vec<&str> = self.what.split_whitespace().filter(plain).collect();
        format!("{} {}", self.law, words.join(" "))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} ms: {}", self.law, self.at_ms, self.what)
    }
}

/// A refund that Stripe made with one of our intents in its metadata.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) intent: IntentId,
    pub(crate) status: String,
    /// When its status last changed, in virtual milliseconds.
    pub(crate) moved_ms: u64,
}

/// What a node is in the middle of.
pub(crate) enum Pending {
    /// A transaction that is not made yet.
    Commit(Box<Reads>, Arc<dyn Judge>),
    /// A transaction that is durable, and its caller does not know yet.
    Committed(Vec<(IntentId, Move)>),
    /// A refund on its way; see the stages below.
    Send(IntentId, Arc<AtomicU8>),
    /// Telling the authority what became of an intent, under a fence.
    Tell(IntentId, u64),
    /// Taking back what a call decided whose answer never came.
    Reclaim(AttemptId),
    /// A call of the port to an authority elsewhere.
    Call(Arc<PortCall>),
}

/// The request of a [`Pending::Send`] has not reached Stripe.
pub(crate) const ON_ITS_WAY: u8 = 0;
/// Stripe has acted on it.
pub(crate) const ACTED_ON: u8 = 1;

/// See the module.
#[derive(Clone)]
pub(crate) struct Witness {
    handle: Handle,
    seen: Arc<Mutex<Seen>>,
}

/// Everything that was seen.
pub(crate) struct Seen {
    pub(crate) violations: Vec<Violation>,
    pub(crate) ledger: Ledger,
    /// By the refund's id.
    pub(crate) made: BTreeMap<String, Made>,
    fingerprints: BTreeMap<String, IntentId>,
    /// When each node last read all refunds of a charge, in virtual milliseconds: begun and ended.
    looked: BTreeMap<(Node, String), (u64, u64)>,
    pub(crate) coverage: Coverage,
    /// Nodes that stood still and may not know yet what happened meanwhile, and until when.
    dazed: BTreeMap<Node, u64>,
    pending: BTreeMap<u64, (Node, Pending)>,
    next_pending: u64,
    /// The port calls that signed calls belong to, by nonce.
    pub(crate) calls: BTreeMap<String, Arc<PortCall>>,
    /// What last became of each gateway's credential, as it has met it.
    turns: BTreeMap<Node, Turn>,
    /// Gateways whose credential was not taken when they last asked.
    shut: BTreeSet<Node>,
    hash: u64,
    lines: Option<Vec<(u64, String)>>,
    /// When something last happened that others go on from, in virtual milliseconds.
    pub(crate) active_ms: u64,
    now_ms: u64,
    pub(crate) canaries: Vec<String>,
}

/// Something a node is in the middle of, until this is dropped.
pub(crate) struct Guard {
    witness: Witness,
    place: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.witness.seen().pending.remove(&self.place);
    }
}

impl Guard {
    /// The transaction is durable now.
    pub(crate) fn committed(&self, moves: Vec<(IntentId, Move)>) {
        if let Some((_, pending)) = self.witness.seen().pending.get_mut(&self.place) {
            *pending = Pending::Committed(moves);
        }
    }
}

impl Witness {
    /// A witness who writes down what it sees, if asked to.
    pub(crate) fn new(handle: Handle, keeps_lines: bool) -> Self {
        let seen = Seen {
            violations: Vec::new(),
            ledger: Ledger::default(),
            made: BTreeMap::new(),
            fingerprints: BTreeMap::new(),
            looked: BTreeMap::new(),
            coverage: Coverage::default(),
            dazed: BTreeMap::new(),
            pending: BTreeMap::new(),
            next_pending: 0,
            calls: BTreeMap::new(),
            turns: BTreeMap::new(),
            shut: BTreeSet::new(),
            hash: 0,
            lines: keeps_lines.then(Vec::new),
            active_ms: 0,
            now_ms: 0,
            canaries: Vec::new(),
        };
        Self { handle, seen: Arc::new(Mutex::new(seen)) }
    }

    /// What was seen, at the present time.
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.now_ms = self.handle.now_ms();
        seen
    }

    /// Notes what `node` is in the middle of.
    pub(crate) fn begin(&self, node: Node, pending: Pending) -> Guard {
        let mut seen = self.seen();
        let place = seen.next_pending;
        seen.next_pending += 1;
        seen.pending.insert(place, (node, pending));
        Guard { witness: self.clone(), place }
    }

    /// Adds a line to the timeline.
    pub(crate) fn line(&self, line: impl FnOnce() -> String) {
        self.seen().line(line);
    }
}

impl Seen {
    pub(crate) fn line(&mut self, line: impl FnOnce() -> String) {
        let at_ms = self.now_ms;
        if let Some(lines) = &mut self.lines {
            lines.push((at_ms, line()));
        }
    }

    /// Something happened that others may go on from.
    pub(crate) fn active(&mut self) {
        self.active_ms = self.now_ms;
    }

    pub(crate) fn breach(&mut self, law: &'static str, what: String) {
        self.line(|| format!("VIOLATION of {law}: {what}"));
        self.violations.push(Violation { law, what, at_ms: self.now_ms });
    }

    pub(crate) fn law(&mut self, law: &'static str, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.breach(law, what());
        }
    }

    fn breaches(&mut self, breaches: Vec<Breach>) {
        breaches.into_iter().for_each(|(law, what)| self.breach(law, what));
    }

    /// Adds to what the trace comes to.
    pub(crate) fn trace(&mut self, kind: u64, a: u64, b: u64) {
        self.hash = mixed(self.hash, kind.wrapping_add(self.now_ms << 8), a, b);
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn take_lines(&mut self) -> Vec<(u64, String)> {
        self.lines.take().unwrap_or_default()
    }

    /// Whether a node is in the middle of something that a crash would cut short.
    pub(crate) fn is_hot(&self, node: Node) -> bool {
        let hot = |pending: &Pending| match pending {
            Pending::Commit(..) | Pending::Committed(_) | Pending::Send(..) => true,
            Pending::Call(call) => call.changes,
            Pending::Tell(..) | Pending::Reclaim(_) => false,
        };
        self.pending.values().any(|(of, pending)| *of == node && hot(pending))
    }

    /// A fault came to be.
    pub(crate) fn faulted(&mut self, fault: &Fault) {
        self.trace(1, fault.class as u64, fault.n);
        self.line(|| format!("fault {fault}"));
    }

    /// A node stands still: what it was about to do it does later, whatever happened meanwhile.
    pub(crate) fn freezes(&mut self, node: Node, for_ms: u64) {
        self.dazed.insert(node, self.now_ms + for_ms + DAZED_MS);
        self.line(|| format!("gateway {} stands still for {for_ms} ms", node.0));
    }

    /// A node is about to die: what it is in the middle of is hit.
    pub(crate) fn crashing(
        &mut self,
        node: Node,
        predict: impl Fn(&Reads, &dyn Judge) -> Vec<Write>,
    ) {
        let mut hits = Vec::new();
        let mut died = Vec::new();
        for (_, pending) in self.pending.values().filter(|(of, _)| *of == node) {
            match pending {
                Pending::Commit(reads, judge) => {
                    for (id, moved) in self.moves_of(&predict(reads, judge.as_ref())) {
                        hits.push((id, Some(moved), Hit::CrashBeforeCommit));
                    }
                }
                Pending::Committed(moves) => {
                    for (id, moved) in moves {
                        hits.push((id.clone(), Some(*moved), Hit::CrashAfterCommit));
                    }
                }
                Pending::Send(id, stage) => {
                    let acted = stage.load(Ordering::Relaxed) == ACTED_ON;
                    let hit = if acted { Hit::CrashAfterSend } else { Hit::CrashBeforeSend };
                    hits.push((id.clone(), None, hit));
                }
                Pending::Call(call) => died.push(Arc::clone(call)),
                Pending::Tell(..) | Pending::Reclaim(_) => {}
            }
        }
        for call in died {
            let mut progress = call.progress();
            progress.hits.insert(Hit::CallerDied);
            for (_, moved) in &progress.moves {
                self.coverage.note(*moved, Some(Hit::CallerDied));
            }
        }
        for (id, moved, hit) in hits {
            match moved {
                Some(moved) => self.coverage.note(moved, Some(hit)),
                None => self.hit(&id, hit),
            }
        }
        self.trace(2, u64::from(node.0), 0);
        self.line(|| format!("gateway {} dies", node.0));
    }

    /// The work on an intent is hit, before its next transition.
    pub(crate) fn hit(&mut self, id: &IntentId, hit: Hit) {
        if let Some(entry) = self.ledger.intents.get_mut(id) {
            entry.hits.insert(hit);
        }
    }

    /// The transitions among writes that were not made yet.
    pub(crate) fn moves_of(&self, writes: &[Write]) -> Vec<(IntentId, Move)> {
        let moves = writes.iter().filter_map(|write| match write {
            Write::InsertIntent(intent) => Some((intent.id.clone(), (State::Asked, intent.state))),
            Write::UpdateIntent { was, intent } => {
                (*was != intent.state).then(|| (intent.id.clone(), (*was, intent.state)))
            }
            _ => None,
        });
        moves.collect()
    }

    /// A transaction became durable.
    pub(crate) fn committed(
        &mut self,
        node: Node,
        now: Timestamp,
        spent: &[Spent],
        writes: &[Write],
    ) -> Vec<(IntentId, Move)> {
        let (caller, call) = match self.ledger.caller(writes) {
            Some((caller, nonce)) => (caller, self.calls.get(&nonce).cloned()),
            None => (node, None),
        };
        let node = caller;
        let mut before = Booked::default();
        self.ledger.spent(spent, &mut before);
        self.breaches(before.breaches);
        let reclaimed: Vec<AttemptId> = self
            .pending
            .values()
            .filter_map(|(of, pending)| match pending {
                Pending::Reclaim(attempt) if *of == node => Some(attempt.clone()),
                _ => None,
            })
            // Whoever asked may have given up waiting for that, too.
            .chain(call.iter().filter_map(|call| call.progress().reclaims.clone()))
            .collect();
        let booked = self.ledger.book(node, now, self.now_ms, writes, &reclaimed);
        self.trace(3, self.ledger.commits, writes.len() as u64);
        for (id, (from, to)) in &booked.moves {
            let last =
                id.as_str().bytes().rev().take(8).fold(0, |sum, byte| sum << 8 | u64::from(byte));
            self.trace(4, last, (*from as u64) << 8 | *to as u64);
            self.active();
            self.line(|| format!("node {}: {id} {} → {}", node.0, from.as_str(), to.as_str()));
            self.coverage.note((*from, *to), None);
            if let Some(entry) = self.ledger.intents.get_mut(id) {
                for hit in std::mem::take(&mut entry.hits) {
                    self.coverage.note((*from, *to), Some(hit));
                }
            }
            if let Some(call) = &call {
                self.called(call, id, (*from, *to));
            }
        }
        self.breaches(booked.breaches);
        for (id, (from, to)) in &booked.moves {
            self.backed(id, *to);
            if *from == State::Submitted {
                self.told(node, id, *to);
            }
        }
        booked.moves
    }

    /// News other than a refund are taken from whoever holds the lease only.
    fn told(&mut self, node: Node, id: &IntentId, to: State) {
        let Some(entry) = self.ledger.intents.get(id) else { return };
        let holds = entry.intent.fence;
        let fences: Vec<u64> = self
            .pending
            .values()
            .filter_map(|(of, pending)| match pending {
                Pending::Tell(of_intent, fence) if *of == node && of_intent == id => Some(*fence),
                _ => None,
            })
            .collect();
        let of_a_refund = entry.intent.refund.is_some();
        let stale = !fences.is_empty() && fences.iter().all(|fence| *fence < holds);
        self.law("F23", !stale || of_a_refund, || {
            format!("{id} became {} by news under {fences:?} while {holds} holds", to.as_str())
        });
    }

    /// What a state says of Stripe must be so.
    fn backed(&mut self, id: &IntentId, to: State) {
        let Some(entry) = self.ledger.intents.get(id) else { return };
        let there = entry.refund.as_ref().and_then(|refund| self.made.get(refund));
        let status = there.map_or("none", |made| made.status.as_str()).to_owned();
        let known = entry.intent.refund.as_ref().map(|refund| refund.id.as_str().to_owned());
        let same = known.as_ref() == entry.refund.as_ref();
        let came_back = ["failed", "canceled"].contains(&status.as_str());
        let holds = match to {
            State::Settled => status != "none" && same,
            State::Failed => status == "none" || (came_back && same) || entry.ended_by_mistake,
            State::NotExecuted | State::Denied | State::Expired | State::Canceled => {
                status == "none"
            }
            State::Reversed => came_back && same,
            State::Asked
            | State::PendingApproval
            | State::Approved
            | State::Submitted
            | State::AwaitingStripe => true,
        };
        self.law("I7", holds, || {
            format!(
                "{id} became {} and its refund at Stripe is {status}, known as {known:?}",
                to.as_str()
            )
        });
    }

    /// No secret stands in a text.
    pub(crate) fn no_secret(&mut self, text: &str) {
        let found = self.canaries.iter().any(|canary| text.contains(canary.as_str()));
        self.law("I10", !found, || "a key stands in a text that is shown".to_owned());
    }
}

impl Hit {
    /// What a fault of the way to Stripe, or of Stripe, counts as.
    pub(crate) const fn of(class: Class) -> Self {
        Self::Stripe(class)
    }
}
