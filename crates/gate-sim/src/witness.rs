//! Who sees everything: each commit, each request to Stripe and what Stripe did with it, each
//! answer that an agent was given. What contradicts the laws is kept as a violation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gate_core::{AttemptId, IntentId, State, Timestamp};
use gate_store::{Judge, Reads, Spent, Write};
use serde_json::Value;

use crate::coverage::{Coverage, Hit, Move};
use crate::draw::mixed;
use crate::executor::{Handle, Node};
use crate::faults::{Class, Fault};
use crate::ledger::{Booked, Breach, Entry, Ledger, Post};

/// How long before it must have known of a stop a gateway may still send, in milliseconds: a lease.
const STOP_SLACK_MS: u64 = 35_000;
/// An attempt that begins later than this after its lease was given cannot be over before the lease
/// is, in milliseconds: thirty seconds less a call's twenty, and one for the answer's way.
const SEND_WITHIN_MS: u64 = 11_000;
/// How long a node that stood still may act on what it knew before: until its call is over.
const DAZED_MS: u64 = 25_000;
/// Stripe forgets an idempotency key after so long, in milliseconds.
const KEY_KEPT_MS: u64 = 24 * 3_600_000;

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
        let hot = |pending: &Pending| !matches!(pending, Pending::Tell(..) | Pending::Reclaim(_));
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
                Pending::Tell(..) | Pending::Reclaim(_) => {}
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

    /// A gateway is about to send a refund.
    pub(crate) fn sending(&mut self, node: Node, key: &str, form: &str) -> Option<IntentId> {
        let now_ms = self.now_ms;
        let id = key.strip_prefix("bb_").and_then(|id| IntentId::parse(id).ok());
        let Some((id, entry)) = id.and_then(|id| {
            let entry = self.ledger.intents.get(&id)?;
            Some((id, entry))
        }) else {
            self.breach(
                "I1",
                format!("a refund is sent under the key {key}, which is no intent's"),
            );
            return None;
        };
        let mut breaches: Vec<Breach> = Vec::new();
        let request = entry.intent.request.as_ref().map(|request| request.form.as_str());
        if request != Some(form) {
            breaches.push(("I3", format!("{id}: other bytes are sent than were recorded: {form}")));
        }
        if entry.submits == 0 {
            breaches.push(("I2", format!("{id} is sent and was never submitted")));
        }
        let dazed = self.dazed.get(&node).is_some_and(|until_ms| now_ms < *until_ms);
        if let Some(since) = self.ledger.stopped_since(&entry.intent)
            && now_ms > since + STOP_SLACK_MS
            && !dazed
        {
            breaches.push(("F13", format!("{id} is sent under a stop of {since} ms")));
        }
        if let Some(first) = entry.posts.iter().find(|post| !post.is_clear())
            && now_ms > first.sent_ms + KEY_KEPT_MS
        {
            let age = now_ms - first.sent_ms;
            breaches.push(("F21", format!("{id} is sent {age} ms after an attempt in doubt")));
        }
        let granted_ms = entry.granted_ms.get(&node).copied().unwrap_or_default();
        if now_ms > granted_ms + SEND_WITHIN_MS && !dazed {
            let age = now_ms - granted_ms;
            breaches.push(("F7", format!("{id} is sent {age} ms after its lease was given")));
        }
        if let Some(breach) = self.looked_first(node, &id, entry) {
            breaches.push(breach);
        }
        let post = Post { node, sent_ms: now_ms, ended: None };
        if let Some(entry) = self.ledger.intents.get_mut(&id) {
            entry.posts.push(post);
        }
        self.breaches(breaches);
        self.trace(5, u64::from(node.0), 0);
        self.line(|| format!("node {}: sends {id}", node.0));
        Some(id)
    }

    /// What may have been sent is looked for before it is sent again: since the last own attempt
    /// that is in doubt and, where others sent before this node got its lease, since then.
    fn looked_first(&self, node: Node, id: &IntentId, entry: &Entry) -> Option<Breach> {
        // Two who both hold a lease know nothing of each other; the key at Stripe is the same.
        let dazed = self.dazed.get(&node).is_some_and(|until_ms| self.now_ms < *until_ms);
        if self.now_ms < entry.overlap_ms || dazed {
            return None;
        }
        let granted_ms = entry.granted_ms.get(&node).copied().unwrap_or_default();
        let doubtful = entry.posts.iter().filter(|post| !post.is_clear());
        let since = doubtful.filter_map(|post| match post.ended {
            Some((ended_ms, _)) if post.node == node && ended_ms >= granted_ms => Some(ended_ms),
            _ if post.sent_ms < granted_ms => Some(granted_ms),
            _ => None,
        });
        let since = since.max()?;
        let charge = entry.intent.charge.as_str().to_owned();
        let looked = self.looked.get(&(node, charge)).is_some_and(|(begun, _)| *begun >= since);
        (!looked).then(|| ("F7", format!("{id} is sent again and was not looked for first")))
    }

    /// The gateway knows what became of its attempt, as far as that can be known.
    pub(crate) fn sent(&mut self, node: Node, id: &IntentId, status: Option<u16>, not_sent: bool) {
        let now_ms = self.now_ms;
        let clear = not_sent || matches!(status, Some(401 | 403 | 429));
        if let Some(entry) = self.ledger.intents.get_mut(id)
            && let Some(post) =
                entry.posts.iter_mut().rfind(|post| post.node == node && post.ended.is_none())
        {
            post.ended = Some((now_ms, clear));
        }
        self.line(|| format!("node {}: {id} was answered {status:?}", node.0));
    }

    /// A gateway read all refunds of a charge.
    pub(crate) fn looked(&mut self, node: Node, charge: &str, begun_ms: u64) {
        self.looked.insert((node, charge.to_owned()), (begun_ms, self.now_ms));
    }

    /// A gateway tells the authority that Stripe refused: it must have looked after its attempt.
    pub(crate) fn refused(&mut self, node: Node, id: &IntentId) {
        let Some(entry) = self.ledger.intents.get(id) else { return };
        let ended = entry.posts.iter().rfind(|post| post.node == node).and_then(|post| post.ended);
        let since = ended.map_or(0, |(ended_ms, _)| ended_ms);
        let charge = entry.intent.charge.as_str().to_owned();
        let looked = self.looked.get(&(node, charge)).is_some_and(|(begun, _)| *begun >= since);
        self.law("F20", looked, || format!("{id} is called refused and was not looked for"));
    }

    /// Stripe made a refund.
    pub(crate) fn made(&mut self, refund: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let refund_id = text(&refund["id"]);
        self.active();
        self.line(|| {
            let of = text(&refund["metadata"]["burnbound_intent"]);
            let of = if of.is_empty() { "nobody of ours".to_owned() } else { of };
            format!("Stripe makes {refund_id} of {} for {of}", refund["amount"])
        });
        let Ok(id) = IntentId::parse(&text(&refund["metadata"]["burnbound_intent"])) else {
            return;
        };
        let fingerprint = text(&refund["metadata"]["burnbound_key"]);
        let made =
            Made { intent: id.clone(), status: text(&refund["status"]), moved_ms: self.now_ms };
        self.made.insert(refund_id.clone(), made);
        let mut breaches: Vec<Breach> = Vec::new();
        match self.ledger.intents.get_mut(&id) {
            None => breaches.push(("I2", format!("{refund_id} is of {id}, which is not there"))),
            Some(entry) => {
                let intent = &entry.intent;
                if let Some(other) = entry.refund.replace(refund_id.clone()) {
                    breaches
                        .push(("I1", format!("{refund_id} is the second of {id} after {other}")));
                }
                let same = intent.charge.as_str() == text(&refund["charge"])
                    && refund["amount"] == intent.amount.minor()
                    && text(&refund["currency"]) == intent.amount.currency().lower();
                if !same {
                    breaches.push(("I3", format!("{refund_id} is not what {id} was for")));
                }
                if entry.submits == 0 {
                    breaches.push(("I2", format!("{refund_id} of {id} was never allowed")));
                }
                let counts = matches!(intent.state, State::Submitted | State::AwaitingStripe);
                if !counts && !entry.ended_by_mistake {
                    let state = intent.state.as_str();
                    breaches.push(("I4", format!("{refund_id} is made while {id} is {state}")));
                }
                if let Some((state, submits)) = entry.told_nothing
                    && (state != State::NotExecuted || submits == entry.submits)
                    && !entry.ended_by_mistake
                {
                    let state = state.as_str();
                    breaches
                        .push(("I7", format!("{refund_id} is made after {id} was told {state}")));
                }
            }
        }
        if let Some(other) = self.fingerprints.insert(fingerprint, id.clone())
            && other != id
        {
            breaches.push(("I1", format!("{refund_id} and one of {other} carry the same key")));
        }
        self.breaches(breaches);
    }

    /// How a refund stands now; answers whether that is news.
    pub(crate) fn refund_moved(&mut self, refund: &str, status: &str) -> bool {
        let now_ms = self.now_ms;
        if let Some(made) = self.made.get_mut(refund)
            && made.status != status
        {
            status.clone_into(&mut made.status);
            made.moved_ms = now_ms;
            self.active();
            self.line(|| format!("Stripe moves {refund} to {status}"));
            return true;
        }
        false
    }

    /// No secret stands in a text.
    pub(crate) fn no_secret(&mut self, text: &str) {
        let found = self.canaries.iter().any(|canary| text.contains(canary.as_str()));
        self.law("I10", !found, || "a key stands in a text that is shown".to_owned());
    }
}

impl Post {
    fn is_clear(&self) -> bool {
        self.ended.is_some_and(|(_, clear)| clear)
    }
}

impl Hit {
    /// What a fault of the way to Stripe, or of Stripe, counts as.
    pub(crate) const fn of(class: Class) -> Self {
        Self::Stripe(class)
    }
}
