//! One request for one refund, as it is recorded, and what asking for it again means.

use gate_money::{Amount, MicroUsd, Rate};

use crate::ask::{Ask, RefundReason, Tool, Wanted};
use crate::bugs::{self, Bug};
use crate::charge::Charge;
use crate::codes::{FailureCode, ReasonCode};
use crate::error::ActionError;
use crate::ids::{
    AccountId, AgentId, AgentName, ApprovalId, AttemptId, ChargeId, HoldId, HoldUrl,
    IdempotencyKey, IntentId, PaymentIntentId, RefundId, TeamName, UserName,
};
use crate::request::FixedRequest;
use crate::state::State;
use crate::time::Timestamp;

/// The record of one request. Unique by agent and key among those that hold their key.
#[derive(Clone, Debug)]
pub struct Intent {
    /// Its id; `bb_` and this id is the idempotency key at Stripe.
    pub id: IntentId,
    /// Who asked.
    pub agent: AgentId,
    /// Under which name.
    pub agent_name: AgentName,
    /// The team that the policy had the agent in when it was last decided.
    pub team: Option<TeamName>,
    /// Which tool it was asked through; a new decision keeps to it.
    pub tool: Tool,
    /// The agent's key, or the one made for a request without.
    pub key: IdempotencyKey,
    /// Whether the agent gave no key.
    pub keyless: bool,
    /// The amount as asked.
    pub wanted: Wanted,
    /// Stripe's reason as asked.
    pub reason: Option<RefundReason>,
    /// The charge, as Stripe named it.
    pub charge: ChargeId,
    /// Its payment intent, as Stripe named it.
    pub payment_intent: Option<PaymentIntentId>,
    /// The charge as it was read for the last decision: what that decision went by.
    pub seen: Option<Box<Charge>>,
    /// The amount, fixed when first decided.
    pub amount: Amount,
    /// What it counts for the caps; none where no exchange rate covers the currency.
    pub worth: Option<Valuation>,
    /// Live money, or test mode.
    pub livemode: bool,
    /// The connected account, where one was set.
    pub account: Option<AccountId>,
    /// Where it stands.
    pub state: State,
    /// Who denied it, when it is denied.
    pub denied_by: Option<Denier>,
    /// Why it was denied or held, the hardest first; or what would have held it, had the policy not
    /// left that to Stripe's own approval.
    pub reasons: Vec<DecisionReason>,
    /// The version of the policy that decided it last.
    pub policy_version: u64,
    /// The human part, once there is one.
    pub approval: Option<Approval>,
    /// The refund, once one was seen at Stripe.
    pub refund: Option<Refund>,
    /// Why it failed, or was not executed.
    pub failure: Option<Failure>,
    /// Whether a person has to find out what became of it.
    pub needs_person: bool,
    /// What is sent to Stripe; fixed when first submitted.
    pub request: Option<FixedRequest>,
    /// When it was last submitted; what may have been sent, was sent after it.
    pub submitted_at: Option<Timestamp>,
    /// The call that decided it last.
    pub attempt: AttemptId,
    /// Number of the lease that was given out last; older holders' news are stale.
    pub fence: u64,
    /// Until when that lease holds; none when nobody holds one.
    pub lease_until: Option<Timestamp>,
    /// When it was first decided.
    pub created_at: Timestamp,
    /// When its record last changed.
    pub updated_at: Timestamp,
    /// When its refund was first recorded as made.
    pub settled_at: Option<Timestamp>,
    /// When its refund is next looked at: one that was made can still fail, weeks later; one that
    /// Stripe holds may be made any time.
    pub follow_at: Option<Timestamp>,
}

/// What an amount counts for the caps, with the rate that an auditor can recompute it from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Valuation {
    /// Millionths of a US dollar, rounded up once.
    pub usd: MicroUsd,
    /// The published figures.
    pub rate: Rate,
    /// The day they were published for, `2026-10-30`; none for dollars and pins.
    pub date: Option<String>,
}

/// Who said no.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Denier {
    /// A reviewer.
    Person,
    /// The policy.
    Policy,
    /// A reviewer, and another let it be asked again: then it is decided anew.
    Reopened,
}

/// One reason of a decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DecisionReason {
    /// The stable code.
    pub code: ReasonCode,
    /// What happened and what to do, one sentence.
    pub message: String,
    /// The limit that was met, if it is one of dollars.
    pub limit: Option<MicroUsd>,
    /// What was left of it before this request.
    pub left: Option<MicroUsd>,
    /// The limit that was met, if it is one of how many refunds there may be; nothing is left of it.
    pub count_limit: Option<u32>,
    /// When it starts anew.
    pub resets_at: Option<Timestamp>,
    /// The id of the policy's rule, where one speaks.
    pub rule: Option<String>,
    /// The fact that the rule met and nobody knows, by its name.
    pub unknown_fact: Option<String>,
    /// Whose approval this reason takes; for reasons that ask.
    pub requires: Option<Requirement>,
}

/// Whose approval one reason takes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Requirement {
    /// Roles of which an approver needs one; none: anybody who may approve.
    pub roles: Vec<String>,
    /// How many different people; at least 1.
    pub people: u16,
}

impl Requirement {
    /// One person, of whatever role.
    pub const ANYBODY: Self = Self { roles: Vec::new(), people: 1 };

    /// How many more people have to approve after `votes`. Everybody counts once.
    #[must_use]
    pub fn missing(&self, votes: &[Vote]) -> u16 {
        let mut people: Vec<_> = votes
            .iter()
            .filter(|vote| {
                self.roles.is_empty()
                    || self.roles.iter().any(|r| vote.roles.contains(r))
                    || bugs::on(Bug::RoleNotAsked)
            })
            .map(|vote| &vote.by)
            .collect();
        people.sort();
        if !bugs::on(Bug::VoteCountsTwice) {
            people.dedup();
        }
        self.people.saturating_sub(u16::try_from(people.len()).unwrap_or(u16::MAX))
    }
}

/// One person's approval. (A denial ends the request at once.)
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Vote {
    /// Who.
    pub by: UserName,
    /// The roles they held then.
    pub roles: Vec<String>,
    /// When.
    pub at: Timestamp,
    /// What they noted.
    pub note: Option<String>,
}

impl DecisionReason {
    /// Whether this asks a person, rather than deny.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.requires.is_some() || self.code == ReasonCode::StripeApproval
    }

    /// A reason without a figure.
    #[must_use]
    pub const fn plain(code: ReasonCode, message: String) -> Self {
        Self {
            code,
            message,
            limit: None,
            left: None,
            count_limit: None,
            resets_at: None,
            rule: None,
            unknown_fact: None,
            requires: None,
        }
    }
}

/// The human part of an intent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// Where it stands.
    pub state: ApprovalState,
    /// Whose approval it is.
    pub approver: Approver,
    /// When it expires unless it is decided, or used, before.
    pub expires_at: Timestamp,
    /// What exactly is asked for: SHA-256 in hex over intent, charge, amount, currency, agent and
    /// reasons. Empty for Stripe's own approvals.
    pub digest: String,
    /// Who said yes so far, oldest first.
    pub votes: Vec<Vote>,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
    /// Who decided it.
    pub decided_by: Option<UserName>,
    /// The reviewer's note.
    pub note: Option<String>,
    /// What the agent said, untrusted, oldest first; five at most.
    pub justifications: Vec<String>,
    /// Who goes on after a yes.
    pub on_approval: OnApproval,
    /// Stripe's id of the request, of an approval of Stripe's own; none where it gave none.
    pub hold_id: Option<HoldId>,
    /// Where people find that request in Stripe's dashboard, if Stripe says.
    pub hold_url: Option<HoldUrl>,
}

impl Approval {
    /// Most justifications that are kept of one request.
    pub const JUSTIFICATIONS_MAX: usize = 5;
}

/// Where an approval stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ApprovalState {
    /// Nobody decided yet.
    Pending,
    /// A person said yes.
    Approved,
    /// A person said no.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// The request was withdrawn.
    Canceled,
}

impl ApprovalState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Approved, Self::Denied, Self::Expired, Self::Canceled];

    /// The name on the wire and in the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
        }
    }

    /// The state of that name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// Whose approval is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Approver {
    /// Our reviewers'.
    Authority,
    /// Stripe's own.
    Stripe,
}

impl Approver {
    /// The name on the wire and in the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authority => "authority",
            Self::Stripe => "stripe",
        }
    }

    /// The approver of that name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Authority, Self::Stripe].into_iter().find(|approver| approver.as_str() == text)
    }
}

/// What follows an approval.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnApproval {
    /// The gateway makes the refund at once.
    Execute,
    /// The refund is made when the agent asks again.
    Agent,
}

/// A refund as seen at Stripe.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refund {
    /// Its id.
    pub id: RefundId,
    /// Stripe's status of it.
    pub status: RefundStatus,
    /// The intent in its metadata, if it is one of ours.
    pub intent: Option<IntentId>,
}

/// A refund as a listing of its charge shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListedRefund {
    /// The refund.
    pub refund: Refund,
    /// Its amount in the charge's minor units.
    pub minor: i64,
    /// When Stripe made it.
    pub created_at: Timestamp,
    /// Head of the audit chain that its metadata carries, in hex.
    pub audit_head: Option<String>,
}

/// Stripe's status of a refund.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RefundStatus {
    /// It was canceled; no money moved.
    Canceled,
    /// It failed; the money came back.
    Failed,
    /// On its way, waiting, or a status that this version does not know.
    Open(String),
    /// Made.
    Succeeded,
}

impl RefundStatus {
    /// Takes Stripe's word; what is not known counts as open and is followed.
    #[must_use]
    pub fn from_stripe(status: &str) -> Self {
        match status {
            "canceled" => Self::Canceled,
            "failed" => Self::Failed,
            "succeeded" => Self::Succeeded,
            other => Self::Open(other.to_owned()),
        }
    }

    /// Whether the money did not go, or came back.
    #[must_use]
    pub const fn came_back(&self) -> bool {
        match self {
            Self::Canceled | Self::Failed => true,
            Self::Open(_) | Self::Succeeded => false,
        }
    }

    /// Stripe's word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Canceled => "canceled",
            Self::Failed => "failed",
            Self::Open(status) => status,
            Self::Succeeded => "succeeded",
        }
    }
}

/// Why a submitted refund did not come to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// The stable code of a failure; none while Stripe certainly did nothing and may be asked again.
    pub code: Option<FailureCode>,
    /// What happened, one sentence, fit for the agent.
    pub message: String,
}

/// What asking again for an existing intent, with the same arguments, means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Again {
    /// It is decided again from the start; a new intent takes over the key.
    DecideAnew,
    /// It is decided again in the same intent, under the same key at Stripe.
    DecideAgain,
    /// An approval waits to be used.
    Execute,
    /// The answer stands.
    SameAnswer,
    /// A call is under way.
    Wait,
}

impl Intent {
    /// What asking for this again means: the table of the manual, "Asking again".
    #[must_use]
    pub const fn again(&self) -> Again {
        match self.state {
            State::Settled
            | State::Failed
            | State::Reversed
            | State::Expired
            | State::Canceled
            | State::PendingApproval
            | State::AwaitingStripe => Again::SameAnswer,
            State::Submitted => Again::Wait,
            State::Approved => Again::Execute,
            State::NotExecuted | State::Asked => Again::DecideAgain,
            State::Denied => match self.denied_by {
                Some(Denier::Person) => Again::SameAnswer,
                Some(Denier::Policy | Denier::Reopened) | None => Again::DecideAnew,
            },
        }
    }

    /// Holds `ask` against what was asked under the same key, as arguments take effect: the same
    /// payment, the same amount (or both in full), the same reason. Free text never counts.
    ///
    /// # Errors
    ///
    /// [`ActionError::IdempotencyKeyReused`] naming the first argument that differs, or
    /// [`ActionError::CurrencyMismatch`] when the caller believes in another currency.
    pub fn same_as(&self, ask: &Ask) -> Result<(), ActionError> {
        let argument = if !ask.target.names(&self.charge, self.payment_intent.as_ref()) {
            "target"
        } else if ask.wanted != self.wanted {
            "amountMinor"
        } else if ask.reason != self.reason {
            "reason"
        } else {
            let charged = self.amount.currency();
            return match ask.believed_currency {
                Some(believed) if believed != charged => {
                    Err(ActionError::CurrencyMismatch { believed, charged })
                }
                Some(_) | None => Ok(()),
            };
        };
        Err(ActionError::IdempotencyKeyReused { argument, intent: self.id.clone() })
    }

    /// Whether a request without a key is this one: made without a key, of the same payment and
    /// amount. The reason is left out: a model that retries may word it otherwise.
    #[must_use]
    pub fn matches_keyless(&self, ask: &Ask) -> bool {
        self.keyless
            && ask.target.names(&self.charge, self.payment_intent.as_ref())
            && ask.wanted == self.wanted
    }
}
