//! The seam: one attempt at one request, and what can become of it.

use std::fmt;

use async_trait::async_trait;
use gate_core::Deadline;

use crate::message::{Request, Response};
use crate::url::UrlRefused;

/// Is shown the pieces of an answer's body.
pub type Seen<'a> = dyn Fn(&[u8]) + Send + Sync + 'a;

/// Carries requests to other hosts.
#[async_trait]
pub trait Transport: Send + Sync {
    /// One attempt: the request goes out at most once, redirects are not followed, and the whole
    /// answer is there by the deadline, or an error is. Any HTTP status is an answer.
    ///
    /// # Errors
    ///
    /// [`TransportError::NotSent`] only when the request certainly reached nobody; after every
    /// other error it may have been acted on.
    async fn send(&self, request: Request, by: Deadline) -> Result<Response, TransportError>;

    /// The same; each piece of the answer's body is shown to `seen` when it comes, before the whole
    /// is there. Unless it is done otherwise, all of it is one piece.
    ///
    /// # Errors
    ///
    /// As [`Transport::send`].
    async fn send_seen(
        &self,
        request: Request,
        by: Deadline,
        seen: &Seen<'_>,
    ) -> Result<Response, TransportError> {
        let response = self.send(request, by).await?;
        seen(&response.body);
        Ok(response)
    }
}

/// Why there is no answer. Details are for the log; they name hosts and causes, never headers or
/// bodies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TransportError {
    /// The connection was lost, or what came was not HTTP, after bytes may have left.
    Broken {
        /// What was seen.
        detail: String,
    },
    /// Nothing of the request left: no address, no connection, no TLS, or a request that cannot
    /// be sent as it is.
    NotSent {
        /// What was seen.
        detail: String,
    },
    /// The deadline passed before the answer was whole.
    TimedOut,
    /// The answer is longer than is read.
    TooLarge {
        /// The limit, in bytes of the answer's body.
        limit_bytes: usize,
    },
}

impl TransportError {
    pub(crate) fn not_sent(detail: impl Into<String>) -> Self {
        Self::NotSent { detail: detail.into() }
    }
}

impl From<UrlRefused> for TransportError {
    fn from(refused: UrlRefused) -> Self {
        Self::not_sent(refused.to_string())
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { detail } => write!(f, "the connection broke: {detail}"),
            Self::NotSent { detail } => write!(f, "nothing was sent: {detail}"),
            Self::TimedOut => f.write_str("no answer came in time"),
            Self::TooLarge { limit_bytes } => {
                write!(f, "the answer is longer than {limit_bytes} bytes")
            }
        }
    }
}

impl std::error::Error for TransportError {}
