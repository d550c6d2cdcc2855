//! Cursors of the reading tools: where a list goes on, bound to what was listed.
//!
//! A cursor says after which row to go on, and carries a digest over that row and over the question
//! it belongs to: tool, arguments, account and mode. So one that was taken from another question, cut
//! off or mistyped is refused instead of answering something else. It is no secret and grants
//! nothing: whoever makes one up reads what they could read anyway.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

/// Tells this form from another one.
const VERSION: u8 = 1;
/// How many bytes of the digest are kept.
const DIGEST_BYTES: usize = 12;
/// Longest id of a row, in bytes.
const ID_BYTES_MAX: usize = 255;

/// The cursors of one question.
pub(crate) struct Cursors {
    question: String,
}

impl Cursors {
    /// For the question that `parts` describe, in order and completely.
    pub(crate) fn new(parts: &[&str]) -> Self {
        // A part has no line break, so that no two questions look the same.
        Self { question: parts.join("\n") }
    }

    /// The cursor that goes on after the row `id`.
    pub(crate) fn after(&self, id: &str) -> String {
        let bytes = [&[VERSION], &*self.digest(id), id.as_bytes()].concat();
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The row that `cursor` goes on after, if it belongs to this question.
    pub(crate) fn row(&self, cursor: &str) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (version, rest) = bytes.split_first()?;
        let (mark, id) = rest.split_at_checked(DIGEST_BYTES)?;
        let id = std::str::from_utf8(id).ok()?;
        let fits = *version == VERSION && !id.is_empty() && id.len() <= ID_BYTES_MAX;
        let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (fits && plain && mark == self.digest(id)).then(|| id.to_owned())
    }

    fn digest(&self, id: &str) -> Vec<u8> {
        let whole = digest(&SHA256, format!("{}\n{id}", self.question).as_bytes());
        whole.as_ref().iter().take(DIGEST_BYTES).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cursor_belongs_to_its_question() {
        let question = ["payments", "2026-10-01", "", "acct_1", "test"];
        let cursor = Cursors::new(&question).after("pi_1");
        assert_eq!(Cursors::new(&question).row(&cursor).as_deref(), Some("pi_1"));
        for place in 0..question.len() {
            let mut other = question;
            other[place] = "x";
            assert_eq!(Cursors::new(&other).row(&cursor), None, "{other:?}");
        }
        let swapped = ["payments", "", "2026-10-01", "acct_1", "test"];
        assert_eq!(Cursors::new(&swapped).row(&cursor), None);
        let odd = Cursors::new(&question);
        for id in ["", "pi 1", "pi_1&x", "pi_ü", &"x".repeat(256)] {
            assert_eq!(odd.row(&odd.after(id)), None, "{id}");
        }
    }

    proptest! {
        #[test]
        fn cursors_come_back(id in "[A-Za-z0-9_]{1,255}", question in "\\PC{0,20}") {
            let cursors = Cursors::new(&[&question]);
            prop_assert_eq!(cursors.row(&cursors.after(&id)), Some(id));
        }

        #[test]
        fn an_altered_cursor_is_refused(id in "pi_[A-Za-z0-9]{24}", place: prop::sample::Index, letter in "[A-Za-z0-9_-]") {
            let cursors = Cursors::new(&["payments"]);
            let cursor = cursors.after(&id);
            let at = place.index(cursor.len());
            let altered = format!("{}{letter}{}", &cursor[..at], &cursor[at + 1..]);
            let found = cursors.row(&altered);
            prop_assert!(found.is_none() || altered == cursor);
            prop_assert_eq!(cursors.row(&cursor[..at]), None);
        }

        #[test]
        fn nothing_panics(text in "\\PC*") {
            prop_assert_eq!(Cursors::new(&[]).row(&text), None);
        }
    }
}
