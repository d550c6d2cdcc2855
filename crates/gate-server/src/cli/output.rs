//! Where words go: results to standard output, everything for people to standard error.

use std::io::Write as _;

use clap::ArgMatches;
use serde::Serialize;

/// How a command tells what it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Results as JSON.
    pub(crate) json: bool,
}

impl Output {
    /// As the command's own `--json` says.
    pub(crate) fn new(given: &ArgMatches) -> Self {
        Self { json: asked_for_json(given) }
    }

    pub(crate) const fn plain() -> Self {
        Self { json: false }
    }

    /// A result: a line, or several, on standard output. A reader that went away is not an error.
    #[allow(clippy::unused_self, reason = "all words go through one value")]
    pub(crate) fn result(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        drop(writeln!(stdout, "{text}").and_then(|()| stdout.flush()));
    }

    /// Words for a person, on standard error.
    #[allow(clippy::unused_self, reason = "all words go through one value")]
    pub(crate) fn say(&self, text: &str) {
        drop(writeln!(std::io::stderr().lock(), "{text}"));
    }

    /// A result for programs or for people, as was asked.
    pub(crate) fn either(&self, json: &impl Serialize, text: impl FnOnce() -> String) {
        if self.json {
            // Our own views always serialise.
            self.result(&serde_json::to_string(json).unwrap_or_default());
        } else {
            let text = text();
            if !text.is_empty() {
                self.result(&text);
            }
        }
    }

    /// The first line of a server command: where it listens.
    pub(crate) fn listening(&self, url: &str) {
        let json = serde_json::json!({ "listening": url });
        self.either(&json, || format!("listening on {url}"));
    }

    /// The second line of a gateway that also serves the authority: where it does.
    pub(crate) fn authority_listening(&self, url: &str) {
        let json = serde_json::json!({ "authority": url });
        self.either(&json, || format!("serving the authority on {url}"));
    }
}

fn asked_for_json(given: &ArgMatches) -> bool {
    let here = given.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false);
    here || given.subcommand().is_some_and(|(_, below)| asked_for_json(below))
}
