//! The ports: what the core needs of the world, as small traits named after roles.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use gate_money::MicroUsd;

use crate::ask::{Ask, Justification, Target};
use crate::charge::{Channel, Charge};
use crate::codes::{FailureCode, GatewayFault, ReasonCode};
use crate::error::ActionError;
use crate::ids::{
    AgentId, AgentKey, AgentName, ApprovalId, AttemptId, ChargeId, HoldId, HoldUrl, IdempotencyKey,
    IntentId, KeyMark, RefundId,
};
use crate::intent::{DecisionReason, Intent, ListedRefund, Refund, Valuation};
use crate::permit::{Claim, Lease, Ticket};
use crate::source::Source;
use crate::state::{Event, State};
use crate::time::{Deadline, Timestamp};

/// What surfaces call: one refund, from asking to answering. Implemented by
/// [`Refunds`](crate::Refunds), and wrapped by whoever detaches money work from requests.
#[async_trait]
pub trait Actions: Send + Sync {
    /// Asks for a refund.
    ///
    /// # Errors
    ///
    /// [`ActionError`] when the request did not come to an answer; nothing was refunded by it.
    async fn refund(&self, key: &AgentKey, ask: Ask) -> Result<Answer, ActionError>;

    /// `ask` with the amount that `major` whole units of the payment's currency are, such as `20.5`
    /// of a payment in EUR; its `wanted` does not count. Asks for nothing yet. What was asked before
    /// is recognised without the processor.
    ///
    /// # Errors
    ///
    /// [`ActionError`]: [`InvalidAmount`](ActionError::InvalidAmount) with the nearest amounts when
    /// the currency has no such amount, or what [`refund`](Self::refund) would answer.
    async fn in_minor_units(
        &self,
        key: &AgentKey,
        ask: Ask,
        major: &str,
    ) -> Result<Ask, ActionError>;
}

/// How a request for a refund was answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Only what would have been decided; nothing was recorded.
    DryRun(Box<Preview>),
    /// The intent.
    Intent {
        /// As recorded, or as it will be once `reported`.
        intent: Box<Intent>,
        /// Whether it was there before this request.
        replayed: bool,
        /// False while the authority could not be told what Stripe did; it will be.
        reported: bool,
    },
}

/// Who makes refunds: Stripe, or what stands in for it.
#[async_trait]
pub trait Processor: Send + Sync {
    /// How charges are read and refunds are sent: account, mode, version.
    ///
    /// # Errors
    ///
    /// [`ReadError::KeyMissing`] or [`ReadError::KeyRefused`] when there is no usable key.
    async fn channel(&self) -> Result<Channel, ReadError>;

    /// Reads the charge that `target` means.
    ///
    /// # Errors
    ///
    /// [`ReadError`]; nothing was changed.
    async fn charge(&self, target: &Target, by: Deadline) -> Result<Charge, ReadError>;

    /// One attempt to make the ticket's refund; the same bytes and the same idempotency key each
    /// time.
    ///
    /// # Errors
    ///
    /// [`SendError::Refused`] only when the processor answered that nothing moved. Every doubt,
    /// such as a timeout or an unreadable answer, is [`SendError::Unknown`].
    async fn refund(&self, ticket: &Ticket, by: Deadline) -> Result<Refund, SendError>;

    /// Every refund of a charge, from all pages, or an error; never a part of them.
    ///
    /// # Errors
    ///
    /// [`ReadError`]; a charge that is not found is an error, not an empty list.
    async fn refunds_of(
        &self,
        charge: &ChargeId,
        by: Deadline,
    ) -> Result<Vec<ListedRefund>, ReadError>;

    /// How an approval of the processor's own stands. A processor that never answers with
    /// [`SendError::Held`] has none.
    ///
    /// # Errors
    ///
    /// [`ReadError`]; then nothing is known of it, and the refund is still looked for.
    async fn hold(&self, id: &HoldId, by: Deadline) -> Result<HoldSeen, ReadError> {
        let _ = (id, by);
        Err(ReadError::Unreadable)
    }

    /// Tells those who decide there what the agent said. Once, and whether it arrives decides
    /// nothing: whoever implements it logs what went wrong.
    async fn justify(&self, id: &HoldId, words: &str, by: Deadline) {
        let _ = (id, words, by);
    }
}

/// What kept a processor from telling facts. Nothing was changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReadError {
    /// The key is missing.
    KeyMissing,
    /// The object is of the other mode than the key.
    LivemodeMismatch,
    /// The key is refused: revoked, expired, or not one at all.
    KeyRefused,
    /// There is no such object in this account and mode.
    NotFound {
        /// Whether live money was looked through.
        livemode: bool,
        /// The connected account that was looked through.
        account: Option<String>,
    },
    /// The payment never succeeded, so that there is no charge.
    NotPaid,
    /// The payment is still being processed.
    NotReady,
    /// The key may not read this.
    Permission {
        /// The permission that is missing, in the dashboard's words.
        permission: String,
    },
    /// The processor asks for patience, or could not be reached.
    Unavailable {
        /// How long it asks for, if it says.
        after: Option<Duration>,
    },
    /// The answer could not be read.
    Unreadable,
}

/// What an attempt to make a refund came to, if not to a refund.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SendError {
    /// The processor holds the refund for an approval of its own, and will make it itself.
    Held(Hold),
    /// No byte left this process.
    NotSent(Doubt),
    /// The processor stopped the attempt before it began: nothing happened in *this* attempt.
    NotStored(Doubt),
    /// The processor answered that nothing moved, and never will under this key.
    Refused(Refusal),
    /// Anything may have happened.
    Unknown(Doubt),
}

/// What is known of an attempt that was not answered clearly.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Doubt {
    /// What was seen, one sentence, fit for the agent.
    pub message: String,
    /// How long to wait before another attempt, if the processor says.
    pub after: Option<Duration>,
    /// Whether the processor says that another attempt is pointless.
    pub give_up: bool,
}

/// A refusal after submission.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The stable code.
    pub code: FailureCode,
    /// What the processor said, fit for the agent.
    pub message: String,
}

/// A refund that the processor holds for an approval of its own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hold {
    /// The processor's id of the approval, if it gave one.
    pub id: Option<HoldId>,
    /// Where people decide it, if the processor says.
    pub url: Option<HoldUrl>,
    /// When the processor lets it expire, if it says.
    pub expires_at: Option<Timestamp>,
    /// The key whose refund it holds, where keys are told apart: it is agent-tagged.
    pub key: Option<KeyMark>,
}

/// An approval of the processor's own, as it was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HoldSeen {
    /// What it says of itself.
    pub hold: Hold,
    /// Where it stands.
    pub standing: HoldStanding,
}

/// Where an approval of the processor's own stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HoldStanding {
    /// The refund was made, and is this one where it says.
    Made(Option<RefundId>),
    /// It is waited for, or being carried out, or in a status that nobody knows.
    Open,
    /// It ended, and no refund came of it.
    Over(Refusal),
}

/// What became of a submitted intent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The processor holds it, or still does.
    Held(Hold),
    /// A refund was come across whose metadata names the intent. Metadata is anybody's who may write
    /// at the processor: it is the intent's own only if it is of its charge and amount.
    Named {
        /// The charge that it refunds.
        charge: ChargeId,
        /// Its amount in the charge's minor units.
        minor: i64,
        /// The refund, whatever its status.
        refund: Refund,
    },
    /// Every attempt was stopped before it began.
    NotExecuted(String),
    /// Too old to be sent again, and not found: a person has to find out.
    NeedsPerson,
    /// The processor refused, and a listing shows no refund.
    Refused(Refusal),
    /// The intent's own refund was seen, whatever its status.
    Seen(Refund),
}

impl Outcome {
    /// What happens to the intent; none when only an alarm is raised.
    #[must_use]
    pub const fn event(&self) -> Option<Event> {
        match self {
            Self::Held(_) => Some(Event::Await),
            Self::NotExecuted(_) => Some(Event::NotExecute),
            Self::NeedsPerson => None,
            Self::Refused(_) => Some(Event::Fail),
            Self::Named { refund, .. } | Self::Seen(refund) if refund.status.came_back() => {
                Some(Event::Fail)
            }
            Self::Named { .. } | Self::Seen(_) => Some(Event::Settle),
        }
    }
}

/// Who decides and records. The only durable thing that the core knows. Repeating a call is
/// harmless; what a call changed is durable when it returns `Ok`.
#[async_trait]
pub trait Authority: Send + Sync {
    /// Who holds this key.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Unauthenticated`] for unknown, revoked and expired keys alike.
    async fn agent(&self, key: &AgentKey) -> Result<Agent, AuthorityError>;

    /// What was asked before under the same key, or, without one, the newest key-less intent of
    /// the same payment and amount that is not final or settled within 24 hours. Reads only.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Asked`] when the key was used with other arguments.
    async fn find(&self, key: &AgentKey, ask: &Ask) -> Result<Option<Intent>, AuthorityError>;

    /// Decides, reserves and records in one transaction. The same `attempt` asked again gets the
    /// same intent and the same lease. An intent that was recorded meanwhile is answered instead,
    /// without a lease.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`]; then nothing was decided for this call, or its answer was lost.
    async fn decide(
        &self,
        key: &AgentKey,
        ask: &Ask,
        seen: &Charge,
        attempt: &AttemptId,
    ) -> Result<Decided, AuthorityError>;

    /// What [`Authority::decide`] would say now. Records nothing.
    ///
    /// # Errors
    ///
    /// As for [`Authority::decide`].
    async fn preview(
        &self,
        key: &AgentKey,
        ask: &Ask,
        seen: &Charge,
    ) -> Result<Preview, AuthorityError>;

    /// Checks an approved, claimed intent against everything but the person again, with fresh
    /// facts, and submits or denies it in the same transaction. Under a stop it stays approved.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Stale`] when the claim's lease was given to somebody else.
    async fn execute(&self, claim: &Claim, seen: &Charge) -> Result<Decided, AuthorityError>;

    /// Takes leases on work that nobody holds, at most `limit` intents, oldest first.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`]; no lease was given.
    async fn claim(&self, work: Work, limit: u16) -> Result<Vec<Claim>, AuthorityError>;

    /// Records what became of a submitted intent. A refund that was seen is taken from anybody;
    /// other news only under the current fence.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Stale`] when the news come under an older fence.
    async fn record(
        &self,
        id: &IntentId,
        fence: u64,
        news: &Outcome,
    ) -> Result<Intent, AuthorityError>;

    /// Keeps another justification for the reviewers of a pending intent; decides nothing. Past
    /// five, and one that is there already, are left out.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Asked`] when the intent is not this agent's.
    async fn justify(
        &self,
        key: &AgentKey,
        id: &IntentId,
        words: &Justification,
    ) -> Result<Intent, AuthorityError>;
}

/// The agent's own records: what it may read and withdraw.
#[async_trait]
pub trait Records: Send + Sync {
    /// An intent; waits up to `wait` for its state to change first, if that is not zero.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Asked`] with [`ActionError::IntentNotFound`] unless it is this agent's.
    async fn intent(
        &self,
        key: &AgentKey,
        id: &IntentId,
        wait: Duration,
    ) -> Result<Intent, AuthorityError>;

    /// The agent's intents, newest first.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`].
    async fn intents(&self, key: &AgentKey, filter: &IntentFilter) -> Result<Page, AuthorityError>;

    /// The intent of an approval; waits up to `wait` for its state to change first.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Asked`] with [`ActionError::ApprovalNotFound`] unless it is this agent's.
    async fn approval(
        &self,
        key: &AgentKey,
        id: &ApprovalId,
        wait: Duration,
    ) -> Result<Intent, AuthorityError>;

    /// Withdraws what is pending or approved.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Asked`] with [`ActionError::NotCancelable`] in any other state.
    async fn cancel(&self, key: &AgentKey, id: &IntentId) -> Result<Intent, AuthorityError>;

    /// What the agent may still spend.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`].
    async fn budget(&self, key: &AgentKey) -> Result<Budget, AuthorityError>;
}

/// What is noted beside intents, so that it is acted upon once.
#[async_trait]
pub trait Notes: Send + Sync {
    /// Notes that an event of the processor's is taken up; answers whether it is new. Of the same
    /// event, only one caller is ever told so, however many ask at once.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`]; it is not known then whether it was noted.
    async fn note_event(&self, id: &str) -> Result<bool, AuthorityError>;
}

/// An agent, as its key says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// Its name in the policy.
    pub name: AgentName,
    /// From where alone its keys are taken; from everywhere, when there is none. Whoever sees the
    /// caller's address asks [`Agent::may_call_from`].
    pub sources: Vec<Source>,
}

impl Agent {
    /// Whether its keys are taken from `address`.
    #[must_use]
    pub fn may_call_from(&self, address: IpAddr) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|source| source.contains(address))
    }
}

/// A decision, recorded.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The intent as it now stands.
    pub intent: Intent,
    /// Whose turn it is to pay: the caller's, where there is a lease.
    pub lease: Option<Lease>,
    /// Whether the intent was there before.
    pub replayed: bool,
}

/// What would be decided.
#[derive(Clone, Debug)]
pub struct Preview {
    /// Allow, ask or deny.
    pub decision: Decision,
    /// Why, the hardest first.
    pub reasons: Vec<DecisionReason>,
    /// The charge that was read.
    pub charge: Charge,
    /// What would be refunded.
    pub amount: gate_money::Amount,
    /// What it would count for the caps.
    pub worth: Option<Valuation>,
    /// The version of the policy.
    pub policy_version: u64,
}

/// What a policy says of a request. Deny is also what comes of everything that cannot be decided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decision {
    /// Pay.
    Allow,
    /// Do not.
    Deny,
    /// Let a person decide.
    RequireApproval,
}

/// Which work a worker asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Work {
    /// Approved intents that the gateway executes.
    Approved,
    /// Intents that wait for an approval of Stripe's own and are to be looked at; given a request,
    /// the one that waits for it, due or not, and any whose request is not known.
    AwaitingStripe(Option<HoldId>),
    /// What this call decided, if it did and nobody took it over: its answer never came, and the
    /// caller sent nothing. A lease that is still held does not stand in the way: it is the call's.
    GivenUp(AttemptId),
    /// This intent, if it is approved or submitted.
    One(IntentId),
    /// Settled intents whose refund is to be looked at again.
    Settled,
    /// Submitted intents whose lease has ended.
    Submitted,
}

/// Which of its intents an agent wants to see.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct IntentFilter {
    /// Only the holder of this key, and those it was taken over from.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Only in this state.
    pub state: Option<State>,
    /// At most so many, 1 to 100.
    pub limit: u16,
    /// Only older than this one.
    pub before: Option<IntentId>,
}

/// Intents, newest first.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// At most as many as were asked for.
    pub intents: Vec<Intent>,
    /// Whether older ones exist.
    pub more: bool,
}

/// What an agent may still spend.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Budget {
    /// The stop in force, if there is one.
    pub stopped: Option<ReasonCode>,
    /// Most that one refund may be worth.
    pub max_per_payment: Option<MicroUsd>,
    /// From where on a person decides.
    pub approval_threshold: Option<MicroUsd>,
    /// The caps that count over time.
    pub windows: Vec<BudgetWindow>,
}

/// One cap and what is left of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BudgetWindow {
    /// The code that a denial by this cap has.
    pub code: ReasonCode,
    /// The cap.
    pub limit: MicroUsd,
    /// What is spent of it.
    pub spent: MicroUsd,
    /// When it starts anew.
    pub resets_at: Timestamp,
}

/// What kept the authority from doing what it was asked.
#[derive(Debug)]
pub enum AuthorityError {
    /// The request itself was at fault.
    Asked(ActionError),
    /// Something is broken that asking again will not mend. The detail is for the log.
    Broken(String),
    /// The authority does not take this gateway's call; nothing was done for it.
    Gateway(GatewayFault),
    /// The news, or the claim, come under a lease that somebody else holds by now.
    Stale,
    /// Its store could not be used, or the fate of a commit is not known: nothing may be assumed.
    /// The detail is for the log.
    StoreUnavailable(String),
    /// Nobody's key, or no longer.
    Unauthenticated,
    /// It could not be asked, or its answer was lost. The detail is for the log.
    Unavailable(String),
}

impl fmt::Display for AuthorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked(error) => error.fmt(f),
            Self::Broken(detail) => write!(f, "the authority is broken: {detail}"),
            Self::Gateway(fault) => {
                write!(f, "the authority refuses this gateway: {}", fault.as_str())
            }
            Self::Stale => f.write_str("somebody else holds the lease by now"),
            Self::StoreUnavailable(detail) => write!(f, "the store cannot be used: {detail}"),
            Self::Unauthenticated => f.write_str("unknown key"),
            Self::Unavailable(detail) => write!(f, "the authority is unavailable: {detail}"),
        }
    }
}

impl std::error::Error for AuthorityError {}

impl From<AuthorityError> for ActionError {
    fn from(error: AuthorityError) -> Self {
        match error {
            AuthorityError::Asked(error) => error,
            AuthorityError::Broken(detail) => Self::AuthorityError { detail },
            AuthorityError::Gateway(_) => Self::AuthorityError { detail: error.to_string() },
            AuthorityError::Stale => Self::AuthorityError { detail: "stale lease".to_owned() },
            AuthorityError::StoreUnavailable(_) => Self::StoreUnavailable,
            AuthorityError::Unauthenticated => Self::Unauthenticated,
            AuthorityError::Unavailable(_) => Self::AuthorityUnavailable,
        }
    }
}

impl From<ReadError> for ActionError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::KeyMissing => Self::StripeKeyMissing,
            ReadError::KeyRefused => Self::StripePermission {
                permission: "to be used at all: Stripe refuses the key; replace it".to_owned(),
            },
            ReadError::LivemodeMismatch => Self::LivemodeMismatch,
            ReadError::NotFound { livemode, account } => Self::ChargeNotFound { livemode, account },
            ReadError::NotPaid => Self::ChargeNotPaid,
            ReadError::NotReady => Self::ChargeNotReady,
            ReadError::Permission { permission } => Self::StripePermission { permission },
            ReadError::Unavailable { .. } => Self::StripeUnavailable,
            ReadError::Unreadable => Self::StripeError { detail: "the answer could not be read" },
        }
    }
}
