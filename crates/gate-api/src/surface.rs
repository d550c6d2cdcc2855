//! What keeps a request from being answered, for every surface: the core's errors, and those that
//! never reach the core.

use std::fmt;
use std::time::Duration;

use gate_core::{ActionError, Retry};

use crate::connector::ConnectorError;
use crate::problem_code::ProblemCode;

/// Longest body of an agent's request that is read, in bytes.
pub const BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest body of a webhook that is read, in bytes. Stripe's events are a few KiB.
pub const WEBHOOK_BYTES_MAX: usize = 256 * 1024;
/// Longest piece of foreign text that a message repeats, in characters.
const SHOWN_CHARS_MAX: usize = 40;

/// A request that did not come to an answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SurfaceError {
    /// It reached the core, which did not answer it.
    Action(ActionError),
    /// The body is longer than what the route takes.
    BodyTooLarge {
        /// Most that it takes, in bytes.
        bytes_max: usize,
    },
    /// Stripe was to be read for staff, and was not.
    Connector(ConnectorError),
    /// The gateway was asked, from another process, and its answer did not come.
    GatewayAnswerLost,
    /// A process that asks a gateway was not told which one, or with which key.
    GatewayNotConfigured {
        /// The variable that says it.
        variable: &'static str,
    },
    /// The gateway could not be reached from another process; it heard of nothing.
    GatewayUnavailable,
    /// The `Host` is none of ours.
    HostRefused {
        /// The host that came, as it came.
        host: String,
    },
    /// The route takes other methods.
    HttpMethodNotAllowed {
        /// Those that it takes, as `Allow` lists them: `GET, POST`.
        allow: &'static str,
    },
    /// Not an amount, whatever the currency.
    InvalidAmount {
        /// The member that holds it.
        field: &'static str,
        /// What it must be, continuing a sentence that begins with the member's name.
        detail: String,
    },
    /// Something in the request is not as it must be.
    InvalidRequest {
        /// The member or parameter at fault, if it is one; shortened when it is a foreign name.
        field: Option<String>,
        /// What is wrong and what would do, one line.
        detail: String,
    },
    /// Not the id of a payment.
    InvalidTarget {
        /// What it must be, one line.
        detail: String,
    },
    /// There is no such route.
    NotFound,
    /// The call comes from a page of another origin.
    OriginRefused {
        /// The origin that came, as it came.
        origin: String,
    },
    /// Too many requests of this agent, or failed keys from this address.
    RateLimited {
        /// When one more is let through.
        after: Duration,
    },
    /// The records were restored and are being completed from Stripe.
    Recovering,
    /// The agent was not granted this tool.
    ToolNotGranted {
        /// Its name.
        tool: String,
    },
    /// The body is not declared as JSON.
    UnsupportedMediaType,
}

impl From<ActionError> for SurfaceError {
    fn from(error: ActionError) -> Self {
        Self::Action(error)
    }
}

impl From<ConnectorError> for SurfaceError {
    fn from(error: ConnectorError) -> Self {
        Self::Connector(error)
    }
}

impl SurfaceError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ProblemCode {
        match self {
            Self::Action(error) => ProblemCode::of(error),
            Self::BodyTooLarge { .. } => ProblemCode::BodyTooLarge,
            Self::Connector(error) => error.code(),
            Self::GatewayAnswerLost => ProblemCode::GatewayAnswerLost,
            Self::GatewayNotConfigured { .. } => ProblemCode::GatewayNotConfigured,
            Self::GatewayUnavailable => ProblemCode::GatewayUnavailable,
            Self::HostRefused { .. } => ProblemCode::HostRefused,
            Self::HttpMethodNotAllowed { .. } => ProblemCode::HttpMethodNotAllowed,
            Self::InvalidAmount { .. } => ProblemCode::InvalidAmount,
            Self::InvalidRequest { .. } => ProblemCode::InvalidRequest,
            Self::InvalidTarget { .. } => ProblemCode::InvalidTarget,
            Self::NotFound => ProblemCode::NotFound,
            Self::OriginRefused { .. } => ProblemCode::OriginRefused,
            Self::RateLimited { .. } => ProblemCode::RateLimited,
            Self::Recovering => ProblemCode::Recovering,
            Self::ToolNotGranted { .. } => ProblemCode::ToolNotGranted,
            Self::UnsupportedMediaType => ProblemCode::UnsupportedMediaType,
        }
    }

    /// When asking again makes sense.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Action(error) => error.retry(),
            Self::Connector(error) => error.retry(),
            Self::RateLimited { .. } | Self::Recovering => Retry::Later,
            Self::GatewayAnswerLost | Self::GatewayUnavailable => Retry::SameKey,
            Self::BodyTooLarge { .. }
            | Self::GatewayNotConfigured { .. }
            | Self::HostRefused { .. }
            | Self::HttpMethodNotAllowed { .. }
            | Self::InvalidAmount { .. }
            | Self::InvalidRequest { .. }
            | Self::InvalidTarget { .. }
            | Self::NotFound
            | Self::OriginRefused { .. }
            | Self::ToolNotGranted { .. }
            | Self::UnsupportedMediaType => Retry::Never,
        }
    }

    /// The core's error, if it is one.
    pub(crate) const fn action(&self) -> Option<&ActionError> {
        if let Self::Action(error) = self { Some(error) } else { None }
    }

    /// How long to wait, where that is known.
    pub(crate) const fn after(&self) -> Option<Duration> {
        match self {
            Self::Connector(error) => error.after(),
            Self::RateLimited { after } => Some(*after),
            Self::Action(_)
            | Self::BodyTooLarge { .. }
            | Self::GatewayAnswerLost
            | Self::GatewayNotConfigured { .. }
            | Self::GatewayUnavailable
            | Self::HostRefused { .. }
            | Self::HttpMethodNotAllowed { .. }
            | Self::InvalidAmount { .. }
            | Self::InvalidRequest { .. }
            | Self::InvalidTarget { .. }
            | Self::NotFound
            | Self::OriginRefused { .. }
            | Self::Recovering
            | Self::ToolNotGranted { .. }
            | Self::UnsupportedMediaType => None,
        }
    }

    /// A body that cannot be read as a whole.
    pub(crate) fn malformed(detail: &str) -> Self {
        Self::InvalidRequest { field: None, detail: detail.to_owned() }
    }

    /// A member or parameter of ours that will not do; `detail` goes on after its name.
    pub(crate) fn invalid(field: &'static str, detail: &str) -> Self {
        Self::InvalidRequest {
            field: Some(field.to_owned()),
            detail: format!("`{field}` {detail}"),
        }
    }

    /// A member or parameter that does not exist.
    pub(crate) fn unknown(name: &str, known: &[&'static str]) -> Self {
        let name = shortened(name);
        let known = match known {
            [] => "it takes no arguments".to_owned(),
            known => format!("there are {}", known.join(", ")),
        };
        Self::InvalidRequest {
            detail: format!("`{name}` is not known here; {known}"),
            field: Some(name),
        }
    }
}

impl fmt::Display for SurfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(error) => error.fmt(f),
            Self::Connector(error) => error.fmt(f),
            Self::BodyTooLarge { bytes_max } => {
                write!(f, "the body is longer than {bytes_max} bytes; send a shorter one")
            }
            Self::GatewayAnswerLost => f.write_str("the gateway was asked and its answer was lost"),
            Self::GatewayNotConfigured { variable } => write!(
                f,
                "these tools are not connected to a gateway, because {variable} is not set; tell \
                 the person who set them up, and do not refund in another way"
            ),
            Self::GatewayUnavailable => f.write_str("the gateway could not be reached"),
            Self::HostRefused { host } => write!(
                f,
                "the gateway does not answer for the host {}; use its own name, or have the \
                 operator add this one to GATEWAY_ALLOWED_HOSTS",
                shown(host)
            ),
            Self::HttpMethodNotAllowed { allow } => {
                write!(f, "this route does not take this method; use {allow}")
            }
            Self::InvalidAmount { field, detail } => write!(f, "`{field}` {detail}"),
            Self::InvalidRequest { detail, .. } | Self::InvalidTarget { detail } => {
                f.write_str(detail)
            }
            Self::NotFound => {
                f.write_str("there is nothing at this address; /openapi.json lists what there is")
            }
            Self::OriginRefused { origin } => write!(
                f,
                "the gateway takes no calls from pages of {}; call it from a program, without an \
                 Origin header",
                shown(origin)
            ),
            Self::RateLimited { after } => write!(
                f,
                "there were too many requests; wait {} seconds and send fewer at once",
                whole_secs(*after)
            ),
            Self::Recovering => f.write_str(
                "the gateway's records were restored and are being completed from Stripe; nothing \
                 is decided before the operator has confirmed them",
            ),
            Self::ToolNotGranted { tool } => write!(
                f,
                "this agent was not granted the tool {}; a policy owner can add it to the agent's \
                 or its team's `tools`, so tell the person you work for",
                shown(tool)
            ),
            Self::UnsupportedMediaType => {
                f.write_str("the body must be JSON; send it with Content-Type: application/json")
            }
        }
    }
}

impl std::error::Error for SurfaceError {}

/// `span` in seconds, rounded up, at least one.
pub(crate) fn whole_secs(span: Duration) -> u64 {
    let part = u64::from(span.subsec_nanos() > 0);
    span.as_secs().saturating_add(part).max(1)
}

/// Foreign text for a message: in backticks, shortened, visible ASCII.
pub(crate) fn shown(text: &str) -> String {
    format!("`{}`", shortened(text))
}

/// The beginning of a foreign text in visible ASCII, so that it can neither break a line nor pass
/// for something else.
fn shortened(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(SHOWN_CHARS_MAX)
        .map(|c| match c {
            '`' => '\'',
            ' '..='~' => c,
            _ => '?',
        })
        .collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_shown_short_and_plain() {
        let table = [
            ("3.5", "`3.5`".to_owned()),
            ("a\nb\u{202e}c`d", "`a?b?c'd`".to_owned()),
            (&"x".repeat(40), format!("`{}`", "x".repeat(40))),
            (&"x".repeat(41), format!("`{}…`", "x".repeat(40))),
        ];
        for (text, expected) in table {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn waits_are_told_in_whole_seconds() {
        for (millis, secs) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (60_000, 60)] {
            assert_eq!(whole_secs(Duration::from_millis(millis)), secs);
        }
    }
}
