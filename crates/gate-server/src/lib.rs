//! The gateway's composition root: everything is configured, put together and started here, and
//! nowhere else is the environment, the file system's layout or a global subscriber touched.
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

mod account;
pub mod authority_api;
mod cli;
pub mod config;
mod demo;
mod detach;
pub mod embedded;
mod feed;
mod forward;
pub mod gateway;
pub mod http;
pub mod listen;
mod listing;
pub mod logging;
mod master_key;
mod readiness;
mod reread;
mod serve;
pub mod stripe_sandbox;
pub mod system;
mod tls;
mod webhooks;

pub use cli::{run, run_with};
pub use readiness::Readiness;
pub use serve::MakeDoor;
pub use webhooks::Webhooks;
