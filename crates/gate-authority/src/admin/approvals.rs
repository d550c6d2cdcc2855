//! Approvals: what waits for people, their votes, and asking again after a no.

use std::sync::Arc;

use gate_core::bugs::{self, Bug};
use gate_core::{ApprovalId, ApprovalState, Approver, Denier, Intent, State, UserName, Vote};
use gate_policy::Policy;
use gate_store::{IntentBy, Reads, UserRow, Write};

use super::people::{May, may};
use super::{Admin, AdminError, Judged, Site, checked_note, known_user};
use crate::approval;
use crate::change::{Actor, Plan};
use crate::votes::{self, Need};

/// What was asked of people, and how far it is.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The request, with the approval that was asked for.
    pub intent: Intent,
    /// Each reason that asks, and whose yes is missing.
    pub needs: Vec<Need>,
}

impl Admin<'_> {
    /// One approval, pending or not, and who still has to say yes.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`].
    pub async fn approval(&self, id: &ApprovalId) -> Result<Waiting, AdminError> {
        let seen = self.authority.read(reads(id)).await?;
        let intent = seen.intent.clone().ok_or_else(|| no_approval(id))?;
        let policy = self.authority.policies.of(seen.policy.as_ref())?;
        let standing = votes::standing(&intent, &policy, &seen);
        let needs = votes::needs(&intent, &standing, &policy, &seen.users);
        Ok(Waiting { intent, needs })
    }

    /// Approves a pending request as `user`. It is approved once each of its reasons has the people
    /// it takes; until then it stays pending.
    ///
    /// # Errors
    ///
    /// [`AdminError::Forbidden`] unless the user has a role that one of its reasons asks for and
    /// does not own the agent; [`AdminError::Conflict`] when it was decided or expired already, or
    /// the user has approved it already.
    pub async fn approve(
        &self,
        id: &ApprovalId,
        user: &UserName,
        note: Option<&str>,
    ) -> Result<Intent, AdminError> {
        let note = note.map(checked_note).transpose()?;
        self.vote(id, user, move |intent, user, policy, by, site| {
            approve(intent, user, note.clone(), policy, by, site)
        })
        .await
    }

    /// Denies a pending request as `user`, whatever others said before.
    ///
    /// # Errors
    ///
    /// [`AdminError::Forbidden`] unless the user may review and does not own the agent;
    /// [`AdminError::Conflict`] when it was decided or expired already; [`AdminError::Invalid`]
    /// without a note.
    pub async fn deny(
        &self,
        id: &ApprovalId,
        user: &UserName,
        note: &str,
    ) -> Result<Intent, AdminError> {
        let note = checked_note(note)?;
        self.vote(id, user, move |intent, user, _, by, site| {
            let mut plan = approval::deny(intent, &user.name, &note, by, &site.world())?;
            plan.writes.push(voted(intent, "deny", &user.roles, Some(&note), by, site));
            Ok(plan)
        })
        .await
    }

    /// Takes back that a person's denial answers for the same refund: asked again, it is decided
    /// anew. The denial itself stays on record.
    ///
    /// # Errors
    ///
    /// [`AdminError::Forbidden`] as for [`Admin::deny`]; [`AdminError::Conflict`] unless a person
    /// denied it.
    pub async fn reopen(
        &self,
        id: &ApprovalId,
        user: &UserName,
        note: Option<&str>,
    ) -> Result<Intent, AdminError> {
        let note = note.map(checked_note).transpose()?;
        let (id, user) = (id.clone(), user.clone());
        let policies = Arc::clone(&self.authority.policies);
        self.change(reads(&id), move |by, world| {
            let intent = world.seen.intent.as_ref().ok_or_else(|| no_approval(&id))?;
            let policy = policies.of(world.seen.policy.as_ref())?;
            no_owner(intent, &user, &policy, world)?;
            if intent.denied_by == Some(Denier::Reopened) {
                return Ok(Plan::nothing(intent.clone()));
            }
            if intent.denied_by != Some(Denier::Person) {
                return Err(AdminError::Conflict(format!(
                    "the request is {}, and no person denied it: there is nothing to reopen",
                    intent.state.as_str()
                )));
            }
            let mut next = intent.clone();
            next.denied_by = Some(Denier::Reopened);
            if bugs::on(Bug::ReopenForgetsDenial) {
                next.approval = None;
            }
            next.updated_at = world.now;
            let details = serde_json::json!({
                "intent": intent.id.as_str(),
                "user": user.as_str(),
                "note": note,
            });
            let writes = vec![
                Write::UpdateIntent { was: intent.state, intent: Box::new(next.clone()) },
                world.audited(by, "approval.reopened", id.as_str(), &details),
            ];
            Ok(Plan { writes, reply: next })
        })
        .await
    }

    /// Has `judge` look at a vote that comes in time, from somebody who may vote at all.
    async fn vote(
        &self,
        id: &ApprovalId,
        user: &UserName,
        judge: impl Fn(&Intent, &UserRow, &Policy, &Actor, &Site<'_>) -> Judged<Intent>
        + Send
        + Sync
        + 'static,
    ) -> Result<Intent, AdminError> {
        let (id, user) = (id.clone(), user.clone());
        let policies = Arc::clone(&self.authority.policies);
        self.change(reads(&id), move |by, world| {
            let intent = world.seen.intent.as_ref().ok_or_else(|| no_approval(&id))?;
            let policy = policies.of(world.seen.policy.as_ref())?;
            no_owner(intent, &user, &policy, world)?;
            let asked = intent.approval.as_ref();
            let expired = asked.is_none_or(|approval| approval.expires_at <= world.now)
                && !bugs::on(Bug::ExpiredVoteCounts);
            let ours = asked.is_some_and(|approval| {
                approval.state == ApprovalState::Pending && approval.approver == Approver::Authority
            });
            let pending = intent.state == State::PendingApproval && ours;
            if !pending || expired {
                let state = if pending { "past its time" } else { intent.state.as_str() };
                return Err(AdminError::Conflict(format!(
                    "the request is {state}: there is nothing left to decide"
                )));
            }
            judge(intent, known_user(world.seen, &user)?, &policy, by, world)
        })
        .await
    }
}

fn approve(
    intent: &Intent,
    user: &UserRow,
    note: Option<String>,
    policy: &Policy,
    by: &Actor,
    site: &Site<'_>,
) -> Judged<Intent> {
    if !votes::is_what_was_seen(intent) {
        return Err(AdminError::Conflict(
            "what is recorded of this request is not what was asked: deny it, and find out who \
             changed the store"
                .to_owned(),
        ));
    }
    let users = &site.seen.users;
    let before = votes::standing(intent, policy, site.seen);
    let needed = votes::needs(intent, &before, policy, users);
    if !needed.iter().any(|need| votes::meets(&need.requires, &user.roles)) {
        return Err(AdminError::Forbidden(format!(
            "{} is {} and cannot approve this: it takes {}",
            user.name,
            user.roles.join(", "),
            told(&needed)
        )));
    }
    let vote =
        Vote { by: user.name.clone(), roles: user.roles.clone(), at: site.now, note: note.clone() };
    let twice = bugs::on(Bug::VoteCountsTwice);
    let others = before.iter().filter(|older| older.by != user.name || twice).cloned();
    let after: Vec<Vote> = others.chain([vote.clone()]).collect();
    let still = votes::needs(intent, &after, policy, users);
    let counts: fn(&[Need]) -> Vec<u16> = |needs| needs.iter().map(|need| need.missing).collect();
    if before.iter().any(|older| older.by == user.name) && counts(&still) == counts(&needed) {
        return Err(AdminError::Conflict(format!(
            "{} has approved this already: it still takes {}",
            user.name,
            told(&still)
        )));
    }
    let complete = still.iter().all(|need| need.missing == 0);
    let mut plan = approval::approve(intent, vote, complete, by, &site.world())?;
    plan.writes.push(voted(intent, "approve", &user.roles, note.as_deref(), by, site));
    Ok(plan)
}

/// Everybody's vote has an entry of its own, beside that of the transition it brings about.
fn voted(
    intent: &Intent,
    vote: &str,
    roles: &[String],
    note: Option<&str>,
    by: &Actor,
    site: &Site<'_>,
) -> Write {
    let id = intent.approval.as_ref().map_or("", |approval| approval.id.as_str());
    let details = serde_json::json!({
        "intent": intent.id.as_str(),
        "vote": vote,
        "roles": roles,
        "note": note,
        "digest": intent.approval.as_ref().map(|approval| approval.digest.as_str()),
    });
    site.audited(by, "approval.voted", id, &details)
}

/// Nobody decides for an agent that they own.
fn no_owner(
    intent: &Intent,
    user: &UserName,
    policy: &Policy,
    site: &Site<'_>,
) -> Result<(), AdminError> {
    may(site.seen, user, May::Review)?;
    if votes::owner(intent, policy) == Some(user) {
        return Err(AdminError::Forbidden(format!(
            "{user} owns agent {}: somebody else has to decide",
            intent.agent_name
        )));
    }
    Ok(())
}

/// What is missing, in words.
fn told(needs: &[Need]) -> String {
    let missing = needs.iter().filter(|need| need.missing > 0);
    missing.map(Need::in_words).collect::<Vec<_>>().join(", and ")
}

fn reads(id: &ApprovalId) -> Reads {
    Reads {
        intent: Some(IntentBy::Approval(id.clone())),
        policy: true,
        users: true,
        ..Reads::default()
    }
}

fn no_approval(id: &ApprovalId) -> AdminError {
    AdminError::NotFound(format!("there is no approval {id}: `approval list` shows what waits"))
}
