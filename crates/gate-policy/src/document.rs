//! The meaning of a policy document. The stored version is the text; this is what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gate_core::{AgentName, OnApproval, RefundReason, TeamName, UserName};
use gate_money::MicroUsd;
use jiff::tz::TimeZone;

/// The host of every refund, as it stands in `allowed_hosts`.
pub const REFUND_HOST: &str = "stripe-refund.action";

/// A parsed document; made by [`Policy::parse`].
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub(crate) timezone: TimeZone,
    pub(crate) approval_timeout: Duration,
    pub(crate) agents: BTreeMap<AgentName, AgentLimits>,
}

impl Policy {
    /// What an agent may do; none when it has no entry, and then it may do nothing.
    #[must_use]
    pub fn agent(&self, name: &AgentName) -> Option<&AgentLimits> {
        self.agents.get(name)
    }

    /// The team that an agent's entry puts it in.
    #[must_use]
    #[allow(clippy::unused_self, reason = "no version of the document so far has teams")]
    pub const fn team_of(&self, _agent: &AgentName) -> Option<&TeamName> {
        None
    }

    /// The person who answers for an agent and never approves for it.
    #[must_use]
    pub fn owner_of(&self, agent: &AgentName) -> Option<&UserName> {
        self.agent(agent)?.owner.as_ref()
    }

    /// Whether an agent may use a tool of the connector's: its own entry or its team's lists it.
    #[must_use]
    #[allow(clippy::unused_self, reason = "no version of the document so far has tools")]
    pub const fn grants(&self, _agent: &AgentName, _tool: &str) -> bool {
        false
    }

    /// Every reviewer role that some reason may ask for.
    #[must_use]
    #[allow(clippy::unused_self, reason = "no version of the document so far has roles")]
    pub const fn roles(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Every agent with an entry, by name.
    pub fn agents(&self) -> impl Iterator<Item = (&AgentName, &AgentLimits)> {
        self.agents.iter()
    }

    /// How long a request waits for a person before it expires; one minute to 14 days.
    #[must_use]
    pub const fn approval_timeout(&self) -> Duration {
        self.approval_timeout
    }

    /// The IANA name of the time zone in which days begin.
    #[must_use]
    pub fn timezone(&self) -> &str {
        self.timezone.iana_name().unwrap_or("UTC")
    }
}

/// One agent's entry. What is absent allows nothing, but for the optional limits that say so.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AgentLimits {
    /// What it may do.
    pub methods: BTreeSet<Method>,
    /// The hosts it may reach; a refund needs [`REFUND_HOST`].
    pub allowed_hosts: BTreeSet<&'static str>,
    /// Most that one refund may be worth; absent: the daily cap alone bounds it.
    pub max_per_payment: Option<MicroUsd>,
    /// Most that the refunds of one day may be worth together; absent: nothing is allowed.
    pub daily_cap: Option<MicroUsd>,
    /// From this worth on a person decides; absent: no person is asked.
    pub approval_threshold: Option<MicroUsd>,
    /// The person who answers for the agent and never approves for it.
    pub owner: Option<UserName>,
    /// Who goes on after a yes.
    pub on_approval: OnApproval,
}

impl AgentLimits {
    /// An entry without a key.
    pub(crate) const fn nothing() -> Self {
        Self {
            methods: BTreeSet::new(),
            allowed_hosts: BTreeSet::new(),
            max_per_payment: None,
            daily_cap: None,
            approval_threshold: None,
            owner: None,
            on_approval: OnApproval::Execute,
        }
    }
}

/// What an agent can be allowed to do.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Method {
    /// Refunds, but for those with the reason `fraudulent`.
    StripeRefund,
    /// Refunds with the reason `fraudulent`, which also put the customer's card and e-mail on
    /// Stripe's block lists.
    StripeRefundFraudulent,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 2] = [Self::StripeRefund, Self::StripeRefundFraudulent];

    /// The name in the document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StripeRefund => "stripe_refund",
            Self::StripeRefundFraudulent => "stripe_refund_fraudulent",
        }
    }

    /// The method of that name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }

    /// The method that a refund with this reason needs.
    #[must_use]
    pub const fn needed_for(reason: Option<RefundReason>) -> Self {
        match reason {
            Some(RefundReason::Fraudulent) => Self::StripeRefundFraudulent,
            Some(RefundReason::Duplicate | RefundReason::RequestedByCustomer) | None => {
                Self::StripeRefund
            }
        }
    }
}
