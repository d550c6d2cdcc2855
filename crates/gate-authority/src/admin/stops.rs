//! Stops: state of the authority, not text of the policy. Applying a policy never lifts one.

use gate_core::TeamName;
use gate_policy::Policy;
use gate_store::{AgentBy, Reads, Scope, Snapshot, StopRow, Write};

use super::people::May;
use super::policies::policy_text;
use super::{Admin, AdminError, checked_note, known_agent};
use crate::change::Plan;

/// Who is stopped, or goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Whom<'a> {
    /// One agent, by name or id.
    Agent(&'a str),
    /// The whole organization.
    Everybody,
    /// Every agent that the policy has in this team, now or later.
    Team(&'a TeamName),
}

impl Admin<'_> {
    /// Stops an agent, a team or everybody. Acts on the next request; holds what is pending.
    /// Answers who is stopped: the agent's name, `team NAME` or `everybody`.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`]; [`AdminError::Forbidden`] unless an owner, a policy editor or a
    /// reviewer does it.
    pub async fn stop(&self, whom: Whom<'_>, note: Option<&str>) -> Result<String, AdminError> {
        let note = note.map(checked_note).transpose()?;
        let whom = Owned::from(whom);
        self.change(whom.reads(), move |by, world| {
            world.may(May::Stop)?;
            let (scope, whom) = whom.scope(world.seen, true)?;
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
    /// [`AdminError::NotFound`] when there is no such agent; [`AdminError::Forbidden`] unless an
    /// owner or a policy editor does it.
    pub async fn resume(&self, whom: Whom<'_>, note: Option<&str>) -> Result<String, AdminError> {
        let note = note.map(checked_note).transpose()?;
        let whom = Owned::from(whom);
        self.change(whom.reads(), move |by, world| {
            world.may(May::EditPolicy)?;
            let (scope, whom) = whom.scope(world.seen, false)?;
            if !world.seen.stops.iter().any(|stop| stop.scope == scope) {
                return Ok(Plan::nothing(whom));
            }
            let details = serde_json::json!({ "note": note });
            let entry = world.audited(by, "stop.lifted", &scope.text(), &details);
            Ok(Plan { writes: vec![Write::LiftStop(scope), entry], reply: whom })
        })
        .await
    }

    /// Every stop in force.
    ///
    /// # Errors
    ///
    /// [`AdminError::Authority`].
    pub async fn stops(&self) -> Result<Vec<StopRow>, AdminError> {
        Ok(self.authority.read(Reads { policy: true, ..Reads::default() }).await?.stops)
    }
}

/// [`Whom`], for a judge to keep.
enum Owned {
    Agent(String),
    Everybody,
    Team(TeamName),
}

impl From<Whom<'_>> for Owned {
    fn from(whom: Whom<'_>) -> Self {
        match whom {
            Whom::Agent(name) => Self::Agent(name.to_owned()),
            Whom::Everybody => Self::Everybody,
            Whom::Team(team) => Self::Team(team.clone()),
        }
    }
}

impl Owned {
    fn reads(&self) -> Reads {
        let agent = match self {
            Self::Agent(name) => Some(AgentBy::Name(name.clone())),
            Self::Everybody | Self::Team(_) => None,
        };
        Reads { agent, policy: true, ..Reads::default() }
    }

    /// What is stopped or resumed, and what to call it. A team must have an agent to be stopped:
    /// a name that is mistyped stops nobody. (To be resumed it need not be there any more.)
    fn scope(&self, seen: &Snapshot, must_be_there: bool) -> Result<(Scope, String), AdminError> {
        match self {
            Self::Agent(name) => {
                let agent = known_agent(seen, name)?;
                Ok((Scope::Agent(agent.id.clone()), agent.name.to_string()))
            }
            Self::Everybody => Ok((Scope::Organization, "everybody".to_owned())),
            Self::Team(team) => {
                let policy = Policy::parse(policy_text(seen)).map_err(AdminError::Policy)?;
                let has_agent = policy.agents().any(|(name, _)| policy.team_of(name) == Some(team));
                if must_be_there && !has_agent {
                    return Err(AdminError::NotFound(format!(
                        "no agent of the policy is in a team {team}: `policy show` names the teams"
                    )));
                }
                Ok((Scope::Team(team.clone()), format!("team {team}")))
            }
        }
    }
}
