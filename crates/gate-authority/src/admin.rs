//! What people do: agents and their keys, users, the policy, approvals, stops. Each call is one
//! transaction with its audit entry.

mod agents;
mod gateways;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gate_core::bugs::{self, Bug};
use gate_core::{
    ActionError, ApprovalId, AuthorityError, Ids, Intent, IntentId, RefundId, State, Timestamp,
    UserName,
};
use gate_policy::{Fault, Policy};
use gate_store::{
    AgentBy, AgentRow, IntentBy, IntentQuery, PolicyRow, Reads, Scope, Snapshot, StopRow, UserRow,
    Write,
};

use crate::approval::{self, Vote};
use crate::authority::LocalAuthority;
use crate::change::{Actor, Plan, audit, transact};
use crate::decide::World;
use crate::keys::Seed;
use crate::outcome;

/// Longest note of a reviewer or of a stop, in characters.
const NOTE_CHARS_MAX: usize = 500;
/// How long the key before a rotation is still taken.
const ROTATION_GRACE: Duration = Duration::from_secs(24 * 3600);
/// Roles that do not review.
const FIXED_ROLES: [&str; 4] = ["owner", "policy-editor", "auditor", "viewer"];

/// What a person's command came to, if not to what was wanted. Nothing was changed.
#[derive(Debug)]
pub enum AdminError {
    /// The authority could not do it.
    Authority(AuthorityError),
    /// It exists already, or is past the point where this can be done.
    Conflict(String),
    /// This person may not do this.
    Forbidden(String),
    /// What was given does not have the right form.
    Invalid(String),
    /// There is no such thing.
    NotFound(String),
    /// The policy has faults.
    Policy(Vec<Fault>),
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authority(error) => error.fmt(f),
            Self::Conflict(what) | Self::Forbidden(what) => f.write_str(what),
            Self::Invalid(what) | Self::NotFound(what) => f.write_str(what),
            Self::Policy(faults) => {
                f.write_str("the policy was not applied")?;
                faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
            }
        }
    }
}

impl std::error::Error for AdminError {}

impl From<AuthorityError> for AdminError {
    fn from(error: AuthorityError) -> Self {
        match error {
            AuthorityError::Asked(error) => Self::Conflict(error.to_string()),
            other @ (AuthorityError::Broken(_)
            | AuthorityError::Gateway(_)
            | AuthorityError::Stale
            | AuthorityError::StoreUnavailable(_)
            | AuthorityError::Unauthenticated
            | AuthorityError::Unavailable(_)) => Self::Authority(other),
        }
    }
}

/// Which intents a person wants to see, newest first.
#[derive(Clone, Debug, Default)]
pub struct IntentList {
    /// Of this agent, by name or id.
    pub agent: Option<String>,
    /// In this state.
    pub state: Option<State>,
    /// At most so many.
    pub limit: u32,
}

/// The people's side of the authority, acting as `actor`.
pub struct Admin<'a> {
    authority: &'a LocalAuthority,
    actor: Actor,
}

type Judged<T> = Result<Plan<T>, AdminError>;

impl<'a> Admin<'a> {
    /// Acts as `actor`.
    #[must_use]
    pub const fn new(authority: &'a LocalAuthority, actor: Actor) -> Self {
        Self { authority, actor }
    }

    /// All people, by name.
    ///
    /// # Errors
    ///
    /// [`AdminError::Authority`].
    pub async fn users(&self) -> Result<Vec<UserRow>, AdminError> {
        Ok(self.authority.read(Reads { users: true, ..Reads::default() }).await?.users)
    }

    /// Makes a person.
    ///
    /// # Errors
    ///
    /// [`AdminError::Conflict`] when the name is taken; [`AdminError::Invalid`] without a role.
    pub async fn create_user(
        &self,
        name: &UserName,
        roles: &[String],
    ) -> Result<UserRow, AdminError> {
        if roles.is_empty() {
            return Err(AdminError::Invalid(format!(
                "user {name} needs a role: {}, or a reviewer role of your own naming",
                FIXED_ROLES.join(", ")
            )));
        }
        if let Some(bad) = roles.iter().find(|role| UserName::parse(role).is_err()) {
            return Err(AdminError::Invalid(format!(
                "`{bad}` is not a role's name: use 1 to 64 of a-z, 0-9, - _ and ."
            )));
        }
        let (name, roles) = (name.clone(), roles.to_vec());
        let reads = Reads { users: true, ..Reads::default() };
        self.change(reads, move |by, world| {
            if world.seen.users.iter().any(|user| user.name == name) {
                return Err(AdminError::Conflict(format!("there is a user {name} already")));
            }
            let user = UserRow { name: name.clone(), roles: roles.clone(), created_at: world.now };
            let details = serde_json::json!({ "roles": roles });
            let writes = vec![
                Write::InsertUser(user.clone()),
                world.audited(by, "user.created", name.as_str(), &details),
            ];
            Ok(Plan { writes, reply: user })
        })
        .await
    }

    /// Applies a policy: the text is the version. Answers its number and what to beware of.
    ///
    /// # Errors
    ///
    /// [`AdminError::Policy`] with all its faults.
    pub async fn apply_policy(&self, text: &str) -> Result<(u64, Vec<String>), AdminError> {
        let policy = Policy::parse(text).map_err(AdminError::Policy)?;
        let text = text.to_owned();
        let reads = Reads { policy: true, ..Reads::default() };
        let version = self
            .change(reads, move |by, world| {
                let version = next_version(world.seen);
                Ok(Plan { writes: policy_writes(text.clone(), by, world), reply: version })
            })
            .await?;
        Ok((version, policy.warnings()))
    }

    /// The policy in force: its version (0 for a new store's) and its text.
    ///
    /// # Errors
    ///
    /// [`AdminError::Authority`].
    pub async fn policy(&self) -> Result<(u64, String), AdminError> {
        let seen = self.authority.read(Reads { policy: true, ..Reads::default() }).await?;
        let version = seen.policy.as_ref().map_or(0, |policy| policy.version);
        Ok((version, policy_text(&seen).to_owned()))
    }

    /// Intents, newest first.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`] when there is no such agent.
    pub async fn intents(&self, list: &IntentList) -> Result<Vec<Intent>, AdminError> {
        let agent = match &list.agent {
            None => None,
            Some(name) => {
                let by = Some(AgentBy::Name(name.clone()));
                let seen = self.authority.read(Reads { agent: by, ..Reads::default() }).await?;
                Some(known_agent(&seen, name)?.id.clone())
            }
        };
        let query =
            IntentQuery { agent, state: list.state, limit: list.limit, ..IntentQuery::default() };
        let reads = Reads { intents: Some(query), ..Reads::default() };
        Ok(self.authority.read(reads).await?.intents)
    }

    /// One intent.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`].
    pub async fn intent(&self, id: &IntentId) -> Result<Intent, AdminError> {
        let reads = Reads { intent: Some(IntentBy::Id(id.clone())), ..Reads::default() };
        let seen = self.authority.read(reads).await?;
        seen.intent.ok_or_else(|| no_intent(id.as_str()))
    }

    /// Withdraws what is pending or approved.
    ///
    /// # Errors
    ///
    /// [`AdminError::Conflict`] in any other state.
    pub async fn cancel(&self, id: &IntentId) -> Result<Intent, AdminError> {
        let reads = Reads { intent: Some(IntentBy::Id(id.clone())), ..Reads::default() };
        let id = id.clone();
        self.change(reads, move |by, world| {
            let intent = world.seen.intent.as_ref().ok_or_else(|| no_intent(id.as_str()))?;
            Ok(approval::cancel(intent, "A person withdrew the request.", by, &world.world())?)
        })
        .await
    }

    /// Ends what needs a person: with the refund that `user` found at Stripe, or as not executed.
    ///
    /// # Errors
    ///
    /// [`AdminError::Forbidden`] unless the user may review; [`AdminError::Conflict`] unless the
    /// intent needs a person: until then the gateway finds out by itself.
    pub async fn resolve(
        &self,
        id: &IntentId,
        user: &UserName,
        found: Option<&RefundId>,
        note: &str,
    ) -> Result<Intent, AdminError> {
        let note = checked_note(note)?;
        let reads = Reads {
            agent: Some(AgentBy::OfIntent),
            intent: Some(IntentBy::Id(id.clone())),
            policy: true,
            users: true,
            ..Reads::default()
        };
        let (id, user, found) = (id.clone(), user.clone(), found.cloned());
        let policies = Arc::clone(&self.authority.policies);
        self.change(reads, move |by, world| {
            let intent = world.seen.intent.as_ref().ok_or_else(|| no_intent(id.as_str()))?;
            may_review(world.seen, &user)?;
            if !intent.needs_person && intent.state != State::AwaitingStripe {
                return Err(AdminError::Conflict(format!(
                    "intent {id} is {} and does not need a person: the gateway finds out by itself",
                    intent.state.as_str()
                )));
            }
            let policy = policies.of(world.seen.policy.as_ref())?;
            let resolved = outcome::resolve(found.as_ref(), &note, by, &policy, &world.world());
            let mut plan = resolved?;
            let details = serde_json::json!({ "note": note });
            plan.writes.push(world.audited(by, "intent.resolved", id.as_str(), &details));
            Ok(plan)
        })
        .await
    }

    /// Approves a pending request as `user`.
    ///
    /// # Errors
    ///
    /// [`AdminError::Forbidden`] unless the user may review and does not own the agent;
    /// [`AdminError::Conflict`] when it was decided or expired already.
    pub async fn approve(
        &self,
        id: &ApprovalId,
        user: &UserName,
        note: Option<&str>,
    ) -> Result<Intent, AdminError> {
        let note = note.map(checked_note).transpose()?;
        self.vote(id, user, Vote::Approve { note }).await
    }

    /// Denies a pending request as `user`.
    ///
    /// # Errors
    ///
    /// As for [`Admin::approve`]; [`AdminError::Invalid`] without a note.
    pub async fn deny(
        &self,
        id: &ApprovalId,
        user: &UserName,
        note: &str,
    ) -> Result<Intent, AdminError> {
        let note = checked_note(note)?;
        self.vote(id, user, Vote::Deny { note }).await
    }

    async fn vote(
        &self,
        id: &ApprovalId,
        user: &UserName,
        vote: Vote,
    ) -> Result<Intent, AdminError> {
        let reads = Reads {
            intent: Some(IntentBy::Approval(id.clone())),
            policy: true,
            users: true,
            ..Reads::default()
        };
        let (id, user) = (id.clone(), user.clone());
        let policies = Arc::clone(&self.authority.policies);
        self.change(reads, move |by, world| {
            let Some(intent) = &world.seen.intent else {
                return Err(AdminError::NotFound(format!("there is no approval {id}")));
            };
            may_review(world.seen, &user)?;
            let policy = policies.of(world.seen.policy.as_ref())?;
            let owner = policy.agent(&intent.agent_name).and_then(|limits| limits.owner.as_ref());
            if owner == Some(&user) && !bugs::on(Bug::OwnerMayApprove) {
                return Err(AdminError::Forbidden(format!(
                    "{user} owns agent {}: somebody else has to decide",
                    intent.agent_name
                )));
            }
            let expired = intent.approval.as_ref().is_none_or(|a| a.expires_at <= world.now)
                && !bugs::on(Bug::ExpiredVoteCounts);
            let pending = intent.state == State::PendingApproval;
            if !pending || expired {
                let state = if pending { "past its time" } else { intent.state.as_str() };
                return Err(AdminError::Conflict(format!(
                    "the request is {state}: there is nothing left to decide"
                )));
            }
            Ok(approval::vote(intent, &user, &vote, by, &world.world())?)
        })
        .await
    }

    /// Stops an agent, by name or id, or everybody. Acts on the next request; holds what is
    /// pending. Answers who is stopped: the agent's name, or `everybody`.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`].
    pub async fn stop(
        &self,
        agent: Option<&str>,
        note: Option<&str>,
    ) -> Result<String, AdminError> {
        let note = note.map(checked_note).transpose()?;
        let agent = agent.map(str::to_owned);
        self.change(stop_reads(agent.as_deref()), move |by, world| {
            let (scope, whom) = stop_scope(world.seen, agent.as_deref())?;
            let details = serde_json::json!({ "note": note });
            let entry = world.audited(by, "stop.put", &scope.text(), &details);
            let (by, note) = (by.to_string(), note.clone());
            let stop = Write::PutStop(StopRow { scope, by, note, at: world.now });
            Ok(Plan { writes: vec![stop, entry], reply: whom })
        })
        .await
    }

    /// Lifts a stop, if there is one. Answers who goes on, as [`Admin::stop`] does.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`] when there is no such agent.
    pub async fn resume(&self, agent: Option<&str>) -> Result<String, AdminError> {
        let agent = agent.map(str::to_owned);
        self.change(stop_reads(agent.as_deref()), move |by, world| {
            let (scope, whom) = stop_scope(world.seen, agent.as_deref())?;
            if !world.seen.stops.iter().any(|stop| stop.scope == scope) {
                return Ok(Plan::nothing(whom));
            }
            let entry = world.audited(by, "stop.lifted", &scope.text(), &serde_json::json!({}));
            Ok(Plan { writes: vec![Write::LiftStop(scope), entry], reply: whom })
        })
        .await
    }

    async fn change<T: Send + 'static>(
        &self,
        reads: Reads,
        judge: impl Fn(&Actor, &Site<'_>) -> Judged<T> + Send + Sync + 'static,
    ) -> Result<T, AdminError> {
        let authority = self.authority;
        let (seed, by) = (Seed::draw(authority.ids.as_ref()), self.actor.clone());
        let config = Arc::clone(&authority.config);
        let judge = move |now, seen: &Snapshot| {
            let ids = seed.stream();
            match judge(&by, &Site { now, seen, ids: &ids, config: &config }) {
                Ok(Plan { writes, reply }) => Plan { writes, reply: Ok(reply) },
                Err(error) => Plan::nothing(Err(error)),
            }
        };
        transact(authority.store.as_ref(), reads, judge).await?
    }
}

/// Where a person's command is judged.
struct Site<'a> {
    now: Timestamp,
    seen: &'a Snapshot,
    ids: &'a dyn Ids,
    config: &'a crate::authority::AuthorityConfig,
}

impl Site<'_> {
    fn world(&self) -> World<'_> {
        World { now: self.now, seen: self.seen, config: self.config, ids: self.ids }
    }

    fn audited(
        &self,
        by: &Actor,
        action: &str,
        subject: &str,
        details: &serde_json::Value,
    ) -> Write {
        audit(by, action, subject, details, self.now, self.ids)
    }
}

/// Ends the keys before a new one: the newest of them at `grace`, those before it now, so that never
/// more than two are valid. The expiries come oldest first.
fn make_room<'k>(
    expiries: impl DoubleEndedIterator<Item = &'k mut Option<Timestamp>>,
    now: Timestamp,
    grace: Timestamp,
) {
    for (older, expires_at) in expiries.rev().enumerate() {
        let until = if older == 0 { grace } else { now };
        *expires_at = Some(expires_at.map_or(until, |at| at.min(until)));
    }
}

fn policy_text(seen: &Snapshot) -> &str {
    seen.policy.as_ref().map_or(gate_policy::NEW_STORE_TEXT, |policy| &policy.text)
}

fn next_version(seen: &Snapshot) -> u64 {
    seen.policy.as_ref().map_or(0, |policy| policy.version).saturating_add(1)
}

fn policy_writes(text: String, by: &Actor, site: &Site<'_>) -> Vec<Write> {
    let version = next_version(site.seen);
    let details = serde_json::json!({ "version": version });
    let row = PolicyRow { version, text, author: by.to_string(), created_at: site.now };
    vec![
        Write::InsertPolicy(row),
        site.audited(by, "policy.applied", &version.to_string(), &details),
    ]
}

fn known_agent<'a>(seen: &'a Snapshot, name: &str) -> Result<&'a AgentRow, AdminError> {
    seen.agent.as_ref().ok_or_else(|| no_agent(name))
}

fn stop_reads(agent: Option<&str>) -> Reads {
    let agent = agent.map(|name| AgentBy::Name(name.to_owned()));
    Reads { agent, policy: true, ..Reads::default() }
}

/// What is stopped or resumed, and what to call it.
fn stop_scope(seen: &Snapshot, agent: Option<&str>) -> Result<(Scope, String), AdminError> {
    match agent {
        Some(name) => {
            let agent = known_agent(seen, name)?;
            Ok((Scope::Agent(agent.id.clone()), agent.name.to_string()))
        }
        None => Ok((Scope::Organization, "everybody".to_owned())),
    }
}

fn no_agent(name: &str) -> AdminError {
    AdminError::NotFound(format!("there is no agent {name}: `agent list` shows them"))
}

fn no_intent(id: &str) -> AdminError {
    AdminError::NotFound(format!("there is no intent {id}: `intent list` shows them"))
}

fn known_user<'a>(seen: &'a Snapshot, name: &UserName) -> Result<&'a UserRow, AdminError> {
    seen.users.iter().find(|user| user.name == *name).ok_or_else(|| {
        AdminError::NotFound(format!(
            "there is no user {name}: make one with `user create {name} --role ROLE`"
        ))
    })
}

/// Owners review, and whoever has a reviewer role; the other fixed roles do not.
fn may_review(seen: &Snapshot, name: &UserName) -> Result<(), AdminError> {
    let user = known_user(seen, name)?;
    let reviews = |role: &String| role == "owner" || !FIXED_ROLES.contains(&role.as_str());
    if user.roles.iter().any(reviews) {
        return Ok(());
    }
    Err(AdminError::Forbidden(format!(
        "{name} is {} and may not decide: that takes an owner or a reviewer role",
        user.roles.join(", ")
    )))
}

fn checked_note(note: &str) -> Result<String, AdminError> {
    let note = note.trim();
    match note.chars().count() {
        1..=NOTE_CHARS_MAX => Ok(note.to_owned()),
        0 => Err(AdminError::Invalid("a note is needed: say why".to_owned())),
        count => Err(AdminError::Invalid(format!(
            "the note has {count} characters: {NOTE_CHARS_MAX} at most"
        ))),
    }
}

impl From<ActionError> for AdminError {
    fn from(error: ActionError) -> Self {
        Self::Conflict(error.to_string())
    }
}
