//! The connector's tools: which an agent is granted, and the record that it used one.

use async_trait::async_trait;
use gate_core::{AgentKey, AgentName, AuthorityError, Grants, ToolUse};
use gate_policy::{Policy, TOOLS};
use gate_store::{AgentBy, Reads, Snapshot};

use crate::authority::{LocalAuthority, actor, flatten, holder};
use crate::change::{Plan, audit};
use crate::keys::{self, Seed};

/// The connector's tools that the policy grants to an agent, by name.
pub(crate) fn granted(policy: &Policy, agent: &AgentName) -> Vec<String> {
    TOOLS.into_iter().filter(|tool| policy.grants(agent, tool)).map(str::to_owned).collect()
}

#[async_trait]
impl Grants for LocalAuthority {
    async fn granted(&self, key: &AgentKey) -> Result<Vec<String>, AuthorityError> {
        let hash = keys::hash(key);
        let reads = Reads { agent: Some(AgentBy::Key(hash)), policy: true, ..Reads::default() };
        let (seen, now) = (self.read(reads).await?, self.now().await?);
        let agent = holder(now, &seen, &hash)?;
        let policy = self.policies.of(seen.policy.as_ref())?;
        Ok(granted(&policy, &agent.name))
    }

    async fn use_tool(&self, key: &AgentKey, used: &ToolUse) -> Result<bool, AuthorityError> {
        let (seed, hash, used) = (Seed::draw(self.ids.as_ref()), keys::hash(key), used.clone());
        let reads = Reads { agent: Some(AgentBy::Key(hash)), policy: true, ..Reads::default() };
        let policies = std::sync::Arc::clone(&self.policies);
        let judge = move |now, seen: &Snapshot| {
            flatten(holder(now, seen, &hash).and_then(|agent| {
                let policy = policies.of(seen.policy.as_ref())?;
                if !policy.grants(&agent.name, &used.tool) {
                    return Ok(Plan::nothing(false));
                }
                let details = serde_json::json!({
                    "agent": agent.id.as_str(),
                    "from": used.from,
                    "to": used.to,
                    "rows": used.rows,
                });
                let ids = seed.stream();
                let entry = audit(&actor(agent), "tool.used", &used.tool, &details, now, &ids);
                Ok(Plan { writes: vec![entry], reply: true })
            }))
        };
        self.change(reads, judge).await?
    }
}
