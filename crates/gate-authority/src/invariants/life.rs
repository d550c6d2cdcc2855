//! What an intent's own record must agree on: I2, I6 and I7.

use gate_core::{Approval, ApprovalState, Approver, Denier, FixedRequest, Intent, State, Vote};
use gate_store::Snapshot;

use super::Finding;
use super::history::InForce;
use crate::votes;

const LOOK: &str = "compare it with the audit log and with the payment at Stripe, and restore the \
                    row from a backup";

/// Everything that is wrong with one intent by itself.
pub(super) fn findings(intent: &Intent, policy: Option<&InForce>, seen: &Snapshot) -> Vec<Finding> {
    let id = Some(&intent.id);
    let i2 = allowed(intent).map(|what| Finding::fault("I2", id, what, LOOK));
    let i6 = approved(intent, policy, seen);
    let i6 = i6.map(|what| Finding::fault("I6", id, what, "stop the agent and ask the reviewer"));
    let i7 = contradictions(intent);
    let i7 = i7.into_iter().map(|what| Finding::fault("I7", id, what.to_owned(), LOOK));
    i2.into_iter().chain(i6).chain(i7).collect()
}

/// Whether money may have moved, or has.
const fn was_submitted(state: State) -> bool {
    match state {
        State::Submitted
        | State::AwaitingStripe
        | State::NotExecuted
        | State::Settled
        | State::Failed
        | State::Reversed => true,
        State::Asked
        | State::PendingApproval
        | State::Approved
        | State::Denied
        | State::Expired
        | State::Canceled => false,
    }
}

/// I2: no refund without a decision that was recorded before, with the very request. (A request
/// that is there must be the right one, whatever the state: it may be sent again.)
fn allowed(intent: &Intent) -> Option<String> {
    let state = intent.state.as_str();
    if let Some(request) = &intent.request
        && let Some(wrong) = request_fault(request, intent)
    {
        return Some(format!("the request that is kept to be sent has another {wrong}"));
    }
    match (was_submitted(intent.state), intent.submitted_at, &intent.request) {
        (true, None, _) => Some(format!("it is {state} and was never submitted")),
        (true, Some(_), None) => Some(format!("it is {state} and its request was not kept")),
        (true, Some(_), Some(_)) => None,
        (false, None, _) => {
            let refund = intent.refund.as_ref()?;
            Some(format!("it is {state}, and refund {} was made for it", refund.id))
        }
        // A refund of an earlier attempt that is out is a contradiction of I7's.
        (false, Some(_), _) => None,
    }
}

/// Which part of a request is not the intent's. The form is read here anew, not rebuilt by the
/// code that built it.
fn request_fault(request: &FixedRequest, intent: &Intent) -> Option<&'static str> {
    let minor = intent.amount.minor().to_string();
    let only = |name: &str| {
        let mut pairs = request.form.split('&').filter_map(|pair| pair.split_once('='));
        let mut of_name = pairs.by_ref().filter(|(key, _)| *key == name);
        let first = of_name.next().map(|(_, value)| value);
        first.filter(|_| of_name.next().is_none())
    };
    if only("charge") != Some(intent.charge.as_str()) {
        Some("charge")
    } else if only("amount") != Some(minor.as_str()) {
        Some("amount")
    } else if only("metadata%5Bburnbound_intent%5D") != Some(intent.id.as_str()) {
        Some("intent")
    } else if request.account != intent.account {
        Some("account")
    } else {
        None
    }
}

/// I6: who said yes, when, and that nobody's no was passed over.
fn approved(intent: &Intent, policy: Option<&InForce>, seen: &Snapshot) -> Option<String> {
    let state = intent.state.as_str();
    let approval = intent.approval.as_ref()?;
    if approval.approver == Approver::Stripe {
        return None;
    }
    let passed = was_submitted(intent.state) || intent.state == State::Approved;
    if passed && approval.state != ApprovalState::Approved {
        return Some(format!("it is {state} and its approval is {}", approval.state.as_str()));
    }
    let open = passed || intent.state == State::PendingApproval;
    if open && !votes::is_what_was_seen(intent) {
        return Some("what is recorded is not what its reviewers were asked".to_owned());
    }
    if approval.state != ApprovalState::Approved {
        return None;
    }
    if approval.decided_by.is_none() || approval.decided_at.is_none() {
        return Some("nobody is named who approved it, or no time".to_owned());
    }
    let faults = |vote| vote_fault(vote, approval, intent, policy, seen);
    approval
        .votes
        .iter()
        .find_map(faults)
        .or_else(|| quorum_fault(approval, intent).filter(|_| open))
}

/// Whether each reason had the people that it takes, as they were when they voted. (Once it is
/// denied, its reasons are others.)
fn quorum_fault(approval: &Approval, intent: &Intent) -> Option<String> {
    let asking = intent.reasons.iter().filter_map(|reason| reason.requires.as_ref());
    let short = asking.map(|requires| requires.missing(&approval.votes)).find(|n| *n > 0)?;
    Some(format!("it was approved, and {short} more had to approve it"))
}

fn vote_fault(
    vote: &Vote,
    approval: &Approval,
    intent: &Intent,
    policy: Option<&InForce>,
    seen: &Snapshot,
) -> Option<String> {
    let by = &vote.by;
    if vote.at >= approval.expires_at {
        return Some(format!("{by} approved it after it had expired"));
    }
    if !seen.users.iter().any(|user| user.name == *by) {
        return Some(format!("{by}, who approved it, is no user"));
    }
    let owner = policy
        .filter(|policy| policy.since < vote.at)
        .and_then(|policy| policy.policy.owner_of(&intent.agent_name));
    (owner == Some(by)).then(|| format!("{by} approved it and owns {}", intent.agent_name))
}

/// I7: what cannot stand together in one record.
fn contradictions(intent: &Intent) -> Vec<&'static str> {
    let refund = intent.refund.as_ref().map(|refund| refund.status.came_back());
    let failed = intent.failure.as_ref().map(|failure| failure.code.is_some());
    let approval = intent.approval.as_ref();
    let asked = approval.map(|approval| approval.state);
    let approver = approval.map(|approval| approval.approver);
    let denied_by = intent.denied_by;
    let settled_at = intent.settled_at.is_some();
    let denied_in_state = (intent.state == State::Denied) == denied_by.is_some();
    let wrong = |holds: bool, what: &'static str| (!holds).then_some(what);
    let by_state: Vec<Option<&'static str>> = match intent.state {
        State::Asked => vec![Some("it is asked, which is never recorded")],
        State::PendingApproval => vec![wrong(
            asked == Some(ApprovalState::Pending),
            "it is pending_approval and no approval is pending",
        )],
        State::Approved => vec![wrong(approval.is_some(), "it is approved and has no approval")],
        State::Submitted => {
            vec![wrong(refund != Some(false), "it is submitted although its refund was seen")]
        }
        State::AwaitingStripe => vec![wrong(
            approver == Some(Approver::Stripe),
            "it is awaiting_stripe and no approval of Stripe's is recorded",
        )],
        State::NotExecuted => vec![
            wrong(refund != Some(false), "it is not_executed although its refund was seen"),
            wrong(failed.is_some(), "it is not_executed and does not say why"),
        ],
        State::Settled => vec![
            wrong(refund.is_some(), "it is settled and has no refund"),
            wrong(refund != Some(true), "it is settled and its refund came back"),
            wrong(settled_at, "it is settled and does not say since when"),
        ],
        State::Failed => vec![
            wrong(refund != Some(false), "it is failed although its refund was seen"),
            wrong(failed == Some(true), "it is failed and has no code"),
        ],
        State::Reversed => vec![
            wrong(refund.is_some(), "it is reversed and has no refund"),
            wrong(refund != Some(false), "it is reversed and its refund did not come back"),
            wrong(settled_at, "it is reversed and was never settled"),
        ],
        State::Denied => vec![wrong(
            !matches!(denied_by, Some(Denier::Person | Denier::Reopened))
                || asked == Some(ApprovalState::Denied),
            "it is denied by a person, and its approval is not",
        )],
        State::Expired => vec![wrong(
            asked == Some(ApprovalState::Expired),
            "it is expired, and its approval is not",
        )],
        State::Canceled => vec![wrong(
            asked == Some(ApprovalState::Canceled),
            "it is canceled, and its approval is not",
        )],
    };
    let out =
        !was_submitted(intent.state) && intent.submitted_at.is_some() && refund == Some(false);
    let always = [
        wrong(denied_in_state, "its state and who denied it disagree"),
        wrong(!out, "it was ended although its refund was seen"),
    ];
    by_state.into_iter().chain(always).flatten().collect()
}
