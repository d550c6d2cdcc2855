//! The deterministic simulation of the whole gateway, for development only.
//!
//! [`run`] lives one seed: two gateways over one store and one Stripe, agents, people, and faults
//! everywhere, on virtual time. The core, the authority, the Stripe client and the in-memory store
//! are the shipped ones; clock, ids, transport and the store's awaits are simulated. Everything
//! that is committed, sent or answered is held against the invariants in the same instant, by
//! books of the simulation's own. Equal seeds give equal runs.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a tool of the project's own: overflow is checked in every profile, and a panic is a finding"
)]

mod answers;
mod authority;
mod bugs;
mod calls;
mod clock;
mod coverage;
mod credentials;
mod draw;
mod executor;
mod faults;
mod ledger;
mod people;
mod plan;
mod rates;
mod run;
mod shrink;
mod store;
mod transport;
mod wire;
mod witness;
mod world;

pub use bugs::{KILLERS, killed};
pub use coverage::Coverage;
pub use faults::Class;
pub use gate_core::bugs::Bug;
pub use run::{Options, Report, run};
pub use shrink::{Shrunk, shrink};
pub use witness::Violation;
