//! What to do next, in words for a language model: whether money moved, whether to ask again, and
//! under which key. Nothing in here comes from an agent's own text.

use gate_core::{
    Decision, Denier, FailureCode, Intent, OnApproval, ReasonCode, RefundStatus, State,
};

use crate::intent::resets_at;
use crate::time::rfc3339;

/// The advice for an intent. `replayed` says whether it was there before the request.
pub(crate) fn of_intent(intent: &Intent, replayed: bool) -> String {
    let advice = match intent.state {
        State::Settled => settled(intent),
        State::PendingApproval => pending(intent),
        State::AwaitingStripe => "Stripe holds the refund until a person approves it there, and \
            then makes it itself. Do not refund in another way; asking again with the same key \
            shows where it stands."
            .to_owned(),
        State::Approved => approved(intent),
        State::Denied => denied(intent),
        State::Expired => {
            "Nothing was refunded: the approval was not given, or not used, in time. \
            Asking again with this key changes nothing; if the refund is still wanted, ask with a \
            new idempotencyKey."
                .to_owned()
        }
        State::Canceled => "Nothing was refunded: the request was withdrawn. Asking again with \
            this key changes nothing; if the refund is wanted after all, ask with a new \
            idempotencyKey."
            .to_owned(),
        State::Submitted | State::Asked => in_progress(intent),
        State::Failed => failed(intent),
        State::NotExecuted => "Stripe did nothing and nothing was refunded; the message says why. \
            Ask again with the same key and the same arguments."
            .to_owned(),
        State::Reversed => "The refund was made and later failed or was canceled, so the customer \
            does not have the money. Do not ask again with this key; tell a person, who decides \
            whether it is made anew."
            .to_owned(),
    };
    if replayed && intent.keyless && matched_without_key(intent.state) {
        format!(
            "{advice} This is the refund that was asked for before; a second, separate refund of \
             the same amount needs an explicit idempotencyKey of its own."
        )
    } else {
        advice
    }
}

/// The advice for a dry run.
pub(crate) const fn of_dry_run(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => {
            "Nothing was refunded: this was a dry run. Asked again without dryRun, the refund \
             would be made at once."
        }
        Decision::Deny => {
            "Nothing was refunded: this was a dry run. The refund would be denied, for the reasons \
             given; do not ask for it unchanged."
        }
        Decision::RequireApproval => {
            "Nothing was refunded: this was a dry run. Asked again without dryRun, a person would \
             decide."
        }
    }
}

fn settled(intent: &Intent) -> String {
    match intent.refund.as_ref().map(|refund| &refund.status) {
        Some(RefundStatus::Open(_)) => {
            "Stripe has the refund and has not finished it; it is followed from here. Do not ask \
             again."
        }
        Some(RefundStatus::Succeeded | RefundStatus::Canceled | RefundStatus::Failed) | None => {
            "The refund is on its way to the customer. Do not ask again."
        }
    }
    .to_owned()
}

fn pending(intent: &Intent) -> String {
    match intent.approval.as_ref().map(|approval| approval.on_approval) {
        Some(OnApproval::Execute) => {
            "Nothing has been refunded yet: a person decides, and the gateway makes the refund \
             once it is approved. Do not refund in another way; asking again with the same key, or \
             reading the intent or its approval, shows where it stands."
        }
        Some(OnApproval::Agent) | None => {
            "Nothing has been refunded yet: a person decides. Read the approval to see whether it \
             was given, and then ask again with the same key to have the refund made; do not \
             refund in another way."
        }
    }
    .to_owned()
}

fn approved(intent: &Intent) -> String {
    match intent.approval.as_ref().map(|approval| approval.on_approval) {
        Some(OnApproval::Execute) => {
            "A person approved the refund and the gateway is about to make it. Ask again with the \
             same key to see that it was made; do not use another key."
        }
        Some(OnApproval::Agent) | None => {
            "A person approved the refund and it has not been made yet. Ask again with the same \
             key and the same arguments to have it made; do not use another key."
        }
    }
    .to_owned()
}

fn denied(intent: &Intent) -> String {
    match (intent.denied_by, resets_at(&intent.reasons)) {
        (Some(Denier::Person), _) => "Nothing was refunded: a person said no. Do not ask again, \
            with this key or another."
            .to_owned(),
        (Some(Denier::Reopened), _) => "Nothing was refunded: a person said no, and another lets \
            it be asked again. Ask with the same key and the same arguments if the refund is \
            still wanted."
            .to_owned(),
        (Some(Denier::Policy) | None, Some(at)) => format!(
            "Nothing was refunded: a limit of the policy is used up. Do not ask again before {}; \
             after that, ask with the same key if the refund is still wanted.",
            rfc3339(at)
        ),
        (Some(Denier::Policy) | None, None) if stopped(intent) => "Nothing was refunded: refunds \
            are stopped. Do not ask again until a person tells you that they were resumed; then \
            ask with the same key if the refund is still wanted."
            .to_owned(),
        (Some(Denier::Policy) | None, None) => "Nothing was refunded: the policy does not allow \
            it, for the reasons given. Do not ask again unchanged; tell the person you work for."
            .to_owned(),
    }
}

/// Whether a stop is all that stands in the way.
fn stopped(intent: &Intent) -> bool {
    let stops =
        [ReasonCode::OrganizationStopped, ReasonCode::TeamStopped, ReasonCode::AgentStopped];
    let denials = intent.reasons.iter().filter(|reason| !reason.asks());
    let (held, other): (Vec<_>, Vec<_>) = denials.partition(|reason| stops.contains(&reason.code));
    !held.is_empty() && other.is_empty()
}

fn in_progress(intent: &Intent) -> String {
    if intent.needs_person {
        "The refund may exist, and a person has to find out. Do not refund in another way and do \
         not use another key; asking again with the same key shows what was found."
    } else {
        "The refund may exist. Ask again with the same key; do not use another key."
    }
    .to_owned()
}

fn failed(intent: &Intent) -> String {
    match intent.failure.as_ref().and_then(|failure| failure.code) {
        Some(FailureCode::NotFoundAtStripe) => {
            "No refund was ever found at Stripe. Do not ask again; a person should look at the \
             payment in Stripe before it is refunded in another way."
        }
        Some(
            FailureCode::ApprovalCanceled
            | FailureCode::ApprovalExpired
            | FailureCode::ApprovalRejected,
        ) => {
            "Nothing was refunded: Stripe held the refund for an approval of its own, which was \
             not given. Do not ask again with this key or another; a person has to decide what \
             follows."
        }
        Some(FailureCode::ApprovalFailed) => {
            "Nothing was refunded: a person approved it at Stripe, and Stripe could not make it; \
             the message says why. Do not ask again; a person has to decide what follows."
        }
        Some(
            FailureCode::AmountOverRefundable
            | FailureCode::ChargeAlreadyRefunded
            | FailureCode::ChargeDisputed
            | FailureCode::ChargeNotCaptured
            | FailureCode::ChargeNotRefundable
            | FailureCode::RefundCanceled
            | FailureCode::RefundFailed,
        )
        | None => {
            "Stripe did not give the money back; the message says why. Do not ask again: this \
             answer stands, and a person has to decide what follows."
        }
    }
    .to_owned()
}

/// Whether a request without a key is answered with an intent in this state because it looks like
/// the same request, and not because the answer stands.
const fn matched_without_key(state: State) -> bool {
    match state {
        State::PendingApproval
        | State::Approved
        | State::Submitted
        | State::AwaitingStripe
        | State::NotExecuted
        | State::Settled => true,
        State::Asked
        | State::Failed
        | State::Reversed
        | State::Denied
        | State::Expired
        | State::Canceled => false,
    }
}
