//! I9: the audit chain, and what it says of each intent.

use std::collections::{BTreeMap, BTreeSet};

use gate_core::{Event, IntentId, State, Timestamp};
use gate_policy::Policy;
use gate_store::{PolicyRow, Snapshot, verify};

use super::Finding;

const EVENTS: [Event; 11] = [
    Event::Hold,
    Event::Allow,
    Event::Deny,
    Event::Approve,
    Event::Expire,
    Event::Cancel,
    Event::Settle,
    Event::Fail,
    Event::Await,
    Event::NotExecute,
    Event::Reverse,
];

/// The policy in force, and since when.
pub(super) struct InForce {
    pub(super) policy: Policy,
    pub(super) since: Timestamp,
}

/// The policy that was read, if there is one that means something.
pub(super) fn policy(seen: &Snapshot) -> Option<InForce> {
    let row = seen.policy.as_ref()?;
    let policy = Policy::parse(&row.text).ok()?;
    Some(InForce { policy, since: row.created_at })
}

/// Every version of the policy that means something today.
pub(super) fn versions(seen: &Snapshot) -> BTreeMap<u64, Policy> {
    let parsed = |row: &PolicyRow| Some((row.version, Policy::parse(&row.text).ok()?));
    seen.policies.iter().filter_map(parsed).collect()
}

/// The states that each intent went through, as the audit chain tells.
pub(super) struct Histories<'a>(BTreeMap<&'a str, Vec<State>>);

impl<'a> Histories<'a> {
    pub(super) fn of(seen: &'a Snapshot) -> Self {
        let mut histories: BTreeMap<&str, Vec<State>> = BTreeMap::new();
        for row in &seen.audit {
            if let Some(state) = row.entry.action.strip_prefix("intent.").and_then(State::parse) {
                histories.entry(&row.entry.subject).or_default().push(state);
            }
        }
        Self(histories)
    }

    /// Whether the refund was found after it had been taken for not made: then its spend was
    /// booked whatever the cap, in the window of that moment.
    pub(super) fn found_late(&self, id: &IntentId) -> bool {
        let late = |(before, after): (&State, &State)| {
            matches!(before, State::NotExecuted | State::Failed) && *after == State::Settled
        };
        let states = self.states(id);
        states.iter().zip(states.iter().skip(1)).any(late)
    }

    fn states(&self, id: &IntentId) -> &[State] {
        self.0.get(id.as_str()).map_or(&[], Vec::as_slice)
    }

    /// Whether the chain holds, and each transition stands in it once.
    pub(super) fn findings(&self, seen: &Snapshot) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut fault = |id: Option<&IntentId>, what: String| {
            let fix = "somebody changed the store beside the gateway: keep a copy of it, and \
                       compare it with a backup and with the audit heads in the refunds' metadata \
                       at Stripe";
            found.push(Finding::fault("I9", id, what, fix));
        };
        match verify(&seen.audit) {
            Ok(head) if head == seen.head => {}
            Ok(_) => fault(None, "the newest audit entries are missing".to_owned()),
            Err(broken) => fault(None, broken.to_string()),
        }
        let mut known = BTreeSet::new();
        for intent in &seen.intents {
            known.insert(intent.id.as_str());
            let states = self.states(&intent.id);
            let mut before = State::Asked;
            for &state in states {
                if !EVENTS.into_iter().any(|event| before.after(event) == Ok(state)) {
                    let (before, state) = (before.as_str(), state.as_str());
                    let what = format!("the audit log has it {state} after it was {before}");
                    fault(Some(&intent.id), what);
                }
                before = state;
            }
            if before != intent.state {
                let (state, last) = (intent.state.as_str(), before.as_str());
                let what = format!("it is {state}, and last was {last} in the audit log");
                fault(Some(&intent.id), what);
            }
        }
        for subject in self.0.keys().filter(|subject| !known.contains(*subject)) {
            let id = IntentId::parse(subject).ok();
            fault(id.as_ref(), format!("{subject} is in the audit log and nowhere else"));
        }
        found
    }
}
