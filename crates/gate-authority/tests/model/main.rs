//! The authority against a model of it that is obviously right, on random commands.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs,
    reason = "tests unwrap and compute freely"
)]

mod model;
mod plot;
mod props;
mod story;

/// Commands in every test run; `cargo run -p gate-authority --example model` takes more.
const COMMANDS: u64 = 5_000;

#[test]
fn the_authority_does_what_the_model_does() {
    story::tell(COMMANDS, 1).unwrap_or_else(|story| panic!("{story}"));
}
