//! The policy: applied, shown, and every version that there was.

use std::time::Duration;

use gate_core::Intent;
use gate_policy::Policy;
use gate_store::{IntentQuery, PolicyRow, Reads, Snapshot, Write};

use super::people::May;
use super::{Admin, AdminError, Site};
use crate::change::{Actor, Plan};
use crate::notices;
use crate::replay::{self, Replay};

/// Requests that a replay reads at once.
const PAGE: u32 = 500;
/// Most requests that a replay decides again.
const REPLAYED_MAX: usize = 100_000;

impl Admin<'_> {
    /// Applies a policy: the text is the version. Answers its number and what to beware of.
    ///
    /// # Errors
    ///
    /// [`AdminError::Policy`] with all its faults; [`AdminError::Forbidden`] unless an owner or a
    /// policy editor does it.
    pub async fn apply_policy(&self, text: &str) -> Result<(u64, Vec<String>), AdminError> {
        let policy = Policy::parse(text).map_err(AdminError::Policy)?;
        let (text, warnings) = (text.to_owned(), policy.warnings());
        let reads = Reads { policy: true, webhooks: true, ..Reads::default() };
        let version = self
            .change(reads, move |by, world| {
                world.may(May::EditPolicy)?;
                let version = next_version(world.seen);
                Ok(Plan { writes: policy_writes(&text, &policy, by, world), reply: version })
            })
            .await?;
        Ok((version, warnings))
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

    /// Decides everything that was asked within `span` again, with this text, and says what would
    /// have been different. Nothing is changed.
    ///
    /// # Errors
    ///
    /// [`AdminError::Policy`] with all its faults; [`AdminError::Invalid`] when there is more to
    /// read than is held in memory at once.
    pub async fn replay(&self, text: &str, span: Duration) -> Result<Replay, AdminError> {
        let policy = Policy::parse(text).map_err(AdminError::Policy)?;
        let since = self.authority.now().await?.before(span);
        let horizon = since.before(replay::BEFORE);
        let mut intents: Vec<Intent> = Vec::new();
        loop {
            let before = intents.last().map(|intent| intent.id.clone());
            let query = IntentQuery { before, limit: PAGE, ..IntentQuery::default() };
            let reads = Reads { intents: Some(query), ..Reads::default() };
            let page = self.authority.read(reads).await?.intents;
            let last = page.last().is_none_or(|intent| intent.created_at < horizon);
            intents.extend(page);
            if last {
                break;
            }
            if intents.len() > REPLAYED_MAX {
                return Err(AdminError::Invalid(format!(
                    "there are more than {REPLAYED_MAX} requests to decide again: look less far \
                     back"
                )));
            }
        }
        intents.retain(|intent| intent.created_at >= horizon);
        intents.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(replay::replay(&policy, &intents, since))
    }

    /// Every version of the policy that was ever in force, oldest first, with author and time.
    ///
    /// # Errors
    ///
    /// [`AdminError::Authority`].
    pub async fn policy_history(&self) -> Result<Vec<PolicyRow>, AdminError> {
        Ok(self.authority.read(Reads { policies: true, ..Reads::default() }).await?.policies)
    }
}

pub(super) fn policy_text(seen: &Snapshot) -> &str {
    seen.policy.as_ref().map_or(gate_policy::NEW_STORE_TEXT, |policy| &policy.text)
}

fn next_version(seen: &Snapshot) -> u64 {
    seen.policy.as_ref().map_or(0, |policy| policy.version).saturating_add(1)
}

/// Puts a policy in force, which is what `text` says; the webhooks were read.
pub(super) fn policy_writes(
    text: &str,
    policy: &Policy,
    by: &Actor,
    site: &Site<'_>,
) -> Vec<Write> {
    let text = text.to_owned();
    let version = next_version(site.seen);
    let details = serde_json::json!({ "version": version });
    let row = PolicyRow { version, text, author: by.to_string(), created_at: site.now };
    let mut writes = vec![
        Write::InsertPolicy(row),
        site.audited(by, "policy.applied", &version.to_string(), &details),
    ];
    writes.append(&mut notices::follow(policy, site.seen));
    writes
}
