//! What is durable: agents, policies, intents, spend, stops, rates and the audit chain.
//!
//! [`Store`] is the port. One call of [`Store::transact`] is one serialisable transaction: a fixed
//! [`Snapshot`] is read, a pure [`Judge`] looks at it, and the [`Write`]s that it plans are made,
//! all or none. What a transaction may read is said before it begins ([`Reads`]), so that every
//! database can lock in one order. Beside the in-memory [`MemStore`] stands [`SqliteStore`]; both
//! pass the same conformance suite.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::wildcard_enum_match_arm,
        reason = "tests compute freely"
    )
)]

mod audit;
mod changes;
mod memory;
mod port;
mod sqlite;

pub use audit::{AuditEntry, AuditFault, AuditRow, Head, verify};
pub use changes::Changes;
pub use memory::MemStore;
pub use port::{
    AgentBy, AgentRow, Books, Due, GatewayKeyRow, GatewayRow, IntentBy, IntentQuery, Judge,
    KeyHash, KeyRow, Money, Nonce, PolicyRow, Prior, Reads, Refused, Reservation, Scope, Snapshot,
    SpendWindow, Spent, StopRow, Store, StoreError, UserRow, Write, usable_until,
};
pub use sqlite::SqliteStore;
