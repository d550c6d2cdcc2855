//! Agents and their keys: made, rotated, revoked, listed.

use std::time::Duration;

use gate_core::{AgentId, AgentKey, AgentName, Source, State, Timestamp, UserName};
use gate_policy::{NewAgent, Policy};
use gate_store::{AgentBy, AgentRow, IntentQuery, KeyRow, Reads, Write};

use super::{
    Admin, AdminError, ROTATION_GRACE, known_agent, known_user, make_room, no_agent, policy_text,
    policy_writes,
};
use crate::approval::{self, AGENT_REVOKED};
use crate::change::Plan;
use crate::keys;

/// Longest that a key may last.
const LIFETIME_MAX: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Most ranges that an agent's keys are taken from.
const SOURCES_MAX: usize = 32;
/// Most open requests that one revocation withdraws.
const WITHDRAWN_MAX: u32 = 10_000;

/// How long a key lasts, and from where it is taken. What is not said stays as it was; a new
/// agent's key lasts until it is revoked, and is taken from everywhere.
#[derive(Clone, Debug, Default)]
pub struct KeyTerms {
    /// How long the new key is taken, at most 3650 days.
    pub lifetime: Option<Duration>,
    /// From where alone the agent's keys are taken, the old one's too: 32 ranges at most.
    pub sources: Option<Vec<Source>>,
}

impl KeyTerms {
    fn checked(&self) -> Result<Self, AdminError> {
        if self.lifetime.is_some_and(|span| span.is_zero() || span > LIFETIME_MAX) {
            return Err(AdminError::Invalid(
                "a key lasts longer than nothing and at most 3650d".to_owned(),
            ));
        }
        let sources = self.sources.as_ref().map_or(0, Vec::len);
        if sources > SOURCES_MAX {
            return Err(AdminError::Invalid(format!(
                "{sources} ranges are too many: {SOURCES_MAX} at most, so use wider ones"
            )));
        }
        Ok(self.clone())
    }

    fn details(agent: &AgentRow) -> serde_json::Value {
        let sources: Vec<String> = agent.sources.iter().map(ToString::to_string).collect();
        let expires_at = agent.keys.last().and_then(|key| key.expires_at);
        serde_json::json!({
            "name": agent.name.as_str(),
            "expiresAtMillis": expires_at.map(Timestamp::millis),
            "sources": sources,
        })
    }
}

impl Admin<'_> {
    /// As [`Admin::create_agent_under`], without terms.
    ///
    /// # Errors
    ///
    /// Its own.
    pub async fn create_agent(
        &self,
        name: &AgentName,
        owner: Option<&UserName>,
        starter: bool,
    ) -> Result<(AgentRow, AgentKey), AdminError> {
        let entry = NewAgent { team: None, owner: owner.cloned(), starter };
        self.create_agent_under(&KeyTerms::default(), name, &entry).await
    }

    /// Makes an agent and its key, which is shown once; with anything in `entry`, also its entry in
    /// the policy.
    ///
    /// # Errors
    ///
    /// [`AdminError::Conflict`] when the name is, or was, an agent's, or stands in the policy
    /// already although an entry was to be written; [`AdminError::Invalid`] for terms that cannot
    /// be.
    pub async fn create_agent_under(
        &self,
        terms: &KeyTerms,
        name: &AgentName,
        entry: &NewAgent,
    ) -> Result<(AgentRow, AgentKey), AdminError> {
        let terms = terms.checked()?;
        let key = keys::new_key(self.authority.ids.as_ref());
        let (stored_key, name, entry) = (key.clone(), name.clone(), entry.clone());
        let reads = Reads {
            agent: Some(AgentBy::Name(name.to_string())),
            policy: true,
            users: true,
            webhooks: true,
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
                    sources: terms.sources.clone().unwrap_or_default(),
                    keys: vec![key_row(&stored_key, world.now, terms.lifetime)],
                };
                let mut writes = vec![Write::PutAgent(agent.clone())];
                let details = KeyTerms::details(&agent);
                writes.push(world.audited(by, "agent.created", agent.id.as_str(), &details));
                if entry != NewAgent::default() {
                    if let Some(owner) = &entry.owner {
                        known_user(world.seen, owner)?;
                    }
                    let text = policy_text(world.seen);
                    let text =
                        gate_policy::with_agent(text, &name, &entry).map_err(AdminError::Policy)?;
                    let policy = Policy::parse(&text).map_err(AdminError::Policy)?;
                    writes.append(&mut policy_writes(&text, &policy, by, world));
                }
                Ok(Plan { writes, reply: agent })
            })
            .await?;
        Ok((row, key))
    }

    /// As [`Admin::rotate_agent_under`], under the same terms as before.
    ///
    /// # Errors
    ///
    /// Its own.
    pub async fn rotate_agent(
        &self,
        name: &str,
        at_once: bool,
    ) -> Result<(AgentRow, AgentKey), AdminError> {
        self.rotate_agent_under(&KeyTerms::default(), name, at_once).await
    }

    /// Makes a new key for an agent, which lasts as long as the one before was made for. The one
    /// before is taken for 24 more hours, or not at all.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`]; [`AdminError::Conflict`] when the agent is revoked;
    /// [`AdminError::Invalid`] for terms that cannot be.
    pub async fn rotate_agent_under(
        &self,
        terms: &KeyTerms,
        name: &str,
        at_once: bool,
    ) -> Result<(AgentRow, AgentKey), AdminError> {
        let terms = terms.checked()?;
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
                let lifetime = terms.lifetime.or_else(|| agent.keys.last().and_then(made_for));
                if let Some(sources) = &terms.sources {
                    agent.sources.clone_from(sources);
                }
                let grace = if at_once { world.now } else { world.now.after(ROTATION_GRACE) };
                agent.keys.retain(|key| key.expires_at.is_none_or(|at| at > world.now));
                let expiries = agent.keys.iter_mut().map(|key| &mut key.expires_at);
                make_room(expiries, world.now, grace);
                agent.keys.push(key_row(&stored_key, world.now, lifetime));
                let mut details = KeyTerms::details(&agent);
                if let Some(details) = details.as_object_mut() {
                    details.insert("atOnce".to_owned(), at_once.into());
                }
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

    /// One agent, by name or id.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`].
    pub async fn agent(&self, name: &str) -> Result<AgentRow, AdminError> {
        let by = Some(AgentBy::Name(name.to_owned()));
        let seen = self.authority.read(Reads { agent: by, ..Reads::default() }).await?;
        known_agent(&seen, name).cloned()
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

fn key_row(key: &AgentKey, now: Timestamp, lifetime: Option<Duration>) -> KeyRow {
    let expires_at = lifetime.map(|lifetime| now.after(lifetime));
    KeyRow { hash: keys::hash(key), hint: keys::hint(key), created_at: now, expires_at }
}

/// How long the newest key of an agent was made for; no rotation has ended it yet.
fn made_for(key: &KeyRow) -> Option<Duration> {
    let millis = key.expires_at?.millis().checked_sub(key.created_at.millis())?;
    u64::try_from(millis).ok().map(Duration::from_millis)
}
