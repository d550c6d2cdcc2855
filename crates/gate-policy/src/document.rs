//! The meaning of a policy document. The stored version is the text; this is what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gate_core::{AgentName, OnApproval, RefundReason, Requirement, TeamName, Tool, UserName};
use gate_money::MicroUsd;
use jiff::tz::TimeZone;

use crate::rules::Rules;
use crate::webhook::WebhookUrl;

/// The host of every refund, as it stands in `allowed_hosts`.
pub const REFUND_HOST: &str = "stripe-refund.action";

/// The connector's tools, as they stand in `tools`.
pub const TOOLS: [&str; 5] = [
    "customers_search",
    "finance_balance",
    "finance_disputes",
    "finance_payments",
    Tool::FinanceRefund.as_str(),
];

/// A parsed document; made by [`Policy::parse`].
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub(crate) timezone: TimeZone,
    pub(crate) approval_timeout: Duration,
    pub(crate) when_stripe_asks: WhenStripeAsks,
    pub(crate) teams: BTreeMap<TeamName, Budgets>,
    pub(crate) agents: BTreeMap<AgentName, AgentLimits>,
    pub(crate) rules: Rules,
}

impl Policy {
    /// What an agent may do, its team's lines included; none when it has no entry, and then it may
    /// do nothing.
    #[must_use]
    pub fn agent(&self, name: &AgentName) -> Option<&AgentLimits> {
        self.agents.get(name)
    }

    /// The team that an agent's entry puts it in.
    #[must_use]
    pub fn team_of(&self, agent: &AgentName) -> Option<&TeamName> {
        self.agent(agent)?.team.as_ref()
    }

    /// The person who answers for an agent and never approves for it.
    #[must_use]
    pub fn owner_of(&self, agent: &AgentName) -> Option<&UserName> {
        self.agent(agent)?.owner.as_ref()
    }

    /// Whether an agent may use a tool of the connector's: its own entry or its team's lists it.
    #[must_use]
    pub fn grants(&self, agent: &AgentName, tool: &str) -> bool {
        self.agent(agent).is_some_and(|limits| limits.tools.contains(tool))
    }

    /// Every reviewer role that some reason may ask for.
    #[must_use]
    pub fn roles(&self) -> BTreeSet<String> {
        let agents = self.agents.values().map(|limits| &limits.reviewers);
        agents.chain(self.rules.reviewers()).flatten().cloned().collect()
    }

    /// Every agent with an entry, by name.
    pub fn agents(&self) -> impl Iterator<Item = (&AgentName, &AgentLimits)> {
        self.agents.iter()
    }

    /// Every team, by name, with what its agents may spend together.
    pub fn teams(&self) -> impl Iterator<Item = (&TeamName, &Budgets)> {
        self.teams.iter()
    }

    /// How long a request waits for a person before it expires; one minute to 14 days.
    #[must_use]
    pub const fn approval_timeout(&self) -> Duration {
        self.approval_timeout
    }

    /// Whose approval is asked for with an agent-tagged Stripe key.
    #[must_use]
    pub const fn when_stripe_asks(&self) -> WhenStripeAsks {
        self.when_stripe_asks
    }

    /// The IANA name of the time zone in which days, weeks and months begin.
    #[must_use]
    pub fn timezone(&self) -> &str {
        self.timezone.iana_name().unwrap_or("UTC")
    }

    pub(crate) fn budgets_of(&self, limits: &AgentLimits) -> Budgets {
        limits.team.as_ref().and_then(|team| self.teams.get(team)).copied().unwrap_or_default()
    }

    /// Whether anything bounds what the agent's refunds may come to together.
    pub(crate) fn bounds(&self, limits: &AgentLimits) -> bool {
        let budgets = self.budgets_of(limits);
        let caps = [
            limits.daily_cap,
            limits.weekly_cap,
            limits.monthly_cap,
            budgets.daily,
            budgets.monthly,
        ];
        caps.iter().any(Option::is_some)
    }
}

/// Whose approval is asked for with an agent-tagged Stripe key, whose refunds Stripe holds for an
/// approval of its own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WhenStripeAsks {
    /// Ours first, and then Stripe's.
    #[default]
    Both,
    /// Stripe's alone: our reasons to ask are recorded and do not hold. What denies always does.
    Stripe,
}

impl WhenStripeAsks {
    /// The name in the document.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Stripe => "stripe",
        }
    }
}

/// What a team's agents may spend together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Budgets {
    /// In a day; absent: no bound.
    pub daily: Option<MicroUsd>,
    /// In a month; absent: no bound.
    pub monthly: Option<MicroUsd>,
}

/// What one agent may do: its own lines, and its team's where it has none. What is absent allows
/// nothing, but for the optional limits that say so.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AgentLimits {
    /// The team it is in.
    pub team: Option<TeamName>,
    /// What rules know it by.
    pub tags: BTreeSet<String>,
    /// What it may do.
    pub methods: BTreeSet<Method>,
    /// The hosts it may reach; a refund needs [`REFUND_HOST`].
    pub allowed_hosts: BTreeSet<&'static str>,
    /// The connector's tools that it may use.
    pub tools: BTreeSet<&'static str>,
    /// Most that one refund may be worth; absent: the windows alone bound it.
    pub max_per_payment: Option<MicroUsd>,
    /// Most that the refunds of one day may be worth together. Without this, another cap and a
    /// team's budget, nothing is allowed.
    pub daily_cap: Option<MicroUsd>,
    /// Most that the refunds of one week may be worth together.
    pub weekly_cap: Option<MicroUsd>,
    /// Most that the refunds of one month may be worth together.
    pub monthly_cap: Option<MicroUsd>,
    /// Most that the refunds of one day to one customer may be worth together.
    pub per_customer_daily_cap: Option<MicroUsd>,
    /// Most refunds within an hour, counted back from each moment.
    pub refunds_per_hour: Option<u32>,
    /// From this worth on a person decides; absent: no person is asked for that.
    pub approval_threshold: Option<MicroUsd>,
    /// Roles of which an approver needs one; none: anybody who may approve.
    pub reviewers: BTreeSet<String>,
    /// How many different people have to approve; at least 1.
    pub approvals_required: u16,
    /// The person who answers for the agent and never approves for it.
    pub owner: Option<UserName>,
    /// Who goes on after a yes.
    pub on_approval: OnApproval,
    /// Where the agent hears what became of its requests.
    pub webhook: Option<WebhookUrl>,
}

impl AgentLimits {
    /// Whose approval the agent's refunds take, where no rule says otherwise.
    pub(crate) fn requirement(&self) -> Requirement {
        let roles = self.reviewers.iter().cloned().collect();
        Requirement { roles, people: self.approvals_required }
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
