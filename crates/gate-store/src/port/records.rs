//! What the store keeps, as it is read and written: agents, gateways, people, the policy, stops, and
//! what is counted where.

use gate_core::{
    AgentId, AgentName, CustomerId, GatewayId, IntentId, Source, TeamName, Timestamp, UserName,
};
use gate_money::MicroUsd;

/// SHA-256 of a whole agent key.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct KeyHash(pub [u8; 32]);

/// What is counted and held, each list in a fixed order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Books {
    /// Every window that spend was ever counted in, open or not, by window.
    pub windows: Vec<Spent>,
    /// Every reservation that was not given back, by intent and window.
    pub reservations: Vec<Reservation>,
    /// The intents that hold their key, by id.
    pub key_holders: Vec<IntentId>,
}

/// What one intent counts in one window.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reservation {
    /// The intent.
    pub intent: IntentId,
    /// Where it counts.
    pub window: SpendWindow,
    /// What it counts.
    pub usd: MicroUsd,
}

/// An agent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AgentRow {
    /// Its id.
    pub id: AgentId,
    /// Its name in the policy; unique for ever.
    pub name: AgentName,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when it may do nothing.
    pub revoked_at: Option<Timestamp>,
    /// From where alone its keys are taken; from everywhere, when there is none.
    pub sources: Vec<Source>,
    /// Its keys, oldest first.
    pub keys: Vec<KeyRow>,
}

/// A key of an agent; never the key itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyRow {
    /// SHA-256 of the key.
    pub hash: KeyHash,
    /// Its first characters, to recognise it by.
    pub hint: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is not taken.
    pub expires_at: Option<Timestamp>,
}

/// A gateway that may ask this authority over the network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GatewayRow {
    /// Its id.
    pub id: GatewayId,
    /// Its name; unique for ever.
    pub name: AgentName,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when it may do nothing.
    pub revoked_at: Option<Timestamp>,
    /// Its keys, oldest first.
    pub keys: Vec<GatewayKeyRow>,
}

/// A key of a gateway: the public half, with which nobody can be that gateway.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GatewayKeyRow {
    /// Counts up from 1 within a gateway.
    pub version: u32,
    /// The Ed25519 public key.
    pub public_key: [u8; 32],
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is not taken.
    pub expires_at: Option<Timestamp>,
    /// When it last signed a call, to the minute.
    pub last_used_at: Option<Timestamp>,
}

/// A version of the policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyRow {
    /// Counts up from 1.
    pub version: u64,
    /// The document itself.
    pub text: String,
    /// Who applied it.
    pub author: String,
    /// When.
    pub created_at: Timestamp,
}

/// What a stop, or a window of spend, is about.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Scope {
    /// One agent.
    Agent(AgentId),
    /// What one agent refunds one customer; for windows only.
    Customer {
        /// The agent.
        agent: AgentId,
        /// The customer.
        customer: CustomerId,
    },
    /// Everybody.
    Organization,
    /// A team of the policy.
    Team(TeamName),
}

impl Scope {
    /// As it is stored: `agent:agt_…`, `customer:agt_…:cus_…`, `organization` or `team:…`.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Agent(id) => format!("agent:{id}"),
            Self::Customer { agent, customer } => format!("customer:{agent}:{customer}"),
            Self::Organization => "organization".to_owned(),
            Self::Team(name) => format!("team:{name}"),
        }
    }

    /// The inverse of [`Scope::text`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None => (text == "organization").then_some(Self::Organization),
            Some(("agent", id)) => AgentId::parse(id).ok().map(Self::Agent),
            Some(("customer", ids)) => {
                let (agent, customer) = ids.split_once(':')?;
                let (agent, customer) = (AgentId::parse(agent), CustomerId::parse(customer));
                Some(Self::Customer { agent: agent.ok()?, customer: customer.ok()? })
            }
            Some(("team", name)) => TeamName::parse(name).ok().map(Self::Team),
            Some(_) => None,
        }
    }
}

/// A stop in force.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StopRow {
    /// What is stopped.
    pub scope: Scope,
    /// Who stopped it.
    pub by: String,
    /// Why.
    pub note: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A stretch of time in which spend is counted. Equal only when all of it is equal: spend stays
/// in the window it was reserved in, whatever becomes of the time zone.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SpendWindow {
    /// Whose spend.
    pub scope: Scope,
    /// `day`, `week` or `month`.
    pub period: String,
    /// First instant.
    pub starts_at: Timestamp,
    /// First instant after it.
    pub ends_at: Timestamp,
}

/// What is spent in a window.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Spent {
    /// The window.
    pub window: SpendWindow,
    /// Reserved in it and not given back.
    pub usd: MicroUsd,
}

/// An agent's webhook: where it is, how far it was told of the audit log, and how that goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WebhookRow {
    /// The agent's name in the policy. Rows are never removed: a secret that was rotated away must
    /// not come back with a line that does.
    pub agent: AgentName,
    /// Where it is; absent while the policy has no such line.
    pub url: Option<String>,
    /// Which of the secrets that follow from the master key signs; counts up from 1.
    pub generation: u32,
    /// When the generation before was replaced, if one was.
    pub rotated_at: Option<Timestamp>,
    /// Everything up to this audit entry was delivered, given up, or is not for this agent.
    pub done_to: u64,
    /// Attempts since one last succeeded.
    pub attempts: u32,
    /// Not before then is anything sent: a pause, or somebody is sending.
    pub next_try_at: Option<Timestamp>,
    /// Since when no attempt has succeeded.
    pub failing_since: Option<Timestamp>,
    /// Since when nothing is sent, because its server said that it is gone.
    pub disabled_at: Option<Timestamp>,
    /// When something was last sent.
    pub last_try_at: Option<Timestamp>,
    /// What came of it.
    pub last_result: Option<String>,
    /// How many events were given up.
    pub given_up: u64,
}

/// A person.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UserRow {
    /// The name.
    pub name: UserName,
    /// `owner`, `policy-editor`, `auditor`, `viewer`; anything else is a reviewer's role. None:
    /// they may do nothing any more.
    pub roles: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
}
