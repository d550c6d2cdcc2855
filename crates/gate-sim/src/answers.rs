//! What an agent is told must be so: it never contradicts the record, nor Stripe.

use futures_util::FutureExt as _;
use gate_core::{ActionError, Answer, Ask, Denier, Intent, IntentId, State, Timestamp, Wanted};
use gate_store::{KeyHash, Store as _};

use crate::witness::Seen;
use crate::world::World;

/// A request under way, and how things stood when it began.
pub(crate) struct Asked {
    agent: usize,
    hash: KeyHash,
    ask: Ask,
    commits: u64,
    began: Timestamp,
    /// What was there under the same key already, and answers as it is.
    there: Option<(IntentId, State)>,
}

fn now(world: &World) -> Timestamp {
    world.store.now().now_or_never().and_then(Result::ok).unwrap_or_default()
}

impl Asked {
    /// Takes note of how things stand.
    pub(crate) fn begin(world: &World, agent: usize, hash: KeyHash, ask: Ask) -> Self {
        let id = world.agents.lock().expect("nobody panics")[agent].id.clone();
        let seen = world.witness.seen();
        let there = seen.ledger.intents.values().find(|entry| {
            let intent = &entry.intent;
            entry.holds_key && intent.agent == id && Some(&intent.key) == ask.key.as_ref()
        });
        let answers = |intent: &Intent| match intent.state {
            State::PendingApproval
            | State::AwaitingStripe
            | State::Settled
            | State::Failed
            | State::Reversed
            | State::Expired
            | State::Canceled
            | State::Submitted => true,
            State::Denied => intent.denied_by == Some(Denier::Person),
            State::Asked | State::Approved | State::NotExecuted => false,
        };
        let there = there
            .filter(|entry| answers(&entry.intent) && !ask.dry_run)
            .map(|entry| (entry.intent.id.clone(), entry.intent.state));
        Self { agent, hash, ask, commits: seen.ledger.commits, began: now(world), there }
    }

    /// Holds the answer against everything that is known.
    pub(crate) fn answered(&self, world: &World, answer: &Result<Answer, ActionError>) {
        let ended = now(world);
        let id = world.agents.lock().expect("nobody panics")[self.agent].id.clone();
        let mut seen = world.witness.seen();
        let void = seen.ledger.is_void(&id, &self.hash, self.began)
            && seen.ledger.is_void(&id, &self.hash, ended);
        seen.trace(7, self.agent as u64, u64::from(answer.is_ok()));
        match answer {
            Ok(answer) => {
                // A key may have ended while the request was on its way; then it began before.
                let was_void = void && self.began_void(&seen, &id);
                seen.law("F13", !was_void, || "a key that is nobody's was taken".to_owned());
                if let Answer::Intent { intent, reported, .. } = answer {
                    self.told(&mut seen, &id, intent, *reported);
                }
            }
            Err(error) => self.refused(&mut seen, error),
        }
        drop(seen);
        if let Err(error) = answer {
            world.sound(error);
        }
    }

    fn began_void(&self, seen: &Seen, id: &gate_core::AgentId) -> bool {
        // Revoked or rotated since: not void when it began.
        let changed = seen.ledger.agents_changed.get(id).copied().unwrap_or_default();
        changed <= self.commits
    }

    /// An intent was shown.
    fn told(&self, seen: &mut Seen, agent: &gate_core::AgentId, intent: &Intent, reported: bool) {
        let (id, state) = (&intent.id, intent.state);
        let Some(entry) = seen.ledger.intents.get(id) else {
            seen.breach("I7", format!("{id} was shown and is not there"));
            return;
        };
        let by_a_person = state == State::Denied && intent.denied_by == Some(Denier::Person);
        let same_amount = intent.wanted == self.ask.wanted
            || (by_a_person && self.ask.wanted == Wanted::Full)
            || (by_a_person && self.ask.wanted == Wanted::Minor(intent.amount.minor()));
        let same = intent.agent == *agent
            && self.ask.target.names(&intent.charge, intent.payment_intent.as_ref())
            && same_amount
            && (by_a_person || self.ask.key.is_none() || intent.reason == self.ask.reason)
            && (by_a_person || self.ask.key.as_ref().is_none_or(|key| *key == intent.key))
            && (by_a_person || self.ask.key.is_some() || intent.keyless);
        let was_so = entry.was(state, self.commits);
        let submits = entry.submits;
        let refund = entry.refund.clone();
        let status =
            refund.and_then(|refund| seen.made.get(&refund)).map(|made| made.status.clone());
        let alive = status.as_ref().is_some_and(|s| !["failed", "canceled"].contains(&&s[..]));
        let there = status.is_some();
        seen.law("F3", same, || format!("{id} was shown for another request: {:?}", self.ask));
        let foretold = !reported
            && matches!(
                state,
                State::Settled | State::Failed | State::NotExecuted | State::Reversed
            );
        seen.law("I7", was_so || foretold, || {
            format!("{id} was shown as {} and was never that while it was asked", state.as_str())
        });
        let nothing = matches!(
            state,
            State::Denied | State::Expired | State::Canceled | State::Failed | State::NotExecuted
        );
        if state == State::Settled {
            seen.law("I7", there, || format!("{id} was shown as settled and has no refund"));
        }
        if nothing {
            let resubmitted = state == State::NotExecuted && was_so;
            let mistaken = seen.ledger.intents.get(id).is_some_and(|e| e.ended_by_mistake);
            seen.law("I7", !alive || resubmitted || mistaken, || {
                format!("{id} was shown as {} and its refund is there", state.as_str())
            });
            // An answer that others have overtaken says nothing of what they do.
            let overtaken = state == State::NotExecuted
                && was_so
                && seen.ledger.intents.get(id).is_some_and(|e| e.intent.state != state);
            if let Some(entry) = seen.ledger.intents.get_mut(id)
                && !overtaken
            {
                entry.told_nothing = Some((state, submits));
            }
        }
    }

    /// What exists is answered, although Stripe be down or nothing be left.
    fn refused(&self, seen: &mut Seen, error: &ActionError) {
        let Some((id, state)) = &self.there else { return };
        let excused = matches!(
            error,
            ActionError::StoreUnavailable
                | ActionError::AuthorityUnavailable
                | ActionError::AuthorityError { .. }
                | ActionError::Unauthenticated
                | ActionError::IdempotencyKeyReused { .. }
        );
        let still = seen.ledger.intents.get(id).is_some_and(|entry| entry.intent.state == *state);
        seen.law("I7", excused || !still, || {
            format!("{id} is {} and the same request was answered {}", state.as_str(), error.code())
        });
    }
}
