//! Whether the record keeps what the manual promises: its numbered invariants, judged over the
//! whole store and, with a Stripe key, over Stripe.
//!
//! Looks and never repairs: every finding says what a person should do. One read of one consistent
//! state is judged, so that a gateway at work beside it causes no findings; the whole record and
//! the whole audit chain are in memory meanwhile. What a later change may have made true is not
//! judged: a cap by the policy in force only for days that began after it, an owner likewise.

mod history;
mod life;
mod spend;
mod stripe;

use std::collections::BTreeMap;

use gate_core::{AgentId, AuthorityError, Intent, IntentId};
use gate_store::{IntentQuery, Reads, Snapshot};

use crate::authority::LocalAuthority;

pub use stripe::{AtStripe, invariants_at_stripe};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// It does not hold.
    Fault,
    /// It may not hold, or not for long: the gateway has work left, or could not look.
    Warning,
}

/// Where the record, or Stripe, is not what it should be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The invariant that it is about: `I1` to `I9`.
    pub invariant: &'static str,
    /// The intent, where it is about one.
    pub intent: Option<IntentId>,
    /// What was found.
    pub what: String,
    /// What a person should do.
    pub fix: String,
}

impl Finding {
    fn fault(invariant: &'static str, intent: Option<&IntentId>, what: String, fix: &str) -> Self {
        let (intent, fix) = (intent.cloned(), fix.to_owned());
        Self { level: Level::Fault, invariant, intent, what, fix }
    }

    fn warning(
        invariant: &'static str,
        intent: Option<&IntentId>,
        what: String,
        fix: &str,
    ) -> Self {
        Self { level: Level::Warning, ..Self::fault(invariant, intent, what, fix) }
    }
}

/// Reads the whole store once and judges it. Nothing is changed.
///
/// # Errors
///
/// [`AuthorityError`] when it cannot be read; what cannot be read at all is a fault of its own.
pub async fn invariants(authority: &LocalAuthority) -> Result<Vec<Finding>, AuthorityError> {
    Ok(invariants_of(&authority.read(everything()).await?))
}

fn everything() -> Reads {
    Reads {
        agents: true,
        intents: Some(IntentQuery { limit: u32::MAX, ..IntentQuery::default() }),
        policy: true,
        policies: true,
        users: true,
        audit: Some(gate_store::AuditRange::WHOLE),
        books: true,
        ..Reads::default()
    }
}

/// Judges what was read: all intents, agents, people, the policy, the audit chain and the books.
#[must_use]
pub fn invariants_of(seen: &Snapshot) -> Vec<Finding> {
    let histories = history::Histories::of(seen);
    let mut found = owners(&seen.intents, seen);
    let policy = history::policy(seen);
    for intent in &seen.intents {
        found.extend(life::findings(intent, policy.as_ref(), seen));
    }
    found.extend(spend::findings(policy.as_ref(), &histories, seen));
    found.extend(histories.findings(seen));
    found
}

/// I1, as far as the record shows it: a key has one holder, a refund one intent.
fn owners(intents: &[Intent], seen: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut by_key: BTreeMap<(&AgentId, &str), &IntentId> = BTreeMap::new();
    let mut by_refund: BTreeMap<&str, &IntentId> = BTreeMap::new();
    for intent in intents {
        let id = &intent.id;
        let holds_key = seen.books.key_holders.binary_search(id).is_ok();
        if !holds_key && intent.state != gate_core::State::Denied {
            let what = format!("it is {} and lost its key to another", intent.state.as_str());
            found.push(Finding::fault("I1", Some(id), what, TWO_REFUNDS));
        }
        if holds_key && let Some(other) = by_key.insert((&intent.agent, intent.key.as_str()), id) {
            let what = format!("it holds the same key of {} as {other}", intent.agent);
            found.push(Finding::fault("I1", Some(id), what, TWO_REFUNDS));
        }
        if let Some(refund) = &intent.refund
            && let Some(other) = by_refund.insert(refund.id.as_str(), id)
        {
            let what = format!("refund {} is recorded for it and for {other}", refund.id);
            let fix = "look the refund up at Stripe: its metadata names the intent it belongs to; \
                       find out what became of the other one";
            found.push(Finding::fault("I1", Some(id), what, fix));
        }
    }
    found
}

const TWO_REFUNDS: &str = "stop the agent, look at Stripe whether the payment was refunded twice, \
                           and restore the row from a backup";
