//! `cargo xtask sim`: the simulation, built by itself (its crate turns seeded bugs on, and cargo
//! would build them into everything that is built along with it) and optimised.

use crate::fault::Outcome;
use crate::workspace::{self, Workspace};

/// Runs the simulation with `words`; `--help` says which there are.
///
/// # Errors
///
/// A law of the product is broken, or a seeded bug survived; the simulation said which.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Outcome {
    let build = ["run", "--quiet", "--release", "--locked", "-p", "gate-sim", "--"];
    workspace::run(workspace.cargo(&build).args(words))
        .map_err(|fault| fault.or("read the timeline above; `cargo xtask sim --help` says more"))
}
