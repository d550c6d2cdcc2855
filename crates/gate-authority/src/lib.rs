//! The policy authority: what decides, reserves and records, embedded in the gateway's process.
//!
//! [`LocalAuthority`] stands behind the core's [`Authority`](gate_core::Authority) and
//! [`Records`](gate_core::Records) ports, over any [`Store`](gate_store::Store). Every decision is a
//! pure function of one snapshot, run inside one serialisable transaction. [`Admin`] is what people
//! do: agents, keys, policies, approvals, stops. [`Sweeper`] does what is due: rates and expiry.
//! [`Notices`] hands out what agents with a webhook are to be told. [`invariants()`] judges the whole
//! record.
//!
//! Invariants that this crate keeps (ARCHITECTURE.md numbers them):
//!
//! - *one-transaction*: a decision, the spend it reserves and its audit entry are written together
//!   or not at all.
//! - *counted-from-submission*: spend counts from `submitted` on, in the window of that moment, and
//!   is given back to that same window, once.
//! - *deny-by-default*: what cannot be decided is denied.
//! - *approved-as-shown*: an approval is used only for what its reviewers saw, and by votes whose
//!   voters may still give them.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::type_complexity,
        clippy::wildcard_enum_match_arm,
        reason = "tests compute freely, and their tables are wide"
    )
)]

mod admin;
mod approval;
mod audit;
mod authority;
mod change;
mod decide;
mod gateways;
mod invariants;
mod keys;
mod notices;
mod outcome;
mod rates;
mod records;
mod replay;
mod sweeper;
mod tools;
mod votes;

pub use admin::{
    Admin, AdminError, EmptiedCount, Emptying, IntentList, KeyTerms, Waiting, WebhookState, Whom,
};
pub use audit::{AnchorsAtStripe, AuditAnchor, AuditFinding, AuditReport};
pub use authority::{AuthorityConfig, LocalAuthority};
pub use change::Actor;
pub use gateways::{Caller, GatewayKey, Standing};
pub use invariants::{AtStripe, Finding, Level, invariants, invariants_at_stripe, invariants_of};
pub use notices::Notices;
pub use rates::{FeedError, RatesFeed, is_stale, parse_feed};
pub use replay::{Change, Replay, Sum};
pub use sweeper::{Sweeper, Swept};
pub use votes::Need;
