//! The remote authority: the protocol between a gateway and its authority, for both sides.
//!
//! [`RemoteAuthority`] stands behind the core's [`Authority`](gate_core::Authority) and
//! [`Records`](gate_core::Records) ports and asks over HTTP. Every call is signed by the gateway
//! ([`GatewaySecret`]) and every answer by the authority ([`AuthorityKey`]), as HTTP message
//! signatures of one fixed form; [`wire`] is what stands in the bodies. Promised is: an answer that
//! is unsigned, forged, of another call, or not readable to its end is no answer, and nothing is
//! sent to Stripe on the strength of it.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::type_complexity,
        reason = "tests compute freely, and their tables are wide"
    )
)]

mod answer;
mod call;
mod client;
mod keys;
mod signature;
pub mod wire;

pub use answer::SignedAnswer;
pub use call::{RequestParts, SignedCall, SignedHeaders, TAG};
pub use client::{ClientSettings, Health, RemoteAuthority, SecretSource};
pub use keys::{AuthorityKey, GatewaySecret, KeyId, SecretFault};
pub use signature::content_digest;
