//! A store in memory: for embedders, tests and the simulation. What is committed lasts as long as
//! the value does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use gate_core::{AgentId, Approval, ApprovalId, Clock, Intent, IntentId, State, Timestamp};
use gate_money::{MicroUsd, RateTable};
use tokio::sync::watch;

use crate::audit::{AuditRow, Head};
use crate::changes::Changes;
use crate::port::{
    AgentBy, AgentRow, Due, IntentBy, IntentQuery, Judge, PolicyRow, Reads, Scope, Snapshot,
    SpendWindow, Spent, StopRow, Store, StoreError, UserRow, Write, usable_until,
};

/// A [`Store`] in memory.
pub struct MemStore {
    clock: Arc<dyn Clock>,
    changed: watch::Sender<u64>,
    changes: Changes,
    data: Mutex<Data>,
}

#[derive(Clone, Default)]
struct Data {
    commits: u64,
    head: Head,
    audit: Vec<AuditRow>,
    agents: BTreeMap<AgentId, AgentRow>,
    intents: BTreeMap<IntentId, Kept>,
    approvals: BTreeMap<ApprovalId, (IntentId, Approval)>,
    policy: Option<PolicyRow>,
    rates: Option<RateTable>,
    stops: BTreeMap<Scope, StopRow>,
    users: BTreeMap<String, UserRow>,
    reserved: BTreeMap<IntentId, (MicroUsd, Vec<SpendWindow>)>,
    spent: BTreeMap<SpendWindow, MicroUsd>,
}

#[derive(Clone)]
struct Kept {
    intent: Intent,
    holds_key: bool,
}

impl MemStore {
    /// An empty store whose time is `clock`'s.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let (changed, changes) = Changes::channel();
        Self {
            clock,
            changed,
            changes,
            data: Mutex::default(),
        }
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
        data.check(&writes)?;
        for write in writes {
            data.make(write)?;
        }
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
            Some(AgentBy::Key(hash)) => self
                .agents
                .values()
                .find(|agent| agent.keys.iter().any(|key| key.hash == *hash)),
            Some(AgentBy::Name(name)) => self
                .agents
                .values()
                .find(|agent| agent.name.as_str() == name || agent.id.as_str() == name),
            Some(AgentBy::OfIntent) => intent
                .as_ref()
                .and_then(|intent| self.agents.get(&intent.agent)),
            None => None,
        }
        .cloned();
        let own = |id: &AgentId| {
            let id = id.clone();
            self.intents
                .values()
                .rev()
                .filter(move |kept| kept.intent.agent == id)
        };
        let prior = agent
            .as_ref()
            .zip(reads.prior.as_ref())
            .and_then(|(agent, prior)| {
                own(&agent.id).find(|kept| kept.holds_key && prior.matches(&kept.intent))
            });
        let refused = agent
            .as_ref()
            .zip(reads.refused.as_ref())
            .and_then(|(agent, refused)| own(&agent.id).find(|kept| refused.matches(&kept.intent)));
        let intents = match (&reads.intents, &reads.due) {
            (Some(query), _) => self.listed(query),
            (None, Some((due, limit))) => self.due(now, due, usize::from(*limit)),
            (None, None) => Vec::new(),
        };
        Snapshot {
            head: self.head,
            prior: prior.map(|kept| kept.intent.clone()),
            refused: refused.map(|kept| kept.intent.clone()),
            intents,
            agents: if reads.agents {
                self.agents_by_name()
            } else {
                Vec::new()
            },
            policy: self.policy.clone().filter(|_| reads.policy),
            stops: if reads.policy {
                self.stops.values().cloned().collect()
            } else {
                Vec::new()
            },
            spent: match agent.as_ref().filter(|_| reads.policy) {
                Some(agent) => self.open_windows(now, &Scope::Agent(agent.id.clone())),
                None => Vec::new(),
            },
            rates: self.rates.clone().filter(|_| reads.rates),
            users: if reads.users {
                self.users.values().cloned().collect()
            } else {
                Vec::new()
            },
            audit: if reads.audit {
                self.audit.clone()
            } else {
                Vec::new()
            },
            agent,
            intent,
        }
    }

    fn intent(&self, id: &IntentId) -> Option<Intent> {
        self.intents.get(id).map(|kept| kept.intent.clone())
    }

    fn agents_by_name(&self) -> Vec<AgentRow> {
        let mut agents: Vec<AgentRow> = self.agents.values().cloned().collect();
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        agents
    }

    fn open_windows(&self, now: Timestamp, scope: &Scope) -> Vec<Spent> {
        self.spent
            .iter()
            .filter(|(window, _)| {
                window.scope == *scope && window.starts_at <= now && now < window.ends_at
            })
            .map(|(window, usd)| Spent {
                window: window.clone(),
                usd: *usd,
            })
            .collect()
    }

    fn listed(&self, query: &IntentQuery) -> Vec<Intent> {
        self.intents
            .values()
            .rev()
            .map(|kept| &kept.intent)
            .filter(|intent| {
                query
                    .agent
                    .as_ref()
                    .is_none_or(|agent| intent.agent == *agent)
                    && query.key.as_ref().is_none_or(|key| intent.key == *key)
                    && query.state.is_none_or(|state| intent.state == state)
                    && query
                        .before
                        .as_ref()
                        .is_none_or(|before| intent.id < *before)
            })
            .take(usize::try_from(query.limit).unwrap_or(usize::MAX))
            .cloned()
            .collect()
    }

    fn due(&self, now: Timestamp, due: &Due, limit: usize) -> Vec<Intent> {
        self.intents
            .values()
            .map(|kept| &kept.intent)
            .filter(|intent| due.includes(now, intent))
            .take(limit)
            .cloned()
            .collect()
    }

    /// Finds every contradiction before anything is written.
    fn check(&self, writes: &[Write]) -> Result<(), StoreError> {
        let surrendered = |id: &IntentId| {
            writes
                .iter()
                .any(|write| matches!(write, Write::SurrenderKey(other) if other == id))
        };
        for write in writes {
            let conflict = match write {
                Write::InsertIntent(new) => self.intents.values().any(|kept| {
                    let same_key = kept.holds_key
                        && kept.intent.agent == new.agent
                        && kept.intent.key == new.key
                        && !surrendered(&kept.intent.id);
                    kept.intent.id == new.id || same_key
                }),
                Write::UpdateIntent { was, intent } => self
                    .intents
                    .get(&intent.id)
                    .is_none_or(|kept| kept.intent.state != *was),
                Write::InsertUser(user) => self.users.contains_key(user.name.as_str()),
                Write::InsertPolicy(policy) => {
                    let last = self.policy.as_ref().map_or(0, |policy| policy.version);
                    policy.version != last.saturating_add(1)
                }
                Write::PutAgent(agent) => self
                    .agents
                    .values()
                    .any(|row| row.name == agent.name && row.id != agent.id),
                Write::Reserve { intent, .. } => self.reserved.contains_key(intent),
                Write::Audit(_)
                | Write::LiftStop(_)
                | Write::PutRates(_)
                | Write::PutStop(_)
                | Write::Release(_)
                | Write::SurrenderKey(_) => false,
            };
            if conflict {
                return Err(StoreError::Conflict(write.name().to_owned()));
            }
        }
        Ok(())
    }

    fn make(&mut self, write: Write) -> Result<(), StoreError> {
        match write {
            Write::Audit(entry) => {
                let (head, row) = self.head.append(entry);
                self.head = head;
                self.audit.push(row);
            }
            Write::InsertIntent(intent) => self.keep(*intent, true),
            Write::UpdateIntent { intent, .. } => {
                let holds_key = self
                    .intents
                    .get(&intent.id)
                    .is_some_and(|kept| kept.holds_key);
                self.keep(*intent, holds_key);
            }
            Write::InsertPolicy(policy) => self.policy = Some(policy),
            Write::InsertUser(user) => drop(self.users.insert(user.name.to_string(), user)),
            Write::LiftStop(scope) => drop(self.stops.remove(&scope)),
            Write::PutAgent(agent) => drop(self.agents.insert(agent.id.clone(), agent)),
            Write::PutRates(rates) => {
                let newer = self
                    .rates
                    .as_ref()
                    .is_none_or(|old| old.date() <= rates.date());
                if newer {
                    self.rates = Some(rates);
                }
            }
            Write::PutStop(stop) => drop(self.stops.insert(stop.scope.clone(), stop)),
            Write::Release(intent) => {
                if let Some((usd, windows)) = self.reserved.remove(&intent) {
                    for window in windows {
                        let spent = self.spent.entry(window).or_default();
                        *spent = spent.checked_sub(usd).map_err(overflow)?;
                    }
                }
            }
            Write::Reserve {
                intent,
                usd,
                windows,
            } => {
                for window in &windows {
                    let spent = self.spent.entry(window.clone()).or_default();
                    *spent = spent.checked_add(usd).map_err(overflow)?;
                }
                self.reserved.insert(intent, (usd, windows));
            }
            Write::SurrenderKey(id) => {
                if let Some(kept) = self.intents.get_mut(&id) {
                    kept.holds_key = false;
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, intent: Intent, holds_key: bool) {
        if let Some(approval) = &intent.approval {
            self.approvals
                .insert(approval.id.clone(), (intent.id.clone(), approval.clone()));
        }
        self.intents
            .insert(intent.id.clone(), Kept { intent, holds_key });
    }
}

fn overflow(error: gate_money::MoneyError) -> StoreError {
    StoreError::Corrupt(format!("a window's spend: {error}"))
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
