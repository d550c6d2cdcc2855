//! The policy in plain sentences, and what a policy owner probably did not mean.

use std::time::Duration;

use gate_core::{AgentName, OnApproval};
use gate_money::MicroUsd;

use crate::document::{AgentLimits, Method, Policy, REFUND_HOST};

impl Policy {
    /// The whole policy: a paragraph on the organization, then one for each agent.
    #[must_use]
    pub fn words(&self) -> String {
        let mut paragraphs = vec![format!(
            "Days begin at midnight in {}. A request that waits for a person expires after {}.",
            self.timezone(),
            span(self.approval_timeout),
        )];
        paragraphs.extend(self.agents.iter().map(|(name, limits)| entry(name, limits)));
        if self.agents.is_empty() {
            paragraphs.push("No agent has an entry, so none may do anything.".to_owned());
        }
        paragraphs.join("\n\n")
    }

    /// One agent's paragraph.
    #[must_use]
    pub fn words_of(&self, name: &AgentName) -> String {
        match self.agent(name) {
            Some(limits) => entry(name, limits),
            None => format!("{name} has no entry and may do nothing."),
        }
    }

    /// What is legal and probably not meant, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        if self.agents.is_empty() {
            return vec!["no agent has an entry, so no agent may do anything".to_owned()];
        }
        self.agents.iter().flat_map(|(name, limits)| doubts(name, limits)).collect()
    }
}

/// What changes from one policy to the next, in plain sentences; nothing when they mean the same.
#[must_use]
pub fn diff(old: &Policy, new: &Policy) -> Vec<String> {
    let (old, new) = (old.words(), new.words());
    let gone = old.split("\n\n").filter(|told| !new.contains(told));
    let come = new.split("\n\n").filter(|told| !old.contains(told));
    gone.map(|told| format!("No longer: {told}"))
        .chain(come.map(|told| format!("From now on: {told}")))
        .collect()
}

fn doubts(name: &AgentName, limits: &AgentLimits) -> Vec<String> {
    let mut doubts = Vec::new();
    let mut doubt = |applies: bool, text: String| {
        if applies {
            doubts.push(format!("agents.{name}: {text}"));
        }
    };
    let refunds = !limits.methods.is_empty();
    doubt(
        !refunds,
        "there are no methods, so it may do nothing: add methods = [\"stripe_refund\"]".to_owned(),
    );
    doubt(
        refunds && !limits.allowed_hosts.contains(REFUND_HOST),
        format!(
            "it has methods but no host, so it may do nothing: add allowed_hosts = \
             [\"{REFUND_HOST}\"]"
        ),
    );
    doubt(
        refunds && limits.daily_cap.is_none(),
        "it has methods but no daily_cap, so every refund is denied: add one, such as daily_cap = \
         \"200.00\""
            .to_owned(),
    );
    if let (Some(most), Some(cap)) = (limits.max_per_payment, limits.daily_cap) {
        doubt(
            most > cap,
            format!(
                "max_per_payment ({most}) is over daily_cap ({cap}) and never decides: lower it"
            ),
        );
    }
    if let (Some(threshold), Some(most)) = (limits.approval_threshold, largest(limits)) {
        doubt(
            threshold > most,
            format!(
                "approval_threshold ({threshold}) is over the largest refund that is possible \
                 ({most}), so no person is ever asked: lower it"
            ),
        );
    }
    doubts
}

/// The largest refund that the limits could let through.
fn largest(limits: &AgentLimits) -> Option<MicroUsd> {
    limits.max_per_payment.into_iter().chain(limits.daily_cap).min()
}

fn entry(name: &AgentName, limits: &AgentLimits) -> String {
    let owner = limits
        .owner
        .as_ref()
        .map_or(String::new(), |owner| format!(" {owner} owns it and never approves for it."));
    let may = match allowed(limits) {
        Ok(what) => format!("may {what}"),
        Err(missing) => return format!("{name} may do nothing: {missing}.{owner}"),
    };
    let day = limits.daily_cap.unwrap_or(MicroUsd::ZERO);
    let most = match limits.max_per_payment {
        Some(most) => format!("up to {most} each and {day} a day"),
        None => format!("up to {day} a day"),
    };
    let person = match (limits.approval_threshold, limits.on_approval) {
        (None, _) => "No person is asked.".to_owned(),
        (Some(threshold), next) => {
            let then = match next {
                OnApproval::Agent => "when the agent asks again",
                OnApproval::Execute => "at once",
            };
            format!("From {threshold} on a person decides; after a yes the refund is made {then}.")
        }
    };
    format!("{name} {may}, {most}. {person}{owner}")
}

/// What the entry allows, or what it lacks to allow anything.
fn allowed(limits: &AgentLimits) -> Result<&'static str, String> {
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
    if limits.daily_cap.is_none() {
        return Err("it has no daily_cap".to_owned());
    }
    Ok(what)
}

/// A length of time in its largest even unit of which there are two or more: a day is 24 hours.
fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    let units = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
    let (each, unit) = units
        .into_iter()
        .find(|(each, _)| seconds.is_multiple_of(*each) && seconds > *each)
        .unwrap_or((1, "seconds"));
    format!("{} {unit}", seconds.checked_div(each).unwrap_or(seconds))
}
