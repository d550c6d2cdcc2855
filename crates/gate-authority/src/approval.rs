//! The human part: deciding, using, withdrawing and outliving an approval.

use gate_core::bugs::{self, Bug};
use gate_core::{
    ActionError, Approval, ApprovalState, AuthorityError, Charge, Decided, DecisionReason, Denier,
    Event, Intent, Justification, ReasonCode, State, Timestamp, UserName, Vote, Wanted,
};
use gate_policy::Policy;
use gate_store::{AgentRow, Snapshot, Write, usable_until};

use crate::authority::is_held;
use crate::change::{Actor, Plan, moved};
use crate::decide::{World, judged};
use crate::votes;

/// Why what a revoked agent asked for is withdrawn.
pub(crate) const AGENT_REVOKED: &str = "The agent's key was revoked.";

/// A person's yes, the last that it took, or one of several.
pub(crate) fn approve(
    intent: &Intent,
    vote: Vote,
    complete: bool,
    by: &Actor,
    world: &World<'_>,
) -> Result<Plan<Intent>, AuthorityError> {
    let mut intent = intent.clone();
    let was = intent.state;
    if let Some(approval) = &mut intent.approval {
        if complete {
            approval.state = ApprovalState::Approved;
            approval.decided_at = Some(world.now);
            approval.decided_by = Some(vote.by.clone());
            approval.note.clone_from(&vote.note);
        }
        approval.votes.retain(|older| older.by != vote.by);
        approval.votes.push(vote);
    }
    if complete {
        let (intent, writes) = moved(was, intent, Event::Approve, by, world.now, world.ids)?;
        return Ok(Plan { writes, reply: intent });
    }
    intent.updated_at = world.now;
    let write = Write::UpdateIntent { was, intent: Box::new(intent.clone()) };
    Ok(Plan { writes: vec![write], reply: intent })
}

/// A person's no, which ends it.
pub(crate) fn deny(
    intent: &Intent,
    user: &UserName,
    note: &str,
    by: &Actor,
    world: &World<'_>,
) -> Result<Plan<Intent>, AuthorityError> {
    let mut intent = intent.clone();
    let was = intent.state;
    intent.denied_by = Some(Denier::Person);
    let message = format!(
        "A person denied this refund: {note}. For 24 hours the same refund is answered with this."
    );
    put_first(&mut intent.reasons, DecisionReason::plain(ReasonCode::ApprovalDenied, message));
    if let Some(approval) = &mut intent.approval {
        approval.state = ApprovalState::Denied;
        approval.decided_at = Some(world.now);
        approval.decided_by = Some(user.clone());
        approval.note = Some(note.to_owned());
    }
    let (intent, writes) = moved(was, intent, Event::Deny, by, world.now, world.ids)?;
    Ok(Plan { writes, reply: intent })
}

/// Withdraws what is pending or approved.
pub(crate) fn cancel(
    intent: &Intent,
    why: &str,
    by: &Actor,
    world: &World<'_>,
) -> Result<Plan<Intent>, AuthorityError> {
    let was = intent.state;
    if was.after(Event::Cancel).is_err() {
        return Err(AuthorityError::Asked(ActionError::NotCancelable { state: was }));
    }
    end(
        intent,
        Event::Cancel,
        ApprovalState::Canceled,
        ReasonCode::ApprovalCanceled,
        why,
        by,
        world,
    )
}

/// Ends what nobody decided, or nobody used, in time. (An expiry is nobody's denial.)
pub(crate) fn expire(
    intent: &Intent,
    by: &Actor,
    world: &World<'_>,
) -> Result<Plan<Intent>, AuthorityError> {
    let why = if intent.state == State::Approved {
        "The approval was not used in time; ask again with a new idempotencyKey if the refund is still wanted."
    } else {
        "Nobody decided in time; ask again with a new idempotencyKey if the refund is still wanted."
    };
    end(intent, Event::Expire, ApprovalState::Expired, ReasonCode::ApprovalExpired, why, by, world)
}

#[allow(
    clippy::too_many_arguments,
    reason = "the ways in which an intent ends differ in all of these"
)]
fn end(
    intent: &Intent,
    event: Event,
    approval_state: ApprovalState,
    code: ReasonCode,
    why: &str,
    by: &Actor,
    world: &World<'_>,
) -> Result<Plan<Intent>, AuthorityError> {
    let mut intent = intent.clone();
    let was = intent.state;
    put_first(&mut intent.reasons, DecisionReason::plain(code, why.to_owned()));
    if let Some(approval) = &mut intent.approval {
        approval.state = approval_state;
        approval.decided_at.get_or_insert(world.now);
    }
    let (intent, writes) = moved(was, intent, event, by, world.now, world.ids)?;
    Ok(Plan { writes, reply: intent })
}

fn put_first(reasons: &mut Vec<DecisionReason>, reason: DecisionReason) {
    reasons.insert(0, reason);
}

/// Checks an approved intent against everything but the person again, and submits or denies it.
pub(crate) fn execute(
    fence: u64,
    charge: &Charge,
    policy: &Policy,
    world: &World<'_>,
) -> Result<Plan<Decided>, AuthorityError> {
    let Some(intent) = &world.seen.intent else {
        return Err(AuthorityError::Asked(ActionError::IntentNotFound));
    };
    let unchanged = |intent: &Intent| {
        Ok(Plan::nothing(Decided { intent: intent.clone(), lease: None, replayed: true }))
    };
    if intent.state != State::Approved {
        return unchanged(intent);
    }
    if intent.fence != fence {
        return Err(AuthorityError::Stale);
    }
    if !usable(intent.approval.as_ref(), world.now) {
        let plan = expire(intent, &Actor::sweeper(), world)?;
        let decided = Decided { intent: plan.reply, lease: None, replayed: true };
        return Ok(Plan { writes: plan.writes, reply: decided });
    }
    if world.seen.agent.as_ref().is_none_or(|agent| agent.revoked_at.is_some()) {
        let plan = cancel(intent, AGENT_REVOKED, &Actor::gateway(), world)?;
        let decided = Decided { intent: plan.reply, lease: None, replayed: true };
        return Ok(Plan { writes: plan.writes, reply: decided });
    }
    // A stop holds what was approved; it does not end it.
    let held = is_held(world.seen, intent, policy);
    if held && !bugs::on(Bug::StopEndsApproved) {
        return unchanged(intent);
    }
    if charge.id != intent.charge
        || charge.channel.livemode != intent.livemode
        || charge.channel.account != intent.account
    {
        return Err(AuthorityError::Asked(ActionError::LivemodeMismatch));
    }
    // Invariant *approved-as-shown*.
    if !votes::is_what_was_seen(intent) {
        return stale(intent, &Actor::gateway(), world);
    }
    let votes = votes::standing(intent, policy, world.seen);
    let judged =
        |intent: Intent| judged(intent, charge, policy, Some(&votes), &Actor::gateway(), world);
    let full = intent.wanted == Wanted::Full && bugs::on(Bug::FullNotFixed);
    let wanted = if full { Wanted::Full } else { Wanted::Minor(intent.amount.minor()) };
    match gate_core::resolve(charge, wanted, Some(intent.amount.currency())) {
        Ok(amount) if full => judged(Intent { amount, ..intent.clone() }),
        Err(ActionError::AmountOverRefundable { left, .. }) if bugs::on(Bug::ShrunkSilently) => {
            judged(Intent { amount: left, ..intent.clone() })
        }
        Ok(_) => judged(intent.clone()),
        Err(error) => match gone(&error) {
            Some(code) => {
                let message = format!("After the approval, {error}. Nothing was refunded.");
                refuse(intent, code, message, &Actor::gateway(), world)
            }
            // It may yet become possible; until the approval ends it is tried again.
            None => Err(AuthorityError::Asked(error)),
        },
    }
}

/// Refuses what is no longer what its reviewers saw: the record was changed beside the gateway.
pub(crate) fn stale(
    intent: &Intent,
    by: &Actor,
    world: &World<'_>,
) -> Result<Plan<Decided>, AuthorityError> {
    let message = "What is recorded of this refund is not what its reviewers approved. Nothing was \
                   refunded: ask again with a new idempotencyKey, and tell the gateway's operator.";
    refuse(intent, ReasonCode::ApprovalStale, message.to_owned(), by, world)
}

/// Whether an approval was given and can still be used.
pub(crate) fn usable(approval: Option<&Approval>, now: Timestamp) -> bool {
    approval.is_some_and(|approval| {
        approval.state == ApprovalState::Approved
            && (usable_until(approval) > now || bugs::on(Bug::ApprovalExpiryIgnored))
    })
}

/// What makes an approved refund impossible for good. It is never shrunk silently.
fn gone(error: &ActionError) -> Option<ReasonCode> {
    let code = error.code();
    [
        ReasonCode::AmountOverRefundable,
        ReasonCode::ChargeAlreadyRefunded,
        ReasonCode::ChargeDisputed,
    ]
    .into_iter()
    .find(|reason| reason.as_str() == code)
}

fn refuse(
    intent: &Intent,
    code: ReasonCode,
    message: String,
    by: &Actor,
    world: &World<'_>,
) -> Result<Plan<Decided>, AuthorityError> {
    let mut intent = intent.clone();
    let was = intent.state;
    put_first(&mut intent.reasons, DecisionReason::plain(code, message));
    intent.denied_by = Some(Denier::Policy);
    let (intent, writes) = moved(was, intent, Event::Deny, by, world.now, world.ids)?;
    Ok(Plan { writes, reply: Decided { intent, lease: None, replayed: false } })
}

/// Keeps more words for the reviewers of a pending intent.
pub(crate) fn justify(
    agent: &AgentRow,
    words: &Justification,
    now: Timestamp,
    seen: &Snapshot,
) -> Result<Plan<Intent>, AuthorityError> {
    let own = seen.intent.as_ref().filter(|intent| intent.agent == agent.id);
    let Some(intent) = own else {
        return Err(AuthorityError::Asked(ActionError::IntentNotFound));
    };
    let mut intent = intent.clone();
    let was = intent.state;
    let Some(approval) = &mut intent.approval else {
        return Ok(Plan::nothing(intent));
    };
    let kept = &mut approval.justifications;
    let known = kept.iter().any(|kept| kept == words.as_str());
    let full = kept.len() >= Approval::JUSTIFICATIONS_MAX;
    if was != State::PendingApproval || known || full {
        return Ok(Plan::nothing(intent));
    }
    kept.push(words.as_str().to_owned());
    intent.updated_at = now;
    let write = Write::UpdateIntent { was, intent: Box::new(intent.clone()) };
    Ok(Plan { writes: vec![write], reply: intent })
}
