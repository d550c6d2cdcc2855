//! What is durable: agents, policies, intents, spend, stops, rates and the audit chain.
//!
//! [`Store`] is the port. One call of [`Store::transact`] is one serialisable transaction: a fixed
//! [`Snapshot`] is read, a pure [`Judge`] looks at it, and the [`Write`]s that it plans are made,
//! all or none. What a transaction may read is said before it begins ([`Reads`]), so that every
//! database can lock in one order. Beside the in-memory [`MemStore`] stand [`SqliteStore`] and
//! [`PostgresStore`]; all pass the same conformance suite.
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
mod database;
mod json;
mod memory;
mod migrations;
mod port;
mod postgres;
mod read;
mod rows;
mod sqlite;
#[cfg(test)]
mod statements;
mod write;

pub use audit::{
    AuditEntry, AuditFault, AuditField, AuditRange, AuditRow, EMPTIED, Emptied, Head, Verifier,
    verify,
};
pub use changes::Changes;
pub use memory::MemStore;
pub use port::{
    AgentBy, AgentRow, Books, Due, GatewayKeyRow, GatewayRow, IntentBy, IntentQuery, Judge,
    KeyHash, KeyRow, Money, Nonce, PolicyRow, Prior, Reads, Refunded, Refused, Reservation, Scope,
    Snapshot, SpendWindow, Spent, StopRow, Store, StoreError, UserRow, WebhookRow, Write,
    usable_until,
};
pub use postgres::{PostgresAddress, PostgresState, PostgresStore};
pub use sqlite::SqliteStore;
