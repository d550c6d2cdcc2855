//! What is wrong with a document, where, and what was probably meant.

use std::fmt;

/// Longest piece of the document that a message repeats, in characters.
const ECHO_CHARS_MAX: usize = 40;

/// One thing that is wrong with a document. Sorts by place.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Fault {
    /// A fault at the byte `offset` of `text`.
    pub(crate) fn at(text: &str, offset: usize, message: String) -> Self {
        let before = text.get(..text.floor_char_boundary(offset)).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
        let line = before.bytes().filter(|byte| *byte == b'\n').count();
        let column = before.get(line_start..).unwrap_or("").chars().count();
        Self { line: line.saturating_add(1), column: column.saturating_add(1), message }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, message } = self;
        write!(f, "line {line}, column {column}: {message}")
    }
}

impl std::error::Error for Fault {}

/// `text` in quotes as it may be repeated in a message: escaped and not longer than a glance.
pub(crate) fn echo(text: &str) -> String {
    match text.char_indices().nth(ECHO_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or("")),
        None => format!("{text:?}"),
    }
}

/// `names` in quotes, for a message.
pub(crate) fn listed(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    quoted.join(", ")
}

/// The known name that `text` was probably meant to be: at most a third of it has to be changed.
pub(crate) fn nearest<'n>(text: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let length = text.chars().count();
    if length > ECHO_CHARS_MAX {
        return None;
    }
    let (edits, name) = names.into_iter().map(|name| (edits(text, name), name)).min()?;
    (edits.saturating_mul(3) <= length).then_some(name)
}

/// How many characters have to be put in, taken out or changed (not counting their case) to turn
/// `from` into `to`.
fn edits(from: &str, to: &str) -> usize {
    let mut above: Vec<usize> = (0..=to.chars().count()).collect();
    for (row, wanted) in from.chars().enumerate() {
        let mut left = row.saturating_add(1);
        let mut current = vec![left];
        for ((found, corner), over) in to.chars().zip(&above).zip(above.iter().skip(1)) {
            let changed = usize::from(!wanted.eq_ignore_ascii_case(&found));
            left = corner
                .saturating_add(changed)
                .min(over.saturating_add(1))
                .min(left.saturating_add(1));
            current.push(left);
        }
        above = current;
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let text = "one\nzwölf\n";
        let table = [
            // offset  line  column
            (0, 1, 1),
            (3, 1, 4),
            (4, 2, 1),
            (6, 2, 3),
            (7, 2, 3),
            (8, 2, 4),
            (11, 3, 1),
            (999, 3, 1),
        ];
        for (offset, line, column) in table {
            let fault = Fault::at(text, offset, String::new());
            assert_eq!((fault.line, fault.column), (line, column), "{offset}");
        }
    }

    #[test]
    fn the_nearest_name_is_a_typo_away() {
        let names = ["daily_cap", "methods", "owner"];
        let table = [
            ("daily_cap", Some("daily_cap")),
            ("dialy_cap", Some("daily_cap")),
            ("Daily-Cap", Some("daily_cap")),
            ("method", Some("methods")),
            ("owners", Some("owner")),
            ("cap", None),
            ("", None),
            ("x", None),
        ];
        for (text, expected) in table {
            assert_eq!(nearest(text, names), expected, "{text:?}");
        }
    }

    #[test]
    fn an_echo_is_short_and_printable() {
        assert_eq!(echo("a\u{1b}[2J"), r#""a\u{1b}[2J""#);
        assert_eq!(echo(&"ä".repeat(41)), format!("\"{}\"…", "ä".repeat(40)));
    }
}
