//! A store in memory: for embedders, tests and the simulation. What is committed lasts as long as
//! the value does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use gate_core::{
    AgentId, AgentName, Approval, ApprovalId, Clock, CustomerId, GatewayId, HoldId, Intent,
    IntentId, KeyMark, State, Timestamp,
};
use gate_money::{MicroUsd, RateTable};
use tokio::sync::watch;

use crate::audit::{AuditField, AuditRange, AuditRow, EMPTIED, Head};
use crate::changes::Changes;
use crate::port::{
    AgentBy, AgentRow, Books, CUSTOMER_HISTORY, Due, GatewayKeyRow, GatewayRow, IntentBy,
    IntentQuery, Judge, KeyRow, Money, Nonce, PolicyRow, RECENT, Reads, Refunded, Reservation,
    Scope, Snapshot, SpendWindow, Spent, StopRow, Store, StoreError, UserRow, WebhookRow, Write,
    may_have_left, usable_until,
};

/// A [`Store`] in memory.
pub struct MemStore {
    clock: Arc<dyn Clock>,
    changed: watch::Sender<u64>,
    changes: Changes,
    data: Mutex<Data>,
}

#[derive(Default)]
struct Data {
    commits: u64,
    head: Head,
    audit: BTreeMap<u64, AuditRow>,
    agents: BTreeMap<AgentId, AgentRow>,
    intents: BTreeMap<IntentId, Kept>,
    approvals: BTreeMap<ApprovalId, (IntentId, Approval)>,
    policies: BTreeMap<u64, PolicyRow>,
    rates: Option<RateTable>,
    stops: BTreeMap<Scope, StopRow>,
    agent_tagged_keys: BTreeMap<KeyMark, Timestamp>,
    stripe_events: BTreeMap<String, Timestamp>,
    gateways: BTreeMap<GatewayId, GatewayRow>,
    nonces: BTreeMap<Nonce, Timestamp>,
    users: BTreeMap<String, UserRow>,
    webhooks: BTreeMap<AgentName, WebhookRow>,
    reserved: BTreeMap<IntentId, (MicroUsd, Vec<SpendWindow>)>,
    spent: BTreeMap<SpendWindow, MicroUsd>,
}

struct Kept {
    intent: Intent,
    holds_key: bool,
}

/// Takes one change back.
type Undo = Box<dyn FnOnce(&mut Data) + Send>;

impl MemStore {
    /// An empty store whose time is `clock`'s.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let (changed, changes) = Changes::channel();
        Self { clock, changed, changes, data: Mutex::default() }
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        // A panic while the data was held can only have come from a judge, before any write.
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }

    async fn transact(&self, reads: Reads, judge: Arc<dyn Judge>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut data = self.data();
        let writes = judge.judge(now, &data.read(now, &reads));
        if writes.is_empty() {
            return Ok(());
        }
        data.make_all(writes)?;
        data.commits = data.commits.saturating_add(1);
        let commits = data.commits;
        drop(data);
        self.changed.send_replace(commits);
        Ok(())
    }

    async fn read(&self, reads: Reads) -> Result<Snapshot, StoreError> {
        Ok(self.data().read(self.clock.now(), &reads))
    }

    fn changes(&self) -> Changes {
        self.changes.clone()
    }

    fn commits(&self) -> u64 {
        self.data().commits
    }
}

impl Data {
    fn read(&self, now: Timestamp, reads: &Reads) -> Snapshot {
        let intent = match &reads.intent {
            Some(IntentBy::Id(id)) => self.intent(id),
            Some(IntentBy::Approval(id)) => {
                self.approvals.get(id).and_then(|(intent, approval)| {
                    let mut intent = self.intent(intent)?;
                    intent.approval = Some(approval.clone());
                    Some(intent)
                })
            }
            None => None,
        };
        let agent = match &reads.agent {
            Some(AgentBy::Key(hash)) => {
                self.agents.values().find(|agent| agent.keys.iter().any(|key| key.hash == *hash))
            }
            Some(AgentBy::Name(name)) => self
                .agents
                .values()
                .find(|agent| agent.name.as_str() == name || agent.id.as_str() == name),
            Some(AgentBy::OfIntent) => {
                intent.as_ref().and_then(|intent| self.agents.get(&intent.agent))
            }
            None => None,
        }
        .cloned();
        let own = |id: &AgentId| {
            let id = id.clone();
            self.intents.values().rev().filter(move |kept| kept.intent.agent == id)
        };
        let prior = agent.as_ref().zip(reads.prior.as_ref()).and_then(|(agent, prior)| {
            own(&agent.id).find(|kept| kept.holds_key && prior.matches(&kept.intent))
        });
        let refused = agent
            .as_ref()
            .zip(reads.refused.as_ref())
            .and_then(|(agent, refused)| own(&agent.id).find(|kept| refused.matches(&kept.intent)));
        let intents = match (&reads.intents, &reads.due) {
            (Some(query), _) => self.listed(query),
            (None, Some((due, limit))) => {
                self.due(now, due, reads.due_of.as_ref(), usize::from(*limit))
            }
            (None, None) => Vec::new(),
        };
        Snapshot {
            head: self.head,
            prior: prior.map(|kept| kept.intent.clone()),
            refused: refused.map(|kept| kept.intent.clone()),
            intents,
            event_noted_at: reads.event.as_ref().and_then(|id| self.stripe_events.get(id)).copied(),
            agents: if reads.agents { self.agents_by_name() } else { Vec::new() },
            policy: self.policy().filter(|_| reads.policy).cloned(),
            stops: if reads.policy { self.stops.values().cloned().collect() } else { Vec::new() },
            agent_tagged_keys: match reads.policy {
                true => self.agent_tagged_keys.keys().cloned().collect(),
                false => Vec::new(),
            },
            policies: match reads.policies {
                true => self.policies.values().cloned().collect(),
                false => Vec::new(),
            },
            spent: match agent.as_ref().filter(|_| reads.policy) {
                Some(agent) => self.open_windows(now, &agent.id, reads.customer.as_ref()),
                None => Vec::new(),
            },
            recent_refunds: match agent.as_ref().filter(|_| reads.policy) {
                Some(agent) => {
                    self.refunded(now.before(RECENT), |intent| intent.agent == agent.id).count
                }
                None => 0,
            },
            refunded: match &reads.customer {
                Some(customer) => self.refunded(now.before(CUSTOMER_HISTORY), |intent| {
                    intent.seen.as_ref().and_then(|seen| seen.customer.id()) == Some(customer)
                }),
                None => Refunded::default(),
            },
            rates: self.rates.clone().filter(|_| reads.rates),
            gateway: reads.gateway.as_ref().and_then(|id| self.gateways.get(id)).cloned(),
            gateways: if reads.gateways { self.gateways_by_name() } else { Vec::new() },
            nonce_used: reads.nonce.as_ref().is_some_and(|nonce| self.nonces.contains_key(nonce)),
            users: if reads.users { self.users.values().cloned().collect() } else { Vec::new() },
            webhooks: match reads.webhooks {
                true => self.webhooks.values().cloned().collect(),
                false => Vec::new(),
            },
            audit: reads.audit.map_or_else(Vec::new, |range| self.audited(range)),
            books: if reads.books { self.books() } else { Books::default() },
            agent,
            intent,
        }
    }

    fn intent(&self, id: &IntentId) -> Option<Intent> {
        self.intents.get(id).map(|kept| kept.intent.clone())
    }

    fn audited(&self, range: AuditRange) -> Vec<AuditRow> {
        let rows = self.audit.values().filter(|row| row.n > range.after);
        rows.take(usize::try_from(range.limit).unwrap_or(usize::MAX)).cloned().collect()
    }

    fn agents_by_name(&self) -> Vec<AgentRow> {
        let mut agents: Vec<AgentRow> = self.agents.values().cloned().collect();
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        agents
    }

    fn gateways_by_name(&self) -> Vec<GatewayRow> {
        let mut gateways: Vec<GatewayRow> = self.gateways.values().cloned().collect();
        gateways.sort_by(|a, b| a.name.cmp(&b.name));
        gateways
    }

    fn books(&self) -> Books {
        let windows = self.spent.iter();
        let mut reservations: Vec<Reservation> = self
            .reserved
            .iter()
            .flat_map(|(intent, (usd, windows))| {
                windows.iter().map(|window| Reservation {
                    intent: intent.clone(),
                    window: window.clone(),
                    usd: *usd,
                })
            })
            .collect();
        reservations.sort_by(|a, b| (&a.intent, &a.window).cmp(&(&b.intent, &b.window)));
        let holders = self.intents.iter().filter(|(_, kept)| kept.holds_key);
        Books {
            windows: windows
                .map(|(window, usd)| Spent { window: window.clone(), usd: *usd })
                .collect(),
            reservations,
            key_holders: holders.map(|(id, _)| id.clone()).collect(),
        }
    }

    fn policy(&self) -> Option<&PolicyRow> {
        self.policies.values().next_back()
    }

    /// What was submitted after `since`, and left or may have.
    fn refunded(&self, since: Timestamp, of: impl Fn(&Intent) -> bool) -> Refunded {
        let all = self.intents.values().map(|kept| &kept.intent);
        let since = |intent: &&Intent| intent.submitted_at.is_some_and(|at| at > since);
        let found = all.filter(since).filter(|intent| may_have_left(intent.state) && of(intent));
        found.fold(Refunded::default(), |sum, intent| {
            let usd = intent.worth.as_ref().map(|worth| worth.usd).unwrap_or_default();
            Refunded {
                count: sum.count.saturating_add(1),
                usd: sum.usd.checked_add(usd).unwrap_or(sum.usd),
            }
        })
    }

    fn open_windows(&self, now: Timestamp, of: &AgentId, with: Option<&CustomerId>) -> Vec<Spent> {
        let concerns = |scope: &Scope| match scope {
            Scope::Agent(agent) => agent == of,
            Scope::Customer { agent, customer } => agent == of && Some(customer) == with,
            Scope::Organization => false,
            Scope::Team(_) => true,
        };
        self.spent
            .iter()
            .filter(|(window, _)| {
                concerns(&window.scope) && window.starts_at <= now && now < window.ends_at
            })
            .map(|(window, usd)| Spent { window: window.clone(), usd: *usd })
            .collect()
    }

    fn listed(&self, query: &IntentQuery) -> Vec<Intent> {
        self.intents
            .values()
            .rev()
            .map(|kept| &kept.intent)
            .filter(|intent| {
                query.agent.as_ref().is_none_or(|agent| intent.agent == *agent)
                    && query.key.as_ref().is_none_or(|key| intent.key == *key)
                    && query.state.is_none_or(|state| intent.state == state)
                    && query.before.as_ref().is_none_or(|before| intent.id < *before)
            })
            .take(usize::try_from(query.limit).unwrap_or(usize::MAX))
            .cloned()
            .collect()
    }

    fn is_stopped(&self, intent: &Intent) -> bool {
        let agent = Scope::Agent(intent.agent.clone());
        let team = intent.team.clone().map(Scope::Team);
        [Some(Scope::Organization), Some(agent), team]
            .iter()
            .flatten()
            .any(|scope| self.stops.contains_key(scope))
    }

    fn due(&self, now: Timestamp, due: &Due, of: Option<&Money>, limit: usize) -> Vec<Intent> {
        let all = self.intents.values().map(|kept| &kept.intent);
        let mut found: Vec<&Intent> = all
            .filter(|intent| of.is_none_or(|money| money.is_of(intent)))
            .filter(|intent| due.includes(now, intent))
            .filter(|intent| !matches!(due, Due::Approved) || !self.is_stopped(intent))
            .collect();
        if matches!(due, Due::Followed | Due::Awaiting(None)) {
            found.sort_by_key(|intent| intent.follow_at);
        }
        if matches!(due, Due::Awaiting(Some(_))) {
            found.sort_by_key(|intent| hold_of(intent).is_none());
        }
        found.into_iter().take(limit).cloned().collect()
    }

    /// Makes the writes in their order, all or none.
    fn make_all(&mut self, writes: Vec<Write>) -> Result<(), StoreError> {
        let mut undo = Vec::new();
        for write in writes {
            if let Err(error) = self.make(write, &mut undo) {
                undo.into_iter().rev().for_each(|undo: Undo| undo(self));
                return Err(error);
            }
        }
        Ok(())
    }

    fn conflicts(&self, write: &Write) -> bool {
        match write {
            Write::InsertIntent(new) => {
                let taken = |kept: &Kept| {
                    kept.holds_key && kept.intent.agent == new.agent && kept.intent.key == new.key
                };
                !self.agents.contains_key(&new.agent)
                    || self.intents.contains_key(&new.id)
                    || self.intents.values().any(taken)
                    || self.approves_another(new)
            }
            Write::UpdateIntent { was, intent } => {
                self.intents.get(&intent.id).is_none_or(|kept| {
                    let who = |of: &Intent| (of.agent.clone(), of.key.clone(), of.charge.clone());
                    kept.intent.state != *was || who(&kept.intent) != who(intent)
                }) || self.approves_another(intent)
            }
            Write::InsertUser(user) => self.users.contains_key(user.name.as_str()),
            Write::SetRoles { user, .. } => !self.users.contains_key(user.as_str()),
            Write::NoteEvent { id, .. } => self.stripe_events.contains_key(id),
            Write::InsertPolicy(policy) => {
                let last = self.policy().map_or(0, |policy| policy.version);
                policy.version != last.saturating_add(1)
            }
            Write::PutAgent(agent) => self.agents.values().any(|row| {
                let same_key = |key: &KeyRow| agent.keys.iter().any(|new| new.hash == key.hash);
                row.id != agent.id && (row.name == agent.name || row.keys.iter().any(same_key))
            }),
            Write::PutGateway(gateway) => self.gateways.values().any(|row| {
                let same_key = |key: &GatewayKeyRow| {
                    gateway.keys.iter().any(|new| new.public_key == key.public_key)
                };
                row.id != gateway.id && (row.name == gateway.name || row.keys.iter().any(same_key))
            }),
            Write::UseNonce { nonce, .. } => self.nonces.contains_key(nonce),
            Write::Reserve { intent, windows, .. } => {
                self.reserved.contains_key(intent)
                    || (!windows.is_empty() && !self.intents.contains_key(intent))
            }
            Write::EmptyAudit { n, fields } => self.audit.get(n).is_none_or(|row| {
                row.entry.action == EMPTIED && fields.contains(&AuditField::Details)
            }),
            Write::Audit(_)
            | Write::GatewayUsed { .. }
            | Write::LiftStop(_)
            | Write::PutRates(_)
            | Write::PutStop(_)
            | Write::PutWebhook(_)
            | Write::Release(_)
            | Write::SurrenderKey(_)
            | Write::TagKey { .. } => false,
        }
    }

    fn approves_another(&self, intent: &Intent) -> bool {
        let approval = intent.approval.as_ref().and_then(|new| self.approvals.get(&new.id));
        approval.is_some_and(|(of, _)| *of != intent.id)
    }

    fn make(&mut self, write: Write, undo: &mut Vec<Undo>) -> Result<(), StoreError> {
        if self.conflicts(&write) {
            return Err(StoreError::Conflict(write.name().to_owned()));
        }
        match write {
            Write::Audit(entry) => {
                let (head, row) = self.head.append(entry);
                self.put(undo, |data| &mut data.head, head);
                self.set(undo, |data| &mut data.audit, head.n, Some(row));
            }
            Write::EmptyAudit { n, fields } => {
                let mut row = self.audit.get(&n).cloned();
                if let Some(row) = &mut row {
                    fields.into_iter().for_each(|field| row.empty(field));
                }
                self.set(undo, |data| &mut data.audit, n, row);
            }
            Write::GatewayUsed { gateway, version, at } => {
                if let Some(mut row) = self.gateways.get(&gateway).cloned() {
                    let used = row.keys.iter_mut().filter(|key| key.version == version);
                    used.for_each(|key| key.last_used_at = Some(at));
                    self.set(undo, |data| &mut data.gateways, gateway, Some(row));
                }
            }
            Write::InsertIntent(intent) => self.keep(undo, *intent, true),
            Write::UpdateIntent { intent, .. } => {
                let holds_key = self.intents.get(&intent.id).is_some_and(|kept| kept.holds_key);
                self.keep(undo, *intent, holds_key);
            }
            Write::InsertPolicy(policy) => {
                self.set(undo, |data| &mut data.policies, policy.version, Some(policy));
            }
            Write::InsertUser(user) => {
                self.set(undo, |data| &mut data.users, user.name.to_string(), Some(user));
            }
            Write::LiftStop(scope) => self.set(undo, |data| &mut data.stops, scope, None),
            Write::NoteEvent { id, at, keep_since } => {
                self.set(undo, |data| &mut data.stripe_events, id, Some(at));
                let old = self.stripe_events.iter().filter(|(_, noted)| **noted < keep_since);
                let old: Vec<String> = old.map(|(id, _)| id.clone()).collect();
                for id in old {
                    self.set(undo, |data| &mut data.stripe_events, id, None);
                }
            }
            Write::PutAgent(agent) => {
                self.set(undo, |data| &mut data.agents, agent.id.clone(), Some(agent));
            }
            Write::PutGateway(row) => {
                self.set(undo, |data| &mut data.gateways, row.id.clone(), Some(row));
            }
            Write::UseNonce { nonce, at, keep_since } => {
                self.set(undo, |data| &mut data.nonces, nonce, Some(at));
                let old = self.nonces.iter().filter(|(_, used)| **used < keep_since);
                let old: Vec<Nonce> = old.map(|(nonce, _)| nonce.clone()).collect();
                for nonce in old {
                    self.set(undo, |data| &mut data.nonces, nonce, None);
                }
            }
            Write::PutRates(rates) => {
                if self.rates.as_ref().is_none_or(|old| old.date() <= rates.date()) {
                    self.put(undo, |data| &mut data.rates, Some(rates));
                }
            }
            Write::PutStop(stop) => {
                self.set(undo, |data| &mut data.stops, stop.scope.clone(), Some(stop));
            }
            Write::PutWebhook(row) => {
                self.set(undo, |data| &mut data.webhooks, row.agent.clone(), Some(row));
            }
            Write::Release(intent) => {
                for (usd, window) in self.reservations(&intent) {
                    let left = self.spent_in(&window).checked_sub(usd).map_err(overflow)?;
                    self.set(undo, |data| &mut data.spent, window, Some(left));
                }
                self.set(undo, |data| &mut data.reserved, intent, None);
            }
            Write::Reserve { intent, usd, windows } => {
                for window in &windows {
                    let sum = self.spent_in(window).checked_add(usd).map_err(overflow)?;
                    self.set(undo, |data| &mut data.spent, window.clone(), Some(sum));
                }
                let reserved = (!windows.is_empty()).then_some((usd, windows));
                self.set(undo, |data| &mut data.reserved, intent, reserved);
            }
            Write::SetRoles { user, roles } => {
                if let Some(row) = self.users.get(user.as_str()).cloned() {
                    let row = UserRow { roles, ..row };
                    self.set(undo, |data| &mut data.users, user.to_string(), Some(row));
                }
            }
            Write::TagKey { key, at } => {
                if !self.agent_tagged_keys.contains_key(&key) {
                    self.set(undo, |data| &mut data.agent_tagged_keys, key, Some(at));
                }
            }
            Write::SurrenderKey(id) => {
                if let Some(kept) = self.intents.get(&id) {
                    let intent = kept.intent.clone();
                    self.keep(undo, intent, false);
                }
            }
        }
        Ok(())
    }

    fn reservations(&self, intent: &IntentId) -> Vec<(MicroUsd, SpendWindow)> {
        let reserved = self.reserved.get(intent).cloned();
        let (usd, windows) = reserved.unwrap_or_default();
        windows.into_iter().map(|window| (usd, window)).collect()
    }

    fn spent_in(&self, window: &SpendWindow) -> MicroUsd {
        self.spent.get(window).copied().unwrap_or_default()
    }

    fn keep(&mut self, undo: &mut Vec<Undo>, intent: Intent, holds_key: bool) {
        if let Some(approval) = &intent.approval {
            let kept = (intent.id.clone(), approval.clone());
            self.set(undo, |data| &mut data.approvals, approval.id.clone(), Some(kept));
        }
        let kept = Kept { intent, holds_key };
        self.set(undo, |data| &mut data.intents, kept.intent.id.clone(), Some(kept));
    }

    /// Replaces one value, and notes what it was.
    fn put<T: Send + 'static>(
        &mut self,
        undo: &mut Vec<Undo>,
        place: fn(&mut Self) -> &mut T,
        value: T,
    ) {
        let old = std::mem::replace(place(self), value);
        undo.push(Box::new(move |data| *place(data) = old));
    }

    /// Replaces or removes one row, and notes what it was.
    fn set<K, V>(
        &mut self,
        undo: &mut Vec<Undo>,
        table: fn(&mut Self) -> &mut BTreeMap<K, V>,
        key: K,
        row: Option<V>,
    ) where
        K: Clone + Ord + Send + 'static,
        V: Send + 'static,
    {
        let old = replace_row(table(self), key.clone(), row);
        undo.push(Box::new(move |data| drop(replace_row(table(data), key, old))));
    }
}

fn replace_row<K: Ord, V>(table: &mut BTreeMap<K, V>, key: K, row: Option<V>) -> Option<V> {
    match row {
        Some(row) => table.insert(key, row),
        None => table.remove(&key),
    }
}

fn overflow(error: gate_money::MoneyError) -> StoreError {
    StoreError::Corrupt(format!("a window's spend: {error}"))
}

fn hold_of(intent: &Intent) -> Option<&HoldId> {
    intent.approval.as_ref()?.hold_id.as_ref()
}

impl Due {
    fn includes(&self, now: Timestamp, intent: &Intent) -> bool {
        let free = intent.lease_until.is_none_or(|until| until <= now);
        let approval = intent.approval.as_ref();
        match self {
            Self::Approved => {
                free && intent.state == State::Approved
                    && approval.is_some_and(|approval| {
                        approval.on_approval == gate_core::OnApproval::Execute
                            && usable_until(approval) > now
                    })
            }
            Self::Attempt(attempt) => {
                intent.state == State::Submitted && intent.attempt == *attempt
            }
            Self::Awaiting(None) => {
                free && intent.state == State::AwaitingStripe
                    && intent.follow_at.is_some_and(|at| at <= now)
            }
            Self::Awaiting(Some(id)) => {
                free && intent.state == State::AwaitingStripe
                    && approval.is_some()
                    && hold_of(intent).is_none_or(|of| of == id)
            }
            Self::Followed => {
                free && intent.state == State::Settled
                    && intent.follow_at.is_some_and(|at| at <= now)
            }
            Self::Expired => match intent.state {
                State::PendingApproval => approval.is_some_and(|a| a.expires_at <= now),
                State::Approved => approval.is_some_and(|a| usable_until(a) <= now),
                State::Asked
                | State::Submitted
                | State::AwaitingStripe
                | State::NotExecuted
                | State::Settled
                | State::Failed
                | State::Reversed
                | State::Denied
                | State::Expired
                | State::Canceled => false,
            },
            Self::One(id) => {
                free && intent.id == *id
                    && matches!(intent.state, State::Approved | State::Submitted)
            }
            Self::Submitted => free && intent.state == State::Submitted,
        }
    }
}
