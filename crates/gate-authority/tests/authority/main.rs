//! The authority over the store in memory, under the shipped core, with a processor that does what
//! a test tells it and a clock that moves when a test moves it.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests unwrap and compute freely, and look at a few cases of many"
)]

mod approvals;
mod asking_again;
mod audit;
mod backlog;
mod budgets;
mod caps;
mod gateways;
mod invariants;
mod keys;
mod outcomes;
mod random_worlds;
mod rates;
mod records;
mod till;
mod tools;
mod votes;
mod webhooks;
mod world;

#[path = "../../examples/embed.rs"]
mod embed;

/// The example is documentation, and documentation that is not run goes wrong.
#[test]
fn the_example_does_what_it_says() {
    embed::main();
}
