//! What people do: agents and their keys, users, the policy, approvals, stops. Each call is one
//! transaction with its audit entry.

mod agents;
mod approvals;
mod emptying;
mod gateways;
mod people;
mod policies;
mod stops;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gate_core::{
    ActionError, AuthorityError, Ids, Intent, IntentId, RefundId, State, Timestamp, UserName,
};
use gate_policy::Fault;
use gate_store::{AgentBy, AgentRow, IntentBy, IntentQuery, Reads, Snapshot, UserRow, Write};

use crate::approval;
use crate::authority::LocalAuthority;
use crate::change::{Actor, Plan, audit, transact};
use crate::decide::World;
use crate::keys::Seed;
use crate::outcome;
use people::{May, may};
use policies::{policy_text, policy_writes};

pub use approvals::Waiting;
pub use stops::Whom;

pub use agents::KeyTerms;
pub use emptying::{EmptiedCount, Emptying};

/// Longest note of a reviewer or of a stop, in characters.
const NOTE_CHARS_MAX: usize = 500;
/// How long the key before a rotation is still taken.
const ROTATION_GRACE: Duration = Duration::from_secs(24 * 3600);

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
    user: Option<UserName>,
}

type Judged<T> = Result<Plan<T>, AdminError>;

impl<'a> Admin<'a> {
    /// Acts as `actor`.
    #[must_use]
    pub const fn new(authority: &'a LocalAuthority, actor: Actor) -> Self {
        Self { authority, actor, user: None }
    }

    /// Acts for `user`, whose roles then say what may be done. (Otherwise it is whoever owns the
    /// store that acts, and they could write it anyway.)
    #[must_use]
    pub fn acting_as(self, user: UserName) -> Self {
        Self { user: Some(user), ..self }
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
    /// [`AdminError::Forbidden`] unless whoever does it may stop too; [`AdminError::Conflict`] in any
    /// other state.
    pub async fn cancel(&self, id: &IntentId) -> Result<Intent, AdminError> {
        let reads = Reads { intent: Some(IntentBy::Id(id.clone())), ..Reads::default() };
        let id = id.clone();
        self.change(reads, move |by, world| {
            world.may(May::Stop)?;
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
            may(world.seen, &user, May::Review)?;
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

    async fn change<T: Send + 'static>(
        &self,
        reads: Reads,
        judge: impl Fn(&Actor, &Site<'_>) -> Judged<T> + Send + Sync + 'static,
    ) -> Result<T, AdminError> {
        let authority = self.authority;
        let (seed, by) = (Seed::draw(authority.ids.as_ref()), self.actor.clone());
        let (user, mut reads) = (self.user.clone(), reads);
        reads.users |= user.is_some();
        let config = Arc::clone(&authority.config);
        let judge = move |now, seen: &Snapshot| {
            let ids = seed.stream();
            match judge(&by, &Site { now, seen, ids: &ids, config: &config, user: user.as_ref() }) {
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
    user: Option<&'a UserName>,
}

impl Site<'_> {
    fn world(&self) -> World<'_> {
        World { now: self.now, seen: self.seen, config: self.config, ids: self.ids }
    }

    /// Whether whoever this is done for may do it.
    fn may(&self, what: May) -> Result<(), AdminError> {
        self.user.map_or(Ok(()), |user| may(self.seen, user, what))
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

fn known_agent<'a>(seen: &'a Snapshot, name: &str) -> Result<&'a AgentRow, AdminError> {
    seen.agent.as_ref().ok_or_else(|| no_agent(name))
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
