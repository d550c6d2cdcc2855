//! Webhooks of agents: where they may go, and the secrets that follow from the master key.

use std::sync::Arc;

use async_trait::async_trait;
use gate_core::{AgentName, Clock};
use gate_http::{HyperTransport, Transport};
use gate_notify::{ANSWER_BYTES_MAX, Secret, Secrets, Wake, is_public};
use gate_store::Changes;

use crate::master_key::{MasterKey, Purpose};

/// Makes what carries webhooks, and so decides where they may go.
pub type WebhookTransport = fn(Arc<dyn Clock>) -> Arc<dyn Transport>;

/// To public addresses, and to no others.
#[must_use]
pub fn to_public_addresses(clock: Arc<dyn Clock>) -> Arc<dyn Transport> {
    let transport = HyperTransport::new(clock).with_response_bytes_max(ANSWER_BYTES_MAX);
    Arc::new(transport.only_to(Arc::new(is_public)))
}

/// The secret of an agent's webhook in one of its generations.
pub(crate) fn webhook_secret(master: &MasterKey, agent: &AgentName, generation: u32) -> Secret {
    Secret::new(&master.derive(Purpose::Webhook, agent.as_str(), generation))
}

/// All secrets of webhooks.
pub(crate) fn webhook_secrets(master: MasterKey) -> Secrets {
    Arc::new(move |agent, generation| webhook_secret(&master, agent, generation))
}

/// Wakes at each commit.
pub(crate) struct AtCommits(pub(crate) Changes);

#[async_trait]
impl Wake for AtCommits {
    fn mark(&mut self) {
        self.0.mark();
    }

    async fn woken(&mut self) {
        self.0.changed().await;
    }
}
