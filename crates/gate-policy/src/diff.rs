//! What changes from one policy to the next, in plain sentences.

use std::collections::{BTreeMap, BTreeSet};

use gate_core::OnApproval;

use crate::document::{AgentLimits, Policy};
use crate::rules::Rule;
use crate::words::{and, rule, span, team};

/// What changes from one policy to the next, a sentence each; nothing when they mean the same.
#[must_use]
pub fn diff(old: &Policy, new: &Policy) -> Vec<String> {
    let mut told = Vec::new();
    tell("The organization", &organization(old), &organization(new), &mut told);
    for (name, was, is) in pairs(&old.teams, &new.teams) {
        match (was, is) {
            (None, Some(is)) => told.push(format!("A new team: {}", team(name, *is))),
            (Some(_), None) => told.push(format!("There is no team {name} any more.")),
            (Some(was), Some(is)) if was != is => {
                let (was, is) = (team(name, *was), team(name, *is));
                told.push(format!("Before: {was} Now: {is}"));
            }
            _ => {}
        }
    }
    for (name, was, is) in pairs(&old.agents, &new.agents) {
        match (was, is) {
            (None, Some(_)) => told.push(format!("A new entry: {}", new.words_of(name))),
            (Some(_), None) => {
                told.push(format!("{name} has no entry any more, so it may do nothing."));
            }
            (Some(was), Some(is)) => tell(name.as_str(), &lines(was), &lines(is), &mut told),
            (None, None) => {}
        }
    }
    let (was, is) = (by_id(old), by_id(new));
    for (id, was, is) in pairs(&was, &is) {
        match (was, is) {
            (None, Some(is)) => told.push(format!("A new rule: {}", rule(is))),
            (Some(was), None) => told.push(format!("No longer: {}", rule(was))),
            (Some(was), Some(is)) if was != is => told.push(match (rule(was), rule(is)) {
                (was, is) if was == is => {
                    format!("Rule {id} is written differently, and reads the same.")
                }
                (was, is) => format!("Before: {was} Now: {is}"),
            }),
            _ => {}
        }
    }
    told
}

type Lines = BTreeMap<&'static str, String>;

/// Both sides of every name that either has.
fn pairs<'m, K: Ord, V>(
    old: &'m BTreeMap<K, V>,
    new: &'m BTreeMap<K, V>,
) -> impl Iterator<Item = (&'m K, Option<&'m V>, Option<&'m V>)> {
    let names: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    names.into_iter().map(|name| (name, old.get(name), new.get(name)))
}

fn tell(whose: &str, old: &Lines, new: &Lines, told: &mut Vec<String>) {
    for (key, was, is) in pairs(old, new) {
        match (was, is) {
            (None, Some(is)) => told.push(format!("{whose}: {key} is now {is}; it was not set.")),
            (Some(was), None) => {
                told.push(format!("{whose}: {key} is not set any more; it was {was}."));
            }
            (Some(was), Some(is)) if was != is => {
                told.push(format!("{whose}: {key} was {was} and is now {is}."));
            }
            _ => {}
        }
    }
}

fn organization(policy: &Policy) -> Lines {
    Lines::from([
        ("approval_timeout", span(policy.approval_timeout)),
        ("timezone", policy.timezone().to_owned()),
        ("when_stripe_asks", policy.when_stripe_asks.as_str().to_owned()),
    ])
}

fn lines(limits: &AgentLimits) -> Lines {
    let AgentLimits { methods, allowed_hosts, tools, tags, reviewers, .. } = limits;
    let dollars = [
        ("approval_threshold", limits.approval_threshold),
        ("daily_cap", limits.daily_cap),
        ("max_per_payment", limits.max_per_payment),
        ("monthly_cap", limits.monthly_cap),
        ("per_customer_daily_cap", limits.per_customer_daily_cap),
        ("weekly_cap", limits.weekly_cap),
    ];
    let dollars = dollars.into_iter().map(|(key, limit)| (key, limit.map(|it| it.to_string())));
    let list = |key, items: String| (key, Some(items).filter(|items| !items.is_empty()));
    let on_approval = match limits.on_approval {
        OnApproval::Agent => "agent",
        OnApproval::Execute => "execute",
    };
    let others = [
        list("allowed_hosts", and(allowed_hosts)),
        ("approvals_required", Some(limits.approvals_required.to_string())),
        list("methods", and(methods.iter().map(|method| method.as_str()))),
        ("on_approval", Some(on_approval.to_owned())),
        ("owner", limits.owner.as_ref().map(ToString::to_string)),
        ("refunds_per_hour", limits.refunds_per_hour.map(|count| count.to_string())),
        list("reviewers", and(reviewers)),
        list("tags", and(tags)),
        ("team", limits.team.as_ref().map(ToString::to_string)),
        list("tools", and(tools)),
        ("webhook", limits.webhook.as_ref().map(ToString::to_string)),
    ];
    dollars.chain(others).filter_map(|(key, value)| Some((key, value?))).collect()
}

fn by_id(policy: &Policy) -> BTreeMap<&str, &Rule> {
    policy.rules.list.iter().map(|rule| (rule.id.as_str(), rule)).collect()
}
