//! Delivery of what happened to those who asked to be told: webhooks of agents.
//!
//! [`Deliverer`] takes a notice from its [`Outbox`](gate_core::Outbox), signs it as Standard Webhooks
//! say ([`Secret`]), sends it, and records what came of it, at least once and with growing pauses.
//! Agents go beside each other, so a target that fails holds up nobody but its own agent. [`is_public`] says which addresses are
//! anybody's to be reached; whoever puts a deliverer together decides whether it is kept to those.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        reason = "tests compute freely"
    )
)]

mod address;
mod deliver;
mod notice;
mod signature;

pub use address::is_public;
pub use deliver::{ANSWER_BYTES_MAX, Deliverer, Secrets, Wake, pause_max};
pub use signature::Secret;
