//! How changes are put together: typed judges, and the one way in which an intent's state moves.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use gate_core::bugs::{self, Bug};
use gate_core::{
    AgentId, AuthorityError, Event, Ids, IllegalEvent, Intent, State, Timestamp, UserName,
    Valuation,
};
use gate_money::RateFigures;
use gate_store::{AuditEntry, Judge, Reads, Snapshot, Store, StoreError, Write};

/// Who does something, as the audit log names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Actor(String);

impl Actor {
    /// An agent, by its key.
    #[must_use]
    pub fn agent(id: &AgentId) -> Self {
        Self(format!("agent:{id}"))
    }

    /// A person at the command line: the operating system's user and, where the command acts for
    /// one, the user of ours.
    #[must_use]
    pub fn cli(os_user: &str, acting_as: Option<&UserName>) -> Self {
        Self(match acting_as {
            Some(user) => format!("cli:{os_user} as user:{user}"),
            None => format!("cli:{os_user}"),
        })
    }

    /// The gateway, reporting what Stripe said.
    #[must_use]
    pub fn gateway() -> Self {
        Self("gateway".to_owned())
    }

    /// Whether what an audit entry calls its actor is, or acted for, this person.
    pub(crate) fn names(actor: &str, user: &UserName) -> bool {
        let (os_user, acting_as) = match actor.strip_prefix("cli:") {
            Some(cli) => cli.split_once(" as ").map_or((cli, ""), |(os, user)| (os, user)),
            None => ("", actor),
        };
        let os_name = os_user.split('(').next().unwrap_or_default();
        os_name == user.as_str() || acting_as.strip_prefix("user:") == Some(user.as_str())
    }

    /// The clock.
    #[must_use]
    pub fn sweeper() -> Self {
        Self("sweeper".to_owned())
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a transaction is to write, and what it answers.
pub(crate) struct Plan<T> {
    pub(crate) writes: Vec<Write>,
    pub(crate) reply: T,
}

impl<T> Plan<T> {
    /// Answers, and changes nothing.
    pub(crate) const fn nothing(reply: T) -> Self {
        Self { writes: Vec::new(), reply }
    }
}

struct Typed<T, F> {
    judge: F,
    reply: Mutex<Option<T>>,
}

impl<T: Send, F: Fn(Timestamp, &Snapshot) -> Plan<T> + Send + Sync> Judge for Typed<T, F> {
    fn judge(&self, now: Timestamp, seen: &Snapshot) -> Vec<Write> {
        let plan = (self.judge)(now, seen);
        // Judged again, the last word counts: it is the one that is committed.
        *self.reply.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan.reply);
        plan.writes
    }
}

/// One transaction: reads, judges, writes, and answers what the judge replied.
pub(crate) async fn transact<T: Send + 'static>(
    store: &dyn Store,
    reads: Reads,
    judge: impl Fn(Timestamp, &Snapshot) -> Plan<T> + Send + Sync + 'static,
) -> Result<T, AuthorityError> {
    let typed = Arc::new(Typed { judge, reply: Mutex::new(None) });
    let judge: Arc<dyn Judge> = Arc::<Typed<T, _>>::clone(&typed);
    store.transact(reads, judge).await.map_err(store_error)?;
    let reply = typed.reply.lock().unwrap_or_else(PoisonError::into_inner).take();
    reply.ok_or_else(|| AuthorityError::Broken("the store did not ask the judge".to_owned()))
}

pub(crate) fn store_error(error: StoreError) -> AuthorityError {
    match error {
        StoreError::Full(detail) | StoreError::Unavailable(detail) => {
            AuthorityError::StoreUnavailable(detail)
        }
        StoreError::Conflict(_) | StoreError::Corrupt(_) => {
            AuthorityError::Broken(error.to_string())
        }
    }
}

pub(crate) fn illegal(error: IllegalEvent) -> AuthorityError {
    AuthorityError::Broken(error.to_string())
}

/// Moves an intent by `event`: the record, the spend it gives back and its audit entry. The one way
/// in which a stored state changes.
pub(crate) fn moved(
    was: State,
    mut intent: Intent,
    event: Event,
    by: &Actor,
    now: Timestamp,
    ids: &dyn Ids,
) -> Result<(Intent, Vec<Write>), AuthorityError> {
    intent.state = was.after(event).map_err(illegal)?;
    intent.updated_at = now;
    if !matches!(intent.state, State::Submitted) {
        intent.lease_until = None;
    }
    let mut writes = Vec::new();
    if was == State::Asked {
        writes.push(Write::InsertIntent(Box::new(intent.clone())));
    } else {
        writes.push(Write::UpdateIntent { was, intent: Box::new(intent.clone()) });
    }
    // Invariant *counted-from-submission*.
    if was.counts() && !intent.state.counts() && !bugs::on(Bug::SpendNeverReleased) {
        writes.push(Write::Release(intent.id.clone()));
    }
    if !bugs::on(Bug::AuditLeftOut) {
        writes.push(audited(&intent, by, now, ids));
    }
    Ok((intent, writes))
}

/// The audit entry of an intent's state as it now is.
fn audited(intent: &Intent, by: &Actor, now: Timestamp, ids: &dyn Ids) -> Write {
    let codes: Vec<&str> = intent.reasons.iter().map(|reason| reason.code.as_str()).collect();
    let details = serde_json::json!({
        "agent": intent.agent.as_str(),
        "charge": intent.charge.as_str(),
        "amountMinor": intent.amount.minor(),
        "currency": intent.amount.currency().lower(),
        "usdMicros": intent.worth.as_ref().map(|worth| worth.usd.micros()),
        "rate": intent.worth.as_ref().map(rate),
        "policyVersion": intent.policy_version,
        "reasons": codes,
        "approval": intent.approval.as_ref().map(|approval| approval.id.as_str()),
        "refund": intent.refund.as_ref().map(|refund| refund.id.as_str()),
        "refundStatus": intent.refund.as_ref().map(|refund| refund.status.as_str()),
    });
    let action = format!("intent.{}", intent.state.as_str());
    audit(by, &action, intent.id.as_str(), &details, now, ids)
}

/// The published figures of a worth, their day and their source: with them anybody computes it again.
fn rate(worth: &Valuation) -> serde_json::Value {
    match worth.rate.figures() {
        RateFigures::Feed { units_per_eur, usd_per_eur } => serde_json::json!({
            "source": "feed",
            "date": worth.date,
            "unitsPerEur": units_per_eur.to_string(),
            "usdPerEur": usd_per_eur.to_string(),
        }),
        RateFigures::Pinned { usd_per_unit } => {
            serde_json::json!({ "source": "pinned", "usdPerUnit": usd_per_unit.to_string() })
        }
        RateFigures::Usd => serde_json::json!({ "source": "usd" }),
    }
}

/// An audit entry with a salt of its own.
pub(crate) fn audit(
    by: &Actor,
    action: &str,
    subject: &str,
    details: &serde_json::Value,
    now: Timestamp,
    ids: &dyn Ids,
) -> Write {
    let mut salt = [0; 48];
    ids.fill(&mut salt);
    Write::Audit(AuditEntry {
        at: now,
        actor: by.to_string(),
        action: action.to_owned(),
        subject: subject.to_owned(),
        details: details.to_string(),
        salt,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_an_actor_names() {
        let table = [
            ("cli:maria(1000)", true),
            ("cli:maria", true),
            ("cli:root(0) as user:maria", true),
            ("user:maria", true),
            ("cli:root(0)", false),
            ("cli:root(0) as user:mariana", false),
            ("cli:mariana(1000) as user:ben", false),
            ("agent:maria", false),
            ("gateway", false),
            ("maria", false),
            ("", false),
        ];
        let maria = UserName::parse("maria").unwrap();
        for (actor, names) in table {
            assert_eq!(Actor::names(actor, &maria), names, "{actor}");
        }
    }
}
