//! I4 and I5: what is counted is what was reserved by what may have left, within the caps.

use std::collections::BTreeMap;

use gate_core::{AgentId, CustomerId, Intent, IntentId};
use gate_money::MicroUsd;
use gate_policy::Policy;
use gate_store::{AgentRow, Reservation, Scope, Snapshot, SpendWindow};

use super::Finding;
use super::history::{self, Histories, InForce};
use crate::decide::spend_window;

const STOP: &str = "stop the agent, and correct the spend in the store from the intents that count, \
                    or restore it from a backup";

/// Everything that is wrong with what is counted.
pub(super) fn findings(
    policy: Option<&InForce>,
    histories: &Histories<'_>,
    seen: &Snapshot,
) -> Vec<Finding> {
    let intents: BTreeMap<&IntentId, &Intent> =
        seen.intents.iter().map(|intent| (&intent.id, intent)).collect();
    let versions = history::versions(seen);
    let mut found = Vec::new();
    let mut sums: BTreeMap<&SpendWindow, i128> = BTreeMap::new();
    let mut by_intent: BTreeMap<&IntentId, Vec<&Reservation>> = BTreeMap::new();
    for reservation in &seen.books.reservations {
        let sum = sums.entry(&reservation.window).or_default();
        *sum = sum.saturating_add(reservation.usd.micros().into());
        by_intent.entry(&reservation.intent).or_default().push(reservation);
    }
    for (id, intent) in &intents {
        let own = by_intent.remove(*id).unwrap_or_default();
        let late = histories.found_late(id);
        let what = intent_fault(intent, &own, late, &versions);
        found.extend(what.map(|what| Finding::fault("I4", Some(id), what, STOP)));
    }
    for id in by_intent.into_keys() {
        let what = "it counts, and there is no such intent".to_owned();
        found.push(Finding::fault("I4", Some(id), what, STOP));
    }
    for spent in &seen.books.windows {
        let sum = sums.remove(&spent.window).unwrap_or_default();
        if i128::from(spent.usd.micros()) != sum {
            let sum = i64::try_from(sum).ok().and_then(|sum| MicroUsd::new(sum).ok());
            let sum = sum.map_or_else(|| "more".to_owned(), |sum| sum.to_string());
            let (total, name) = (spent.usd, name(&spent.window));
            let what = format!("{name} counts {total}, and its reservations are {sum}");
            found.push(Finding::fault("I4", None, what, STOP));
        } else if let Some(cap) = cap(&spent.window, policy, seen)
            && spent.usd > cap
            && !excused(&spent.window, histories, seen)
        {
            let what =
                format!("{} counts {}, over its cap of {cap}", name(&spent.window), spent.usd);
            found.push(Finding::fault("I5", None, what, "stop the agent, and find out how"));
        }
    }
    for window in sums.into_keys() {
        let what = format!("{} is not counted, and has reservations", name(window));
        found.push(Finding::fault("I4", None, what, STOP));
    }
    found
}

/// What is wrong with an intent's reservations. (A refund that was found late was counted when it
/// was found.)
fn intent_fault(
    intent: &Intent,
    own: &[&Reservation],
    late: bool,
    versions: &BTreeMap<u64, Policy>,
) -> Option<String> {
    let state = intent.state.as_str();
    if !intent.state.counts() {
        return (!own.is_empty()).then(|| format!("it is {state}, and still counts"));
    }
    let Some(usd) = intent.worth.as_ref().map(|worth| worth.usd) else {
        return Some(format!("it is {state}, and has no worth in dollars"));
    };
    let customer = customer(intent);
    let decided = versions.get(&intent.policy_version).filter(|_| !late).zip(intent.submitted_at);
    let windows = decided.map(|(policy, at)| {
        let windows = gate_policy::windows(policy, &intent.agent_name, customer, at);
        windows.iter().map(|(window, ..)| spend_window(&intent.agent, window)).collect::<Vec<_>>()
    });
    if own.is_empty() {
        return Some(format!("it is {state}, and does not count"));
    }
    if let Some(wrong) = own.iter().find(|reservation| reservation.usd != usd) {
        return Some(format!("it counts {}, and is worth {usd}", wrong.usd));
    }
    let submitted_at = intent.submitted_at?;
    let elsewhere = |reservation: &&&Reservation| {
        let window = &reservation.window;
        let then = window.starts_at <= submitted_at && submitted_at < window.ends_at;
        !counts_for(intent, &window.scope) || !(then || late)
    };
    if let Some(wrong) = own.iter().find(elsewhere) {
        return Some(format!("it counts in {}, where it was not submitted", name(&wrong.window)));
    }
    let missing =
        windows?.into_iter().find(|window| own.iter().all(|one| one.window != *window))?;
    Some(format!("it does not count in {}", name(&missing)))
}

/// Whose windows an intent may count in.
fn counts_for(intent: &Intent, scope: &Scope) -> bool {
    match scope {
        Scope::Agent(agent) => *agent == intent.agent,
        Scope::Customer { agent, customer: of } => {
            *agent == intent.agent && Some(of) == customer(intent)
        }
        Scope::Organization => false,
        Scope::Team(team) => Some(team) == intent.team.as_ref(),
    }
}

fn customer(intent: &Intent) -> Option<&CustomerId> {
    intent.seen.as_ref().and_then(|seen| seen.customer.id())
}

/// The cap of a window, where the policy in force was so before the window began.
fn cap(window: &SpendWindow, policy: Option<&InForce>, seen: &Snapshot) -> Option<MicroUsd> {
    let policy = &policy.filter(|policy| policy.since <= window.starts_at)?.policy;
    let row = |id: &AgentId| seen.agents.iter().find(|row| row.id == *id);
    let (agent, customer) = match &window.scope {
        Scope::Agent(id) => (row(id)?, None),
        Scope::Customer { agent, customer } => (row(agent)?, Some(customer)),
        Scope::Organization => return None,
        Scope::Team(team) => {
            let member = |row: &&AgentRow| policy.team_of(&row.name) == Some(team);
            (seen.agents.iter().find(member)?, None)
        }
    };
    let windows = gate_policy::windows(policy, &agent.name, customer, window.starts_at);
    let same = |found: &gate_policy::Window| spend_window(&agent.id, found) == *window;
    windows.into_iter().find(|(found, ..)| same(found)).map(|(.., cap)| cap)
}

/// Whether a refund that was found late is why it is over.
fn excused(window: &SpendWindow, histories: &Histories<'_>, seen: &Snapshot) -> bool {
    let mut own = seen.books.reservations.iter().filter(|one| one.window == *window);
    own.any(|reservation| histories.found_late(&reservation.intent))
}

/// A window as a person reads it.
fn name(window: &SpendWindow) -> String {
    let starts_at = jiff::Timestamp::from_millisecond(window.starts_at.millis());
    let starts_at = starts_at.map_or_else(|_| "?".to_owned(), |at| at.to_string());
    format!("the {} of {} from {starts_at}", window.period, window.scope.text())
}
