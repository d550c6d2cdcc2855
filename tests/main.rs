//! Black-box tests of the whole gateway: over HTTP and the command line, against the stateful
//! Stripe. Most run on a gateway in this process whose clock they move ([`world`]); what is about
//! processes, such as kill -9, runs on the real binary ([`process`]).

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::type_complexity,
    clippy::wildcard_enum_match_arm,
    reason = "tests unwrap and compute freely, and their tables are wide"
)]

mod agent_webhooks;
mod asking_again;
mod audit;
mod audit_log;
mod bad_input;
mod client;
mod clock;
mod command_line;
mod commits;
mod connector;
mod crashes;
mod fleet;
mod holds;
mod keyless;
mod mcp;
mod mcp_stdio;
mod parallel;
mod people;
mod policy_files;
mod policy_keys;
mod postgres;
mod process;
mod reads;
mod remote;
mod reports_charges;
mod reports_money;
mod reports_twice;
mod rpc;
mod secrets;
mod staff;
mod upstream;
mod webhooks;
mod world;
