//! Votes: what exactly is asked of reviewers, who may say yes to it, and whose yes still counts.
//! Invariant *approved-as-shown*.
//!
//! A vote counts with the roles that its voter held when they voted **and holds now**, as long as
//! they may review at all and do not own the agent. So it is asked anew at every vote and again when
//! the approval is used: whoever lost their role meanwhile did not approve.

use gate_core::bugs::{self, Bug};
use gate_core::{DecisionReason, Intent, Requirement, UserName, Vote};
use gate_policy::Policy;
use gate_store::{Snapshot, UserRow};

use crate::keys::sha256_hex;

/// Roles that have a meaning of their own; any other is a reviewer role.
pub(crate) const FIXED_ROLES: [&str; 4] = ["owner", "policy-editor", "auditor", "viewer"];

/// One reason that asks, and how far it is met.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Need {
    /// The reason.
    pub reason: DecisionReason,
    /// Whose approval it takes.
    pub requires: Requirement,
    /// How many more people it takes.
    pub missing: u16,
    /// Who could be one of them, by name.
    pub could: Vec<UserName>,
}

/// What is asked for, as 64 hex digits: SHA-256 over intent, charge, amount, currency, agent and
/// every reason with its requirement. (Lists alone, for they have one order.)
pub(crate) fn digest(intent: &Intent) -> String {
    let reason = |reason: &DecisionReason| {
        let requires = reason.requires.as_ref();
        serde_json::json!([
            reason.code.as_str(),
            reason.message,
            reason.rule,
            reason.unknown_fact,
            reason.limit.map(gate_money::MicroUsd::micros),
            reason.left.map(gate_money::MicroUsd::micros),
            reason.resets_at.map(gate_core::Timestamp::millis),
            requires.map(|requires| serde_json::json!([requires.roles, requires.people])),
        ])
    };
    let asked = serde_json::json!([
        intent.id.as_str(),
        intent.charge.as_str(),
        intent.amount.minor(),
        intent.amount.currency().code(),
        intent.agent.as_str(),
        intent.reasons.iter().map(reason).collect::<Vec<_>>(),
    ]);
    sha256_hex(asked.to_string().as_bytes())
}

/// Whether the approval of `intent` is still for what its reviewers saw.
pub(crate) fn is_what_was_seen(intent: &Intent) -> bool {
    intent.approval.as_ref().is_some_and(|approval| {
        approval.digest == digest(intent) || bugs::on(Bug::DigestNotChecked)
    })
}

/// Whether somebody with this role reviews: an owner, and whoever has a reviewer role.
pub(crate) fn reviews(role: &str) -> bool {
    role == "owner" || !FIXED_ROLES.contains(&role)
}

/// The votes of an intent's approval that count now.
pub(crate) fn standing(intent: &Intent, policy: &Policy, seen: &Snapshot) -> Vec<Vote> {
    let votes = intent.approval.as_ref().map_or(&[][..], |approval| &approval.votes);
    let owner = owner(intent, policy);
    let counted = |vote: &Vote| {
        let voter = seen.users.iter().find(|user| user.name == vote.by)?;
        let held = vote.roles.iter().filter(|role| voter.roles.contains(role));
        let mut roles: Vec<String> = held.cloned().collect();
        if bugs::on(Bug::RevokedReviewerCounts) {
            roles.clone_from(&vote.roles);
        }
        let may = Some(&vote.by) != owner && roles.iter().any(|role| reviews(role));
        may.then(|| Vote { roles, ..vote.clone() })
    };
    votes.iter().filter_map(counted).collect()
}

/// Who may not decide because the agent is theirs.
pub(crate) fn owner<'a>(intent: &Intent, policy: &'a Policy) -> Option<&'a UserName> {
    policy.owner_of(&intent.agent_name).filter(|_| !bugs::on(Bug::OwnerMayApprove))
}

/// Every reason of an intent that asks, and what is missing of it after `votes`.
pub(crate) fn needs(
    intent: &Intent,
    votes: &[Vote],
    policy: &Policy,
    users: &[UserRow],
) -> Vec<Need> {
    let owner = owner(intent, policy);
    let asking =
        intent.reasons.iter().filter_map(|reason| Some((reason, reason.requires.as_ref()?)));
    asking
        .map(|(reason, requires)| {
            let voted = |user: &UserRow| {
                let mut own = votes.iter().filter(|vote| vote.by == user.name);
                own.any(|vote| meets(requires, &vote.roles))
            };
            let could = |user: &&UserRow| {
                Some(&user.name) != owner && meets(requires, &user.roles) && !voted(user)
            };
            Need {
                reason: reason.clone(),
                requires: requires.clone(),
                missing: requires.missing(votes),
                could: users.iter().filter(could).map(|user| user.name.clone()).collect(),
            }
        })
        .collect()
}

/// Whether somebody with these roles counts for a requirement.
pub(crate) fn meets(requires: &Requirement, roles: &[String]) -> bool {
    roles.iter().any(|role| reviews(role))
        && (requires.roles.is_empty()
            || requires.roles.iter().any(|role| roles.contains(role))
            || bugs::on(Bug::RoleNotAsked))
}

impl Need {
    /// What is missing, in words: `2 people with the role risk or legal`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let who = match self.missing {
            1 => "1 person".to_owned(),
            people => format!("{people} people"),
        };
        match self.requires.roles.as_slice() {
            [] => format!("{who} who may approve"),
            roles => format!("{who} with the role {}", roles.join(" or ")),
        }
    }
}
