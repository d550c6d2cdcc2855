//! The audit chain: every change of state has an entry, and every entry seals all before it.
//!
//! `hash(n) = SHA-256(hash(n−1) ‖ n ‖ digest(n))`, `digest(n) = SHA-256(salt ‖ canonical event)`,
//! with n as eight bytes, big end first. The digest is kept, so that a personal field can be
//! emptied later and the chain still verifies; the salt keeps it from being guessed back.

use std::fmt;

use gate_core::Timestamp;
use ring::digest::{Context, SHA256};
use serde::Serialize;

/// What happened, before it has a place in the chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// Who: `agent:…`, `user:…`, `cli:…`, `gateway`, `policy`.
    pub actor: String,
    /// What: `intent.submitted`, `policy.applied`, …
    pub action: String,
    /// Of what: an id or a name.
    pub subject: String,
    /// Facts as JSON, never a secret.
    pub details: String,
    /// Random.
    pub salt: [u8; 16],
}

/// An entry in its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditRow {
    /// Counts up from 1.
    pub n: u64,
    /// What happened.
    pub entry: AuditEntry,
    /// Digest of the salted canonical event.
    pub digest: [u8; 32],
    /// Seals this entry and all before it.
    pub hash: [u8; 32],
}

/// The newest entry's place and seal; zeros before the first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Head {
    /// Number of entries.
    pub n: u64,
    /// Seal of them all.
    pub hash: [u8; 32],
}

/// Where a chain does not hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AuditFault {
    /// The entry is not what its digest was made of.
    Event(u64),
    /// An entry is missing, or out of order, at this place.
    Gap(u64),
    /// The seal does not follow from the one before.
    Seal(u64),
}

impl fmt::Display for AuditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(n) => write!(f, "audit entry {n} was altered"),
            Self::Gap(n) => write!(f, "audit entry {n} is missing or out of order"),
            Self::Seal(n) => write!(f, "the seal of audit entry {n} does not hold"),
        }
    }
}

#[derive(Serialize)]
struct Canonical<'a> {
    at: i64,
    actor: &'a str,
    action: &'a str,
    subject: &'a str,
    details: &'a str,
}

impl AuditEntry {
    fn digest(&self) -> [u8; 32] {
        let canonical = Canonical {
            at: self.at.millis(),
            actor: &self.actor,
            action: &self.action,
            subject: &self.subject,
            details: &self.details,
        };
        let mut context = Context::new(&SHA256);
        context.update(&self.salt);
        // Strings and one integer always serialise.
        context.update(&serde_json::to_vec(&canonical).unwrap_or_default());
        bytes(context.finish().as_ref())
    }
}

impl Head {
    /// Puts `entry` after this head.
    #[must_use]
    pub(crate) fn append(self, entry: AuditEntry) -> (Self, AuditRow) {
        let n = self.n.saturating_add(1);
        let digest = entry.digest();
        let hash = seal(&self.hash, n, &digest);
        (Self { n, hash }, AuditRow { n, entry, digest, hash })
    }

    /// The seal in hex, as it goes into a refund's metadata.
    #[must_use]
    pub fn hex(&self) -> String {
        self.hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn seal(before: &[u8; 32], n: u64, digest: &[u8; 32]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    context.update(before);
    context.update(&n.to_be_bytes());
    context.update(digest);
    bytes(context.finish().as_ref())
}

fn bytes(digest: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    for (to, from) in out.iter_mut().zip(digest) {
        *to = *from;
    }
    out
}

/// Checks a whole chain from its first entry on.
///
/// # Errors
///
/// The first fault. An entry whose details were emptied on purpose keeps its digest and is good.
pub fn verify(rows: &[AuditRow]) -> Result<Head, AuditFault> {
    let mut head = Head::default();
    for row in rows {
        let n = head.n.saturating_add(1);
        if row.n != n {
            return Err(AuditFault::Gap(n));
        }
        let emptied = row.entry.details.is_empty();
        if !emptied && row.entry.digest() != row.digest {
            return Err(AuditFault::Event(n));
        }
        if seal(&head.hash, n, &row.digest) != row.hash {
            return Err(AuditFault::Seal(n));
        }
        head = Head { n, hash: row.hash };
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(len: u64) -> Vec<AuditRow> {
        let mut head = Head::default();
        (1..=len)
            .map(|n| {
                let entry = AuditEntry {
                    at: Timestamp::from_millis(n as i64),
                    actor: "agent:agt_1".to_owned(),
                    action: "intent.submitted".to_owned(),
                    subject: format!("int_{n}"),
                    details: "{}".to_owned(),
                    salt: [n as u8; 16],
                };
                let (next, row) = head.append(entry);
                head = next;
                row
            })
            .collect()
    }

    #[test]
    fn any_change_of_any_entry_is_found() {
        type Change = fn(&mut Vec<AuditRow>);
        let table: [(&str, Change, Result<(), AuditFault>); 9] = [
            ("untouched", |_| {}, Ok(())),
            ("details emptied", |c| c[1].entry.details.clear(), Ok(())),
            ("time", |c| c[1].entry.at = Timestamp::from_millis(9), Err(AuditFault::Event(2))),
            ("actor", |c| c[1].entry.actor.push('x'), Err(AuditFault::Event(2))),
            ("subject", |c| c[1].entry.subject.push('x'), Err(AuditFault::Event(2))),
            ("details", |c| c[1].entry.details.push(' '), Err(AuditFault::Event(2))),
            (
                "digest",
                |c| {
                    c[1].entry.details.clear();
                    c[1].digest[0] ^= 1
                },
                Err(AuditFault::Seal(2)),
            ),
            ("removed", |c| drop(c.remove(1)), Err(AuditFault::Gap(2))),
            ("swapped", |c| c.swap(1, 2), Err(AuditFault::Gap(2))),
        ];
        for (name, change, expected) in table {
            let mut rows = chain(3);
            change(&mut rows);
            assert_eq!(verify(&rows).map(|_| ()), expected, "{name}");
        }
    }
}
