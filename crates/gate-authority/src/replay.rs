//! History decided again: what another policy would have said, before it bites.
//!
//! Each stored request is decided with the facts of its own time (the charge as it was seen, its
//! worth, the stops that held it) in the order in which they were asked. Spend is simulated: what
//! the policy lets through counts, in its windows, for those that come after. What it would have put
//! before people counts as approved, unless people did say no, or said nothing; what was made counts
//! as long as its money stayed away.

use std::collections::BTreeMap;
use std::time::Duration;

use gate_core::{
    AgentId, AgentName, CustomerId, Decision, DecisionReason, Denier, Intent, IntentId, ReasonCode,
    State, Timestamp,
};
use gate_money::{Amount, MicroUsd};
use gate_policy::{CustomerHistory, Facts, NoRate, Policy, Stops, Verdict};
use gate_store::SpendWindow;

use crate::decide::spend_window;

/// How long a refund counts for an agent's rate.
const RECENT: Duration = Duration::from_secs(3600);
/// How long a refund counts for its customer.
const CUSTOMER_HISTORY: Duration = Duration::from_secs(30 * 24 * 3600);
/// How far before its beginning a replay looks, for what was spent when it begins: a month.
pub(crate) const BEFORE: Duration = Duration::from_secs(31 * 24 * 3600);

/// What another policy would have decided.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// How many requests were decided again.
    pub decided: usize,
    /// How many could not be: what their decision went by was not kept.
    pub left_out: usize,
    /// How often, and over how many dollars, which decision would have been which.
    pub sums: Vec<Sum>,
    /// The requests of which the decision would have been another, oldest first.
    pub changed: Vec<Change>,
}

/// How many decisions would have become another, or stayed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sum {
    /// As it was decided.
    pub was: Decision,
    /// As it would be.
    pub would: Decision,
    /// How many.
    pub count: usize,
    /// What they are worth together, as far as they could be counted.
    pub usd: MicroUsd,
}

/// One request of which the decision would have been another.
#[derive(Clone, Debug)]
pub struct Change {
    /// The request.
    pub intent: IntentId,
    /// When it was asked.
    pub at: Timestamp,
    /// Who asked.
    pub agent: AgentName,
    /// For how much.
    pub amount: Amount,
    /// What it is worth, where there was a rate.
    pub usd: Option<MicroUsd>,
    /// As it was decided.
    pub was: Decision,
    /// As it would be.
    pub would: Decision,
    /// Why it would.
    pub reasons: Vec<DecisionReason>,
}

/// Decides `intents` (oldest first) again with `policy`; those before `since` only count.
pub(crate) fn replay(policy: &Policy, intents: &[Intent], since: Timestamp) -> Replay {
    let mut course = Course { policy, spent: BTreeMap::new(), made: BTreeMap::new() };
    let mut replay = Replay::default();
    for intent in intents {
        if intent.created_at < since {
            if intent.state.counts() || intent.state == State::Reversed {
                course.count(intent);
            }
            continue;
        }
        let Some(verdict) = course.decide(intent) else {
            replay.left_out = replay.left_out.saturating_add(1);
            continue;
        };
        let (was, would) = (was(intent), verdict.decision);
        replay.add(intent, was, verdict);
        if would != Decision::Deny && leaves(intent, was) {
            course.count(intent);
        }
    }
    replay
}

/// Whether the money of a request that is let through leaves: as it really was, and where it was
/// never sent, unless people kept it back.
fn leaves(intent: &Intent, was: Decision) -> bool {
    match intent.state {
        State::Submitted | State::AwaitingStripe | State::Settled | State::Reversed => true,
        State::Denied => was == Decision::Deny && intent.denied_by == Some(Denier::Policy),
        State::Asked
        | State::PendingApproval
        | State::Approved
        | State::NotExecuted
        | State::Failed
        | State::Expired
        | State::Canceled => false,
    }
}

/// What was decided when it was first asked.
fn was(intent: &Intent) -> Decision {
    let denied = intent.state == State::Denied && intent.denied_by == Some(Denier::Policy);
    let asked = intent.reasons.iter().any(|reason| reason.requires.is_some());
    if denied && intent.approval.is_none() {
        Decision::Deny
    } else if asked || intent.submitted_at.is_none() {
        Decision::RequireApproval
    } else {
        Decision::Allow
    }
}

impl Replay {
    fn add(&mut self, intent: &Intent, was: Decision, verdict: Verdict) {
        self.decided = self.decided.saturating_add(1);
        let would = verdict.decision;
        let usd = intent.worth.as_ref().map(|worth| worth.usd);
        let more = usd.unwrap_or_default();
        let same = |sum: &&mut Sum| sum.was == was && sum.would == would;
        match self.sums.iter_mut().find(same) {
            Some(sum) => {
                sum.count = sum.count.saturating_add(1);
                sum.usd = sum.usd.checked_add(more).unwrap_or(sum.usd);
            }
            None => self.sums.push(Sum { was, would, count: 1, usd: more }),
        }
        if was != would {
            self.changed.push(Change {
                intent: intent.id.clone(),
                at: intent.created_at,
                agent: intent.agent_name.clone(),
                amount: intent.amount,
                usd,
                was,
                would,
                reasons: verdict.reasons,
            });
        }
    }
}

/// What is spent and made so far.
struct Course<'a> {
    policy: &'a Policy,
    spent: BTreeMap<SpendWindow, MicroUsd>,
    /// When refunds were made, oldest first, by agent and by customer, with their worth.
    made: BTreeMap<Whom, Vec<(Timestamp, MicroUsd)>>,
}

#[derive(Eq, Ord, PartialEq, PartialOrd)]
enum Whom {
    Agent(AgentId),
    Customer(CustomerId),
}

impl Course<'_> {
    fn decide(&self, intent: &Intent) -> Option<Verdict> {
        let charge = intent.seen.as_ref()?;
        let had = |code| intent.reasons.iter().any(|reason| reason.code == code);
        let no_rate =
            if had(ReasonCode::RatesStale) { NoRate::Stale } else { NoRate::NotSupported };
        let spent = |window: &gate_policy::Window| {
            self.spent.get(&spend_window(&intent.agent, window)).copied().unwrap_or_default()
        };
        let now = intent.created_at;
        let (recent_refunds, _) = self.since(&Whom::Agent(intent.agent.clone()), now, RECENT);
        let customer = charge.customer.id().map(|id| Whom::Customer(id.clone()));
        let (refunds_30d, usd_30d) =
            customer.map(|of| self.since(&of, now, CUSTOMER_HISTORY)).unwrap_or_default();
        Some(gate_policy::decide(
            self.policy,
            &Facts {
                agent: &intent.agent_name,
                tool: intent.tool,
                reason: intent.reason,
                charge,
                amount: intent.amount,
                worth: intent.worth.as_ref().ok_or(no_rate),
                now,
                stops: Stops {
                    organization: had(ReasonCode::OrganizationStopped),
                    team: had(ReasonCode::TeamStopped),
                    agent: had(ReasonCode::AgentStopped),
                },
                spent: &spent,
                recent_refunds,
                customer: CustomerHistory { refunds_30d, usd_30d },
                votes: None,
                agent_tagged: charge.channel.agent_tagged,
            },
        ))
    }

    fn since(&self, whom: &Whom, now: Timestamp, span: Duration) -> (u32, MicroUsd) {
        let made = self.made.get(whom).map_or(&[][..], Vec::as_slice);
        let recent = made.iter().rev().take_while(|(at, _)| *at > now.before(span));
        recent.fold((0, MicroUsd::ZERO), |(count, sum), (_, usd)| {
            (count.saturating_add(1), sum.checked_add(*usd).unwrap_or(sum))
        })
    }

    /// Counts a refund from when it was really sent, or else from when it was asked.
    fn count(&mut self, intent: &Intent) {
        let usd = intent.worth.as_ref().map(|worth| worth.usd).unwrap_or_default();
        let at = intent.submitted_at.unwrap_or(intent.created_at);
        let customer = intent.seen.as_ref().and_then(|seen| seen.customer.id());
        let agent = Whom::Agent(intent.agent.clone());
        for whom in [Some(agent), customer.map(|id| Whom::Customer(id.clone()))] {
            let Some(whom) = whom else { continue };
            self.made.entry(whom).or_default().push((at, usd));
        }
        if intent.state == State::Reversed {
            return;
        }
        for (window, ..) in gate_policy::windows(self.policy, &intent.agent_name, customer, at) {
            let sum = self.spent.entry(spend_window(&intent.agent, &window)).or_default();
            *sum = sum.checked_add(usd).unwrap_or(*sum);
        }
    }
}
