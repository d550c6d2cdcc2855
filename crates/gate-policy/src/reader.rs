//! Reads single values of a document, and collects what is wrong with them.

use std::collections::BTreeSet;

use gate_core::{TeamName, UserName};
use gate_money::MicroUsd;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::fault::{Fault, echo, listed, nearest};

pub(crate) type Key<'t> = Spanned<DeString<'t>>;
pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// The keys of one table.
pub(crate) struct Keys {
    pub(crate) kept: &'static [&'static str],
}

/// Collects faults on the way; what is at fault reads as absent.
pub(crate) struct Reader<'t> {
    pub(crate) text: &'t str,
    pub(crate) faults: Vec<Fault>,
}

impl<'t> Reader<'t> {
    pub(crate) const fn new(text: &'t str) -> Self {
        Self { text, faults: Vec::new() }
    }

    /// The text as a table, if it is TOML of at most `bytes_max` bytes.
    pub(crate) fn toml(&mut self, bytes_max: usize) -> Option<Spanned<DeTable<'t>>> {
        if self.text.len() > bytes_max {
            let message = format!("the document is longer than {bytes_max} bytes: shorten it");
            self.fault(0, message);
            return None;
        }
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let offset = error.span().map_or(0, |span| span.start);
            self.fault(offset, format!("this is not TOML: {}", error.message()));
        }
        errors.is_empty().then_some(table)
    }

    /// `read`, or everything that is wrong, in the order of the text.
    pub(crate) fn done<T>(mut self, read: T) -> Result<T, Vec<Fault>> {
        if self.faults.is_empty() {
            return Ok(read);
        }
        self.faults.sort();
        Err(self.faults)
    }

    pub(crate) fn fault(&mut self, offset: usize, message: String) {
        self.faults.push(Fault::at(self.text, offset, message));
    }

    pub(crate) fn unknown(&mut self, key: &Key<'_>, place: &str, keys: &Keys) {
        let name = echo(key.get_ref());
        let message = match nearest(key.get_ref(), keys.kept.iter().copied()) {
            Some(meant) => format!("{place} has no key {name}: did you mean \"{meant}\"?"),
            None => {
                format!("{place} has no key {name}: remove it, or use one of {}", listed(keys.kept))
            }
        };
        self.fault(key.span().start, message);
    }

    pub(crate) fn table<'v, 'd>(
        &mut self,
        value: &'v Value<'d>,
        place: &str,
    ) -> Option<&'v DeTable<'d>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let kind = value.get_ref().type_str();
            let message = format!("{place} has to be a table with keys of its own, not {kind}");
            self.fault(value.span().start, message);
        }
        table
    }

    /// A string that `read` takes; its error says what is wrong and what would be right.
    pub(crate) fn parsed<T>(
        &mut self,
        key: &Key<'_>,
        value: &Value<'_>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let name = key.get_ref();
        let result = match value.get_ref().as_str() {
            Some(text) => read(text),
            None => Err(format!("{} will not do: write a string", value.get_ref().type_str())),
        };
        result.map_err(|message| self.fault(value.span().start, format!("{name}: {message}"))).ok()
    }

    pub(crate) fn dollars(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<MicroUsd> {
        let number = match (value.get_ref().as_integer(), value.get_ref().as_float()) {
            (Some(integer), _) => integer.to_string(),
            (None, Some(float)) => float.to_string(),
            (None, None) => return self.parsed(key, value, dollars),
        };
        let meant = MicroUsd::parse_dollars(&number).map_or("100.00".to_owned(), in_quotes);
        let message = format!("{}: money is never a float, write \"{meant}\"", key.get_ref());
        self.fault(value.span().start, message);
        None
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn count(
        &mut self,
        key: &Key<'_>,
        value: &Value<'_>,
        [least, most]: [u32; 2],
    ) -> Option<u32> {
        let integer = value.get_ref().as_integer().map(|integer| {
            u32::from_str_radix(&integer.as_str().replace('_', ""), integer.radix())
        });
        let read = integer.and_then(Result::ok).filter(|count| (least..=most).contains(count));
        if read.is_none() {
            let message = format!("{}: write a whole number from {least} to {most}", key.get_ref());
            self.fault(value.span().start, message);
        }
        read
    }

    pub(crate) fn switch(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<bool> {
        let read = value.get_ref().as_bool();
        if read.is_none() {
            let message = format!("{}: write true or false, without quotes", key.get_ref());
            self.fault(value.span().start, message);
        }
        read
    }

    /// A list of strings that `read` takes. `of` says what they are, for a message.
    pub(crate) fn list<T: Ord>(
        &mut self,
        key: &Key<'_>,
        value: &Value<'_>,
        of: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> BTreeSet<T> {
        let name = key.get_ref();
        let Some(list) = value.get_ref().as_array() else {
            self.fault(value.span().start, format!("{name}: write a list of strings, {of}"));
            return BTreeSet::new();
        };
        let mut read_so_far = BTreeSet::new();
        for item in list.iter() {
            let read = match item.get_ref().as_str() {
                Some(text) => read(text),
                None => Err(format!("no {}: write strings, {of}", item.get_ref().type_str())),
            };
            match read {
                Ok(read) => {
                    read_so_far.insert(read);
                }
                Err(message) => self.fault(item.span().start, format!("{name}: {message}")),
            }
        }
        read_so_far
    }

    /// As [`Reader::list`], with something in it.
    pub(crate) fn some<T: Ord>(
        &mut self,
        key: &Key<'_>,
        value: &Value<'_>,
        of: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> BTreeSet<T> {
        if value.get_ref().as_array().is_some_and(|list| list.iter().next().is_none()) {
            let message = format!("{}: an empty list matches nothing: name {of}", key.get_ref());
            self.fault(value.span().start, message);
        }
        self.list(key, value, of, read)
    }

    /// A list of strings, each of which names one of `choices`.
    pub(crate) fn choices<T: Copy + Ord>(
        &mut self,
        key: &Key<'_>,
        value: &Value<'_>,
        choices: &[(&'static str, T)],
    ) -> BTreeSet<T> {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        self.list(key, value, &format!("of {}", listed(&names)), |text| choice(text, choices))
    }
}

/// The one of `choices` that `text` names.
pub(crate) fn choice<T: Copy>(text: &str, choices: &[(&'static str, T)]) -> Result<T, String> {
    if let Some((_, choice)) = choices.iter().find(|(name, _)| text == *name) {
        return Ok(*choice);
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    let given = echo(text);
    Err(match nearest(text, names.iter().copied()) {
        Some(meant) => format!("no {given}: did you mean \"{meant}\"?"),
        None => format!("no {given}: there are only {}", listed(&names)),
    })
}

pub(crate) fn dollars(text: &str) -> Result<MicroUsd, String> {
    MicroUsd::parse_dollars(text)
        .map_err(|error| format!("{error}; these are US dollars, such as \"100.00\""))
}

/// As it is written in the document.
fn in_quotes(dollars: MicroUsd) -> String {
    dollars.to_string().trim_end_matches(" USD").to_owned()
}

pub(crate) fn user(text: &str) -> Result<UserName, String> {
    UserName::parse(text)
        .map_err(|invalid| format!("{} is no user's name: expected {}", echo(text), invalid.form()))
}

pub(crate) fn team(text: &str) -> Result<TeamName, String> {
    TeamName::parse(text)
        .map_err(|invalid| format!("{} is no team's name: expected {}", echo(text), invalid.form()))
}

/// A role, a tag, a rule's id: a name of the same form as a user's.
pub(crate) fn word(text: &str) -> Result<String, String> {
    match UserName::parse(text) {
        Ok(name) => Ok(name.to_string()),
        Err(invalid) => Err(format!("{} will not do: expected {}", echo(text), invalid.form())),
    }
}

/// Where, in the text of a document, the byte `offset` of the string that `value` says stands.
/// Where that cannot be told, the value's own place.
pub(crate) fn place_in(text: &str, value: &Value<'_>, offset: usize) -> usize {
    let start = value.span().start;
    let (Some(raw), Some(said)) = (text.get(value.span()), value.get_ref().as_str()) else {
        return start;
    };
    walk(raw, said, offset).map_or(start, |at| start.saturating_add(at))
}

/// Walks along a string as it is written and as it reads, to the byte `offset` of the latter.
fn walk(raw: &str, said: &str, offset: usize) -> Option<usize> {
    let escapes = raw.starts_with('"');
    let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| raw.starts_with(quote))?;
    let mut at = quotes.len();
    if quotes.len() == 3 {
        // The line break after the opening quotes is not part of the string.
        let body = raw.get(at..)?;
        let skipped =
            ["\r\n", "\n"].into_iter().find(|end| body.starts_with(end)).map_or(0, str::len);
        at = at.checked_add(skipped)?;
    }
    let mut read = 0_usize;
    for character in said.chars() {
        if escapes {
            // A backslash at a line's end swallows the break and the blanks after it.
            while let Some(rest) = raw.get(at..)?.strip_prefix('\\') {
                let blank = rest.len().checked_sub(rest.trim_start().len())?;
                if !rest.get(..blank)?.contains('\n') {
                    break;
                }
                at = at.checked_add(1)?.checked_add(blank)?;
            }
        }
        if read >= offset {
            return Some(at);
        }
        let rest = raw.get(at..)?;
        let written = match rest.strip_prefix('\\').filter(|_| escapes) {
            Some(escape) => match escape.chars().next()? {
                'u' => 6,
                'U' => 10,
                'x' => 4,
                _ => 2,
            },
            None if rest.starts_with("\r\n") && character == '\n' => 2,
            None => rest.chars().next()?.len_utf8(),
        };
        at = at.checked_add(written)?;
        read = read.checked_add(character.len_utf8())?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::walk;

    #[test]
    fn a_place_in_a_string_is_found_in_the_text() {
        let table = [
            // as written, as it reads, offset, place
            ("'a < b'", "a < b", 2, 3),
            ("\"a < b\"", "a < b", 4, 5),
            (r#""a == \"x\" && b""#, "a == \"x\" && b", 5, 6),
            (r#""a == \"x\" && b""#, "a == \"x\" && b", 12, 15),
            (r#""\u00e4b""#, "äb", 2, 7),
            ("'''\na\nb'''", "a\nb", 2, 6),
            ("\"\"\"\r\na\\\n   b\"\"\"", "ab", 1, 11),
            ("'äb'", "äb", 2, 3),
            ("'ab'", "ab", 9, 3),
        ];
        for (raw, said, offset, expected) in table {
            assert_eq!(walk(raw, said, offset), Some(expected), "{raw} at {offset}");
        }
    }
}
