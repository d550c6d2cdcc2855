//! I1, I2, I3 and I7 at Stripe: the refunds of each charge that was ever sent for, against the
//! record.

use std::collections::BTreeMap;
use std::time::Duration;

use gate_core::{
    AgentId, AuthorityError, ChargeId, Intent, IntentId, ListedRefund, Processor, ReadError, State,
};
use gate_store::{IntentBy, Reads};

use super::{Finding, everything};
use crate::authority::LocalAuthority;

/// Most charges that are looked at, the newest intents' first; one call after the other.
const CHARGES_LOOKED_AT_MAX: usize = 1000;

/// What looking at Stripe came to.
#[derive(Debug, Default)]
pub struct AtStripe {
    /// Where Stripe and the record disagree.
    pub findings: Vec<Finding>,
    /// Of how many charges the refunds were listed.
    pub looked_at: usize,
    /// How many charges were not looked at, and why; none when all were.
    pub left_out: Option<(usize, String)>,
}

/// Lists the refunds of every charge that the record was ever sent for, and holds them against it.
/// What disagrees is looked at twice, the record first: a gateway at work moves both meanwhile.
/// Refunds of charges that no intent names are not seen.
///
/// # Errors
///
/// [`AuthorityError`] when the record cannot be read. When Stripe cannot be, the rest is left out.
pub async fn invariants_at_stripe(
    authority: &LocalAuthority,
    processor: &dyn Processor,
    call_timeout: Duration,
) -> Result<AtStripe, AuthorityError> {
    let mut at_stripe = AtStripe::default();
    let reads = Reads { audit: None, books: false, ..everything() };
    let intents = authority.read(reads).await?.intents;
    let record: Record = intents.iter().map(|intent| (intent.id.clone(), intent.clone())).collect();
    let mut charges: Vec<(&ChargeId, Vec<IntentId>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for intent in intents.iter().filter(|intent| intent.submitted_at.is_some()) {
        let place = *places.entry(intent.charge.as_str()).or_insert(charges.len());
        match charges.get_mut(place) {
            Some((_, ids)) => ids.push(intent.id.clone()),
            None => charges.push((&intent.charge, vec![intent.id.clone()])),
        }
    }
    for (charge, ids) in &charges {
        if at_stripe.looked_at >= CHARGES_LOOKED_AT_MAX {
            let why = format!("no more than {CHARGES_LOOKED_AT_MAX} are looked at, newest first");
            at_stripe.leave_out(charges.len(), why);
            break;
        }
        let list = || processor.refunds_of(charge, authority.clock.deadline(call_timeout));
        let listed = match list().await {
            Ok(listed) => listed,
            Err(ReadError::NotFound { .. } | ReadError::LivemodeMismatch) => Vec::new(),
            Err(error) => {
                at_stripe.leave_out(charges.len(), unreadable(&error));
                break;
            }
        };
        at_stripe.looked_at = at_stripe.looked_at.saturating_add(1);
        let known = concerned(ids, &listed).filter_map(|id| record.get_key_value(id));
        let known = known.map(|(id, intent)| (id.clone(), intent.clone())).collect();
        if judge(charge, &listed, &known).is_empty() {
            continue;
        }
        let mut now = Record::new();
        for id in concerned(ids, &listed) {
            let reads = Reads { intent: Some(IntentBy::Id(id.clone())), ..Reads::default() };
            now.extend(authority.read(reads).await?.intent.map(|intent| (id.clone(), intent)));
        }
        match list().await {
            Ok(listed) => at_stripe.findings.extend(judge(charge, &listed, &now)),
            Err(ReadError::NotFound { .. } | ReadError::LivemodeMismatch) => {
                at_stripe.findings.push(missing(charge));
            }
            Err(error) => {
                at_stripe.looked_at = at_stripe.looked_at.saturating_sub(1);
                at_stripe.leave_out(charges.len(), unreadable(&error));
                break;
            }
        }
    }
    Ok(at_stripe)
}

type Record = BTreeMap<IntentId, Intent>;

impl AtStripe {
    fn leave_out(&mut self, all: usize, why: String) {
        self.left_out = Some((all.saturating_sub(self.looked_at), why));
    }
}

/// The intents of a charge, and those that its refunds name.
fn concerned<'a>(
    of_charge: &'a [IntentId],
    listed: &'a [ListedRefund],
) -> impl Iterator<Item = &'a IntentId> {
    of_charge.iter().chain(listed.iter().filter_map(|listed| listed.refund.intent.as_ref()))
}

fn unreadable(error: &ReadError) -> String {
    format!("Stripe could not be asked: {}", gate_core::ActionError::from(error.clone()))
}

fn missing(charge: &ChargeId) -> Finding {
    let what = format!("{charge} is not there for the key that Stripe was asked with");
    let fix = "check with the key of the account and mode in which the refund was made";
    Finding::warning("I3", None, what, fix)
}

/// Holds the refunds of one charge against the intents that they, and the charge, are about.
fn judge(charge: &ChargeId, listed: &[ListedRefund], record: &Record) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut refunds: BTreeMap<&IntentId, Vec<&ListedRefund>> = BTreeMap::new();
    for refund in listed {
        if let Some(id) = &refund.refund.intent {
            refunds.entry(id).or_default().push(refund);
        }
    }
    let mut keys: BTreeMap<(&AgentId, &str), &IntentId> = BTreeMap::new();
    for (id, refunds) in &refunds {
        let mut fault = |invariant, what, fix| {
            found.push(Finding::fault(invariant, Some(id), what, fix));
        };
        let names: Vec<&str> = refunds.iter().map(|one| one.refund.id.as_str()).collect();
        if refunds.len() > 1 {
            fault("I1", format!("{} were all made for it", names.join(", ")), GIVEN_TWICE);
        }
        let Some(intent) = record.get(*id) else {
            let what = format!("{} names it, and the record does not know it", names.join(", "));
            fault("I2", what, UNKNOWN);
            continue;
        };
        if let Some(other) = keys.insert((&intent.agent, intent.key.as_str()), id) {
            fault("I1", format!("it and {other} were refunded under one key"), GIVEN_TWICE);
        }
        for one in refunds {
            let (name, minor) = (&one.refund.id, one.minor);
            if intent.charge != *charge {
                let what = format!("{name} is of {charge}, and it is for {}", intent.charge);
                fault("I3", what, ELSEWHERE);
            } else if minor != intent.amount.minor() {
                let asked = intent.amount.minor();
                let what =
                    format!("{name} gives back {minor} in minor units, and it is for {asked}");
                fault("I3", what, ELSEWHERE);
            }
        }
    }
    let none = Vec::new();
    for (id, intent) in record.iter().filter(|(_, intent)| intent.charge == *charge) {
        found.extend(state_finding(intent, refunds.get(id).unwrap_or(&none), listed));
    }
    found
}

/// Where an intent's state and its refunds disagree.
fn state_finding(
    intent: &Intent,
    named: &[&ListedRefund],
    listed: &[ListedRefund],
) -> Option<Finding> {
    let (id, state) = (Some(&intent.id), intent.state.as_str());
    let out = named.iter().find(|one| !one.refund.status.came_back());
    match intent.state {
        State::Settled | State::Reversed => {
            let known = intent.refund.as_ref()?;
            // By its own id: metadata can be edited, and then it is still this refund.
            let Some(one) = listed.iter().find(|one| one.refund.id == known.id) else {
                let what = format!("it is {state} by {}, which Stripe does not list", known.id);
                return Some(Finding::fault("I7", id, what, LOOK));
            };
            let back = one.refund.status.came_back();
            (back != (intent.state == State::Reversed)).then(|| {
                let status = one.refund.status.as_str();
                let what = format!("it is {state}, and {} is {status} at Stripe", known.id);
                Finding::warning("I7", id, what, RECONCILE)
            })
        }
        State::Submitted | State::AwaitingStripe => {
            let what = format!("it is {state}, and Stripe made {}", out?.refund.id);
            Some(Finding::warning("I7", id, what, RECONCILE))
        }
        State::NotExecuted | State::Failed => {
            let what = format!("it is {state}, and Stripe made {}", out?.refund.id);
            Some(Finding::fault("I7", id, what, EVENT))
        }
        State::Asked
        | State::PendingApproval
        | State::Approved
        | State::Denied
        | State::Expired
        | State::Canceled => {
            // One that came back may be of an attempt before it was decided again.
            let one = if intent.submitted_at.is_some() { out? } else { named.first()? };
            let what = format!("it is {state}, and Stripe made {}", one.refund.id);
            Some(Finding::fault("I2", id, what, STOP))
        }
    }
}

const ELSEWHERE: &str = "stop the agent: somebody edited the refund's metadata, or the record";
const EVENT: &str = "have Stripe send the refund's event again, so that the record takes it";
const GIVEN_TWICE: &str = "stop everybody, and find out which of them the customer was to have";
const LOOK: &str = "look the refund up at Stripe, and restore the row from a backup";
const RECONCILE: &str = "run `action-gateway reconcile`, and check again";
const STOP: &str = "stop the agent, and find out who made the refund";
const UNKNOWN: &str = "another gateway made it, if one uses this Stripe account; if none does, the                        store was restored from a backup that is older than the refund";
