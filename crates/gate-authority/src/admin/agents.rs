//! Agents and their keys: made, rotated, revoked, listed.

use gate_core::{AgentId, AgentKey, AgentName, State, Timestamp, UserName};
use gate_store::{AgentBy, AgentRow, IntentQuery, KeyRow, Reads, Write};

use super::{
    Admin, AdminError, ROTATION_GRACE, known_agent, known_user, make_room, no_agent, policy_text,
    policy_writes,
};
use crate::approval::{self, AGENT_REVOKED};
use crate::change::Plan;
use crate::keys;

/// Most open requests that one revocation withdraws.
const WITHDRAWN_MAX: u32 = 10_000;

impl Admin<'_> {
    /// Makes an agent and its key, which is shown once; with `starter`, or an `owner`, also its
    /// entry in the policy.
    ///
    /// # Errors
    ///
    /// [`AdminError::Conflict`] when the name is, or was, an agent's, or stands in the policy
    /// already although an entry was to be written.
    pub async fn create_agent(
        &self,
        name: &AgentName,
        owner: Option<&UserName>,
        starter: bool,
    ) -> Result<(AgentRow, AgentKey), AdminError> {
        let key = keys::new_key(self.authority.ids.as_ref());
        let (stored_key, name, owner) = (key.clone(), name.clone(), owner.cloned());
        let reads = Reads {
            agent: Some(AgentBy::Name(name.to_string())),
            policy: true,
            users: true,
            ..Reads::default()
        };
        let row = self
            .change(reads, move |by, world| {
                if world.seen.agent.is_some() {
                    return Err(AdminError::Conflict(format!(
                        "there is, or was, an agent {name}: choose another name, or rotate its key"
                    )));
                }
                let agent = AgentRow {
                    id: AgentId::make(world.now, world.ids),
                    name: name.clone(),
                    created_at: world.now,
                    revoked_at: None,
                    keys: vec![key_row(&stored_key, world.now)],
                };
                let mut writes = vec![Write::PutAgent(agent.clone())];
                let details = serde_json::json!({ "name": name.as_str() });
                writes.push(world.audited(by, "agent.created", agent.id.as_str(), &details));
                if starter || owner.is_some() {
                    if let Some(owner) = &owner {
                        known_user(world.seen, owner)?;
                    }
                    let text = policy_text(world.seen);
                    let text = gate_policy::with_agent(text, &name, owner.as_ref(), starter)
                        .map_err(AdminError::Conflict)?;
                    writes.append(&mut policy_writes(text, by, world));
                }
                Ok(Plan { writes, reply: agent })
            })
            .await?;
        Ok((row, key))
    }

    /// Makes a new key for an agent. The one before is taken for 24 more hours, or not at all.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`]; [`AdminError::Conflict`] when the agent is revoked.
    pub async fn rotate_agent(
        &self,
        name: &str,
        at_once: bool,
    ) -> Result<(AgentRow, AgentKey), AdminError> {
        let key = keys::new_key(self.authority.ids.as_ref());
        let (stored_key, name) = (key.clone(), name.to_owned());
        let reads = Reads { agent: Some(AgentBy::Name(name.clone())), ..Reads::default() };
        let row = self
            .change(reads, move |by, world| {
                let mut agent = known_agent(world.seen, &name)?.clone();
                if agent.revoked_at.is_some() {
                    return Err(AdminError::Conflict(format!(
                        "agent {name} is revoked for good: create another one"
                    )));
                }
                let grace = if at_once { world.now } else { world.now.after(ROTATION_GRACE) };
                agent.keys.retain(|key| key.expires_at.is_none_or(|at| at > world.now));
                let expiries = agent.keys.iter_mut().map(|key| &mut key.expires_at);
                make_room(expiries, world.now, grace);
                agent.keys.push(key_row(&stored_key, world.now));
                let details = serde_json::json!({ "atOnce": at_once });
                let writes = vec![
                    Write::PutAgent(agent.clone()),
                    world.audited(by, "agent.rotated", agent.id.as_str(), &details),
                ];
                Ok(Plan { writes, reply: agent })
            })
            .await?;
        Ok((row, key))
    }

    /// Ends an agent for good: its keys are refused from the next request on, and what it has
    /// pending or approved is withdrawn.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`].
    pub async fn revoke_agent(&self, name: &str) -> Result<AgentRow, AdminError> {
        let agents = self.agents().await?;
        let same = |agent: &AgentRow| agent.name.as_str() == name || agent.id.as_str() == name;
        let id = agents.into_iter().find(same).map(|agent| agent.id);
        let id = id.ok_or_else(|| no_agent(name))?;
        let name = id.to_string();
        let reads = Reads {
            agent: Some(AgentBy::Name(name.clone())),
            intents: Some(IntentQuery {
                agent: Some(id),
                limit: WITHDRAWN_MAX,
                ..IntentQuery::default()
            }),
            ..Reads::default()
        };
        self.change(reads, move |by, world| {
            let mut agent = known_agent(world.seen, &name)?.clone();
            agent.revoked_at.get_or_insert(world.now);
            let mut writes = vec![
                Write::PutAgent(agent.clone()),
                world.audited(by, "agent.revoked", agent.id.as_str(), &serde_json::json!({})),
            ];
            for intent in &world.seen.intents {
                if matches!(intent.state, State::PendingApproval | State::Approved) {
                    let ended = approval::cancel(intent, AGENT_REVOKED, by, &world.world())?;
                    writes.extend(ended.writes);
                }
            }
            Ok(Plan { writes, reply: agent })
        })
        .await
    }

    /// All agents, by name.
    ///
    /// # Errors
    ///
    /// [`AdminError::Authority`].
    pub async fn agents(&self) -> Result<Vec<AgentRow>, AdminError> {
        Ok(self.authority.read(Reads { agents: true, ..Reads::default() }).await?.agents)
    }
}

fn key_row(key: &AgentKey, now: Timestamp) -> KeyRow {
    KeyRow { hash: keys::hash(key), hint: keys::hint(key), created_at: now, expires_at: None }
}
