//! Outbound HTTP with deadlines, size limits and redaction.
//!
//! [`Transport`] is the seam: one call is one attempt over plain types, so that a simulation can
//! stand in for the network. [`HyperTransport`] is the one that is shipped. Both promise the same:
//! an error says whether the request may have reached anybody, and
//! [`TransportError::NotSent`] is only said when it certainly has not.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        reason = "tests compute freely"
    )
)]

mod hyper_transport;
mod message;
mod transport;
mod url;

pub use hyper_transport::{Admits, CONNECT_TIMEOUT, HyperTransport, RESPONSE_BYTES_MAX};
pub use message::{HeaderText, Method, Request, Response};
pub use transport::{Seen, Transport, TransportError};
pub use url::{UrlRefused, check_url};
