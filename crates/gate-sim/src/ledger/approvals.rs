//! Whose yes counts, and for what: approvals, votes, roles, and asking again after a no.

use std::collections::BTreeSet;

use gate_core::{
    ApprovalId, ApprovalState, Denier, Intent, IntentId, RefundReason, Requirement, State,
    Timestamp,
};

use super::{Booked, Ledger, usable_until};

impl Ledger {
    /// An approval belongs to one intent for ever.
    pub(super) fn approval(&mut self, intent: &Intent, booked: &mut Booked) {
        if let Some(approval) = &intent.approval {
            let of = self.approvals.entry(approval.id.clone()).or_insert(intent.id.clone());
            booked
                .law("I6", *of == intent.id, || format!("{} uses the approval of {of}", intent.id));
        }
    }

    /// Votes are by reviewers who do not own the agent, in time; expiry is in time as well.
    pub(super) fn voted(&self, now: Timestamp, old: &Intent, new: &Intent, booked: &mut Booked) {
        let (Some(before), Some(after)) = (&old.approval, &new.approval) else { return };
        let by_stripe = after.approver == gate_core::Approver::Stripe;
        if before.id != after.id || before.state == after.state || by_stripe {
            return;
        }
        let id = &new.id;
        match after.state {
            ApprovalState::Approved | ApprovalState::Denied => {
                booked.law("I6", before.state == ApprovalState::Pending, || {
                    format!("{id}: the approval was decided twice")
                });
                let by = after.decided_by.as_ref().map_or("", |user| user.as_str());
                booked.law("I6", is_reviewer(&self.roles(by)), || {
                    format!("{id}: {by} decided and is no reviewer")
                });
                let owner = self.limits(new).and_then(|limits| limits.owner.as_ref());
                booked.law("I6", owner.is_none_or(|owner| owner.as_str() != by), || {
                    format!("{id}: {by} decided and owns the agent")
                });
                booked.law("I6", before.expires_at > now, || {
                    format!("{id}: it was decided past its time")
                });
            }
            ApprovalState::Expired => {
                let due = if old.state == State::Approved {
                    usable_until(before)
                } else {
                    before.expires_at
                };
                booked.law("F11", due <= now, || format!("{id}: it expired before its time"));
            }
            ApprovalState::Canceled => {}
            ApprovalState::Pending => booked.breach("I6", format!("{id}: undecided again")),
        }
    }

    /// Every yes is by somebody of a role that is asked for, in time, once; and enough of them are
    /// needed.
    pub(super) fn said_yes(&self, now: Timestamp, old: &Intent, new: &Intent, booked: &mut Booked) {
        let (Some(before), Some(after)) = (&old.approval, &new.approval) else { return };
        if before.id != after.id || after.approver == gate_core::Approver::Stripe {
            return;
        }
        let id = &new.id;
        booked.law("I6", before.digest == after.digest, || format!("{id}: the digest changed"));
        let needed: Vec<&Requirement> =
            new.reasons.iter().filter_map(|reason| reason.requires.as_ref()).collect();
        for vote in after.votes.iter().filter(|vote| !before.votes.contains(vote)) {
            let by = &vote.by;
            let roles = self.roles(by.as_str());
            let asked = |needed: &&Requirement| {
                needed.roles.is_empty() || needed.roles.iter().any(|role| roles.contains(role))
            };
            let may = roles == vote.roles && is_reviewer(&roles) && needed.iter().any(asked);
            booked.law("I6", may, || format!("{id}: {by} approved as {roles:?} of {needed:?}"));
            let owner = self.limits(new).and_then(|limits| limits.owner.as_ref());
            booked.law("I6", owner != Some(by), || format!("{id}: {by} approved as the owner"));
            let open = before.state == ApprovalState::Pending && before.expires_at > now;
            booked.law("I6", open, || format!("{id}: {by} approved what was over"));
        }
        let people: BTreeSet<_> = after.votes.iter().map(|vote| &vote.by).collect();
        booked.law("I6", people.len() == after.votes.len(), || {
            format!("{id}: somebody counts twice")
        });
        if before.state == after.state || after.state != ApprovalState::Approved {
            return;
        }
        for needed in needed {
            booked.law("I6", self.agreed(new, needed), || {
                format!("{id} was approved without those whose yes it takes: {needed:?}")
            });
        }
        let entry = self.intents.get(id);
        let tampered = entry.is_some_and(|entry| entry.tampered.as_ref() == Some(&after.id));
        booked.law("I6", !tampered, || format!("{id} was approved after it was tampered with"));
    }

    /// Whether enough people agreed who hold now a role that they had then, and may.
    pub(super) fn agreed(&self, intent: &Intent, needed: &Requirement) -> bool {
        let votes = intent.approval.as_ref().map_or(&[][..], |approval| &approval.votes);
        let owner = self.limits(intent).and_then(|limits| limits.owner.as_ref());
        let people: BTreeSet<&str> = votes
            .iter()
            .filter(|vote| {
                let mut held = self.roles(vote.by.as_str());
                held.retain(|role| vote.roles.contains(role));
                let asked =
                    needed.roles.is_empty() || needed.roles.iter().any(|role| held.contains(role));
                asked && is_reviewer(&held) && owner != Some(&vote.by)
            })
            .map(|vote| vote.by.as_str())
            .collect();
        people.len() >= usize::from(needed.people)
    }

    /// Whether the policy's rule asks for a person.
    pub(super) fn rules_on(&self, intent: &Intent) -> bool {
        self.has_rule && intent.reason == Some(RefundReason::RequestedByCustomer)
    }

    /// What somebody may do now.
    pub(crate) fn roles(&self, user: &str) -> Vec<String> {
        self.users.get(user).map(|user| user.roles.clone()).unwrap_or_default()
    }

    /// Somebody changed an intent beside the gateway.
    pub(crate) fn tampered(&mut self, id: &IntentId) {
        if let Some(entry) = self.intents.get_mut(id) {
            entry.tampered = approval_of(&entry.intent);
        }
    }
}

pub(super) fn approval_of(intent: &Intent) -> Option<ApprovalId> {
    intent.approval.as_ref().map(|approval| approval.id.clone())
}

/// Whether somebody with these roles reviews at all.
pub(super) fn is_reviewer(roles: &[String]) -> bool {
    let fixed = ["policy-editor", "auditor", "viewer"];
    roles.iter().any(|role| !fixed.contains(&&role[..]))
}

/// Asking again takes nothing of a person's denial from the record.
pub(super) fn reopened(old: &Intent, new: &Intent, booked: &mut Booked) {
    if old.denied_by != Some(Denier::Person) || new.denied_by == old.denied_by {
        return;
    }
    let id = &new.id;
    booked.law("F13", new.denied_by == Some(Denier::Reopened), || {
        format!("{id}: a person's denial was taken back without being reopened")
    });
    let same = old.state == new.state && old.approval == new.approval;
    booked.law("F13", same, || format!("{id}: reopened, and its denial is not what it was"));
}
