//! `cargo xtask contract`: Stripe's own Python library works against the sandbox, so that what
//! the sandbox teaches our client is what Stripe would.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::fault::{Fault, Outcome};
use crate::foreign;
use crate::workspace::{self, Workspace};

const REQUIREMENTS: &str = "tests/contract/requirements.txt";
const SCRIPT: &str = "tests/contract/stripe_sdk.py";

/// How the sandbox says where it is, on its first line.
const LISTENING: &str = "listening on ";

/// How long the sandbox may take to say it.
const START_SECS_MAX: u64 = 30;

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let python = foreign::python(workspace, REQUIREMENTS)?;
    let sandbox = Sandbox::start(workspace, &foreign::product(workspace)?)?;
    workspace::run(workspace.command(python).arg(SCRIPT).arg(&sandbox.url))
        .map_err(|fault| fault.or("repair what the script says of the sandbox, in gate-sandbox"))
}

/// A running sandbox; it ends with this value, whatever happens in between.
struct Sandbox {
    child: Child,
    url: String,
}

impl Sandbox {
    fn start(workspace: &Workspace, product: &Path) -> Outcome<Self> {
        let mut command = workspace.command(product);
        command.args(["stripe-sandbox", "--port", "0"]).stdout(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|error| Fault::io(&format!("cannot start {}", product.display()), &error))?;
        let mut sandbox = Self { child, url: String::new() };
        sandbox.url = sandbox.address()?;
        println!("sandbox at {}", sandbox.url);
        Ok(sandbox)
    }

    /// Waits for the first line and lets the rest flow away, so that the sandbox never waits.
    fn address(&mut self) -> Outcome<String> {
        let (said, heard) = mpsc::sync_channel(1);
        if let Some(stdout) = self.child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // Only the first is waited for.
                    let _ = said.try_send(line);
                }
            });
        }
        let line = heard.recv_timeout(Duration::from_secs(START_SECS_MAX)).unwrap_or_default();
        address(&line).map(str::to_owned).ok_or_else(|| {
            Fault::new(
                format!("the sandbox's first line was `{line}`, not `{LISTENING}http://…`"),
                "run `action-gateway stripe-sandbox --port 0` to see what it says",
            )
        })
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing is left running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix(LISTENING).filter(|url| url.starts_with("http://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read() {
        let table = [
            ("listening on http://127.0.0.1:4000\n", Some("http://127.0.0.1:4000")),
            ("listening on 127.0.0.1:4000", None),
            ("error: port taken", None),
            ("", None),
        ];
        for (line, url) in table {
            assert_eq!(address(line), url, "{line:?}");
        }
    }
}
