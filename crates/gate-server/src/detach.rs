//! Money work that outlives its request: a client that hangs up, cancels or times out changes
//! nothing.

use std::sync::Arc;

use async_trait::async_trait;
use gate_core::{ActionError, Actions, AgentKey, Answer, Ask, Authority};
use tokio_util::task::TaskTracker;

/// Runs each refund in a task of its own, which is waited for when the process ends.
pub(crate) struct Detached {
    inner: Arc<dyn Actions>,
    authority: Arc<dyn Authority>,
    tasks: TaskTracker,
}

impl Detached {
    /// Detaches `inner`'s work into `tasks`; once those are closed, no new work is taken.
    #[must_use]
    pub(crate) fn new(
        inner: Arc<dyn Actions>,
        authority: Arc<dyn Authority>,
        tasks: TaskTracker,
    ) -> Self {
        Self { inner, authority, tasks }
    }
}

#[async_trait]
impl Actions for Detached {
    /// Moves no money, so it ends with its request.
    async fn in_minor_units(
        &self,
        key: &AgentKey,
        ask: Ask,
        major: &str,
    ) -> Result<Ask, ActionError> {
        self.inner.in_minor_units(key, ask, major).await
    }

    async fn refund(&self, key: &AgentKey, ask: Ask) -> Result<Answer, ActionError> {
        if self.tasks.is_closed() {
            return Err(ActionError::ShuttingDown);
        }
        let inner = Arc::clone(&self.inner);
        let (own_key, own_ask) = (key.clone(), ask.clone());
        let work = self.tasks.spawn(async move { inner.refund(&own_key, own_ask).await });
        match work.await {
            Ok(answer) => answer,
            Err(ended) => {
                tracing::error!(error.detail = %ended, "a refund's work ended abnormally");
                // What was recorded tells; nobody is told "nothing happened" by guesswork.
                match self.authority.find(key, &ask).await? {
                    Some(intent) => Ok(Answer::Intent {
                        intent: Box::new(intent),
                        replayed: true,
                        reported: true,
                    }),
                    None => Err(ActionError::AuthorityError { detail: ended.to_string() }),
                }
            }
        }
    }
}
