//! The verdict on one request: a function of the policy and the facts.
//!
//! Invariant *deny-by-default*: a request is allowed only when the agent has an entry that turns
//! its method on, lists its host and bounds it, and when its worth is known and within every limit.
//! Every reason is collected. What denies comes before what asks a person, and both stand in the
//! order of [`ReasonCode::ALL`], hardest first, because they are looked for in that order.

use std::time::Duration;

use gate_core::{
    AgentName, Charge, CustomerId, Decision, DecisionReason, OnApproval, ReasonCode, RefundReason,
    Requirement, Timestamp, Tool, Valuation, Vote,
};
use gate_money::{Amount, Currency, MicroUsd};

use crate::document::{AgentLimits, Method, Policy, REFUND_HOST, WhenStripeAsks};
use crate::rules::Context;
use crate::window::{self, Period, Whose, Window};

/// What `refunds_per_hour` counts back over.
const HOUR: Duration = Duration::from_hours(1);

/// What is known of a request when it is decided. Never the agent's own words.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Who asks.
    pub agent: &'a AgentName,
    /// Through which tool.
    pub tool: Tool,
    /// Stripe's reason, if one was given.
    pub reason: Option<RefundReason>,
    /// The charge, as Stripe shows it.
    pub charge: &'a Charge,
    /// What would be refunded of it.
    pub amount: Amount,
    /// What that counts for the limits, or why nobody can say.
    pub worth: Result<&'a Valuation, NoRate>,
    /// When.
    pub now: Timestamp,
    /// The stops in force.
    pub stops: Stops,
    /// What is spent, and reserved, of a window already.
    pub spent: &'a dyn Fn(&Window) -> MicroUsd,
    /// How many refunds of this agent were submitted within the last hour.
    pub recent_refunds: u32,
    /// What this store knows of the charge's customer.
    pub customer: CustomerHistory,
    /// Who approved, once an approval was given; none before. What asks for a person is met by the
    /// votes or, given votes, denies.
    pub votes: Option<&'a [Vote]>,
    /// Whether the Stripe key is agent-tagged, as far as is known: then Stripe holds refunds for
    /// approvals of its own, by rules of its own.
    pub agent_tagged: bool,
}

/// What was refunded to a customer within the last 30 days, as far as this store knows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CustomerHistory {
    /// How many refunds.
    pub refunds_30d: u32,
    /// What they were worth together.
    pub usd_30d: MicroUsd,
}

/// Why an amount has no worth in dollars.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoRate {
    /// There is no rate for its currency.
    NotSupported,
    /// The only rates for its currency are too old.
    Stale,
}

/// Which stops are in force. They are state of the authority, not text of the policy.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stops {
    /// Everything is stopped.
    pub organization: bool,
    /// The agent's team is stopped.
    pub team: bool,
    /// This agent is stopped.
    pub agent: bool,
}

impl Stops {
    /// The code of the widest stop in force.
    #[must_use]
    pub const fn code(&self) -> Option<ReasonCode> {
        if self.organization {
            Some(ReasonCode::OrganizationStopped)
        } else if self.team {
            Some(ReasonCode::TeamStopped)
        } else if self.agent {
            Some(ReasonCode::AgentStopped)
        } else {
            None
        }
    }
}

/// What the policy says of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// Allow, ask or deny.
    pub decision: Decision,
    /// Every reason that applies, the hardest first: what asks a person comes after what denies.
    /// When allowed, what would have asked if the policy did not leave that to Stripe, without
    /// [`requires`](DecisionReason::requires).
    pub reasons: Vec<DecisionReason>,
    /// Where to reserve the worth before the refund is made. Empty unless allowed: what waits for
    /// a person holds no spend, and is decided again before it is made.
    pub windows: Vec<Window>,
    /// On what terms a person is asked; present exactly when one is.
    pub approval: Option<ApprovalTerms>,
}

/// On what terms a person is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ApprovalTerms {
    /// How long the request waits before it expires.
    pub timeout: Duration,
    /// Who goes on after a yes.
    pub on_approval: OnApproval,
}

/// Decides one request.
#[must_use]
pub fn decide(policy: &Policy, facts: &Facts<'_>) -> Verdict {
    let case = Case::of(policy, facts);
    let context = Context { facts, limits: case.limits, zone: &policy.timezone };
    let (blocks, asks) = policy.rules.reasons(&context);
    let mut reasons: Vec<DecisionReason> = Vec::new();
    reasons.extend(case.stopped());
    reasons.extend(case.method());
    reasons.extend(case.host());
    reasons.extend(blocks);
    reasons.extend(case.rate());
    reasons.extend(case.payment());
    let (budgets, caps): (Vec<_>, Vec<_>) =
        case.caps().into_iter().partition(|reason| reason.code == ReasonCode::TeamBudget);
    reasons.extend(caps);
    reasons.extend(case.count());
    reasons.extend(budgets);
    reasons.extend(case.threshold());
    reasons.extend(asks);
    reasons.extend(case.customer_unknown());
    reasons.extend(case.connector_write());
    let left_to_stripe = facts.agent_tagged && policy.when_stripe_asks == WhenStripeAsks::Stripe;
    if let Some(votes) = facts.votes {
        reasons.retain(|reason| {
            reason.requires.as_ref().is_none_or(|requires| requires.missing(votes) > 0)
        });
        if reasons.iter().any(|reason| !left_to_stripe || !reason.asks()) {
            reasons.insert(0, approval_stale());
        }
    }

    let decision = if reasons.iter().any(|reason| !reason.asks()) {
        Decision::Deny
    } else if reasons.is_empty() || left_to_stripe {
        Decision::Allow
    } else {
        Decision::RequireApproval
    };
    match decision {
        Decision::Allow => reasons.iter_mut().for_each(leave_to_stripe),
        Decision::RequireApproval => reasons.iter_mut().for_each(leave_to_a_reviewer),
        // Nobody is asked: whoever read here that there is somebody to wait for would wait.
        Decision::Deny => {}
    }
    let windows = match decision {
        Decision::Allow => case.windows.iter().map(|(window, ..)| window.clone()).collect(),
        Decision::Deny | Decision::RequireApproval => Vec::new(),
    };
    let approval = match decision {
        Decision::RequireApproval => case.limits.map(|limits| ApprovalTerms {
            timeout: policy.approval_timeout,
            on_approval: limits.on_approval,
        }),
        Decision::Allow | Decision::Deny => None,
    };
    Verdict { decision, reasons, windows, approval }
}

/// Why a person's yes did not suffice; the other reasons follow.
fn approval_stale() -> DecisionReason {
    let message = "A person approved this refund, and the policy no longer allows it: see the \
                   other reasons for what stands in its way.";
    DecisionReason::plain(ReasonCode::ApprovalStale, message.to_owned())
}

/// Keeps a reason to ask for the record: with this key Stripe's own rules decide whether one is.
fn leave_to_stripe(reason: &mut DecisionReason) {
    reason.requires = None;
    reason.message.push_str(
        " With this Stripe key that is left to Stripe's own approval: nobody is asked here.",
    );
}

fn leave_to_a_reviewer(reason: &mut DecisionReason) {
    reason.message.push_str(" Wait for a reviewer to decide.");
}

/// The windows that bound an agent (and, given a customer, that customer's), each with the code of a
/// denial by it and its limit. An agent that nothing bounds, or without an entry, has a day's limit
/// of nothing.
#[must_use]
pub fn windows(
    policy: &Policy,
    agent: &AgentName,
    customer: Option<&CustomerId>,
    now: Timestamp,
) -> Vec<(Window, ReasonCode, MicroUsd)> {
    let today = window::date(&policy.timezone, now);
    let window = |whose, period| window::of(whose, period, &policy.timezone, today);
    let Some(limits) = policy.agent(agent).filter(|limits| policy.bounds(limits)) else {
        return vec![(window(Whose::Agent, Period::Day), ReasonCode::DailyCap, MicroUsd::ZERO)];
    };
    let budgets = policy.budgets_of(limits);
    let team = || limits.team.clone().map(Whose::Team);
    let customer = || customer.cloned().map(Whose::Customer);
    [
        (Some(Whose::Agent), Period::Day, ReasonCode::DailyCap, limits.daily_cap),
        (Some(Whose::Agent), Period::Week, ReasonCode::WeeklyCap, limits.weekly_cap),
        (Some(Whose::Agent), Period::Month, ReasonCode::MonthlyCap, limits.monthly_cap),
        (customer(), Period::Day, ReasonCode::CustomerCap, limits.per_customer_daily_cap),
        (team(), Period::Day, ReasonCode::TeamBudget, budgets.daily),
        (team(), Period::Month, ReasonCode::TeamBudget, budgets.monthly),
    ]
    .into_iter()
    .filter_map(|(whose, period, code, limit)| Some((window(whose?, period), code, limit?)))
    .collect()
}

/// One request on the table. Each method looks for one kind of reason.
struct Case<'a> {
    policy: &'a Policy,
    facts: &'a Facts<'a>,
    limits: Option<&'a AgentLimits>,
    windows: Vec<(Window, ReasonCode, MicroUsd)>,
}

impl<'a> Case<'a> {
    fn of(policy: &'a Policy, facts: &'a Facts<'a>) -> Self {
        let customer = facts.charge.customer.id();
        Self {
            policy,
            facts,
            limits: policy.agent(facts.agent),
            windows: windows(policy, facts.agent, customer, facts.now),
        }
    }

    fn stopped(&self) -> Vec<DecisionReason> {
        let Stops { organization, team, agent } = self.facts.stops;
        let name = self.facts.agent;
        let on = "wait until a policy owner resumes";
        [
            organization.then(|| {
                let text = format!("Refunds are stopped for the whole organization: {on} them.");
                (ReasonCode::OrganizationStopped, text)
            }),
            team.then(|| {
                let of = self.policy.team_of(name);
                let team = of.map_or_else(|| "The team".to_owned(), |team| format!("Team {team}"));
                (ReasonCode::TeamStopped, format!("{team} of {name} is stopped: {on} it."))
            }),
            agent.then(|| (ReasonCode::AgentStopped, format!("{name} is stopped: {on} it."))),
        ]
        .into_iter()
        .flatten()
        .map(|(code, text)| DecisionReason::plain(code, text))
        .collect()
    }

    fn method(&self) -> Option<DecisionReason> {
        let agent = self.facts.agent;
        let needed = Method::needed_for(self.facts.reason);
        let name = needed.as_str();
        let tool = self.facts.tool;
        let message = match self.limits {
            None => format!(
                "The policy has no entry for {agent}, so it may do nothing: ask a policy owner to \
                 add one."
            ),
            Some(limits) if !limits.methods.contains(&needed) => match needed {
                Method::StripeRefund => format!(
                    "The policy does not turn {name} on for {agent}: ask a policy owner to add it \
                     to its methods."
                ),
                Method::StripeRefundFraudulent => format!(
                    "A refund with the reason fraudulent blocks the customer at Stripe, and the \
                     policy does not turn {name} on for {agent}: give another reason if one is \
                     true, or ask a policy owner to add it to its methods."
                ),
            },
            Some(limits)
                if tool == Tool::FinanceRefund && !limits.tools.contains(tool.as_str()) =>
            {
                format!(
                    "The policy does not let {agent} use {}: ask a policy owner to add it to its \
                     tools.",
                    tool.as_str()
                )
            }
            Some(_) => return None,
        };
        Some(DecisionReason::plain(ReasonCode::MethodNotAllowed, message))
    }

    fn host(&self) -> Option<DecisionReason> {
        if self.limits?.allowed_hosts.contains(REFUND_HOST) {
            return None;
        }
        let agent = self.facts.agent;
        let message = format!(
            "The policy does not list {REFUND_HOST} for {agent}: ask a policy owner to add it to \
             its allowed_hosts."
        );
        Some(DecisionReason::plain(ReasonCode::HostNotAllowed, message))
    }

    fn rate(&self) -> Option<DecisionReason> {
        let currency = self.facts.amount.currency();
        let (code, message) = match self.facts.worth {
            Ok(_) => return None,
            Err(NoRate::NotSupported) => (
                ReasonCode::CurrencyNotSupported,
                format!(
                    "There is no exchange rate for {currency}, so no limit can count this refund: \
                     ask the gateway's operator to pin one."
                ),
            ),
            Err(NoRate::Stale) => (
                ReasonCode::RatesStale,
                format!(
                    "The exchange rate for {currency} is too old to count this refund with: try \
                     again later, or ask the gateway's operator to look after the rates."
                ),
            ),
        };
        Some(DecisionReason::plain(code, message))
    }

    fn payment(&self) -> Option<DecisionReason> {
        let limit = self.limits?.max_per_payment?;
        let worth = self.worth()?;
        (worth > limit).then(|| DecisionReason {
            limit: Some(limit),
            ..DecisionReason::plain(
                ReasonCode::MaxPerPayment,
                format!(
                    "{} is more than the {limit} that {} may refund at once: ask a policy owner \
                     to make it, or to raise max_per_payment.",
                    self.refund(worth),
                    self.facts.agent,
                ),
            )
        })
    }

    fn count(&self) -> Option<DecisionReason> {
        let most = self.limits?.refunds_per_hour?;
        if self.facts.recent_refunds < most {
            return None;
        }
        // All that were counted are out of the hour then.
        let resets_at = self.facts.now.after(HOUR);
        let (agent, made) = (self.facts.agent, self.facts.recent_refunds);
        let message = format!(
            "{agent} made {made} refunds within the last hour, of {most} that it may make: wait \
             until {} at the latest, or ask a policy owner to raise its refunds_per_hour.",
            in_utc(resets_at),
        );
        Some(DecisionReason {
            count_limit: Some(most),
            resets_at: Some(resets_at),
            ..DecisionReason::plain(ReasonCode::RateCount, message)
        })
    }

    fn caps(&self) -> Vec<DecisionReason> {
        let Some(limits) = self.limits else {
            return Vec::new();
        };
        if !self.policy.bounds(limits) {
            return vec![self.unbounded()];
        }
        let over = |(window, code, limit): &(Window, ReasonCode, MicroUsd)| {
            self.over(window, *code, *limit)
        };
        self.windows.iter().filter_map(over).collect()
    }

    /// An entry that nothing bounds allows nothing.
    fn unbounded(&self) -> DecisionReason {
        let agent = self.facts.agent;
        DecisionReason {
            limit: Some(MicroUsd::ZERO),
            left: Some(MicroUsd::ZERO),
            ..DecisionReason::plain(
                ReasonCode::DailyCap,
                format!(
                    "The policy sets no daily_cap for {agent}, and nothing else bounds it, so it \
                     may refund nothing: ask a policy owner to add one."
                ),
            )
        }
    }

    /// The reason not to, when the worth does not fit into what is left. A sum that is too large
    /// to be counted does not fit either.
    fn over(&self, window: &Window, code: ReasonCode, limit: MicroUsd) -> Option<DecisionReason> {
        let worth = self.worth()?;
        let spent = (self.facts.spent)(window);
        if spent.checked_add(worth).is_ok_and(|sum| sum <= limit) {
            return None;
        }
        let left = limit.checked_sub(spent).unwrap_or(MicroUsd::ZERO);
        let (refund, agent) = (self.refund(worth), self.facts.agent);
        let period = window.period.as_str();
        let (whose, key) = match (&window.whose, window.period) {
            (Whose::Agent, _) => (format!("{agent}'s {limit}"), code.as_str()),
            (Whose::Customer(_), _) => {
                (format!("{agent}'s {limit} for one customer"), "per_customer_daily_cap")
            }
            (Whose::Team(team), Period::Month) => {
                (format!("team {team}'s {limit}"), "monthly_budget")
            }
            (Whose::Team(team), Period::Day | Period::Week) => {
                (format!("team {team}'s {limit}"), "daily_budget")
            }
        };
        let message = if worth > limit {
            format!(
                "{refund} is more than {whose} for a whole {period}: ask a policy owner to make \
                 it, or to raise {key}."
            )
        } else {
            format!(
                "{refund} is more than the {left} that are left of {whose} for the {period}: wait \
                 until {}, or ask a policy owner to raise {key}.",
                in_utc(window.ends_at),
            )
        };
        Some(DecisionReason {
            limit: Some(limit),
            left: Some(left),
            resets_at: Some(window.ends_at),
            ..DecisionReason::plain(code, message)
        })
    }

    fn threshold(&self) -> Option<DecisionReason> {
        let limits = self.limits?;
        let limit = limits.approval_threshold?;
        let worth = self.worth()?;
        (worth >= limit).then(|| DecisionReason {
            limit: Some(limit),
            requires: Some(limits.requirement()),
            ..DecisionReason::plain(
                ReasonCode::ApprovalThreshold,
                format!(
                    "{} needs a person's approval, as every refund of {} from {limit} on does.",
                    self.refund(worth),
                    self.facts.agent,
                ),
            )
        })
    }

    /// Spend is counted by customer, and nobody knows whose this is.
    fn customer_unknown(&self) -> Option<DecisionReason> {
        let limits = self.limits?;
        limits.per_customer_daily_cap?;
        self.facts.charge.customer.id().is_none().then(|| {
            let message = format!(
                "The charge has no customer, and the refunds of {} are counted by customer: a \
                 person has to look at it.",
                self.facts.agent
            );
            DecisionReason {
                requires: Some(limits.requirement()),
                ..DecisionReason::plain(ReasonCode::CustomerUnknown, message)
            }
        })
    }

    fn connector_write(&self) -> Option<DecisionReason> {
        (self.facts.tool == Tool::FinanceRefund).then(|| {
            let message = "A person decides every refund that is asked for with finance_refund.";
            let requires = self.limits.map_or(Requirement::ANYBODY, AgentLimits::requirement);
            DecisionReason {
                requires: Some(requires),
                ..DecisionReason::plain(ReasonCode::ConnectorWrite, message.to_owned())
            }
        })
    }

    fn worth(&self) -> Option<MicroUsd> {
        self.facts.worth.ok().map(|valuation| valuation.usd)
    }

    /// The refund as the subject of a sentence.
    fn refund(&self, worth: MicroUsd) -> String {
        let amount = self.facts.amount;
        if amount.currency() == Currency::USD {
            format!("This refund of {amount}")
        } else {
            format!("This refund of {amount}, worth {worth},")
        }
    }
}

/// A time as people and programs read it; the number, where there is no such year.
fn in_utc(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.millis())
        .map_or_else(|_| at.millis().to_string(), |at| at.to_string())
}
