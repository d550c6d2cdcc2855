//! `cargo xtask torture`: the release binary, killed at random instants over a store on disk, and
//! held each time against what Stripe has; with `--rounds`, a fleet of them on one PostgreSQL. What
//! it does and checks is in `tests/src/torture`.

use std::path::PathBuf;

use serde_json::Value;

use crate::fault::{Fault, Outcome};
use crate::workspace::{self, Workspace};

/// Builds the product and the torturer, and runs it with `words` as its further arguments.
///
/// # Errors
///
/// When a build fails, or with the first contradiction.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Outcome {
    // One after the other, so that the product is built as everywhere else.
    let gateway = built(workspace, "gate-server", "action-gateway")?;
    let torture = built(workspace, "gate-tests", "torture")?;
    let mut command = workspace.command(torture);
    workspace::run(command.arg("--gateway").arg(gateway).args(words)).map_err(|fault| {
        fault.or("read the contradiction above, and the log and the store that it names; \
                  `cargo xtask torture --seed S` with its seed makes the same choices again")
    })
}

/// Builds a program in release and says where it is.
fn built(workspace: &Workspace, package: &str, program: &str) -> Outcome<PathBuf> {
    let build = ["build", "--release", "--locked", "--package", package, "--bin", program];
    let mut command = workspace.cargo(&build);
    let messages = workspace::capture(command.arg("--message-format=json-render-diagnostics"))?;
    let messages = String::from_utf8_lossy(&messages);
    let mut programs = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    programs.next_back().ok_or_else(|| {
        Fault::new(format!("cargo built no `{program}`"), format!("give {package} its binary back"))
    })
}
