//! What is wrong with the configuration, told so that a person can put it right.
//!
//! A fault names the place that a value came from, what the place holds and what to do. What could
//! be a secret is told by its length alone: people put keys into the wrong variable.

use std::fmt;

/// The longest value that is repeated, in characters.
const SHOWN_CHARS_MAX: usize = 120;
/// A run of so many letters, digits and `_` could be a key, and is not repeated.
const KEY_CHARS_MIN: usize = 20;

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigFault {
    place: String,
    text: String,
    variable: &'static str,
}

impl ConfigFault {
    pub(super) fn new(
        variable: &'static str,
        place: impl fmt::Display,
        text: impl Into<String>,
    ) -> Self {
        Self { place: place.to_string(), text: text.into(), variable }
    }

    /// The setting's variable, whatever place the value came from.
    #[must_use]
    pub const fn variable(&self) -> &'static str {
        self.variable
    }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place, self.text)
    }
}

impl std::error::Error for ConfigFault {}

/// A value as a message may show it: quoted, escaped and shortened, or by its length alone.
pub(super) fn shown(value: &str) -> String {
    let chars = value.chars().count();
    if could_be_secret(value) {
        return format!("a text of {chars} characters");
    }
    if chars <= SHOWN_CHARS_MAX {
        return format!("{value:?}");
    }
    let start: String = value.chars().take(SHOWN_CHARS_MAX).collect();
    format!("{start:?}… ({chars} characters)")
}

fn could_be_secret(value: &str) -> bool {
    let marks = ["_live_", "_test_", "whsec_", "bb_agent_", "@", "password"];
    marks.iter().any(|mark| value.contains(mark))
        || value
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|run| run.len() >= KEY_CHARS_MIN)
}

/// The candidate that is the fewest edits away from `word`, the first of them when several are.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates.min_by_key(|candidate| edits(word, candidate))
}

/// How many characters to insert, drop or replace to turn `from` into `to` (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (index, a) in from.chars().enumerate() {
        // `diagonal` is the cell above and to the left, `left` the one just written.
        let (mut diagonal, mut left) = (index, index.saturating_add(1));
        let mut cells = row.iter_mut();
        if let Some(first) = cells.next() {
            *first = left;
        }
        for (b, cell) in to.chars().zip(cells) {
            let replaced = diagonal.saturating_add(usize::from(a != b));
            diagonal = *cell;
            left = replaced.min(left.min(diagonal).saturating_add(1));
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        let table = [
            // from      to         edits
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("port", "port", 0),
            ("prot", "port", 2),
            ("hosts", "host", 1),
            ("kitten", "sitting", 3),
        ];
        for (from, to, count) in table {
            assert_eq!(edits(from, to), count, "{from} to {to}");
        }
    }

    #[test]
    fn what_could_be_a_key_is_told_by_its_length() {
        let table = [
            // value                        shown
            ("eighty", "\"eighty\""),
            ("a\nb", "\"a\\nb\""),
            ("/run/secrets/stripe", "\"/run/secrets/stripe\""),
            ("sk_test_1", "a text of 9 characters"),
            ("https://a:b@c", "a text of 13 characters"),
            ("abcdefghij0123456789", "a text of 20 characters"),
            ("whsec_1", "a text of 7 characters"),
        ];
        for (value, expected) in table {
            assert_eq!(shown(value), expected, "{value}");
        }
        assert!(shown(&"a b".repeat(100)).ends_with("… (300 characters)"));
    }
}
