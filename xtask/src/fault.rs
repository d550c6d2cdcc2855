//! Why a command stopped, and what whoever typed it does next. A fault without advice cannot be
//! built.

use std::fmt;

/// The result of a command or of a part of one.
pub(crate) type Outcome<T = ()> = Result<T, Fault>;

/// What went wrong, with the remedy.
#[derive(Debug)]
pub(crate) struct Fault {
    what: String,
    remedy: String,
}

impl Fault {
    pub(crate) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }

    /// A file or program that could not be used, in the operating system's words.
    pub(crate) fn io(doing: &str, error: &std::io::Error) -> Self {
        Self::new(format!("{doing}: {error}"), "make it available to this user and try again")
    }

    /// The same fault with advice from somebody who knows more.
    pub(crate) fn or(self, remedy: &str) -> Self {
        Self { remedy: remedy.to_owned(), ..self }
    }

    /// Fails with every line of `findings`, or passes when there are none.
    pub(crate) fn unless_empty(findings: &[String], remedy: &str) -> Outcome {
        if findings.is_empty() {
            return Ok(());
        }
        let count = findings.len();
        Err(Self::new(format!("{}\n{count} found", findings.join("\n")), remedy))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}\n   do: {}", self.what, self.remedy)
    }
}
