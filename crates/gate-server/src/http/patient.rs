//! Reads that wait for a change, but not past the gateway's end: then they answer as it is.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gate_core::{
    AgentKey, ApprovalId, AuthorityError, Budget, Intent, IntentFilter, IntentId, Page, Records,
};
use tokio_util::sync::CancellationToken;

use crate::listen::unless;

/// The agents' records, whose waits end with the gateway.
pub struct Patient {
    inner: Arc<dyn Records>,
    stopping: CancellationToken,
}

impl Patient {
    /// `inner`, until `stopping`.
    #[must_use]
    pub fn new(inner: Arc<dyn Records>, stopping: CancellationToken) -> Self {
        Self { inner, stopping }
    }
}

#[async_trait]
impl Records for Patient {
    async fn intent(
        &self,
        key: &AgentKey,
        id: &IntentId,
        wait: Duration,
    ) -> Result<Intent, AuthorityError> {
        match unless(&self.stopping, self.inner.intent(key, id, wait)).await {
            Some(read) => read,
            None => self.inner.intent(key, id, Duration::ZERO).await,
        }
    }

    async fn intents(&self, key: &AgentKey, filter: &IntentFilter) -> Result<Page, AuthorityError> {
        self.inner.intents(key, filter).await
    }

    async fn approval(
        &self,
        key: &AgentKey,
        id: &ApprovalId,
        wait: Duration,
    ) -> Result<Intent, AuthorityError> {
        match unless(&self.stopping, self.inner.approval(key, id, wait)).await {
            Some(read) => read,
            None => self.inner.approval(key, id, Duration::ZERO).await,
        }
    }

    async fn cancel(&self, key: &AgentKey, id: &IntentId) -> Result<Intent, AuthorityError> {
        self.inner.cancel(key, id).await
    }

    async fn budget(&self, key: &AgentKey) -> Result<Budget, AuthorityError> {
        self.inner.budget(key).await
    }
}
