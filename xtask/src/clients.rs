//! `cargo xtask clients`: MCP clients that nobody here wrote use the gateway's tools, over HTTP and
//! over standard input and output: the inspector, three SDKs, and the conformance suite.

use crate::fault::Outcome;
use crate::foreign;
use crate::workspace::{self, Workspace};

const PACKAGES: &str = "tests/clients/package.json";
const LOCK: &str = "tests/clients/package-lock.json";
const REQUIREMENTS: &str = "tests/clients/requirements.txt";
const BESIDE: [&str; 5] = [
    "docs/testing.md",
    "tests/clients/expected-failures.yml",
    "tests/clients/run.mjs",
    "tests/clients/scene.mjs",
    "tests/clients/sdk.py",
];

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let python = foreign::python(workspace, REQUIREMENTS)?;
    let (folder, node) = foreign::node(workspace, PACKAGES, LOCK)?;
    // Node looks for packages beside the script.
    foreign::copy(workspace, &BESIDE, &folder)?;
    let product = foreign::product(workspace)?;
    let fixtures = workspace::built(workspace, "gate-tests", "mcp-fixtures", &["--release"])?;
    let mut command = workspace.command(node);
    workspace::run(command.arg(folder.join("run.mjs")).arg(product).arg(python).arg(fixtures))
        .map_err(|fault| fault.or("repair what a client says of the tools, in gate-tools"))
}
