//! Secrets: given in a variable, or in a file that is read again when it changes.
//!
//! A secret is one line. The newline that editors put behind it does not belong to it; other
//! control characters are refused, because no key has them and a header with them is no header.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use secrecy::SecretString;

use super::{
    fault::ConfigFault,
    file,
    lookup::{FileStamp, Lookup},
};

/// A secret and the place it comes from. Shows itself redacted.
#[derive(Debug)]
pub struct Secret {
    held: Held,
    /// The place, for messages: `STRIPE_SECRET_KEY`.
    place: String,
    variable: &'static str,
}

#[derive(Debug)]
enum Held {
    File {
        path: PathBuf,
        /// What was read last, and the file as it was just before that.
        last: Mutex<Option<(FileStamp, SecretString)>>,
    },
    Value(SecretString),
}

impl Secret {
    /// A secret that stands in a variable.
    pub(super) fn value(
        variable: &'static str,
        place: String,
        text: &str,
    ) -> Result<Self, ConfigFault> {
        match clean(text) {
            Ok(text) => {
                let held = Held::Value(SecretString::from(text));
                Ok(Self { held, place, variable })
            }
            Err(problem) => Err(ConfigFault::new(variable, place, problem)),
        }
    }

    /// A secret that stands in a file, which is read with each [`current`](Self::current).
    pub(super) const fn file(variable: &'static str, place: String, path: PathBuf) -> Self {
        let last = Mutex::new(None);
        Self { held: Held::File { path, last }, place, variable }
    }

    /// The secret as it is now: a file that changed since is read again.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or does not hold one line of text; what was read before no longer
    /// counts then.
    pub fn current(&self, lookup: &dyn Lookup) -> Result<SecretString, ConfigFault> {
        match &self.held {
            Held::File { path, last } => {
                // A panic elsewhere leaves either a whole pair or none.
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                // Looked at before it is read: a change in between shows the next time.
                let stamp = lookup.facts(path).ok().map(|facts| facts.stamp);
                if let (Some((read, secret)), Some(stamp)) = (last.as_ref(), stamp)
                    && *read == stamp
                {
                    return Ok(secret.clone());
                }
                *last = None;
                let secret = self.read(lookup, path)?;
                *last = stamp.map(|stamp| (stamp, secret.clone()));
                Ok(secret)
            }
            Held::Value(secret) => Ok(secret.clone()),
        }
    }

    /// A fault about what this secret is.
    pub(super) fn fault(&self, problem: impl Into<String>) -> ConfigFault {
        ConfigFault::new(self.variable, &self.place, problem)
    }

    fn read(&self, lookup: &dyn Lookup, path: &Path) -> Result<SecretString, ConfigFault> {
        let bytes = file::read(lookup, path).map_err(|problem| self.fault(problem))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| self.fault("names a file that is no text: put the secret alone in it"))?;
        clean(&text).map(SecretString::from).map_err(|problem| self.fault(problem))
    }
}

/// The secret without the newline behind it.
fn clean(text: &str) -> Result<&str, &'static str> {
    let text = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text);
    if text.is_empty() {
        return Err("gives an empty secret: put the secret there, or unset it");
    }
    if text.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER) {
        return Err(
            "gives a secret with control characters in it, such as a second line: put the secret \
             alone on one line",
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::{super::lookup::map::Map, *};

    #[test]
    fn a_secret_is_one_line() {
        let table = [
            // text          secret, or a part of the fault
            ("key", Ok("key")),
            ("key\n", Ok("key")),
            ("key\r\n", Ok("key")),
            (" key ", Ok(" key ")),
            ("", Err("empty secret")),
            ("\n", Err("empty secret")),
            ("key\n\n", Err("control characters")),
            ("key\r", Err("control characters")),
            ("k\0ey", Err("control characters")),
            ("one\ntwo", Err("control characters")),
            ("k\u{FFFD}y", Err("control characters")),
        ];
        for (text, expected) in table {
            let map = Map::of([]).file("/key", text);
            let read = Secret::file("KEY_FILE", "KEY_FILE".into(), "/key".into());
            let given = Secret::value("KEY", "KEY".into(), text);
            for secret in [read.current(&map), given.and_then(|s| s.current(&map))] {
                match (secret, expected) {
                    (Ok(secret), Ok(expected)) => assert_eq!(secret.expose_secret(), expected),
                    (Err(fault), Err(part)) => assert!(fault.to_string().contains(part), "{fault}"),
                    (secret, _) => panic!("{text:?} gave {secret:?}"),
                }
            }
        }
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let map = Map::of([]).file("/key", "one");
        let secret = Secret::file("KEY_FILE", "KEY_FILE".into(), "/key".into());
        let table = [
            // content, written at, read as
            ("two", 1, "one"), // neither time nor length changed
            ("two", 2, "two"),
            ("three", 2, "three"),
        ];
        assert_eq!(secret.current(&map).unwrap().expose_secret(), "one");
        for (content, written, expected) in table {
            map.write("/key", content, written);
            assert_eq!(secret.current(&map).unwrap().expose_secret(), expected);
        }
        map.write("/key", "", 3);
        assert!(secret.current(&map).is_err(), "an emptied file");
        map.files.lock().unwrap().clear();
        assert!(secret.current(&map).is_err(), "a removed file");
    }
}
