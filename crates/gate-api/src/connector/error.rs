//! What keeps a read from being answered, in words for the agent.

use std::fmt;
use std::time::Duration;

use gate_core::{ReadError, Retry};

use crate::problem_code::ProblemCode;
use crate::surface::whole_secs;

/// What kept the connector from reading.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ConnectorError {
    /// The gateway has made as many calls as it allows itself.
    Busy {
        /// When the next one is let through.
        after: Duration,
    },
    /// The cursor does not go with the arguments.
    CursorRefused,
    /// There is no Stripe key.
    KeyMissing,
    /// Stripe refuses the key.
    KeyRefused,
    /// Reads are paused, because they failed again and again or because Stripe asked for it.
    Paused {
        /// How long they still are.
        after: Duration,
    },
    /// The key may not read this.
    Permission {
        /// The permission that is missing, in the dashboard's words.
        permission: String,
    },
    /// Stripe could not be reached.
    Unavailable,
    /// Stripe's answer could not be read.
    Unreadable,
}

impl ConnectorError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ProblemCode {
        match self {
            Self::Busy { .. } => ProblemCode::RateLimited,
            Self::CursorRefused => ProblemCode::InvalidRequest,
            Self::KeyMissing => ProblemCode::StripeKeyMissing,
            Self::KeyRefused | Self::Permission { .. } => ProblemCode::StripePermission,
            Self::Paused { .. } | Self::Unavailable => ProblemCode::StripeUnavailable,
            Self::Unreadable => ProblemCode::StripeError,
        }
    }

    /// When asking again makes sense.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        self.code().retry()
    }

    /// How long to wait, where it is known.
    pub(crate) const fn after(&self) -> Option<Duration> {
        match self {
            Self::Busy { after } | Self::Paused { after } => Some(*after),
            Self::CursorRefused
            | Self::KeyMissing
            | Self::KeyRefused
            | Self::Permission { .. }
            | Self::Unavailable
            | Self::Unreadable => None,
        }
    }
}

impl From<ReadError> for ConnectorError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::KeyMissing => Self::KeyMissing,
            ReadError::KeyRefused => Self::KeyRefused,
            // A list knows nothing but the row that it goes on after.
            ReadError::NotFound { .. } => Self::CursorRefused,
            ReadError::Permission { permission } => Self::Permission { permission },
            ReadError::Unavailable { .. } => Self::Unavailable,
            ReadError::LivemodeMismatch
            | ReadError::NotPaid
            | ReadError::NotReady
            | ReadError::Unreadable => Self::Unreadable,
        }
    }
}

impl fmt::Display for ConnectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { after } => write!(
                f,
                "the gateway has used up its reads of Stripe for now; the next is possible in {} \
                 seconds",
                whole_secs(*after)
            ),
            Self::CursorRefused => f.write_str(
                "`cursor` does not go with these arguments; send the `nextCursor` of an answer to \
                 the same ones, unchanged, or leave it out to start with the newest",
            ),
            Self::KeyMissing => {
                f.write_str("the gateway has no Stripe key; the operator has to set one")
            }
            Self::KeyRefused => f.write_str(
                "Stripe refuses the gateway's key; tell the operator, who has to replace it",
            ),
            Self::Paused { after } => write!(
                f,
                "reading Stripe is paused for {} more seconds, because Stripe failed or asked for \
                 patience",
                whole_secs(*after)
            ),
            Self::Permission { permission } => write!(
                f,
                "the gateway's Stripe key lacks the permission {permission}; tell the operator, \
                 who can add it in Stripe"
            ),
            Self::Unavailable => f.write_str("Stripe could not be reached"),
            Self::Unreadable => f.write_str("Stripe answered something that could not be read"),
        }
    }
}

impl std::error::Error for ConnectorError {}
