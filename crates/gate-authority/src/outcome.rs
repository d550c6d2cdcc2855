//! What became of a submitted intent, as it is recorded.

use std::time::Duration;

use gate_core::bugs::{self, Bug};
use gate_core::{
    ActionError, Approval, ApprovalId, ApprovalState, Approver, AuthorityError, DecisionReason,
    Event, Failure, FailureCode, Hold, Intent, OnApproval, Outcome, ReasonCode, Refund, RefundId,
    RefundStatus, State, Timestamp,
};
use gate_policy::Policy;
use gate_store::Write;

use crate::change::{Actor, Plan, audit, moved};
use crate::decide::{World, spend_window};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long a refund that was made is followed. Stripe's documents say that it can fail for up to
/// 30 days; five more for those that count otherwise.
const FOLLOWED: Duration = Duration::from_secs(35 * 24 * 3600);
/// How long Stripe's own approval is waited for, where Stripe does not say: its documented 14 days.
const STRIPE_APPROVAL_DAYS: u64 = 14;

/// Takes the news. A refund that was seen is taken always; other news only under the fence that
/// holds. The same news twice change nothing the second time.
pub(crate) fn record(
    fence: u64,
    news: &Outcome,
    policy: &Policy,
    world: &World<'_>,
) -> Result<Plan<Intent>, AuthorityError> {
    let Some(intent) = &world.seen.intent else {
        return Err(AuthorityError::Asked(ActionError::IntentNotFound));
    };
    match news {
        Outcome::Named { .. } | Outcome::Seen(_)
            if intent.fence != fence && bugs::on(Bug::SeenRefusedWhenStale) =>
        {
            Err(AuthorityError::Stale)
        }
        Outcome::Named { charge, minor, refund } => {
            // By its own id: then it is this intent's, whatever else is said of it.
            let known = intent.refund.as_ref().is_some_and(|known| known.id == refund.id);
            if known || (*charge == intent.charge && *minor == intent.amount.minor()) {
                seen(intent, refund, policy, world)
            } else {
                let details = serde_json::json!({
                    "refund": refund.id.as_str(),
                    "refundStatus": refund.status.as_str(),
                    "refundCharge": charge.as_str(),
                    "refundAmountMinor": minor,
                });
                Ok(not_its_own(intent, refund, "intent.foreign_refund_seen", &details, world))
            }
        }
        Outcome::Seen(refund) => seen(intent, refund, policy, world),
        Outcome::Held(_) | Outcome::NeedsPerson | Outcome::NotExecuted(_) | Outcome::Refused(_) => {
            let stale = intent.fence != fence && !bugs::on(Bug::StaleOutcomeTaken);
            if let (State::AwaitingStripe, Outcome::Held(hold), false) = (intent.state, news, stale)
            {
                return Ok(still_held(intent, hold, world));
            }
            if told_already(intent, news) {
                return Ok(Plan::nothing(intent.clone()));
            }
            if stale || !takes(intent.state, news) {
                return Err(AuthorityError::Stale);
            }
            ended(intent, news, world)
        }
    }
}

fn told_already(intent: &Intent, news: &Outcome) -> bool {
    match news {
        Outcome::Held(_) => intent.state == State::AwaitingStripe,
        Outcome::NeedsPerson => intent.needs_person,
        Outcome::NotExecuted(_) => intent.state == State::NotExecuted,
        Outcome::Refused(_) => intent.state == State::Failed,
        Outcome::Named { .. } | Outcome::Seen(_) => false,
    }
}

/// Whether such news can come of an intent in `state`. What Stripe holds for an approval of its own
/// ends without a refund only by the end of that approval.
const fn takes(state: State, news: &Outcome) -> bool {
    match (state, news) {
        (State::Submitted, _) | (State::AwaitingStripe, Outcome::NeedsPerson) => true,
        (State::AwaitingStripe, Outcome::Refused(refusal)) => {
            ended_approval(refusal.code).is_some()
        }
        _ => false,
    }
}

/// How an approval of Stripe's own ended, by the code of the failure that came of it.
const fn ended_approval(code: FailureCode) -> Option<ApprovalState> {
    match code {
        FailureCode::ApprovalCanceled => Some(ApprovalState::Canceled),
        FailureCode::ApprovalExpired => Some(ApprovalState::Expired),
        FailureCode::ApprovalFailed => Some(ApprovalState::Approved),
        FailureCode::ApprovalRejected => Some(ApprovalState::Denied),
        FailureCode::AmountOverRefundable
        | FailureCode::ChargeAlreadyRefunded
        | FailureCode::ChargeDisputed
        | FailureCode::ChargeNotCaptured
        | FailureCode::ChargeNotRefundable
        | FailureCode::NotFoundAtStripe
        | FailureCode::RefundCanceled
        | FailureCode::RefundFailed => None,
    }
}

fn ended(
    intent: &Intent,
    news: &Outcome,
    world: &World<'_>,
) -> Result<Plan<Intent>, AuthorityError> {
    let (mut intent, now) = (intent.clone(), world.now);
    let was = intent.state;
    intent.needs_person = false;
    match news {
        Outcome::NotExecuted(message) => {
            intent.failure = Some(Failure { code: None, message: message.clone() });
        }
        Outcome::Refused(refusal) => {
            intent.failure =
                Some(Failure { code: Some(refusal.code), message: refusal.message.clone() });
            intent.follow_at = None;
            if let (Some(state), Some(approval)) =
                (ended_approval(refusal.code), stripes_own(&mut intent))
            {
                approval.state = state;
                approval.decided_at = Some(now);
            }
        }
        Outcome::Held(hold) => {
            let fallback = now.after(Duration::from_secs(STRIPE_APPROVAL_DAYS * 24 * 3600));
            let message = "Stripe holds this refund for an approval of its own, and makes it \
                           itself once it is given.";
            intent
                .reasons
                .insert(0, DecisionReason::plain(ReasonCode::StripeApproval, message.to_owned()));
            intent.follow_at = Some(next_look(intent.submitted_at, now));
            let before = intent.approval.take();
            intent.approval = Some(Approval {
                id: ApprovalId::make(now, world.ids),
                state: ApprovalState::Pending,
                approver: Approver::Stripe,
                expires_at: hold.expires_at.unwrap_or(fallback),
                digest: String::new(),
                votes: Vec::new(),
                decided_at: None,
                decided_by: None,
                note: None,
                justifications: before.map(|before| before.justifications).unwrap_or_default(),
                on_approval: OnApproval::Execute,
                hold_id: hold.id.clone(),
                hold_url: hold.url.clone(),
            });
        }
        Outcome::NeedsPerson => {
            intent.needs_person = true;
            if was == State::AwaitingStripe {
                intent.follow_at = Some(now.after(HOUR));
            }
            let details = serde_json::json!({ "charge": intent.charge.as_str() });
            return Ok(noted(intent, "intent.needs_person", &details, world));
        }
        Outcome::Named { .. } | Outcome::Seen(_) => {}
    }
    let Some(event) = news.event() else {
        return Ok(Plan::nothing(intent));
    };
    let (intent, mut writes) = moved(was, intent, event, &Actor::gateway(), now, world.ids)?;
    if let Outcome::Held(Hold { key: Some(key), .. }) = news
        && !world.seen.agent_tagged_keys.contains(key)
    {
        writes.push(Write::TagKey { key: key.clone(), at: now });
    }
    Ok(Plan { writes, reply: intent })
}

/// What Stripe still holds: what it says of its approval, and when it is looked at next.
fn still_held(intent: &Intent, hold: &Hold, world: &World<'_>) -> Plan<Intent> {
    let mut intent = intent.clone();
    if let Some(approval) = stripes_own(&mut intent) {
        approval.expires_at = hold.expires_at.unwrap_or(approval.expires_at);
        approval.hold_id = hold.id.clone().or_else(|| approval.hold_id.take());
        approval.hold_url = hold.url.clone().or_else(|| approval.hold_url.take());
    }
    let next = next_look(intent.submitted_at, world.now);
    intent.follow_at = Some(if intent.needs_person { world.now.after(HOUR) } else { next });
    intent.lease_until = None;
    let write = Write::UpdateIntent { was: intent.state, intent: Box::new(intent.clone()) };
    Plan { writes: vec![write], reply: intent }
}

/// The approval of Stripe's own that the intent waits for.
fn stripes_own(intent: &mut Intent) -> Option<&mut Approval> {
    let approval = intent.approval.as_mut()?;
    let waits = approval.approver == Approver::Stripe && approval.state == ApprovalState::Pending;
    waits.then_some(approval)
}

/// When what Stripe holds is looked at next: people decide within minutes or days, and events tell.
fn next_look(submitted_at: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let pause = match submitted_at.map(|at| now.since(at)) {
        Some(age) if age < HOUR => MINUTE,
        Some(age) if age < DAY => MINUTE.saturating_mul(5),
        Some(_) | None => MINUTE.saturating_mul(30),
    };
    now.after(pause)
}

/// What a person found out of an intent that is `submitted`, or that Stripe holds.
pub(crate) fn resolve(
    found: Option<&RefundId>,
    note: &str,
    by: &Actor,
    policy: &Policy,
    world: &World<'_>,
) -> Result<Plan<Intent>, AuthorityError> {
    let Some(intent) = &world.seen.intent else {
        return Err(AuthorityError::Asked(ActionError::IntentNotFound));
    };
    if let Some(refund) = found {
        // Its status is looked up with the next look at it, which is due at once.
        let status = RefundStatus::Open("pending".to_owned());
        let refund = Refund { id: refund.clone(), status, intent: Some(intent.id.clone()) };
        let mut plan = seen(intent, &refund, policy, world)?;
        for write in &mut plan.writes {
            if let Write::UpdateIntent { intent, .. } = write {
                intent.follow_at = Some(world.now);
            }
        }
        return Ok(plan);
    }
    let mut intent = intent.clone();
    let was = intent.state;
    intent.needs_person = false;
    intent.follow_at = None;
    if let Some(approval) = stripes_own(&mut intent) {
        approval.state = ApprovalState::Canceled;
        approval.decided_at = Some(world.now);
    }
    let message = format!("A person found that no refund was made: {note}");
    intent.failure = Some(Failure { code: Some(FailureCode::NotFoundAtStripe), message });
    let (intent, writes) = moved(was, intent, Event::Fail, by, world.now, world.ids)?;
    Ok(Plan { writes, reply: intent })
}

/// A refund that stands as it stood: when it was due to be looked at, the next look is set.
fn looked_at(intent: &Intent, world: &World<'_>) -> Plan<Intent> {
    if intent.follow_at.is_none_or(|at| at > world.now) {
        return Plan::nothing(intent.clone());
    }
    let mut intent = intent.clone();
    intent.follow_at = follow_at(intent.settled_at, world.now);
    intent.lease_until = None;
    let write = Write::UpdateIntent { was: intent.state, intent: Box::new(intent.clone()) };
    Plan { writes: vec![write], reply: intent }
}

/// When a refund is looked at next: hourly on its first day, then daily, until it is 35 days old.
fn follow_at(settled_at: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    match now.since(settled_at?) {
        age if age < DAY => Some(now.after(HOUR)),
        age if age < FOLLOWED => Some(now.after(DAY)),
        _ => None,
    }
}

/// Takes a refund that was seen at Stripe, whatever was thought before.
fn seen(
    intent: &Intent,
    refund: &Refund,
    policy: &Policy,
    world: &World<'_>,
) -> Result<Plan<Intent>, AuthorityError> {
    let came_back = refund.status.came_back();
    let made = matches!(intent.state, State::Settled | State::Reversed);
    if made && intent.refund.as_ref().is_some_and(|known| known.id != refund.id) {
        let details = serde_json::json!({
            "refund": refund.id.as_str(),
            "refundStatus": refund.status.as_str(),
        });
        return Ok(not_its_own(intent, refund, "intent.second_refund_seen", &details, world));
    }
    let told = intent.refund.as_ref() == Some(refund) && intent.state != State::Submitted;
    // Once it came back, it does not go out again: that it was made is older news.
    let over = intent.state == State::Reversed && !bugs::on(Bug::ReversedBack);
    if told || (over && !came_back) {
        return Ok(looked_at(intent, world));
    }
    let event = match (came_back, made) {
        (true, true) => Event::Reverse,
        (true, false) if bugs::on(Bug::FailedRefundIsSettled) => Event::Settle,
        (true, false) => Event::Fail,
        (false, _) => Event::Settle,
    };
    let mut next = intent.clone();
    next.refund = Some(refund.clone());
    next.needs_person = false;
    if intent.state.after(event).is_err() {
        // Nobody should have sent this. It is kept all the same, and money that left is a person's
        // to look into.
        next.needs_person = !came_back;
        let details = serde_json::json!({
            "refund": refund.id.as_str(),
            "refundStatus": refund.status.as_str(),
        });
        return Ok(noted(next, "intent.refund_seen", &details, world));
    }
    if let Some(approval) = stripes_own(&mut next) {
        // Stripe makes what it held only once its own approval was given.
        approval.state = ApprovalState::Approved;
        approval.decided_at = Some(world.now);
    }
    if came_back {
        let code = if refund.status == RefundStatus::Canceled {
            FailureCode::RefundCanceled
        } else {
            FailureCode::RefundFailed
        };
        let message = "Stripe made the refund, and it did not go through.".to_owned();
        next.failure = Some(Failure { code: Some(code), message });
    } else {
        next.failure = None;
        next.settled_at.get_or_insert(world.now);
    }
    next.follow_at = if came_back { None } else { follow_at(next.settled_at, world.now) };
    // Money left although the spend was given back: it is booked again, even over the cap, in the
    // windows and for the team of now.
    let booked = event == Event::Settle && !intent.state.counts();
    if booked {
        next.team = policy.team_of(&next.agent_name).cloned();
    }
    let (next, mut writes) =
        moved(intent.state, next, event, &Actor::gateway(), world.now, world.ids)?;
    if booked {
        let customer = next.seen.as_ref().and_then(|seen| seen.customer.id());
        let windows = gate_policy::windows(policy, &next.agent_name, customer, world.now);
        let usd = next.worth.as_ref().map(|worth| worth.usd).unwrap_or_default();
        writes.push(Write::Reserve {
            intent: next.id.clone(),
            usd,
            windows: windows.iter().map(|(window, ..)| spend_window(&next.agent, window)).collect(),
        });
    }
    Ok(Plan { writes, reply: next })
}

/// A refund that names an intent and is not its own: of another charge or amount, or beside the one
/// that was made for it. Somebody copied the metadata, or money left twice. The intent stays as it
/// is, and goes by its own refund, whose fate alone gives its spend back; a person is to look, once.
fn not_its_own(
    intent: &Intent,
    refund: &Refund,
    action: &str,
    details: &serde_json::Value,
    world: &World<'_>,
) -> Plan<Intent> {
    if intent.needs_person || refund.status.came_back() {
        return Plan::nothing(intent.clone());
    }
    let mut next = intent.clone();
    next.needs_person = true;
    noted(next, action, details, world)
}

/// Something to know about an intent whose state stays what it is.
fn noted(
    mut intent: Intent,
    action: &str,
    details: &serde_json::Value,
    world: &World<'_>,
) -> Plan<Intent> {
    intent.updated_at = world.now;
    let by = Actor::gateway();
    let entry = audit(&by, action, intent.id.as_str(), details, world.now, world.ids);
    let write = Write::UpdateIntent { was: intent.state, intent: Box::new(intent.clone()) };
    Plan { writes: vec![write, entry], reply: intent }
}
