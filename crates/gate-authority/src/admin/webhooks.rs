//! Webhooks of agents: how they fare, their secrets' generations, and sending again.

use gate_core::{AgentName, Timestamp};
use gate_store::{Reads, Snapshot, WebhookRow, Write};
use serde_json::json;

use super::{Admin, AdminError, Site};
use crate::change::{Actor, Plan};
use crate::notices::{generations, own, untroubled};

/// An agent's webhook, and where the log that it is told of stands.
#[derive(Clone, Debug)]
pub struct WebhookState {
    /// The webhook.
    pub row: WebhookRow,
    /// The newest entry of the audit log; what lies between it and the webhook's may be others'.
    pub head: u64,
    /// Generations of the secret that are signed with now, the newest first.
    pub generations: Vec<u32>,
}

impl WebhookState {
    fn new(row: WebhookRow, seen: &Snapshot, now: Timestamp) -> Self {
        let generations = generations(&row, now);
        Self { row, head: seen.head.n, generations }
    }
}

impl Admin<'_> {
    /// How an agent's webhook fares.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`] when the policy never had one for it.
    pub async fn webhook(&self, agent: &AgentName) -> Result<WebhookState, AdminError> {
        let seen = self.authority.read(Reads { webhooks: true, ..Reads::default() }).await?;
        let row = known(&seen, agent)?.clone();
        Ok(WebhookState::new(row, &seen, self.authority.now().await?))
    }

    /// How every webhook fares that is in the policy in force, by agent.
    ///
    /// # Errors
    ///
    /// [`AdminError::Authority`].
    pub async fn webhooks(&self) -> Result<Vec<WebhookState>, AdminError> {
        let seen = self.authority.read(Reads { webhooks: true, ..Reads::default() }).await?;
        let now = self.authority.now().await?;
        let rows = seen.webhooks.iter().filter(|row| row.url.is_some());
        Ok(rows.map(|row| WebhookState::new(row.clone(), &seen, now)).collect())
    }

    /// Makes the secret another one; the one before signs too for 24 more hours.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`].
    pub async fn rotate_webhook(&self, agent: &AgentName) -> Result<WebhookState, AdminError> {
        self.change_webhook(agent, |row, by, site| {
            let generation = row.generation.saturating_add(1);
            let details = json!({ "generation": generation });
            let row = WebhookRow { generation, rotated_at: Some(site.now), ..row.clone() };
            let subject = row.agent.as_str();
            Ok((row.clone(), site.audited(by, "webhook.rotated", subject, &details)))
        })
        .await
    }

    /// Has what waits sent at once, also after the server said that it is gone, or after a pause.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`].
    pub async fn resume_webhook(&self, agent: &AgentName) -> Result<WebhookState, AdminError> {
        self.change_webhook(agent, |row, by, site| {
            let entry = site.audited(by, "webhook.resumed", row.agent.as_str(), &json!({}));
            Ok((untroubled(row.clone()), entry))
        })
        .await
    }

    /// Has everything from entry `from` of the audit log on sent again.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`]; [`AdminError::Invalid`] when that was not sent yet.
    pub async fn resend_webhook(
        &self,
        agent: &AgentName,
        from: u64,
    ) -> Result<WebhookState, AdminError> {
        self.change_webhook(agent, move |row, by, site| {
            if from == 0 || from > row.done_to {
                return Err(AdminError::Invalid(format!(
                    "event {from} was not dealt with yet; the newest that was is {}, and what \
                     follows is sent by itself",
                    row.done_to
                )));
            }
            let details = json!({ "from": from });
            let entry = site.audited(by, "webhook.resent", row.agent.as_str(), &details);
            let done_to = from.saturating_sub(1);
            Ok((WebhookRow { done_to, ..untroubled(row.clone()) }, entry))
        })
        .await
    }

    async fn change_webhook(
        &self,
        agent: &AgentName,
        judge: impl Fn(&WebhookRow, &Actor, &Site<'_>) -> Result<(WebhookRow, Write), AdminError>
        + Send
        + Sync
        + 'static,
    ) -> Result<WebhookState, AdminError> {
        let agent = agent.clone();
        let reads = Reads { webhooks: true, ..Reads::default() };
        self.change(reads, move |by, site| {
            let (row, entry) = judge(known(site.seen, &agent)?, by, site)?;
            let reply = WebhookState::new(row.clone(), site.seen, site.now);
            Ok(Plan { writes: vec![Write::PutWebhook(row), entry], reply })
        })
        .await
    }
}

fn known<'a>(seen: &'a Snapshot, agent: &AgentName) -> Result<&'a WebhookRow, AdminError> {
    own(seen, agent).ok_or_else(|| {
        AdminError::NotFound(format!(
            "{agent} has no webhook: write webhook = \"https://…\" into its entry in the policy, \
             and apply it"
        ))
    })
}
