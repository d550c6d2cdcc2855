//! What an agent may read and withdraw of its own.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use gate_core::{
    ActionError, AgentKey, ApprovalId, AuthorityError, Budget, BudgetWindow, Intent, IntentFilter,
    IntentId, Page, Records, State,
};
use gate_store::{AgentBy, IntentBy, IntentQuery, Reads, Snapshot};

use crate::approval;
use crate::authority::{LocalAuthority, actor, flatten, holder, stops};
use crate::decide::{World, spend_window};
use crate::keys::{self, Seed};

impl LocalAuthority {
    /// Reads one intent of the key's agent; waits for its state to change, while it is one that
    /// changes by itself.
    async fn own(
        &self,
        key: &AgentKey,
        by: IntentBy,
        missing: ActionError,
        wait: Duration,
    ) -> Result<Intent, AuthorityError> {
        let hash = keys::hash(key);
        let until = self.clock.deadline(wait);
        let mut changes = self.store.changes();
        let mut first = None;
        loop {
            changes.mark();
            let reads = Reads {
                agent: Some(AgentBy::Key(hash)),
                intent: Some(by.clone()),
                ..Reads::default()
            };
            let (seen, now) = (self.read(reads).await?, self.now().await?);
            let agent = holder(now, &seen, &hash)?.id.clone();
            let Some(intent) = seen.intent.filter(|intent| intent.agent == agent) else {
                return Err(AuthorityError::Asked(missing));
            };
            let changed = *first.get_or_insert(intent.state) != intent.state;
            if changed || !moves(intent.state) || until.left(self.clock.uptime()).is_zero() {
                return Ok(intent);
            }
            let timer = self.clock.sleep_until(until);
            match select(std::pin::pin!(changes.changed()), timer).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }
}

/// Whether somebody else than the asking agent moves an intent on from here.
const fn moves(state: State) -> bool {
    match state {
        State::PendingApproval | State::Approved | State::Submitted | State::AwaitingStripe => true,
        State::Asked
        | State::NotExecuted
        | State::Settled
        | State::Failed
        | State::Reversed
        | State::Denied
        | State::Expired
        | State::Canceled => false,
    }
}

#[async_trait]
impl Records for LocalAuthority {
    async fn intent(
        &self,
        key: &AgentKey,
        id: &IntentId,
        wait: Duration,
    ) -> Result<Intent, AuthorityError> {
        self.own(key, IntentBy::Id(id.clone()), ActionError::IntentNotFound, wait).await
    }

    async fn intents(&self, key: &AgentKey, filter: &IntentFilter) -> Result<Page, AuthorityError> {
        let hash = keys::hash(key);
        let by_key = Reads { agent: Some(AgentBy::Key(hash)), ..Reads::default() };
        let (seen, now) = (self.read(by_key).await?, self.now().await?);
        let agent = holder(now, &seen, &hash)?.id.clone();
        let limit = u32::from(filter.limit.max(1));
        let query = IntentQuery {
            agent: Some(agent),
            key: filter.idempotency_key.clone(),
            state: filter.state,
            before: filter.before.clone(),
            limit: limit.saturating_add(1),
        };
        let seen = self.read(Reads { intents: Some(query), ..Reads::default() }).await?;
        let mut intents = seen.intents;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = intents.len() > limit;
        intents.truncate(limit);
        Ok(Page { intents, more })
    }

    async fn approval(
        &self,
        key: &AgentKey,
        id: &ApprovalId,
        wait: Duration,
    ) -> Result<Intent, AuthorityError> {
        self.own(key, IntentBy::Approval(id.clone()), ActionError::ApprovalNotFound, wait).await
    }

    async fn cancel(&self, key: &AgentKey, id: &IntentId) -> Result<Intent, AuthorityError> {
        let (seed, hash) = (Seed::draw(self.ids.as_ref()), keys::hash(key));
        let reads = Reads {
            agent: Some(AgentBy::Key(hash)),
            intent: Some(IntentBy::Id(id.clone())),
            ..Reads::default()
        };
        let config = std::sync::Arc::clone(&self.config);
        let judge = move |now, seen: &Snapshot| {
            let world = World { now, seen, config: &config, ids: &seed.stream() };
            flatten(holder(now, seen, &hash).and_then(|agent| {
                let own = seen.intent.as_ref().filter(|intent| intent.agent == agent.id);
                let intent = own.ok_or(AuthorityError::Asked(ActionError::IntentNotFound))?;
                approval::cancel(intent, "The agent withdrew the request.", &actor(agent), &world)
            }))
        };
        self.change(reads, judge).await?
    }

    async fn budget(&self, key: &AgentKey) -> Result<Budget, AuthorityError> {
        let hash = keys::hash(key);
        let reads = Reads { agent: Some(AgentBy::Key(hash)), policy: true, ..Reads::default() };
        let (seen, now) = (self.read(reads).await?, self.now().await?);
        let agent = holder(now, &seen, &hash)?;
        let policy = self.policies.of(seen.policy.as_ref())?;
        let limits = policy.agent(&agent.name);
        let windows = gate_policy::windows(&policy, &agent.name, None, now)
            .into_iter()
            .map(|(window, code, limit)| {
                let stored = spend_window(&agent.id, &window);
                let spent = seen.spent.iter().find(|spent| spent.window == stored);
                BudgetWindow {
                    code,
                    limit,
                    spent: spent.map(|spent| spent.usd).unwrap_or_default(),
                    resets_at: window.ends_at,
                }
            })
            .collect();
        Ok(Budget {
            stopped: stops(&seen, &agent.id, &agent.name, &policy).code(),
            max_per_payment: limits.and_then(|limits| limits.max_per_payment),
            approval_threshold: limits.and_then(|limits| limits.approval_threshold),
            windows,
        })
    }
}
