//! The audit chain: every change of state has an entry, and every entry seals all before it.
//!
//! `hash(n) = SHA-256(hash(n−1) ‖ n ‖ digest(n))`, with n as eight bytes, big end first, and zeros
//! before the first. `digest(n) = SHA-256(canonical event)`. The canonical event has the time and
//! the action as they are, and of each field that may hold something personal only its mark,
//! `SHA-256(salt ‖ text)`. So a field can be emptied later, and its salt with it, and the chain
//! still verifies; without its salt the text cannot be guessed back from its mark.

mod verify;

use std::fmt;

use gate_core::Timestamp;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

pub use verify::{AuditFault, Verifier, verify};

/// What says that fields were emptied; its own details are never.
pub const EMPTIED: &str = "audit.emptied";

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
    /// Random, 16 bytes for each of [`AuditField::ALL`]; zeros for one that was emptied.
    pub salt: [u8; 48],
}

/// An entry in its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditRow {
    /// Counts up from 1.
    pub n: u64,
    /// What happened.
    pub entry: AuditEntry,
    /// SHA-256 of salt and text, 32 bytes for each of [`AuditField::ALL`], emptied or not.
    pub marks: [u8; 96],
    /// Digest of the canonical event.
    pub digest: [u8; 32],
    /// Seals this entry and all before it.
    pub hash: [u8; 32],
}

/// A field that may hold something personal, and can be emptied.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditField {
    /// Who.
    Actor,
    /// Of what.
    Subject,
    /// Facts, such as a note.
    Details,
}

/// What the details of an [`EMPTIED`] entry say, among others.
#[derive(Debug, Deserialize, Serialize)]
pub struct Emptied {
    /// The entry.
    pub n: u64,
    /// What was emptied of it.
    pub fields: Vec<AuditField>,
}

/// The newest entry's place and seal; zeros before the first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Head {
    /// Number of entries.
    pub n: u64,
    /// Seal of them all.
    pub hash: [u8; 32],
}

/// A part of the chain, in its order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AuditRange {
    /// Entries after this one; 0 for all.
    pub after: u64,
    /// At most so many.
    pub limit: u32,
}

impl AuditRange {
    /// The whole chain. It may be long.
    pub const WHOLE: Self = Self { after: 0, limit: u32::MAX };
}

#[derive(Serialize)]
struct Canonical<'a> {
    at: i64,
    action: &'a str,
    actor: String,
    subject: String,
    details: String,
}

impl AuditField {
    /// All of them, in the order of their salts and marks.
    pub const ALL: [Self; 3] = [Self::Actor, Self::Subject, Self::Details];

    /// As it is called everywhere.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Actor => "actor",
            Self::Subject => "subject",
            Self::Details => "details",
        }
    }

    /// The field that is called `name`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.as_str() == name)
    }

    /// Its place among salts or marks of `size` bytes each.
    const fn range(self, size: usize) -> std::ops::Range<usize> {
        let start = match self {
            Self::Actor => 0,
            Self::Subject => size,
            Self::Details => size.saturating_mul(2),
        };
        start..start.saturating_add(size)
    }
}

impl fmt::Display for AuditField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl AuditEntry {
    /// The text of a field; nothing, when it was emptied.
    #[must_use]
    pub fn text(&self, field: AuditField) -> &str {
        match field {
            AuditField::Actor => &self.actor,
            AuditField::Subject => &self.subject,
            AuditField::Details => &self.details,
        }
    }

    fn mark(&self, field: AuditField) -> [u8; 32] {
        let salt = self.salt.get(field.range(16)).unwrap_or_default();
        sha256(&[salt, self.text(field).as_bytes()])
    }

    fn marks(&self) -> [u8; 96] {
        let mut marks = [0; 96];
        for (place, field) in marks.chunks_exact_mut(32).zip(AuditField::ALL) {
            place.copy_from_slice(&self.mark(field));
        }
        marks
    }

    fn digest(&self, marks: &[u8; 96]) -> [u8; 32] {
        let mark = |field: AuditField| hex(marks.get(field.range(32)).unwrap_or_default());
        let canonical = Canonical {
            at: self.at.millis(),
            action: &self.action,
            actor: mark(AuditField::Actor),
            subject: mark(AuditField::Subject),
            details: mark(AuditField::Details),
        };
        // Strings and one integer always serialise.
        sha256(&[&serde_json::to_vec(&canonical).unwrap_or_default()])
    }
}

impl AuditRow {
    /// Empties a field and its salt. Its mark stays, and with it the chain.
    pub(crate) fn empty(&mut self, field: AuditField) {
        match field {
            AuditField::Actor => self.entry.actor.clear(),
            AuditField::Subject => self.entry.subject.clear(),
            AuditField::Details => self.entry.details.clear(),
        }
        if let Some(salt) = self.entry.salt.get_mut(field.range(16)) {
            salt.fill(0);
        }
    }

    /// Whether a field was emptied; none is ever written empty.
    #[must_use]
    pub fn is_emptied(&self, field: AuditField) -> bool {
        self.entry.text(field).is_empty()
    }
}

impl Head {
    /// Puts `entry` after this head.
    #[must_use]
    pub(crate) fn append(self, entry: AuditEntry) -> (Self, AuditRow) {
        let n = self.n.saturating_add(1);
        let marks = entry.marks();
        let digest = entry.digest(&marks);
        let hash = seal(&self.hash, n, &digest);
        (Self { n, hash }, AuditRow { n, entry, marks, digest, hash })
    }

    /// The seal in hex, as it goes into a refund's metadata.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.hash)
    }
}

/// Bytes as lower-case hex.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn seal(before: &[u8; 32], n: u64, digest: &[u8; 32]) -> [u8; 32] {
    sha256(&[before, &n.to_be_bytes(), digest])
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut out = [0; 32];
    for (to, from) in out.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    out
}
