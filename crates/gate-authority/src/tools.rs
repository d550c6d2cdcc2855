//! Connector tools: which an agent is granted, and the record that it used one.

use gate_core::{AgentKey, AgentName, AuthorityError};
use gate_policy::Policy;
use gate_store::{AgentBy, Reads, Snapshot};

use crate::authority::{LocalAuthority, actor, flatten, holder};
use crate::change::{Plan, audit};
use crate::keys::{self, Seed};

/// The connector's tools, which an agent has by grant alone.
const BY_GRANT: [&str; 5] = [
    "customers_search",
    "finance_balance",
    "finance_disputes",
    "finance_payments",
    "finance_refund",
];

/// The connector tools that the policy grants to an agent. The one place that says so.
pub(crate) fn granted(policy: &Policy, agent: &AgentName) -> Vec<String> {
    let granted = BY_GRANT.into_iter().filter(|tool| policy.grants(agent, tool));
    granted.map(str::to_owned).collect()
}

impl LocalAuthority {
    /// Lets an agent use a connector tool once: answers whether it is granted, and then records that
    /// it was used; never what was read with it.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Unauthenticated`] for unknown, revoked and expired keys alike.
    pub async fn use_tool(&self, key: &AgentKey, tool: &str) -> Result<bool, AuthorityError> {
        let (seed, hash, tool) = (Seed::draw(self.ids.as_ref()), keys::hash(key), tool.to_owned());
        let reads = Reads { agent: Some(AgentBy::Key(hash)), policy: true, ..Reads::default() };
        let policies = std::sync::Arc::clone(&self.policies);
        let judge = move |now, seen: &Snapshot| {
            flatten(holder(now, seen, &hash).and_then(|agent| {
                let policy = policies.of(seen.policy.as_ref())?;
                if !granted(&policy, &agent.name).contains(&tool) {
                    return Ok(Plan::nothing(false));
                }
                let details = serde_json::json!({ "agent": agent.id.as_str() });
                let entry = audit(&actor(agent), "tool.used", &tool, &details, now, &seed.stream());
                Ok(Plan { writes: vec![entry], reply: true })
            }))
        };
        self.change(reads, judge).await?
    }
}
