//! Emptying what is personal: words and names that somebody has a right to see deleted. What was
//! decided, by which policy and with which money, stays, and the audit chain with it.

use std::collections::BTreeMap;

use gate_core::{ChargeId, Intent, IntentId, ReasonCode, State, UserName};
use gate_store::{AuditField, AuditRange, AuditRow, EMPTIED, Emptied, IntentBy, Reads, Write};

use super::{Admin, AdminError, Site, checked_note, known_user, no_intent};
use crate::change::{Actor, Plan};

/// Entries that are read, and emptied, at once.
const PART: u32 = 500;

/// Whose words and names are emptied.
#[derive(Clone, Debug)]
pub enum Emptying {
    /// What people and the agent wrote about refunds of a charge, and the charge's metadata as it
    /// was seen: notes, justifications, votes' notes. All its intents must be final.
    Charge(ChargeId),
    /// Fields of one audit entry.
    Entry {
        /// The entry.
        n: u64,
        /// What of it.
        fields: Vec<AuditField>,
    },
    /// A person's name in the audit log, as the one who acted and as the one acted upon.
    User(UserName),
}

/// What was emptied.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EmptiedCount {
    /// Audit entries.
    pub entries: usize,
    /// Intents.
    pub intents: usize,
}

/// What is emptied in one transaction.
struct Batch {
    intent: Option<IntentId>,
    entries: BTreeMap<u64, Vec<AuditField>>,
}

impl Admin<'_> {
    /// Empties what is personal, for good. What was emptied, by whom and why, is an audit entry;
    /// what is empty already is left alone. Not one transaction: cut short, it is done again.
    ///
    /// # Errors
    ///
    /// [`AdminError::Forbidden`] unless `user` is an owner; [`AdminError::NotFound`];
    /// [`AdminError::Conflict`] while an intent of the charge is not final, for the details of an
    /// entry that says what was emptied, and for the subject of one that is about an intent;
    /// [`AdminError::Invalid`] without a note.
    pub async fn empty(
        &self,
        what: &Emptying,
        user: &UserName,
        note: &str,
    ) -> Result<EmptiedCount, AdminError> {
        let note = checked_note(note)?;
        let batches = match what {
            Emptying::Charge(charge) => self.of_charge(charge).await?,
            Emptying::Entry { n, fields } => vec![self.of_entry(*n, fields).await?],
            Emptying::User(name) => self.of_user(name).await?,
        };
        let mut count = EmptiedCount::default();
        for batch in batches {
            let (entries, intents) = self.empty_batch(batch, user, &note).await?;
            count.entries = count.entries.saturating_add(entries);
            count.intents = count.intents.saturating_add(usize::from(intents));
        }
        Ok(count)
    }

    async fn empty_batch(
        &self,
        Batch { intent, entries }: Batch,
        user: &UserName,
        note: &str,
    ) -> Result<(usize, bool), AdminError> {
        let of = intent.clone().map(IntentBy::Id);
        let reads = Reads { intent: of, users: true, ..Reads::default() };
        let (user, note) = (user.clone(), note.to_owned());
        self.change(reads, move |by, world| {
            is_owner(world, &user)?;
            let mut writes: Vec<Write> = Vec::new();
            if let Some(id) = &intent {
                let intent = world.seen.intent.as_ref().ok_or_else(|| no_intent(id.as_str()))?;
                writes.extend(without_words(intent)?);
            }
            let words = !writes.is_empty();
            let emptied =
                |(n, fields): (&u64, &Vec<AuditField>)| Emptied { n: *n, fields: fields.clone() };
            let list: Vec<Emptied> = entries.iter().map(emptied).collect();
            let empty = |one: &Emptied| Write::EmptyAudit { n: one.n, fields: one.fields.clone() };
            writes.extend(list.iter().map(empty));
            let reply = (list.len(), words);
            if writes.is_empty() {
                return Ok(Plan::nothing(reply));
            }
            let subject = intent.as_ref().map_or("audit", IntentId::as_str);
            let details = serde_json::json!({ "entries": list, "words": words, "note": note });
            writes.push(world.audited(by, EMPTIED, subject, &details));
            Ok(Plan { writes, reply })
        })
        .await
    }

    async fn of_entry(&self, n: u64, fields: &[AuditField]) -> Result<Batch, AdminError> {
        let range = AuditRange { after: n.saturating_sub(1), limit: 1 };
        let found = self.authority.audit(range).await?.pop().filter(|row| row.n == n);
        let row = found.ok_or_else(|| {
            AdminError::NotFound(format!("there is no audit entry {n}: `audit export` shows them"))
        })?;
        if row.entry.action == EMPTIED && fields.contains(&AuditField::Details) {
            return Err(AdminError::Conflict(format!(
                "the details of audit entry {n} say what was emptied, and stay"
            )));
        }
        if row.entry.action.starts_with("intent.") && fields.contains(&AuditField::Subject) {
            return Err(AdminError::Conflict(format!(
                "the subject of audit entry {n} is the id of an intent, whose history is checked \
                 by it, and stays"
            )));
        }
        let mut batch = Batch { intent: None, entries: BTreeMap::new() };
        batch.take(&row, fields);
        Ok(batch)
    }

    async fn of_user(&self, name: &UserName) -> Result<Vec<Batch>, AdminError> {
        let mut batches: Vec<Batch> = Vec::new();
        self.each_entry(|row| {
            let mut fields = Vec::new();
            if Actor::names(&row.entry.actor, name) {
                fields.push(AuditField::Actor);
            }
            if row.entry.action.starts_with("user.") && row.entry.subject == name.as_str() {
                fields.push(AuditField::Subject);
            }
            let part = usize::try_from(PART).unwrap_or(usize::MAX);
            match batches.last_mut().filter(|batch| batch.entries.len() < part) {
                Some(batch) => batch.take(row, &fields),
                None => {
                    let mut batch = Batch { intent: None, entries: BTreeMap::new() };
                    batch.take(row, &fields);
                    batches.push(batch);
                }
            }
        })
        .await?;
        Ok(batches)
    }

    async fn of_charge(&self, charge: &ChargeId) -> Result<Vec<Batch>, AdminError> {
        let mut batches: Vec<Batch> = Vec::new();
        let mut of: BTreeMap<String, usize> = BTreeMap::new();
        let mut open: Option<AdminError> = None;
        self.authority
            .each_intent(|intent| {
                if intent.charge != *charge {
                    return;
                }
                open = open.take().or_else(|| is_final(intent).err());
                of.insert(intent.id.to_string(), batches.len());
                if let Some(approval) = &intent.approval {
                    of.insert(approval.id.to_string(), batches.len());
                }
                let (intent, entries) = (Some(intent.id.clone()), BTreeMap::new());
                batches.push(Batch { intent, entries });
            })
            .await?;
        if let Some(open) = open {
            return Err(open);
        }
        if batches.is_empty() {
            return Err(AdminError::NotFound(format!("nobody asked for a refund of {charge}")));
        }
        self.each_entry(|row| {
            let batch = of.get(&row.entry.subject).and_then(|place| batches.get_mut(*place));
            if let Some(batch) = batch.filter(|_| has_words(row)) {
                batch.take(row, &[AuditField::Details]);
            }
        })
        .await?;
        Ok(batches)
    }

    async fn each_entry(&self, mut show: impl FnMut(&AuditRow)) -> Result<(), AdminError> {
        let mut after = 0;
        loop {
            let part = self.authority.audit(AuditRange { after, limit: PART }).await?;
            part.iter().for_each(&mut show);
            match part.last() {
                Some(last) => after = last.n,
                None => return Ok(()),
            }
        }
    }
}

impl Batch {
    /// Takes those of `fields` that are not empty yet.
    fn take(&mut self, row: &AuditRow, fields: &[AuditField]) {
        let full = |field: &AuditField| !row.is_emptied(*field);
        let fields: Vec<AuditField> = fields.iter().copied().filter(full).collect();
        if !fields.is_empty() {
            self.entries.insert(row.n, fields);
        }
    }
}

/// Whether the details hold what somebody wrote.
fn has_words(row: &AuditRow) -> bool {
    let details: Option<serde_json::Value> = serde_json::from_str(&row.entry.details).ok();
    let words =
        details.is_some_and(|details| details.get("note").is_some_and(|note| note.is_string()));
    words && row.entry.action != EMPTIED
}

/// Nothing is emptied that somebody may still have to decide by.
fn is_final(intent: &Intent) -> Result<(), AdminError> {
    match intent.state {
        State::Settled
        | State::Failed
        | State::Reversed
        | State::Denied
        | State::Expired
        | State::Canceled => Ok(()),
        State::Asked
        | State::PendingApproval
        | State::Approved
        | State::Submitted
        | State::AwaitingStripe
        | State::NotExecuted => Err(AdminError::Conflict(format!(
            "intent {} is {}: decide, cancel or resolve it first",
            intent.id,
            intent.state.as_str()
        ))),
    }
}

/// Empties what was written about an intent; nothing, when nothing is left.
fn without_words(intent: &Intent) -> Result<Option<Write>, AdminError> {
    is_final(intent)?;
    let mut emptied = intent.clone();
    let mut any = false;
    if let Some(seen) = &mut emptied.seen {
        any |= !std::mem::take(&mut seen.facts.metadata).is_empty();
    }
    if let Some(approval) = &mut emptied.approval {
        any |= approval.note.take().is_some();
        any |= !std::mem::take(&mut approval.justifications).is_empty();
        for vote in &mut approval.votes {
            any |= vote.note.take().is_some();
        }
    }
    let denied = emptied.reasons.iter_mut();
    for reason in denied.filter(|reason| reason.code == ReasonCode::ApprovalDenied) {
        any |= std::mem::replace(&mut reason.message, DENIED.to_owned()) != DENIED;
    }
    let write = Write::UpdateIntent { was: intent.state, intent: Box::new(emptied) };
    Ok(any.then_some(write))
}

/// What stays of the reason that quotes a reviewer.
const DENIED: &str = "A person denied this refund; the note was emptied.";

fn is_owner(world: &Site<'_>, name: &UserName) -> Result<(), AdminError> {
    let user = known_user(world.seen, name)?;
    if user.roles.iter().any(|role| role == "owner") {
        return Ok(());
    }
    Err(AdminError::Forbidden(format!(
        "{name} is {} and may not empty anything: that takes an owner",
        user.roles.join(", ")
    )))
}
