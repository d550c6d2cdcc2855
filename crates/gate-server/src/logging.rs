//! Where log lines go: to standard error, as text for people or as JSON for programs.
//!
//! By convention no event has a field named `key`, `secret` or `authorization`, and secrets are of
//! types that show themselves redacted. What lies below us on the wire is quiet below `info`
//! unless it is asked for by name, because its traces show headers.

use std::io::{self, IsTerminal};

use tracing_subscriber::{
    EnvFilter,
    filter::ParseError,
    fmt,
    layer::SubscriberExt,
    util::{SubscriberInitExt, TryInitError},
};

use crate::config::{LogConfig, LogFormat};

/// Crates whose traces show what goes over the wire.
const WIRE: [&str; 6] = ["h2", "hyper", "hyper_rustls", "hyper_util", "rustls", "tokio_rustls"];
/// A crate that tells of every request at `info`, which we do ourselves.
const TALKATIVE: &str = "rmcp";

/// Sends the events of the whole process to standard error from here on.
///
/// # Errors
///
/// [`TryInitError`] when events go somewhere already.
pub fn init(log: &LogConfig) -> Result<(), TryInitError> {
    // The configuration took the filter already; should it not do, there is more to read, not less.
    let filter = filter(&log.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let terminal = io::stderr().is_terminal();
    let format = log.format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let (text, json) = match format {
        LogFormat::Json => {
            (None, Some(fmt::layer().json().flatten_event(true).with_writer(io::stderr)))
        }
        LogFormat::Text => (Some(fmt::layer().with_ansi(terminal).with_writer(io::stderr)), None),
    };
    tracing_subscriber::registry().with(filter).with(text).with(json).try_init()
}

/// The filter that a text such as `info,gate_core=debug` stands for.
///
/// # Errors
///
/// [`ParseError`] when it is none.
pub fn filter(text: &str) -> Result<EnvFilter, ParseError> {
    let wire = WIRE.iter().filter(|_| loud(text)).map(|name| (*name, "info"));
    let talk = Some((TALKATIVE, "error")).filter(|_| !text.trim().eq_ignore_ascii_case("off"));
    let quiet: String = wire
        .chain(talk)
        .filter(|(name, _)| !text.contains(&format!("{name}=")))
        .map(|(name, level)| format!("{name}={level},"))
        .collect();
    EnvFilter::builder().parse(quiet + text)
}

/// Whether the text lets more than `info` through, so that the wire must be kept quiet.
fn loud(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("debug") || text.contains("trace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_is_quiet_unless_it_is_named() {
        let table = [
            // text, and what the filter says of h2 and of rmcp
            ("info", None, Some("rmcp=error")),
            ("warn", None, Some("rmcp=error")),
            ("off", None, None),
            ("debug", Some("h2=info"), Some("rmcp=error")),
            ("info,gate_core=trace", Some("h2=info"), Some("rmcp=error")),
            ("debug,h2=trace,rmcp=debug", Some("h2=trace"), Some("rmcp=debug")),
        ];
        for (text, h2, rmcp) in table {
            let filter = filter(text).unwrap().to_string();
            let of = |name| filter.split(',').find(|part| part.starts_with(name));
            assert_eq!((of("h2="), of("rmcp=")), (h2, rmcp), "{text}");
        }
    }
}
