//! What agents with a webhook are told. The audit log is the outbox: each change has one entry there,
//! written with it and in order, and each webhook remembers how far it was told.
//!
//! Beside taking an event and recording its fate nothing is written for a notice, and never in the
//! transaction of a refund.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use gate_core::{
    AgentId, AgentName, AuthorityError, Fate, IntentId, Notice, Outbox, ReasonCode, RefundStatus,
    State, Timestamp, Waiting,
};
use gate_policy::Policy;
use gate_store::{
    AgentBy, AgentRow, AuditRange, AuditRow, IntentBy, Reads, Snapshot, WebhookRow, Write,
};

use crate::authority::LocalAuthority;
use crate::change::{Plan, transact};

/// Entries of the audit log that are read at once.
const PART: u32 = 200;
/// So many entries that are not for an agent are passed over by heart; then it is written down, so
/// that the next process need not read them again.
const PASSED_OVER_MAX: u64 = 2000;
/// Longest result of an attempt that is kept, in characters.
const RESULT_CHARS_MAX: usize = 200;
/// How long the secret before a rotation signs too.
const ROTATION_GRACE: Duration = Duration::from_secs(24 * 3600);

/// The audit log as the outbox of an authority.
pub struct Notices {
    authority: Arc<LocalAuthority>,
    passed_over: Mutex<BTreeMap<AgentName, PassedOver>>,
}

/// That nothing between two entries is for an agent.
#[derive(Clone, Copy)]
struct PassedOver {
    from: u64,
    to: u64,
}

/// An entry that an agent may have to be told of.
#[derive(Clone)]
struct Found {
    n: u64,
    at: Timestamp,
    intent: IntentId,
    event: &'static str,
}

impl Found {
    /// What has to be read to take it.
    fn reads(&self) -> Reads {
        let intent = Some(IntentBy::Id(self.intent.clone()));
        Reads { intent, webhooks: true, ..Reads::default() }
    }

    /// Takes it from a webhook that is free, if it is about an intent of that agent's.
    fn taken(
        &self,
        row: &WebhookRow,
        agent: &AgentId,
        seen: &Snapshot,
        now: Timestamp,
        lease: Duration,
    ) -> Option<(WebhookRow, Box<Notice>)> {
        let intent = seen.intent.as_ref().filter(|intent| intent.agent == *agent)?;
        let taken_until = now.after(lease);
        let notice = Notice {
            agent: row.agent.clone(),
            url: row.url.clone()?,
            n: self.n,
            event: self.event,
            at: self.at,
            taken_at: now,
            taken_until,
            attempts: row.attempts,
            intent: intent.clone(),
            generations: generations(row, now),
        };
        let row = WebhookRow { next_try_at: Some(taken_until), ..row.clone() };
        Some((row, Box::new(notice)))
    }
}

/// What trying to take an entry came to.
enum Claim {
    /// It is about another agent's intent.
    Anothers,
    /// Somebody else was faster, or a person intervened.
    Lost,
    Taken(Box<Notice>),
}

impl Notices {
    /// The outbox of `authority`.
    #[must_use]
    pub const fn new(authority: Arc<LocalAuthority>) -> Self {
        Self { authority, passed_over: Mutex::new(BTreeMap::new()) }
    }

    /// The first entry after `after` that an agent is told of, as far as the entry says, or else up to
    /// where there is none.
    async fn next(
        &self,
        agent: &AgentId,
        after: u64,
    ) -> Result<Result<Found, u64>, AuthorityError> {
        let mut after = after;
        loop {
            let part = self.authority.audit(AuditRange { after, limit: PART }).await?;
            if let Some(found) = part.iter().find_map(|entry| happened(entry, agent)) {
                return Ok(Ok(found));
            }
            match part.last() {
                // What stands before the first was read with the first part.
                Some(last) => after = last.n.max(1),
                None => return Ok(Err(after)),
            }
        }
    }

    async fn claim(
        &self,
        row: &WebhookRow,
        agent: &AgentId,
        found: &Found,
        lease: Duration,
    ) -> Result<Claim, AuthorityError> {
        let (was, agent, found) = (row.clone(), agent.clone(), found.clone());
        let reads = found.reads();
        let judge = move |now: Timestamp, seen: &Snapshot| {
            let unchanged = |row: &&WebhookRow| row.url == was.url && row.done_to == was.done_to;
            let free = own(seen, &was.agent).filter(unchanged).filter(|row| is_free(row, now));
            let Some(row) = free else { return Plan::nothing(Claim::Lost) };
            match found.taken(row, &agent, seen, now, lease) {
                None => Plan::nothing(Claim::Anothers),
                Some((row, notice)) => {
                    Plan { writes: vec![Write::PutWebhook(row)], reply: Claim::Taken(notice) }
                }
            }
        };
        transact(self.authority.store.as_ref(), reads, judge).await
    }

    /// Up to where nothing of the log is for the agent that was not dealt with.
    fn looked_to(&self, row: &WebhookRow) -> u64 {
        let known = self.passed_over.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&row.agent).filter(|known| known.from == row.done_to);
        known.map_or(row.done_to, |known| known.to)
    }

    async fn pass_over(&self, row: &WebhookRow, to: u64) -> Result<(), AuthorityError> {
        if to.saturating_sub(row.done_to) < PASSED_OVER_MAX {
            let passed = PassedOver { from: row.done_to, to };
            let mut known = self.passed_over.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(row.agent.clone(), passed);
            return Ok(());
        }
        let was = row.clone();
        let judge = move |_, seen: &Snapshot| {
            let unchanged = own(seen, &was.agent).filter(|row| **row == was);
            let writes = unchanged.map(|row| WebhookRow { done_to: to, ..row.clone() });
            Plan { writes: writes.map(Write::PutWebhook).into_iter().collect(), reply: () }
        };
        let reads = Reads { webhooks: true, ..Reads::default() };
        transact(self.authority.store.as_ref(), reads, judge).await
    }
}

#[async_trait]
impl Outbox for Notices {
    async fn waiting(&self) -> Result<Waiting, AuthorityError> {
        let seen = self.authority.read(Reads { webhooks: true, ..Reads::default() }).await?;
        let mut waiting = Waiting::default();
        let has_news = |row: &&WebhookRow| {
            row.url.is_some() && row.disabled_at.is_none() && self.looked_to(row) < seen.head.n
        };
        let rows: Vec<&WebhookRow> = seen.webhooks.iter().filter(has_news).collect();
        if rows.is_empty() {
            return Ok(waiting);
        }
        let now = self.authority.now().await?;
        for row in rows {
            match row.next_try_at.filter(|at| *at > now) {
                None => waiting.due.push(row.agent.clone()),
                Some(at) => {
                    let left = at.since(now);
                    waiting.next_in = Some(waiting.next_in.map_or(left, |it| it.min(left)));
                }
            }
        }
        Ok(waiting)
    }

    async fn take(
        &self,
        agent: &AgentName,
        lease: Duration,
    ) -> Result<Option<Notice>, AuthorityError> {
        let by = AgentBy::Name(agent.to_string());
        let reads = Reads { agent: Some(by), webhooks: true, ..Reads::default() };
        let seen = self.authority.read(reads).await?;
        let Some(row) = own(&seen, agent) else { return Ok(None) };
        // Without such an agent there are no intents of its.
        let Some(AgentRow { id, .. }) = &seen.agent else {
            self.pass_over(row, seen.head.n).await?;
            return Ok(None);
        };
        let mut after = self.looked_to(row);
        loop {
            match self.next(id, after).await? {
                Err(to) => {
                    self.pass_over(row, to).await?;
                    return Ok(None);
                }
                Ok(found) => match self.claim(row, id, &found, lease).await? {
                    Claim::Anothers => after = found.n,
                    Claim::Lost => return Ok(None),
                    Claim::Taken(notice) => return Ok(Some(*notice)),
                },
            }
        }
    }

    async fn record(
        &self,
        notice: &Notice,
        fate: Fate,
        result: &str,
        lease: Option<Duration>,
    ) -> Result<Option<Notice>, AuthorityError> {
        let Notice { agent, url, n, taken_until, .. } = notice.clone();
        let id = notice.intent.agent.clone();
        let next = match lease.filter(|_| fate == Fate::Delivered) {
            Some(lease) => self.next(&id, n).await?.ok().map(|found| (found, lease)),
            None => None,
        };
        // It may have words of the receiver's, and is shown on terminals.
        let printable = result.chars().map(|c| if c.is_control() { ' ' } else { c });
        let result: String = printable.take(RESULT_CHARS_MAX).collect();
        let nothing = Reads { webhooks: true, ..Reads::default() };
        let reads = next.as_ref().map_or(nothing, |(found, _)| found.reads());
        let judge = move |now, seen: &Snapshot| {
            let as_taken = |row: &&WebhookRow| {
                let own = row.next_try_at == Some(taken_until) && row.url.as_ref() == Some(&url);
                own && row.done_to < n
            };
            let Some(row) = own(seen, &agent).filter(as_taken) else { return Plan::nothing(None) };
            let row = WebhookRow {
                last_try_at: Some(now),
                last_result: Some(result.clone()),
                ..after(row.clone(), n, fate, now)
            };
            let taken =
                next.as_ref().and_then(|(it, lease)| it.taken(&row, &id, seen, now, *lease));
            let (row, reply) = taken.map_or((row, None), |(row, notice)| (row, Some(*notice)));
            Plan { writes: vec![Write::PutWebhook(row)], reply }
        };
        transact(self.authority.store.as_ref(), reads, judge).await
    }
}

pub(crate) fn own<'a>(seen: &'a Snapshot, agent: &AgentName) -> Option<&'a WebhookRow> {
    seen.webhooks.iter().find(|row| row.agent == *agent)
}

fn is_free(row: &WebhookRow, now: Timestamp) -> bool {
    row.disabled_at.is_none() && row.next_try_at.is_none_or(|at| at <= now)
}

/// The generations whose secrets are valid at `now`, the newest first.
pub(crate) fn generations(row: &WebhookRow, now: Timestamp) -> Vec<u32> {
    let older = row.rotated_at.filter(|at| now < at.after(ROTATION_GRACE));
    let older = older.and_then(|_| row.generation.checked_sub(1)).filter(|older| *older > 0);
    std::iter::once(row.generation).chain(older).collect()
}

/// The webhook after an attempt at entry `n`.
fn after(row: WebhookRow, n: u64, fate: Fate, now: Timestamp) -> WebhookRow {
    let failing = WebhookRow {
        attempts: row.attempts.saturating_add(1),
        failing_since: row.failing_since.or(Some(now)),
        ..row.clone()
    };
    match fate {
        Fate::Delivered => WebhookRow { done_to: n, ..untroubled(row) },
        Fate::Failed(pause) => WebhookRow { next_try_at: Some(now.after(pause)), ..failing },
        // The pauses stay long: a target that is down is not asked about each event in turn.
        Fate::GivenUp(pause) => WebhookRow {
            done_to: n,
            next_try_at: Some(now.after(pause)),
            given_up: failing.given_up.saturating_add(1),
            ..failing
        },
        Fate::Gone => WebhookRow { disabled_at: Some(now), next_try_at: None, ..failing },
    }
}

/// The webhook as if no attempt had ever failed; what is next is due at once.
pub(crate) fn untroubled(row: WebhookRow) -> WebhookRow {
    WebhookRow { attempts: 0, next_try_at: None, failing_since: None, disabled_at: None, ..row }
}

/// What makes the webhooks those of a policy that comes into force. A new one is told of nothing
/// that happened before; one that moves goes on where it was.
pub(crate) fn follow(policy: &Policy, seen: &Snapshot) -> Vec<Write> {
    let wanted =
        policy.agents().filter_map(|(name, limits)| Some((name, limits.webhook.as_ref()?)));
    let put = wanted.filter_map(|(name, url)| {
        let url = Some(url.as_str().to_owned());
        let row = match own(seen, name) {
            Some(row) if row.url == url => return None,
            Some(row) if row.url.is_some() => WebhookRow { url, ..untroubled(row.clone()) },
            Some(row) => WebhookRow { url, done_to: seen.head.n, ..untroubled(row.clone()) },
            None => WebhookRow {
                agent: name.clone(),
                url,
                generation: 1,
                rotated_at: None,
                done_to: seen.head.n,
                attempts: 0,
                next_try_at: None,
                failing_since: None,
                disabled_at: None,
                last_try_at: None,
                last_result: None,
                given_up: 0,
            },
        };
        Some(row)
    });
    let has = |name: &AgentName| policy.agent(name).is_some_and(|it| it.webhook.is_some());
    let ended = seen.webhooks.iter().filter(|row| row.url.is_some() && !has(&row.agent));
    let ended = ended.map(|row| WebhookRow { url: None, ..untroubled(row.clone()) });
    put.chain(ended).map(Write::PutWebhook).collect()
}

/// What an entry is to receivers, if it is something that `agent` is told and, as far as the entry says,
/// about an intent of its.
fn happened(row: &AuditRow, agent: &AgentId) -> Option<Found> {
    let entry = &row.entry;
    let details: serde_json::Value = serde_json::from_str(&entry.details).unwrap_or_default();
    let text = |name: &str| details.get(name).and_then(serde_json::Value::as_str);
    if text("agent").is_some_and(|of| of != agent.as_str()) {
        return None;
    }
    let came_back =
        || text("refundStatus").is_some_and(|it| RefundStatus::from_stripe(it).came_back());
    let event = match entry.action.strip_prefix("intent.")? {
        "needs_person" => "refund.needs_person",
        "foreign_refund_seen" | "refund_seen" | "second_refund_seen" if !came_back() => {
            "refund.needs_person"
        }
        state => match State::parse(state)? {
            State::PendingApproval | State::AwaitingStripe => "approval.requested",
            State::Approved => "approval.approved",
            State::Denied => {
                let first = details.pointer("/reasons/0").and_then(serde_json::Value::as_str);
                match first == Some(ReasonCode::ApprovalDenied.as_str()) {
                    true => "approval.denied",
                    false => "refund.denied",
                }
            }
            State::Expired => "approval.expired",
            State::Canceled => "approval.canceled",
            State::Settled => "refund.settled",
            State::Failed => "refund.failed",
            State::Reversed => "refund.reversed",
            // These lead on to one of the others by themselves, or when the agent asks again.
            State::Asked | State::Submitted | State::NotExecuted => return None,
        },
    };
    // Of an entry that was emptied nobody can say any more what it was about.
    let intent = IntentId::parse(&entry.subject).ok()?;
    Some(Found { n: row.n, at: entry.at, intent, event })
}
