//! `cargo xtask torture`: the release binary, killed at random instants over a store on disk, and
//! held each time against what Stripe has; with `--rounds`, a fleet of them on one PostgreSQL. What
//! it does and checks is in `tests/src/torture`.

use crate::fault::Outcome;
use crate::workspace::{self, Workspace, built};

/// Builds the product and the torturer, and runs it with `words` as its further arguments.
///
/// # Errors
///
/// When a build fails, or with the first contradiction.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Outcome {
    // One after the other, so that the product is built as everywhere else.
    let gateway = built(workspace, "gate-server", "action-gateway", &["--release"])?;
    let torture = built(workspace, "gate-tests", "torture", &["--release"])?;
    let mut command = workspace.command(torture);
    workspace::run(command.arg("--gateway").arg(gateway).args(words)).map_err(|fault| {
        fault.or("read the contradiction above, and the log and the store that it names; \
                  `cargo xtask torture --seed S` with its seed makes the same choices again")
    })
}
