//! The client as the core sees it, over a transport that is told what to answer, and over sockets.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests unwrap and compute freely, and name traits by `as`"
)]

mod authority;
mod connector;
mod connector_guard;
mod end_to_end;
mod holds;
mod reads;
mod sandboxed;
mod sends;
mod world;
