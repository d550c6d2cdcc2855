//! The Stripe client: reads charges and refunds, and makes refunds, for the core.
//!
//! [`StripeClient`] is the core's [`Processor`](gate_core::Processor) over any
//! [`Transport`](gate_http::Transport), so that a simulation runs the shipped headers, parsing and
//! error classes. [`StripeReads`] reads payments, customers and disputes for staff, within limits of
//! its own. The client promises that a refund is called refused only when Stripe says so readably,
//! that nothing Stripe adds later breaks a read, and that no key, not even a masked one, ever
//! leaves in a message or a log line.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        reason = "tests compute freely"
    )
)]

mod check;
mod client;
mod connector;
mod cursor;
mod guard;
mod holds;
mod key;
mod permissions;
mod problem;
mod reads;
mod sends;
mod webhook;
mod wire;

pub use check::{CheckLine, CheckState};
pub use client::{API_BASE, STRIPE_VERSION, StripeClient, StripeConfig, StripeHealth};
pub use connector::StripeReads;
pub use guard::{CALLS_PER_MINUTE, CALLS_PER_SECOND};
pub use key::{KeySource, KeyUnusable, StripeKey};
pub use permissions::{Access, PERMISSIONS, Permission, Resource};
pub use webhook::{
    EventKind, WebhookError, WebhookEvent, WebhookSecrets, WebhookSecretsUnusable, verify,
};
