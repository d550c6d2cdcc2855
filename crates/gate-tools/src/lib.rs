//! The tools for agents: one table, whatever the door. MCP, `/v1/tools` and the API document are
//! all made from [`TABLE`], so that none of them can promise what another does not keep.
//!
//! A tool checks its arguments itself, calls the core's ports, and answers with the wire types of
//! gate-api. It moves no money of its own: `stripe_refund` is a request like any other, and what
//! [`Ports::actions`] promises, such as going on when the caller hangs up, holds for it too.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::wildcard_enum_match_arm,
        reason = "tests compute freely"
    )
)]

mod describe;
mod distinct;
mod door;
#[cfg(test)]
mod fakes;
mod local;
mod mcp;
mod staff;
mod stdio;
mod table;
mod toolbox;

pub use describe::own_tools;
pub use door::McpDoor;
pub use local::{LocalTools, tool};
pub use mcp::McpServer;
pub use stdio::{StdioEnded, serve_stdio};
pub use table::{Answered, Call, Hints, Looked, Ports, Running, TABLE, Tool};
pub use toolbox::{Called, NoSuchTool, Progress, Toolbox};
