//! The Store port: what a transaction reads, what it may write, and who decides in between.

mod records;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gate_core::{
    AccountId, AgentId, Approval, ApprovalId, AttemptId, CustomerId, GatewayId, HoldId,
    IdempotencyKey, Intent, IntentId, KeyMark, State, Target, Timestamp, UserName, Wanted,
};
use gate_money::{MicroUsd, RateTable};

use crate::audit::{AuditEntry, AuditField, AuditRange, AuditRow, Head};
use crate::changes::Changes;

pub use records::{
    AgentRow, Books, GatewayKeyRow, GatewayRow, KeyHash, KeyRow, PolicyRow, Reservation, Scope,
    SpendWindow, Spent, StopRow, UserRow, WebhookRow,
};

/// Where everything durable lies.
#[async_trait]
pub trait Store: Send + Sync {
    /// The one clock by which decisions are made: the database's own, where it has one.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    async fn now(&self) -> Result<Timestamp, StoreError>;

    /// One serialisable transaction: reads `reads`, has `judge` look, and makes its writes, all or
    /// none; they are durable when this returns `Ok`. No writes: nothing is committed. The judge
    /// may be asked several times; only what it said last counts.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] also when it is not known whether the writes were committed.
    async fn transact(&self, reads: Reads, judge: Arc<dyn Judge>) -> Result<(), StoreError>;

    /// Reads without writing, from one consistent state, no older than what this process wrote.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    async fn read(&self, reads: Reads) -> Result<Snapshot, StoreError>;

    /// Tells when anything was committed, by whichever process.
    fn changes(&self) -> Changes;

    /// How many transactions this process made durable.
    fn commits(&self) -> u64;

    /// What keeps it from taking new refunds although it can be read; `None` when nothing does.
    fn complaint(&self) -> Option<String> {
        None
    }
}

/// Decides what a transaction writes. A function of the time and what was read, nothing else.
pub trait Judge: Send + Sync {
    /// The writes, in the order in which they are made.
    fn judge(&self, now: Timestamp, seen: &Snapshot) -> Vec<Write>;
}

/// What a transaction reads.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// One agent.
    pub agent: Option<AgentBy>,
    /// All agents, by name.
    pub agents: bool,
    /// One intent.
    pub intent: Option<IntentBy>,
    /// What the agent that is read asked before.
    pub prior: Option<Prior>,
    /// What a person refused the agent that is read, a little while ago.
    pub refused: Option<Refused>,
    /// A list of intents, newest first.
    pub intents: Option<IntentQuery>,
    /// Work that is due, oldest first.
    pub due: Option<(Due, u16)>,
    /// Only work of this Stripe account and mode.
    pub due_of: Option<Money>,
    /// When the event with this id was noted.
    pub event: Option<String>,
    /// The policy in force, every stop, the Stripe keys known to be agent-tagged, what counts in windows that are open now of the agent that
    /// is read (or whose intent is read) and of all teams, and that agent's recent refunds.
    pub policy: bool,
    /// The customer of the charge that is decided on: what counts in its open windows with the
    /// agent that is read, and its refunds of the last 30 days, whoever asked for them.
    pub customer: Option<CustomerId>,
    /// Every version of the policy, oldest first.
    pub policies: bool,
    /// The newest exchange rates.
    pub rates: bool,
    /// One gateway.
    pub gateway: Option<GatewayId>,
    /// All gateways, by name.
    pub gateways: bool,
    /// Whether this nonce was used.
    pub nonce: Option<Nonce>,
    /// All people, by name.
    pub users: bool,
    /// The webhooks of all agents that ever had one, by name.
    pub webhooks: bool,
    /// A part of the audit chain.
    pub audit: Option<AuditRange>,
    /// Everything that is counted and held, for whoever checks it against the intents.
    pub books: bool,
}

/// How an agent is found.
#[derive(Clone, Debug)]
pub enum AgentBy {
    /// By a key of its own, valid or not.
    Key(KeyHash),
    /// By its name or id.
    Name(String),
    /// The one that made the intent that is read.
    OfIntent,
}

/// How an intent is found.
#[derive(Clone, Debug)]
pub enum IntentBy {
    /// By the id of an approval of it; that approval is then the intent's.
    Approval(ApprovalId),
    /// By its id.
    Id(IntentId),
}

/// What was asked before.
#[derive(Clone, Debug)]
pub enum Prior {
    /// The holder of this key.
    Key(IdempotencyKey),
    /// The newest key-less intent of this payment and amount that is not final, or settled since.
    Keyless {
        /// The payment.
        target: Target,
        /// The amount as asked.
        wanted: Wanted,
        /// How far back a settled one still counts.
        settled_since: Timestamp,
    },
}

/// The newest intent of this payment and amount that a person denied.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The payment.
    pub target: Target,
    /// The amount as asked.
    pub wanted: Wanted,
    /// The amount it comes to, once the charge is read: it counts as the same amount too.
    pub minor: Option<i64>,
    /// How far back a denial counts.
    pub since: Timestamp,
}

/// Which intents to list.
#[derive(Clone, Debug, Default)]
pub struct IntentQuery {
    /// Of this agent.
    pub agent: Option<AgentId>,
    /// Under this key, taken over or not.
    pub key: Option<IdempotencyKey>,
    /// In this state.
    pub state: Option<State>,
    /// Older than this one.
    pub before: Option<IntentId>,
    /// At most so many.
    pub limit: u32,
}

/// Work that is due now.
#[derive(Clone, Debug)]
pub enum Due {
    /// Waiting for an approval of Stripe's own, due to be looked at, and under nobody's lease; the one
    /// that is due longest first. Given a request of Stripe's: what waits for it, due or not, and
    /// then what waits for one that is not known.
    Awaiting(Option<HoldId>),
    /// Approved, to be executed by a gateway, still usable, under nobody's lease, and not held by a
    /// stop: what is held must not stand in the way of the rest.
    Approved,
    /// Submitted by this attempt, whoever holds its lease.
    Attempt(AttemptId),
    /// Pending past its time, or approved and not used in time.
    Expired,
    /// Settled, its refund due to be looked at again, and under nobody's lease; the one that is due
    /// longest first.
    Followed,
    /// This one, if it is approved or submitted, and under nobody's lease.
    One(IntentId),
    /// Submitted, and under nobody's lease.
    Submitted,
}

/// Whose money an intent moves: a Stripe account and mode.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Money {
    /// The connected account, where one is set.
    pub account: Option<AccountId>,
    /// Live money, or test mode.
    pub livemode: bool,
}

impl Money {
    /// Whether it is the intent's.
    #[must_use]
    pub fn is_of(&self, intent: &Intent) -> bool {
        self.account == intent.account && self.livemode == intent.livemode
    }
}

/// What makes a signed call that call: no two of one key have the same.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Nonce {
    /// Which key signed.
    pub keyid: String,
    /// Its random part.
    pub nonce: String,
}

/// What was read. Parts that were not asked for are empty.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Head of the audit chain; always read.
    pub head: Head,
    /// The agent.
    pub agent: Option<AgentRow>,
    /// All agents.
    pub agents: Vec<AgentRow>,
    /// The intent.
    pub intent: Option<Intent>,
    /// What was asked before.
    pub prior: Option<Intent>,
    /// What a person refused.
    pub refused: Option<Intent>,
    /// The list, or the work that is due.
    pub intents: Vec<Intent>,
    /// When the event was noted; absent when it never was, or is forgotten.
    pub event_noted_at: Option<Timestamp>,
    /// The policy in force.
    pub policy: Option<PolicyRow>,
    /// Every stop in force.
    pub stops: Vec<StopRow>,
    /// The Stripe keys that are known to be agent-tagged.
    pub agent_tagged_keys: Vec<KeyMark>,
    /// What counts in windows that are open now: the agent's, the customer's with it, all teams'.
    pub spent: Vec<Spent>,
    /// How many refunds of the agent were submitted within the last hour and left, or may have.
    pub recent_refunds: u32,
    /// What the customer was refunded within the last 30 days.
    pub refunded: Refunded,
    /// Every version of the policy.
    pub policies: Vec<PolicyRow>,
    /// The newest exchange rates.
    pub rates: Option<RateTable>,
    /// The gateway.
    pub gateway: Option<GatewayRow>,
    /// All gateways.
    pub gateways: Vec<GatewayRow>,
    /// Whether the nonce was used, and is not forgotten.
    pub nonce_used: bool,
    /// All people.
    pub users: Vec<UserRow>,
    /// All webhooks.
    pub webhooks: Vec<WebhookRow>,
    /// The part of the audit chain that was asked for, in its order.
    pub audit: Vec<AuditRow>,
    /// What is counted and held.
    pub books: Books,
}

/// Refunds that left or may have left, whether or not their money came back later.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Refunded {
    /// How many.
    pub count: u32,
    /// What they are worth together.
    pub usd: MicroUsd,
}

/// One change. A transaction's changes are made in order, all or none.
#[derive(Clone, Debug)]
pub enum Write {
    /// Adds an entry to the audit chain.
    Audit(AuditEntry),
    /// Empties fields of an entry, and their salts; the chain holds as before. An entry that is
    /// not there is a conflict, and so are the details of one that says what was emptied.
    EmptyAudit {
        /// The entry.
        n: u64,
        /// What of it.
        fields: Vec<AuditField>,
    },
    /// Notes when a gateway's key last signed a call.
    GatewayUsed {
        /// The gateway.
        gateway: GatewayId,
        /// Which of its keys.
        version: u32,
        /// When.
        at: Timestamp,
    },
    /// Adds an intent, which then holds its key.
    InsertIntent(Box<Intent>),
    /// Adds a version of the policy, which is then in force.
    InsertPolicy(PolicyRow),
    /// Adds a person; a name that exists is a conflict.
    InsertUser(UserRow),
    /// Lifts a stop.
    LiftStop(Scope),
    /// Notes that an event of Stripe's was taken up, and forgets those noted before `keep_since`.
    /// An event that is noted already is a conflict.
    NoteEvent {
        /// Its id, `evt_…`.
        id: String,
        /// When it was taken up.
        at: Timestamp,
        /// How far back noted events are kept.
        keep_since: Timestamp,
    },
    /// Adds or replaces an agent with its keys.
    PutAgent(AgentRow),
    /// Adds or replaces a gateway with its keys; another one's name or public key is a conflict.
    PutGateway(GatewayRow),
    /// Keeps exchange rates of a day.
    PutRates(RateTable),
    /// Puts or replaces a stop.
    PutStop(StopRow),
    /// Adds or replaces an agent's webhook.
    PutWebhook(WebhookRow),
    /// Gives an intent's spend back to the windows it was reserved in; once, however often asked.
    Release(IntentId),
    /// Reserves an intent's spend.
    Reserve {
        /// The intent.
        intent: IntentId,
        /// What it counts.
        usd: MicroUsd,
        /// Where it counts.
        windows: Vec<SpendWindow>,
    },
    /// Gives a person other roles; a person that does not exist is a conflict.
    SetRoles {
        /// Who.
        user: UserName,
        /// What they are from now on.
        roles: Vec<String>,
    },
    /// Remembers that a Stripe key is agent-tagged; once is enough.
    TagKey {
        /// The key.
        key: KeyMark,
        /// When that was found out.
        at: Timestamp,
    },
    /// Lets an intent go on without its key, for another to take it over.
    SurrenderKey(IntentId),
    /// Replaces an intent that is in state `was`. Its agent, its key and its charge never change.
    UpdateIntent {
        /// The state it must be in; anything else is a conflict.
        was: State,
        /// All of it, as it becomes.
        intent: Box<Intent>,
    },
    /// Uses a nonce up, and forgets those used before `keep_since`. One that is used already is a
    /// conflict.
    UseNonce {
        /// The nonce.
        nonce: Nonce,
        /// When it was used.
        at: Timestamp,
        /// How far back used ones are kept.
        keep_since: Timestamp,
    },
}

/// What kept the store from doing what it was asked.
#[derive(Debug)]
pub enum StoreError {
    /// The writes contradict what is stored: a fault of this program. Nothing was written.
    Conflict(String),
    /// What is stored cannot be read as what it should be. Nothing was written.
    Corrupt(String),
    /// The disk has no room. Nothing was written.
    Full(String),
    /// The database cannot be used, or the fate of a commit is not known.
    Unavailable(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(what) => write!(f, "conflicting write: {what}"),
            Self::Corrupt(what) => write!(f, "the store holds something unreadable: {what}"),
            Self::Full(what) | Self::Unavailable(what) => {
                write!(f, "the store cannot be used: {what}")
            }
        }
    }
}

impl std::error::Error for StoreError {}

impl Prior {
    /// Whether `intent` is what is looked for. (The newest of those is.)
    #[must_use]
    pub fn matches(&self, intent: &Intent) -> bool {
        match self {
            Self::Key(key) => intent.key == *key,
            Self::Keyless { target, wanted, settled_since } => {
                let alive = match intent.state {
                    State::PendingApproval
                    | State::Approved
                    | State::Submitted
                    | State::AwaitingStripe
                    | State::NotExecuted => true,
                    State::Settled => intent.settled_at.is_some_and(|at| at >= *settled_since),
                    State::Asked
                    | State::Failed
                    | State::Reversed
                    | State::Denied
                    | State::Expired
                    | State::Canceled => false,
                };
                intent.keyless
                    && alive
                    && intent.wanted == *wanted
                    && target.names(&intent.charge, intent.payment_intent.as_ref())
            }
        }
    }
}

impl Refused {
    /// Whether `intent` is what is looked for. (The newest of those is.)
    #[must_use]
    pub fn matches(&self, intent: &Intent) -> bool {
        intent.state == State::Denied
            && intent.denied_by == Some(gate_core::Denier::Person)
            && intent.updated_at >= self.since
            && self.target.names(&intent.charge, intent.payment_intent.as_ref())
            && (intent.wanted == self.wanted || self.minor == Some(intent.amount.minor()))
    }
}

/// How far back an agent's refunds are recent.
pub(crate) const RECENT: Duration = Duration::from_secs(3600);
/// How far back a customer's refunds are looked at.
pub(crate) const CUSTOMER_HISTORY: Duration = Duration::from_secs(30 * 24 * 3600);

/// Whether the money of an intent in `state` left, or may have, whether or not it came back later.
/// (Refused, or never executed: it did not.)
pub(crate) const fn may_have_left(state: State) -> bool {
    state.counts() || matches!(state, State::Reversed)
}

/// How long an approval that was given can be used, whatever it was to expire.
pub(crate) const USABLE_AFTER_APPROVAL: Duration = Duration::from_secs(24 * 3600);

/// Until when an approval can be used: the later of its expiry and 24 hours after it was given.
#[must_use]
pub fn usable_until(approval: &Approval) -> Timestamp {
    let given = approval.decided_at.map(|at| at.after(USABLE_AFTER_APPROVAL));
    given.map_or(approval.expires_at, |until| until.max(approval.expires_at))
}

impl Write {
    /// What is written, for messages.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Audit(_) => "an audit entry",
            Self::EmptyAudit { .. } => "there is no such audit entry, or it says what was emptied",
            Self::GatewayUsed { .. } => "a gateway's last use",
            Self::InsertIntent(_) => {
                "the intent, its key or its approval exists, or its agent does not"
            }
            Self::InsertPolicy(_) => "the policy was changed meanwhile",
            Self::InsertUser(_) => "the user exists already",
            Self::LiftStop(_) => "a stop's end",
            Self::NoteEvent { .. } => "the event was taken up already",
            Self::PutAgent(_) => "another agent has this name or key",
            Self::PutGateway(_) => "another gateway has this name or key",
            Self::PutRates(_) => "rates",
            Self::PutStop(_) => "a stop",
            Self::PutWebhook(_) => "a webhook",
            Self::Release(_) => "the release of spend",
            Self::Reserve { .. } => "spend is reserved already, or for no intent",
            Self::SetRoles { .. } => "there is no such user",
            Self::SurrenderKey(_) => "a key",
            Self::TagKey { .. } => "a key of Stripe's",
            Self::UpdateIntent { .. } => {
                "the intent is in another state, or another's, or its approval is"
            }
            Self::UseNonce { .. } => "the nonce was used already",
        }
    }
}
