//! Whether a chain holds: entry by entry, in memory that does not grow with its length, and with
//! the name of everything that does not.

use std::collections::BTreeSet;
use std::fmt;

use gate_core::Timestamp;
use serde::Deserialize;

use super::{AuditField, AuditRow, EMPTIED, Emptied, Head, seal};

/// Where a chain does not hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AuditFault {
    /// The field was emptied, and no later entry says so.
    Emptied(u64, AuditField),
    /// The time, the action, a mark or the digest is not what was written.
    Event(u64),
    /// The field is not what was written.
    Field(u64, AuditField),
    /// These entries are missing, from the first to the last.
    Gap(u64, u64),
    /// The seal does not follow from the entry before: one of both was replaced or moved.
    Seal(u64),
    /// There is an entry where none can be.
    Surplus(u64),
}

impl AuditFault {
    /// The entry, or the first of them.
    #[must_use]
    pub const fn entry(&self) -> u64 {
        match self {
            Self::Emptied(n, _)
            | Self::Event(n)
            | Self::Field(n, _)
            | Self::Gap(n, _)
            | Self::Seal(n)
            | Self::Surplus(n) => *n,
        }
    }
}

impl fmt::Display for AuditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emptied(n, field) => {
                write!(
                    f,
                    "the {field} of audit entry {n} is empty, and no entry says who emptied it"
                )
            }
            Self::Event(n) => {
                write!(f, "audit entry {n} was altered: its time, its action or one of its digests")
            }
            Self::Field(n, field) => write!(f, "the {field} of audit entry {n} was altered"),
            Self::Gap(n, last) if n == last => write!(f, "audit entry {n} is missing"),
            Self::Gap(first, last) => write!(f, "audit entries {first} to {last} are missing"),
            Self::Seal(n) => write!(
                f,
                "the seal of audit entry {n} does not hold: the entry was replaced, put in or moved"
            ),
            Self::Surplus(n) => write!(f, "audit entry {n} stands where none can be"),
        }
    }
}

/// Checks a chain that is handed to it entry by entry, from the first on.
///
/// Goes on after a fault, so that each is named once. What stays in memory is what was emptied.
#[derive(Debug, Default)]
pub struct Verifier {
    head: Head,
    /// What the seal of the newest entry should have been, if it was something else.
    meant: Option<[u8; 32]>,
    at: Option<Timestamp>,
    back_in_time: Option<(u64, u64)>,
    emptied: BTreeSet<(u64, AuditField)>,
}

/// The details of an entry that says what was emptied.
#[derive(Deserialize)]
struct EmptiedDetails {
    entries: Vec<Emptied>,
}

impl Verifier {
    /// Checks the next entry.
    pub fn check(&mut self, row: &AuditRow) -> Vec<AuditFault> {
        let mut faults = Vec::new();
        let next = self.head.n.saturating_add(1);
        if row.n < next {
            faults.push(AuditFault::Surplus(row.n));
            return faults;
        }
        let gap = row.n > next;
        if gap {
            faults.push(AuditFault::Gap(next, row.n.saturating_sub(1)));
        }
        self.fields(row, &mut faults);
        if row.entry.digest(&row.marks) != row.digest {
            faults.push(AuditFault::Event(row.n));
        }
        let meant = seal(&self.head.hash, row.n, &row.digest);
        let follows = |before: &[u8; 32]| seal(before, row.n, &row.digest) == row.hash;
        // Behind a gap there is nothing to follow from; behind an altered seal, two things are.
        let holds = gap || meant == row.hash || self.meant.as_ref().is_some_and(follows);
        if !holds {
            faults.push(AuditFault::Seal(row.n));
        }
        self.meant = (!holds).then_some(meant);
        self.note_time(row);
        self.head = Head { n: row.n, hash: row.hash };
        faults
    }

    fn fields(&mut self, row: &AuditRow, faults: &mut Vec<AuditFault>) {
        for field in AuditField::ALL {
            if row.is_emptied(field) {
                self.emptied.insert((row.n, field));
            } else if row.marks.get(field.range(32)) != Some(row.entry.mark(field).as_slice()) {
                faults.push(AuditFault::Field(row.n, field));
            }
        }
        if row.entry.action != EMPTIED {
            return;
        }
        let details: Option<EmptiedDetails> = serde_json::from_str(&row.entry.details).ok();
        for Emptied { n, fields } in details.map(|details| details.entries).unwrap_or_default() {
            for field in fields {
                self.emptied.remove(&(n, field));
            }
        }
    }

    fn note_time(&mut self, row: &AuditRow) {
        if self.at.is_some_and(|before| row.entry.at < before) {
            let (first, count) = self.back_in_time.unwrap_or((row.n, 0));
            self.back_in_time = Some((first, count.saturating_add(1)));
        }
        self.at = Some(row.entry.at);
    }

    /// The newest entry that was checked.
    #[must_use]
    pub const fn head(&self) -> Head {
        self.head
    }

    /// The first entry that is older than the one before it, and how many there are: a clock that
    /// was set back, and no fault of the chain's.
    #[must_use]
    pub const fn back_in_time(&self) -> Option<(u64, u64)> {
        self.back_in_time
    }

    /// What only the end of the chain shows.
    #[must_use]
    pub fn finish(self) -> Vec<AuditFault> {
        self.emptied.into_iter().map(|(n, field)| AuditFault::Emptied(n, field)).collect()
    }
}

/// Checks a whole chain from its first entry on.
///
/// # Errors
///
/// The first fault. A field that was emptied, as a later entry says, is good.
pub fn verify(rows: &[AuditRow]) -> Result<Head, AuditFault> {
    let mut verifier = Verifier::default();
    for row in rows {
        if let Some(fault) = verifier.check(row).into_iter().next() {
            return Err(fault);
        }
    }
    let head = verifier.head();
    match verifier.finish().into_iter().next() {
        Some(fault) => Err(fault),
        None => Ok(head),
    }
}

#[cfg(test)]
mod tests {
    use super::super::AuditEntry;
    use super::*;

    fn entry(n: u64) -> AuditEntry {
        AuditEntry {
            at: Timestamp::from_millis(n as i64),
            actor: "agent:agt_1".to_owned(),
            action: "intent.submitted".to_owned(),
            subject: format!("int_{n}"),
            details: "{}".to_owned(),
            salt: [n as u8; 48],
        }
    }

    fn chain(entries: impl IntoIterator<Item = AuditEntry>) -> Vec<AuditRow> {
        let mut head = Head::default();
        let append = |entry| {
            let (next, row) = head.append(entry);
            head = next;
            row
        };
        entries.into_iter().map(append).collect()
    }

    /// Seals what `change` did to the third entry, as somebody would who knows how, from there on.
    fn rewritten(rows: &mut Vec<AuditRow>, change: fn(&mut AuditEntry)) {
        change(&mut rows[2].entry);
        *rows = chain(rows.iter().map(|row| row.entry.clone()));
    }

    #[test]
    fn any_change_of_any_entry_is_found() {
        use AuditFault::{Emptied, Event, Field, Gap, Seal, Surplus};
        use AuditField::{Actor, Details, Subject};
        type Change = fn(&mut Vec<AuditRow>);
        let table: [(&str, Change, &[AuditFault]); 18] = [
            ("untouched", |_| {}, &[]),
            ("time", |c| c[2].entry.at = Timestamp::from_millis(9), &[Event(3)]),
            ("action", |c| c[2].entry.action.push('x'), &[Event(3)]),
            ("actor", |c| c[2].entry.actor.push('x'), &[Field(3, Actor)]),
            ("subject", |c| c[2].entry.subject.push('x'), &[Field(3, Subject)]),
            ("details", |c| c[2].entry.details.push(' '), &[Field(3, Details)]),
            ("an actor's salt", |c| c[2].entry.salt[0] ^= 1, &[Field(3, Actor)]),
            ("an actor's mark", |c| c[2].marks[0] ^= 1, &[Field(3, Actor), Event(3)]),
            ("digest", |c| c[2].digest[0] ^= 1, &[Event(3), Seal(3)]),
            ("seal", |c| c[2].hash[0] ^= 1, &[Seal(3)]),
            ("emptied in secret", |c| c[2].empty(Details), &[Emptied(3, Details)]),
            (
                "another with its digest",
                |c| {
                    let other = chain([entry(9)]).remove(0);
                    c[2] = AuditRow { n: 3, hash: c[2].hash, ..other };
                },
                &[Seal(3)],
            ),
            ("removed", |c| drop(c.remove(2)), &[Gap(3, 3)]),
            ("the first removed", |c| drop(c.drain(..2)), &[Gap(1, 2)]),
            ("one too many", |c| c.insert(0, AuditRow { n: 0, ..c[0].clone() }), &[Surplus(0)]),
            (
                "exchanged",
                |c| {
                    c.swap(1, 2);
                    (c[1].n, c[2].n) = (2, 3);
                },
                &[Seal(2), Seal(3), Seal(4)],
            ),
            ("the newest removed", |c| drop(c.pop()), &[]),
            ("all sealed anew", |c| rewritten(c, |entry| entry.actor.push('x')), &[]),
        ];
        for (name, change, expected) in table {
            let mut rows = chain((1..=5).map(entry));
            change(&mut rows);
            let mut verifier = Verifier::default();
            let mut found: Vec<AuditFault> =
                rows.iter().flat_map(|row| verifier.check(row)).collect();
            found.extend(verifier.finish());
            assert_eq!(found, expected, "{name}");
            assert_eq!(verify(&rows).err(), expected.first().copied(), "{name}");
        }
    }

    #[test]
    fn what_was_emptied_on_record_is_good() {
        let emptied = |details: &str| AuditEntry {
            action: EMPTIED.to_owned(),
            details: details.to_owned(),
            ..entry(4)
        };
        let both = r#"{"entries":[{"n":2,"fields":["actor","details"]}],"note":"asked for"}"#;
        let one = r#"{"entries":[{"n":2,"fields":["actor"]}],"note":"asked for"}"#;
        let missing = Err(AuditFault::Emptied(2, AuditField::Details));
        for (name, details, expected) in [("both", both, Ok(())), ("only one", one, missing)] {
            let mut rows = chain((1..=3).map(entry).chain([emptied(details)]));
            let before = rows[3].hash;
            rows[1].empty(AuditField::Actor);
            rows[1].empty(AuditField::Details);
            assert_eq!(rows[1].entry.salt[..16], [0; 16], "its salt is gone");
            assert_ne!(rows[1].entry.salt[16..32], [0; 16], "the subject's is not");
            let found = verify(&rows);
            assert_eq!(found.map(drop), expected, "{name}");
            assert!(found.is_err() || found.is_ok_and(|head| head.hash == before));
        }
    }

    #[test]
    fn a_clock_set_back_is_noted() {
        let at = |millis| AuditEntry { at: Timestamp::from_millis(millis), ..entry(1) };
        let mut verifier = Verifier::default();
        for row in chain([at(5), at(4), at(6), at(1)]) {
            assert_eq!(verifier.check(&row), []);
        }
        assert_eq!(verifier.back_in_time(), Some((2, 2)));
    }
}
