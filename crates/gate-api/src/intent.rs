//! The one object that answers everywhere: an intent, or what a dry run would have decided.
//!
//! What a state means to a caller, its status, its HTTP status and whether to ask again, is said
//! by [`standing`] and nowhere else.

use gate_core::{
    Answer, Approver, Decision, DecisionReason, Intent, Preview, Refund, Retry, State, Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::money::{AmountView, dollars};
use crate::next;
use crate::schema;
use crate::time::rfc3339;

/// What an answer comes to, in one word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// A person said yes; not refunded yet.
    Approved,
    /// The policy or a person said no, or nobody said yes in time, or it was withdrawn.
    Denied,
    /// Nothing was asked for.
    DryRun,
    /// Stripe did not make the refund.
    Failed,
    /// The refund may exist.
    InProgress,
    /// Stripe certainly did nothing.
    NotExecuted,
    /// A person has to decide.
    PendingApproval,
    /// Stripe made the refund.
    Refunded,
    /// Stripe made the refund and the money came back.
    Reversed,
}

impl Status {
    /// Every status of an intent, in the order of the manual.
    pub const OF_INTENTS: [Self; 8] = [
        Self::Refunded,
        Self::PendingApproval,
        Self::Approved,
        Self::Denied,
        Self::InProgress,
        Self::Failed,
        Self::NotExecuted,
        Self::Reversed,
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::DryRun => "dry_run",
            Self::Failed => "failed",
            Self::InProgress => "in_progress",
            Self::NotExecuted => "not_executed",
            Self::PendingApproval => "pending_approval",
            Self::Refunded => "refunded",
            Self::Reversed => "reversed",
        }
    }

    /// One line for the manual.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Approved => "A person said yes; the refund was not made yet.",
            Self::Denied => {
                "Nothing was refunded: the policy or a person said no, nobody said yes in time, or \
                 the request was withdrawn. The reasons say which."
            }
            Self::DryRun => {
                "What would be decided: `decision` is `allow`, `pending_approval` or `denied`. \
                 Nothing was recorded or refunded."
            }
            Self::Failed => {
                "Stripe refused the refund after it was sent, or it was never found there."
            }
            Self::InProgress => "The refund may exist; it is being found out.",
            Self::NotExecuted => "Stripe certainly did nothing. Asked again, it is decided again.",
            Self::PendingApproval => "Nothing was refunded yet: a person has to decide.",
            Self::Refunded => "Stripe made the refund; `refund.status` is Stripe's word on it.",
            Self::Reversed => "Stripe made the refund, and later the money came back.",
        }
    }
}

/// What a state means to whoever asked for the refund.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Standing {
    /// The answer in one word.
    pub status: Status,
    /// The HTTP status of the answer to a request for a refund. Reads answer with 200 always.
    pub http_status: u16,
    /// When asking again makes sense.
    pub retry: Retry,
}

/// What `state` means to whoever asked. `resets` says whether a reason of the intent goes away with
/// time, which only matters to what is denied.
#[must_use]
pub const fn standing(state: State, resets: bool) -> Standing {
    let (status, http_status, retry) = match state {
        State::Settled => (Status::Refunded, 200, Retry::Never),
        State::PendingApproval | State::AwaitingStripe => {
            (Status::PendingApproval, 202, Retry::SameKey)
        }
        State::Approved => (Status::Approved, 200, Retry::SameKey),
        State::Denied | State::Expired | State::Canceled => {
            let retry = if resets { Retry::Later } else { Retry::Never };
            (Status::Denied, 200, retry)
        }
        // `asked` is never stored; it is told like what is not known yet.
        State::Submitted | State::Asked => (Status::InProgress, 202, Retry::SameKey),
        State::Failed => (Status::Failed, 200, Retry::Never),
        State::NotExecuted => (Status::NotExecuted, 200, Retry::SameKey),
        State::Reversed => (Status::Reversed, 200, Retry::Never),
    };
    Standing { status, http_status, retry }
}

/// Where a refund stands.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Intent")]
pub struct IntentView {
    /// The answer in one word.
    #[schemars(schema_with = "schema::status")]
    pub status: &'static str,
    /// The state in the record.
    #[schemars(schema_with = "schema::state")]
    pub state: &'static str,
    /// The id of this record.
    pub intent_id: String,
    /// The caller's key, or the one that was made for a request without.
    pub idempotency_key: String,
    /// Whether this is the answer to an earlier request, and nothing was decided anew.
    pub replayed: bool,
    /// Live money, or test mode.
    pub livemode: bool,
    /// The name of the agent that asked.
    pub agent: String,
    /// The charge.
    pub charge: String,
    /// Its payment intent, if there is one.
    #[schemars(schema_with = "schema::nullable_string")]
    pub payment_intent: Option<String>,
    /// What is refunded.
    pub amount: AmountView,
    /// The refund at Stripe, once there is one.
    pub refund: Option<RefundView>,
    /// False while the policy authority could not be told yet what Stripe did; it will be.
    pub reported: bool,
    /// Why it was denied or held, the hardest first.
    pub reasons: Vec<ReasonView>,
    /// The approval, where a person was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub approval_id: Option<String>,
    /// Whose approval is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::approver")]
    pub approver: Option<&'static str>,
    /// When the approval expires unless it is decided, or used, before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub expires_at: Option<String>,
    /// Where people decide it in Stripe's dashboard, when the approval is Stripe's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub dashboard_url: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::failure_code")]
    pub code: Option<&'static str>,
    /// What happened, where it failed or was not executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
    /// True when a person has to find out what became of it; else left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_person: bool,
    /// The version of the policy that decided it last.
    pub policy_version: u64,
    /// When it was first decided.
    #[schemars(schema_with = "schema::time")]
    pub created_at: String,
    /// When its record last changed.
    #[schemars(schema_with = "schema::time")]
    pub updated_at: String,
    /// When asking again makes sense.
    #[schemars(schema_with = "schema::retry")]
    pub retry: &'static str,
    /// What to do next.
    pub next: String,
    /// The HTTP status of the answer to a request for a refund.
    #[serde(skip)]
    pub http_status: u16,
}

impl IntentView {
    /// `intent` as it stands. `replayed` says whether it was there before the request that this
    /// answers; `reported` is false while the authority could not be told yet.
    #[must_use]
    pub fn new(intent: &Intent, replayed: bool, reported: bool) -> Self {
        let standing = standing(intent.state, resets_at(&intent.reasons).is_some());
        let person = PersonPart::of(intent);
        let failure = match intent.state {
            State::Failed | State::NotExecuted => intent.failure.as_ref(),
            State::Asked
            | State::PendingApproval
            | State::Approved
            | State::Submitted
            | State::AwaitingStripe
            | State::Settled
            | State::Reversed
            | State::Denied
            | State::Expired
            | State::Canceled => None,
        };
        Self {
            status: standing.status.as_str(),
            state: intent.state.as_str(),
            intent_id: intent.id.to_string(),
            idempotency_key: intent.key.to_string(),
            replayed,
            livemode: intent.livemode,
            agent: intent.agent_name.to_string(),
            charge: intent.charge.to_string(),
            payment_intent: intent.payment_intent.as_ref().map(ToString::to_string),
            amount: AmountView::new(intent.amount, intent.worth.as_ref()),
            refund: intent.refund.as_ref().map(RefundView::new),
            reported,
            reasons: told_reasons(intent).iter().map(ReasonView::new).collect(),
            approval_id: person.approval_id,
            approver: person.approver,
            expires_at: person.expires_at,
            dashboard_url: person.dashboard_url,
            code: failure.and_then(|failure| failure.code).map(|code| code.as_str()),
            message: failure.map(|failure| failure.message.clone()),
            needs_person: intent.needs_person,
            policy_version: intent.policy_version,
            created_at: rfc3339(intent.created_at),
            updated_at: rfc3339(intent.updated_at),
            retry: standing.retry.as_str(),
            next: next::of_intent(intent, replayed),
            http_status: standing.http_status,
        }
    }
}

/// The reasons that still hold: why a person was asked is past once the answer was yes. (The
/// approval keeps them.)
fn told_reasons(intent: &Intent) -> &[DecisionReason] {
    match intent.state {
        State::PendingApproval
        | State::AwaitingStripe
        | State::Denied
        | State::Expired
        | State::Canceled => &intent.reasons,
        State::Asked
        | State::Approved
        | State::Submitted
        | State::NotExecuted
        | State::Settled
        | State::Failed
        | State::Reversed => &[],
    }
}

/// What an answer tells of the human part.
#[derive(Default)]
struct PersonPart {
    approval_id: Option<String>,
    approver: Option<&'static str>,
    expires_at: Option<String>,
    dashboard_url: Option<String>,
}

impl PersonPart {
    fn of(intent: &Intent) -> Self {
        let approval = intent.approval.as_ref();
        match intent.state {
            State::PendingApproval => Self {
                approval_id: approval.map(|approval| approval.id.to_string()),
                approver: Some(approval.map_or(Approver::Authority, |a| a.approver).as_str()),
                expires_at: approval.map(|approval| rfc3339(approval.expires_at)),
                dashboard_url: None,
            },
            State::AwaitingStripe => {
                // An approval of our own that was used before is not the one that is waited for.
                let approval = approval.filter(|approval| approval.approver == Approver::Stripe);
                Self {
                    approval_id: approval.map(|approval| approval.id.to_string()),
                    approver: Some(Approver::Stripe.as_str()),
                    expires_at: approval.map(|approval| rfc3339(approval.expires_at)),
                    dashboard_url: approval
                        .and_then(|it| it.hold_url.as_ref())
                        .map(ToString::to_string),
                }
            }
            State::Approved => Self {
                approval_id: approval.map(|approval| approval.id.to_string()),
                approver: None,
                expires_at: approval.map(|approval| rfc3339(approval.expires_at)),
                dashboard_url: None,
            },
            // Names the decision that stands, so that nobody asks for another one.
            State::Denied | State::Expired | State::Canceled => Self {
                approval_id: approval.map(|approval| approval.id.to_string()),
                ..Self::default()
            },
            State::Asked
            | State::Submitted
            | State::NotExecuted
            | State::Settled
            | State::Failed
            | State::Reversed => Self::default(),
        }
    }
}

/// When every reason that goes away with time has gone; none when no reason does.
pub(crate) fn resets_at(reasons: &[DecisionReason]) -> Option<Timestamp> {
    reasons.iter().filter_map(|reason| reason.resets_at).max()
}

/// A refund at Stripe.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Refund")]
pub struct RefundView {
    /// Its id.
    pub id: String,
    /// Stripe's status of it.
    pub status: String,
}

impl RefundView {
    fn new(refund: &Refund) -> Self {
        Self { id: refund.id.to_string(), status: refund.status.as_str().to_owned() }
    }
}

/// Why a refund was denied or held.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Reason")]
pub struct ReasonView {
    /// The stable code.
    #[schemars(schema_with = "schema::reason_code")]
    pub code: &'static str,
    /// What happened and what to do.
    pub message: String,
    /// The id of the policy's rule that speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub rule: Option<String>,
    /// The limit that was met: US dollars or, of `rate_count`, how many refunds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub limit: Option<String>,
    /// What was left of it before this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub left: Option<String>,
    /// When the limit starts anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub resets_at: Option<String>,
    /// The fact that the rule looks at and nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub unknown_fact: Option<String>,
}

impl ReasonView {
    /// `reason` for the wire.
    #[must_use]
    pub fn new(reason: &DecisionReason) -> Self {
        let count = reason.count_limit.map(|count| count.to_string());
        let none_left = reason.count_limit.map(|_| "0".to_owned());
        Self {
            code: reason.code.as_str(),
            message: reason.message.clone(),
            rule: reason.rule.clone(),
            limit: reason.limit.map(dollars).or(count),
            left: reason.left.map(dollars).or(none_left),
            resets_at: reason.resets_at.map(rfc3339),
            unknown_fact: reason.unknown_fact.clone(),
        }
    }
}

/// What would be decided now. Nothing was recorded and nothing refunded.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DryRun")]
pub struct DryRunView {
    /// Always `dry_run`.
    #[schemars(schema_with = "schema::dry_run")]
    pub status: &'static str,
    /// What would be decided.
    #[schemars(schema_with = "schema::decision")]
    pub decision: &'static str,
    /// Live money, or test mode.
    pub livemode: bool,
    /// The charge.
    pub charge: String,
    /// Its payment intent, if there is one.
    #[schemars(schema_with = "schema::nullable_string")]
    pub payment_intent: Option<String>,
    /// What would be refunded.
    pub amount: AmountView,
    /// Why it would be denied or held, the hardest first.
    pub reasons: Vec<ReasonView>,
    /// The version of the policy.
    pub policy_version: u64,
    /// What to do next.
    pub next: &'static str,
}

impl DryRunView {
    /// `preview` for the wire.
    #[must_use]
    pub fn new(preview: &Preview) -> Self {
        let charge = &preview.charge;
        Self {
            status: Status::DryRun.as_str(),
            decision: match preview.decision {
                Decision::Allow => "allow",
                Decision::Deny => "denied",
                Decision::RequireApproval => "pending_approval",
            },
            livemode: charge.channel.livemode,
            charge: charge.id.to_string(),
            payment_intent: charge.payment_intent.as_ref().map(ToString::to_string),
            amount: AmountView::new(preview.amount, preview.worth.as_ref()),
            reasons: preview.reasons.iter().map(ReasonView::new).collect(),
            policy_version: preview.policy_version,
            next: next::of_dry_run(preview.decision),
        }
    }
}

/// The answer to a request for a refund.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
#[schemars(rename = "Answer", extend("type" = "object"))]
pub enum AnswerView {
    /// What would be decided.
    DryRun(DryRunView),
    /// Where the refund stands.
    Intent(Box<IntentView>),
}

impl AnswerView {
    /// `answer` for the wire.
    #[must_use]
    pub fn new(answer: &Answer) -> Self {
        match answer {
            Answer::DryRun(preview) => Self::DryRun(DryRunView::new(preview)),
            Answer::Intent { intent, replayed, reported } => {
                Self::Intent(Box::new(IntentView::new(intent, *replayed, *reported)))
            }
        }
    }

    /// The HTTP status of the answer.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        match self {
            Self::DryRun(_) => 200,
            Self::Intent(view) => view.http_status,
        }
    }
}

#[cfg(test)]
mod tests;
