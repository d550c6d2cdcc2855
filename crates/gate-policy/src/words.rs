//! The policy in plain sentences.

use std::collections::BTreeSet;
use std::time::Duration;

use gate_core::{AgentName, OnApproval, TeamName};
use gate_money::MicroUsd;

use crate::document::{AgentLimits, Budgets, Method, Policy, REFUND_HOST, WhenStripeAsks};
use crate::rules::{Control, Rule, Selector};

impl Policy {
    /// The whole policy: a paragraph on the organization, then one for each team, agent and rule.
    #[must_use]
    pub fn words(&self) -> String {
        let mut paragraphs = vec![format!(
            "Days begin at midnight in {}, weeks on Monday. A request that waits for a person \
             expires after {}.",
            self.timezone(),
            span(self.approval_timeout),
        )];
        match self.when_stripe_asks {
            WhenStripeAsks::Both => {}
            WhenStripeAsks::Stripe => paragraphs.push(
                "With a Stripe key that is tagged for agents nobody is asked here: Stripe's own \
                 approval rules decide who looks at a refund. What denies one denies it all the \
                 same."
                    .to_owned(),
            ),
        }
        paragraphs.extend(self.teams.iter().map(|(name, budgets)| team(name, *budgets)));
        paragraphs.extend(self.agents.keys().map(|name| self.words_of(name)));
        if self.agents.is_empty() {
            paragraphs.push("No agent has an entry, so none may do anything.".to_owned());
        }
        paragraphs.extend(self.rules.list.iter().map(rule));
        paragraphs.join("\n\n")
    }

    /// One agent's paragraph.
    #[must_use]
    pub fn words_of(&self, name: &AgentName) -> String {
        match self.agent(name) {
            Some(limits) => self.entry(name, limits),
            None => format!("{name} has no entry and may do nothing."),
        }
    }

    fn entry(&self, name: &AgentName, limits: &AgentLimits) -> String {
        let mut sentences = match self.allowed(limits) {
            Ok(what) => vec![format!("{name} may {what}{}.", bounds(limits)), person(limits)],
            Err(missing) => vec![format!("{name} may do nothing: {missing}.")],
        };
        if let Some(team) = &limits.team {
            sentences.push(format!("It is in team {team}."));
        }
        if !limits.tags.is_empty() {
            sentences.push(format!("It is tagged {}.", and(&limits.tags)));
        }
        if !limits.tools.is_empty() {
            sentences.push(format!("It may use {}.", and(&limits.tools)));
        }
        if let Some(owner) = &limits.owner {
            sentences.push(format!("{owner} owns it and never approves for it."));
        }
        if let Some(url) = &limits.webhook {
            sentences.push(format!("What becomes of its requests is sent to {url}."));
        }
        sentences.join(" ")
    }

    /// What the entry allows, or what it lacks to allow anything.
    pub(crate) fn allowed(&self, limits: &AgentLimits) -> Result<&'static str, String> {
        let has = |method| limits.methods.contains(&method);
        let what = match (has(Method::StripeRefund), has(Method::StripeRefundFraudulent)) {
            (true, true) => "make refunds, also as fraudulent, which blocks the customer at Stripe",
            (true, false) => "make refunds, but not as fraudulent",
            (false, true) => "make refunds as fraudulent only, which blocks the customer at Stripe",
            (false, false) => return Err("it has no methods".to_owned()),
        };
        if !limits.allowed_hosts.contains(REFUND_HOST) {
            return Err(format!("{REFUND_HOST} is not in its allowed_hosts"));
        }
        if !self.bounds(limits) {
            return Err("it has no daily_cap".to_owned());
        }
        Ok(what)
    }
}

/// `, up to 100.00 USD each and 500.00 USD a day, to one customer …`.
fn bounds(limits: &AgentLimits) -> String {
    let figures = [
        (limits.max_per_payment, "each"),
        (limits.daily_cap, "a day"),
        (limits.weekly_cap, "a week"),
        (limits.monthly_cap, "a month"),
    ];
    let told = figures.into_iter().filter_map(|(limit, of)| Some(format!("{} {of}", limit?)));
    let told: Vec<String> = told.collect();
    let mut words = match told.is_empty() {
        true => ", within its team's budget".to_owned(),
        false => format!(", up to {}", and(&told)),
    };
    if let Some(cap) = limits.per_customer_daily_cap {
        words.push_str(&format!(", to one customer up to {cap} a day"));
    }
    if let Some(count) = limits.refunds_per_hour {
        words.push_str(&format!(", not more than {count} within an hour"));
    }
    words
}

fn person(limits: &AgentLimits) -> String {
    let then = match limits.on_approval {
        OnApproval::Agent => "when the agent asks again",
        OnApproval::Execute => "at once",
    };
    let who = who(Some(&limits.reviewers), Some(limits.approvals_required));
    match limits.approval_threshold {
        None if limits.reviewers.is_empty() && limits.approvals_required == 1 => {
            "No person is asked, unless a rule does.".to_owned()
        }
        None => format!("No person is asked, unless a rule does; then {who}."),
        Some(threshold) => {
            format!("From {threshold} on {who}; after a yes the refund is made {then}.")
        }
    }
}

/// `a person decides`, `2 people with the role risk or lead decide`.
fn who(roles: Option<&BTreeSet<String>>, people: Option<u16>) -> String {
    let roles = roles.filter(|roles| !roles.is_empty()).map_or(String::new(), |roles| {
        let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
        format!(" with the role {}", roles.join(" or "))
    });
    match people.unwrap_or(1) {
        1 => format!("a person{roles} decides"),
        people => format!("{people} people{roles} decide"),
    }
}

pub(crate) fn team(name: &TeamName, budgets: Budgets) -> String {
    let told = [(budgets.daily, "a day"), (budgets.monthly, "a month")]
        .into_iter()
        .filter_map(|(limit, of)| Some(format!("{} {of}", limit?)));
    let told: Vec<String> = told.collect();
    match told.is_empty() {
        true => format!("Team {name} has no budget of its own."),
        false => format!("The agents of team {name} may refund up to {} together.", and(&told)),
    }
}

pub(crate) fn rule(rule: &Rule) -> String {
    let (id, condition) = (&rule.id, rule.condition());
    let whose = if rule.agents.contains(&Selector::Everybody) {
        String::new()
    } else {
        let one = |selector: &Selector| match selector {
            Selector::Agent(name) => name.to_string(),
            Selector::Everybody => "everybody".to_owned(),
            Selector::Tag(tag) => format!("agents tagged {tag}"),
            Selector::Team(team) => format!("team {team}"),
        };
        format!(" of {}", and(rule.agents.iter().map(one)))
    };
    let does = match rule.control {
        Control::Block => format!("blocks refunds{whose}"),
        Control::RequireApproval => {
            let default = match (&rule.reviewers, rule.approvals_required) {
                (None, None) => String::new(),
                (roles, people) => format!(" ({})", who(roles.as_ref(), people)),
            };
            let default = match &rule.reviewers {
                Some(roles) if roles.is_empty() => " (anybody who may approve decides)".to_owned(),
                _ => default,
            };
            format!("asks for a person for refunds{whose}{default}")
        }
    };
    let off = if rule.enabled { "" } else { " It is switched off." };
    format!("Rule {id} {does} where {condition}.{off}")
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn and<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let mut items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match (items.pop(), items.is_empty()) {
        (None, _) => String::new(),
        (Some(last), true) => last,
        (Some(last), false) => format!("{} and {last}", items.join(", ")),
    }
}

/// A length of time in its largest even unit of which there are two or more: a day is 24 hours.
pub(crate) fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    let units = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
    let (each, unit) = units
        .into_iter()
        .find(|(each, _)| seconds.is_multiple_of(*each) && seconds > *each)
        .unwrap_or((1, "seconds"));
    format!("{} {unit}", seconds.checked_div(each).unwrap_or(seconds))
}

/// The largest refund that the limits could let through.
pub(crate) fn largest(limits: &AgentLimits) -> Option<MicroUsd> {
    [
        limits.max_per_payment,
        limits.daily_cap,
        limits.weekly_cap,
        limits.monthly_cap,
        limits.per_customer_daily_cap,
    ]
    .into_iter()
    .flatten()
    .min()
}
