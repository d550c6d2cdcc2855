//! The decision: a pure function of what one transaction has read.

use gate_core::bugs::{self, Bug};
use gate_core::{
    Again, AgentId, Approval, ApprovalId, ApprovalState, Approver, Ask, AttemptId, AuthorityError,
    Charge, Decided, Decision, Denier, Event, FixedRequest, IdempotencyKey, Ids, Intent, IntentId,
    Lease, Preview, RequestParts, State, Timestamp, Valuation, Vote,
};
use gate_money::{Amount, Feed, MicroUsd, MoneyError, quote};
use gate_policy::{ApprovalTerms, CustomerHistory, Facts, NoRate, Policy, Verdict, Whose};
use gate_store::{AgentRow, Scope, Snapshot, SpendWindow, Write};

use crate::authority::{AuthorityConfig, actor, is_tagged, stops};
use crate::change::{Actor, Plan, moved};
use crate::keys::key_fingerprint;
use crate::rates::is_stale;
use crate::{approval, votes};

/// What a decision is made of besides the request.
pub(crate) struct World<'a> {
    pub(crate) now: Timestamp,
    pub(crate) seen: &'a Snapshot,
    pub(crate) config: &'a AuthorityConfig,
    pub(crate) ids: &'a dyn Ids,
}

/// The request, and the charge that was read for it.
pub(crate) struct Asked<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) charge: &'a Charge,
    pub(crate) attempt: &'a AttemptId,
}

/// What exists already for a request: what was asked before, or what a person denied.
pub(crate) fn found(seen: &Snapshot, ask: &Ask) -> Result<Option<Intent>, AuthorityError> {
    let forgotten = ask.key.is_none() && bugs::on(Bug::KeylessMatchIgnored);
    if let Some(prior) = seen.prior.as_ref().filter(|_| !forgotten) {
        same(prior, ask)?;
        // What is to be decided anew must not get round a person's denial under a new key.
        match prior.again() {
            Again::DecideAnew | Again::DecideAgain if seen.refused.is_some() => {}
            Again::DecideAgain
            | Again::DecideAnew
            | Again::Execute
            | Again::SameAnswer
            | Again::Wait => return Ok(Some(prior.clone())),
        }
    }
    Ok(seen.refused.clone().filter(|_| !bugs::on(Bug::DenialForgotten)))
}

/// Compares the arguments; a key-less request matched already, but for the currency.
fn same(prior: &Intent, ask: &Ask) -> Result<(), AuthorityError> {
    let mut ask = ask.clone();
    if ask.key.is_none() {
        ask.reason = prior.reason;
    }
    if bugs::on(Bug::ArgumentsNotBound) {
        return Ok(());
    }
    prior.same_as(&ask).map_err(AuthorityError::Asked)
}

/// Decides, reserves and records.
///
/// Invariant *one-transaction*: all of it is one plan.
pub(crate) fn decide(
    asked: &Asked<'_>,
    agent: &AgentRow,
    policy: &Policy,
    world: &World<'_>,
) -> Result<Plan<Decided>, AuthorityError> {
    if let Some(existing) = found(world.seen, asked.ask)? {
        if existing.attempt == *asked.attempt {
            return Ok(Plan::nothing(asked_again(existing, world)));
        }
        match existing.again() {
            Again::DecideAgain | Again::DecideAnew => {}
            Again::Execute | Again::SameAnswer | Again::Wait => {
                let decided = Decided { intent: existing, lease: None, replayed: true };
                return Ok(Plan::nothing(decided));
            }
        }
    }
    let mut writes = Vec::new();
    let intent = match &world.seen.prior {
        Some(prior) if prior.again() == Again::DecideAgain => {
            let intent = again(prior, asked, world)?;
            if intent.approval.is_some() && !votes::is_what_was_seen(&intent) {
                return approval::stale(&intent, &actor(agent), world);
            }
            intent
        }
        Some(prior) => {
            writes.push(Write::SurrenderKey(prior.id.clone()));
            let approval = prior.approval.clone().filter(|_| bugs::on(Bug::ApprovalReusable));
            Intent { approval, ..fresh(asked, agent, world)? }
        }
        None => fresh(asked, agent, world)?,
    };
    let approved = approval::usable(intent.approval.as_ref(), world.now);
    let votes = approved.then(|| votes::standing(&intent, policy, world.seen));
    let mut plan = judged(intent, asked.charge, policy, votes.as_deref(), &actor(agent), world)?;
    if let Some(words) = &asked.ask.justification {
        add_justification(&mut plan, words.as_str());
    }
    writes.append(&mut plan.writes);
    Ok(Plan { writes, reply: plan.reply })
}

/// The same call, asked again because its answer was lost: the same intent and the same lease.
fn asked_again(intent: Intent, world: &World<'_>) -> Decided {
    let lease = match (intent.state, intent.lease_until) {
        (State::Submitted, Some(until)) if until > world.now => {
            // A clock that was set back does not make a lease longer.
            let span = until.since(world.now).min(world.config.lease);
            Some(Lease { fence: intent.fence, span })
        }
        _ => None,
    };
    Decided { intent, lease, replayed: false }
}

/// Has the policy judge `intent` and moves it accordingly: submitted with its spend reserved and
/// its request fixed, held for a person, or denied.
pub(crate) fn judged(
    mut intent: Intent,
    charge: &Charge,
    policy: &Policy,
    votes: Option<&[Vote]>,
    by: &Actor,
    world: &World<'_>,
) -> Result<Plan<Decided>, AuthorityError> {
    let was = intent.state;
    let kept = intent.worth.clone().filter(|_| bugs::on(Bug::WorthOfAskingKept));
    let worth = kept.map_or_else(|| worth(intent.amount, world), Ok);
    let verdict = verdict(&intent, charge, &worth, policy, votes, world);
    intent.worth = worth.ok();
    let mut seen = charge.clone();
    seen.channel.agent_tagged = is_tagged(world.seen, &charge.channel);
    intent.seen = Some(Box::new(seen));
    intent.team = policy.team_of(&intent.agent_name).cloned();
    intent.policy_version = world.seen.policy.as_ref().map_or(0, |policy| policy.version);
    let mut reserve = None;
    let unchecked = votes.is_some() && bugs::on(Bug::HardChecksSkipped);
    let decision = if unchecked { Decision::Allow } else { verdict.decision };
    let event = match decision {
        Decision::Deny => {
            intent.reasons = verdict.reasons;
            intent.denied_by = Some(Denier::Policy);
            Event::Deny
        }
        Decision::RequireApproval => {
            intent.reasons = verdict.reasons;
            let digest = votes::digest(&intent);
            intent.approval = Some(asked_for(verdict.approval.as_ref(), digest, world)?);
            if bugs::on(Bug::PendingCounts) {
                let (intent, usd) = (intent.id.clone(), MicroUsd::ZERO);
                reserve = Some(Write::Reserve { intent, usd, windows: Vec::new() });
            }
            Event::Hold
        }
        Decision::Allow => {
            let usd = intent.worth.as_ref().map(|worth| worth.usd).ok_or_else(|| {
                AuthorityError::Broken("allowed what could not be counted".to_owned())
            })?;
            if votes.is_none() {
                intent.reasons = verdict.reasons.clone();
            }
            submit(&mut intent, charge, usd, world);
            reserve = Some(Write::Reserve {
                intent: intent.id.clone(),
                usd,
                windows: spend_windows(&intent, &verdict),
            });
            Event::Allow
        }
    };
    let (intent, mut writes) = moved(was, intent, event, by, world.now, world.ids)?;
    writes.extend(reserve.filter(|_| !bugs::on(Bug::SubmittedDoesNotCount)));
    let lease = (intent.state == State::Submitted)
        .then_some(Lease { fence: intent.fence, span: world.config.lease });
    Ok(Plan { writes, reply: Decided { intent, lease, replayed: false } })
}

/// What would be decided now.
pub(crate) fn preview(
    ask: &Ask,
    charge: &Charge,
    agent: &AgentRow,
    policy: &Policy,
    world: &World<'_>,
) -> Result<Preview, AuthorityError> {
    let attempt = AttemptId::make(world.now, world.ids);
    let intent = fresh(&Asked { ask, charge, attempt: &attempt }, agent, world)?;
    let worth = worth(intent.amount, world);
    let (decision, reasons) = match &world.seen.refused {
        Some(refused) => (Decision::Deny, refused.reasons.clone()),
        None => {
            let verdict = verdict(&intent, charge, &worth, policy, None, world);
            (verdict.decision, verdict.reasons)
        }
    };
    Ok(Preview {
        decision,
        reasons,
        charge: charge.clone(),
        amount: intent.amount,
        worth: worth.ok(),
        policy_version: world.seen.policy.as_ref().map_or(0, |policy| policy.version),
    })
}

fn verdict(
    intent: &Intent,
    charge: &Charge,
    worth: &Result<Valuation, NoRate>,
    policy: &Policy,
    votes: Option<&[Vote]>,
    world: &World<'_>,
) -> Verdict {
    let spent = |window: &gate_policy::Window| {
        let window = spend_window(&intent.agent, window);
        let mut sums = world.seen.spent.iter();
        let unseen = matches!(window.scope, Scope::Team(_)) && bugs::on(Bug::TeamSpendNotSeen);
        let spent = sums.find(|spent| spent.window == window && !unseen);
        spent.map(|spent| spent.usd).unwrap_or_default()
    };
    gate_policy::decide(
        policy,
        &Facts {
            agent: &intent.agent_name,
            tool: intent.tool,
            reason: intent.reason,
            charge,
            amount: intent.amount,
            worth: worth.as_ref().map_err(|none| *none),
            now: if bugs::on(Bug::ReservedInDayOfAsking) { intent.created_at } else { world.now },
            stops: stops(world.seen, &intent.agent, &intent.agent_name, policy),
            spent: &spent,
            recent_refunds: world.seen.recent_refunds,
            customer: CustomerHistory {
                refunds_30d: world.seen.refunded.count,
                usd_30d: world.seen.refunded.usd,
            },
            votes,
            agent_tagged: is_tagged(world.seen, &charge.channel),
        },
    )
}

fn fresh(asked: &Asked<'_>, agent: &AgentRow, world: &World<'_>) -> Result<Intent, AuthorityError> {
    let (ask, charge, now) = (asked.ask, asked.charge, world.now);
    let amount = gate_core::resolve(charge, ask.wanted, ask.believed_currency)
        .map_err(AuthorityError::Asked)?;
    Ok(Intent {
        id: IntentId::make(now, world.ids),
        agent: agent.id.clone(),
        agent_name: agent.name.clone(),
        team: None,
        tool: ask.tool,
        key: ask.key.clone().unwrap_or_else(|| IdempotencyKey::make(now, world.ids)),
        keyless: ask.key.is_none(),
        wanted: ask.wanted,
        reason: ask.reason,
        charge: charge.id.clone(),
        payment_intent: charge.payment_intent.clone(),
        seen: None,
        amount,
        worth: None,
        livemode: charge.channel.livemode,
        account: charge.channel.account.clone(),
        state: State::Asked,
        denied_by: None,
        reasons: Vec::new(),
        policy_version: 0,
        approval: None,
        refund: None,
        failure: None,
        needs_person: false,
        request: None,
        submitted_at: None,
        attempt: asked.attempt.clone(),
        fence: 0,
        lease_until: None,
        created_at: now,
        updated_at: now,
        settled_at: None,
        follow_at: None,
    })
}

/// An intent of which Stripe certainly did nothing, to be decided again: same id, same key at
/// Stripe, same bytes. An approval that can still be used goes on with the reasons that its
/// reviewers saw; one that cannot is over.
fn again(prior: &Intent, asked: &Asked<'_>, world: &World<'_>) -> Result<Intent, AuthorityError> {
    let charge = asked.charge;
    if prior.livemode != charge.channel.livemode || prior.account != charge.channel.account {
        return Err(AuthorityError::Asked(gate_core::ActionError::LivemodeMismatch));
    }
    let left = charge.left().map_err(AuthorityError::Asked)?;
    if prior.amount.minor() > left.minor() {
        let asked = prior.amount;
        let error = gate_core::ActionError::AmountOverRefundable { asked, left };
        return Err(AuthorityError::Asked(error));
    }
    let mut intent = prior.clone();
    intent.attempt = asked.attempt.clone();
    if !approval::usable(intent.approval.as_ref(), world.now) {
        intent.approval = None;
        intent.reasons.clear();
    }
    intent.failure = None;
    Ok(intent)
}

/// Fixes the request, if it is not yet (Invariant *same-bytes*), and gives its lease to whoever
/// asked.
fn submit(intent: &mut Intent, charge: &Charge, usd: MicroUsd, world: &World<'_>) {
    if intent.request.is_none() {
        intent.request = Some(FixedRequest::build(&RequestParts {
            intent: &intent.id,
            agent: &intent.agent,
            charge: &intent.charge,
            amount: intent.amount,
            reason: intent.reason,
            key_hash: &key_fingerprint(&intent.agent, &intent.key),
            usd_micros: usd.micros(),
            audit_head: &world.seen.head.hex(),
            channel: &charge.channel,
        }));
    }
    intent.submitted_at = Some(world.now);
    intent.fence = intent.fence.saturating_add(1);
    intent.lease_until = Some(world.now.after(world.config.lease));
}

fn asked_for(
    terms: Option<&ApprovalTerms>,
    digest: String,
    world: &World<'_>,
) -> Result<Approval, AuthorityError> {
    let terms =
        terms.ok_or_else(|| AuthorityError::Broken("an approval without terms".to_owned()))?;
    Ok(Approval {
        id: ApprovalId::make(world.now, world.ids),
        state: ApprovalState::Pending,
        approver: Approver::Authority,
        expires_at: world.now.after(terms.timeout),
        digest,
        votes: Vec::new(),
        decided_at: None,
        decided_by: None,
        note: None,
        justifications: Vec::new(),
        on_approval: terms.on_approval,
        hold_id: None,
        hold_url: None,
    })
}

/// The agent's own words, for the reviewers of what was just held.
fn add_justification(plan: &mut Plan<Decided>, words: &str) {
    let keep = |intent: &mut Intent| {
        if let Some(approval) = &mut intent.approval
            && approval.state == ApprovalState::Pending
        {
            approval.justifications.push(words.to_owned());
        }
    };
    keep(&mut plan.reply.intent);
    for write in &mut plan.writes {
        if let Write::InsertIntent(intent) | Write::UpdateIntent { intent, .. } = write {
            keep(intent);
        }
    }
}

/// What `amount` counts, with today's rate.
fn worth(amount: Amount, world: &World<'_>) -> Result<Valuation, NoRate> {
    let feed = match &world.seen.rates {
        None => Feed::Missing,
        Some(table)
            if is_stale(table, world.now, world.config.rates_max_age)
                && !bugs::on(Bug::StaleRatesUsed) =>
        {
            Feed::Stale(table)
        }
        Some(table) => Feed::Current(table),
    };
    let quoted = quote(amount.currency(), &world.config.pins, feed)
        .and_then(|quote| Ok((quote.rate.to_micro_usd(amount)?, quote)));
    match quoted {
        Ok((usd, quote)) => {
            Ok(Valuation { usd, rate: quote.rate, date: quote.date.map(str::to_owned) })
        }
        Err(MoneyError::RatesStale { .. }) => Err(NoRate::Stale),
        // An amount too large to be counted has no more of a value than one without a rate.
        Err(_) => Err(NoRate::NotSupported),
    }
}

pub(crate) fn spend_windows(intent: &Intent, verdict: &Verdict) -> Vec<SpendWindow> {
    let kept = |window: &&gate_policy::Window| {
        !(matches!(window.whose, Whose::Team(_)) && bugs::on(Bug::TeamBudgetNotReserved))
    };
    let windows = verdict.windows.iter().filter(kept);
    windows.map(|window| spend_window(&intent.agent, window)).collect()
}

/// Where the store counts what a window of the policy bounds.
pub(crate) fn spend_window(agent: &AgentId, window: &gate_policy::Window) -> SpendWindow {
    let scope = match &window.whose {
        Whose::Agent => Scope::Agent(agent.clone()),
        Whose::Customer(customer) => {
            Scope::Customer { agent: agent.clone(), customer: customer.clone() }
        }
        Whose::Team(team) => Scope::Team(team.clone()),
    };
    SpendWindow {
        scope,
        period: window.period.as_str().to_owned(),
        starts_at: window.starts_at,
        ends_at: window.ends_at,
    }
}
