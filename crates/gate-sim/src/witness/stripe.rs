//! What gateways send to Stripe, what they look for there, and what Stripe makes of it.

use gate_core::{IntentId, State};
use serde_json::Value;

use super::{Made, Seen};
use crate::executor::Node;
use crate::ledger::{Breach, Entry, Post};

/// How long before it must have known of a stop a gateway may still send, in milliseconds: a lease.
const STOP_SLACK_MS: u64 = 35_000;
/// An attempt that begins later than this after its lease was given cannot be over before the lease
/// is, in milliseconds: thirty seconds less a call's twenty, and one for the answer's way.
const SEND_WITHIN_MS: u64 = 11_000;
/// Stripe forgets an idempotency key after so long, in milliseconds.
const KEY_KEPT_MS: u64 = 24 * 3_600_000;

impl Seen {
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
}

impl Post {
    fn is_clear(&self) -> bool {
        self.ended.is_some_and(|(_, clear)| clear)
    }
}
