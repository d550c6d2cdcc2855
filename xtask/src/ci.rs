//! `cargo xtask ci`: every check that a change must pass, in order, ending at the first failure.
//!
//! The list is [`STEPS`]; a new check is a new line there. Nothing is retried and nothing is
//! skipped unless `--from` or `--only` asks for it.

use std::time::Instant;

use crate::fault::{Fault, Outcome};
use crate::workspace::{self, Workspace};
use crate::{clients, contract, dist, generate, imports, sim, tidy, tools, torture};

/// The simulation turns on the seeded bugs of the product's crates. Cargo unifies features over
/// what it builds together, so it is always built by itself.
const SIMULATION: &str = "gate-sim";

/// One check.
struct Step {
    name: &'static str,
    run: fn(&Workspace) -> Outcome,
    /// What to do when it fails, where that is known beforehand.
    remedy: Option<&'static str>,
}

/// The cheap ones first.
const STEPS: [Step; 16] = [
    Step { name: "tools", run: tools::run, remedy: None },
    Step {
        name: "fmt",
        run: |workspace| workspace::run(&mut workspace.cargo(&["fmt", "--all", "--check"])),
        remedy: Some("run `cargo fmt --all`"),
    },
    Step { name: "tidy", run: tidy::run, remedy: None },
    Step { name: "imports", run: imports::run, remedy: None },
    Step {
        name: "clippy",
        run: clippy,
        remedy: Some("change the lines above; an `#[allow]` needs a reason that holds"),
    },
    Step { name: "docs", run: docs, remedy: Some("repair the links and comments above") },
    Step {
        name: "tests",
        run: |workspace| {
            workspace::run(&mut workspace.cargo(&[
                "test",
                "--workspace",
                "--exclude",
                SIMULATION,
                "--locked",
            ]))
        },
        remedy: Some("run the failed test alone: cargo test -p <crate> <name>"),
    },
    // The same black-box tests again, with each gateway asking an authority over the network.
    Step {
        name: "remote",
        run: |workspace| {
            let tests = ["test", "--package", "gate-tests", "--test", "gateway", "--locked"];
            let mut command = workspace.cargo(&tests);
            workspace::run(command.env("GATEWAY_TESTS_AUTHORITY", "remote"))
        },
        remedy: Some(
            "run the failed test alone: GATEWAY_TESTS_AUTHORITY=remote cargo test -p gate-tests <name>",
        ),
    },
    Step { name: "generated", run: generate::check, remedy: None },
    // Builds the release binary, which is what the steps after it run.
    Step {
        name: "demo",
        run: demo,
        remedy: Some("run `cargo run --release -- demo --once` and read what it says"),
    },
    Step { name: "contract", run: contract::run, remedy: None },
    Step { name: "clients", run: clients::run, remedy: None },
    Step {
        name: "sim",
        run: simulation,
        remedy: Some("run `cargo xtask sim --seed N` with the seed above, and read its timeline"),
    },
    Step { name: "dist", run: dist::check, remedy: None },
    Step {
        name: "torture",
        run: |workspace| torture::run(workspace, &["--kills", "200"]),
        remedy: None,
    },
    Step {
        name: "fleet",
        run: |workspace| torture::run(workspace, &["--rounds", "10", "--kills", "10"]),
        remedy: None,
    },
];

/// The names of the steps, in order.
pub(crate) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

/// Runs the steps that `selection` asks for and prints how long each took.
///
/// # Errors
///
/// The first failure, or a selection that is not understood.
pub(crate) fn run(workspace: &Workspace, selection: &[&str]) -> Outcome {
    let mut table = Vec::new();
    let mut failure = None;
    for step in selected(selection)? {
        if failure.is_some() {
            table.push(format!("{:<12}{:>9}  not run", step.name, "-"));
            continue;
        }
        println!("\n== {}", step.name);
        let started = now();
        let result = (step.run)(workspace);
        let secs = started.elapsed().as_secs_f64();
        let verdict = if result.is_ok() { "passed" } else { "FAILED" };
        table.push(format!("{:<12}{secs:>9.1}  {verdict}", step.name));
        failure = result.err().map(|fault| match step.remedy {
            Some(remedy) => fault.or(remedy),
            None => fault,
        });
    }
    println!("\n{:<12}{:>9}", "step", "seconds");
    println!("{}\n", table.join("\n"));
    failure.map_or(Ok(()), Err)
}

#[allow(clippy::disallowed_methods, reason = "the time that a step takes is for people to read")]
fn now() -> Instant {
    Instant::now()
}

fn selected(selection: &[&str]) -> Outcome<&'static [Step]> {
    let (name, is_only) = match selection {
        [] => return Ok(&STEPS),
        ["--from", name] => (name, false),
        ["--only", name] => (name, true),
        other => {
            return Err(Fault::new(
                format!("`cargo xtask ci {}` is not a command", other.join(" ")),
                "name one step after `--from` or `--only`",
            ));
        }
    };
    let from = STEPS.iter().position(|step| step.name == *name);
    let rest = from.and_then(|from| STEPS.get(from..));
    let steps = if is_only { rest.and_then(|rest| rest.get(..1)) } else { rest };
    steps.ok_or_else(|| {
        Fault::new(
            format!("ci has no step `{name}`"),
            format!("name one of {}", names().join(", ")),
        )
    })
}

fn clippy(workspace: &Workspace) -> Outcome {
    let product = ["clippy", "--workspace", "--exclude", SIMULATION, "--all-targets", "--locked"];
    let strict = ["--", "-D", "warnings"];
    workspace::run(workspace.cargo(&product).args(strict))
}

/// The simulation, held against itself first: nothing of its bugs is in the product, its own tests
/// pass, and it finds every bug that it knows.
fn simulation(workspace: &Workspace) -> Outcome {
    let tree =
        ["tree", "--locked", "-p", "gate-server", "-e", "features,no-dev", "--prefix", "none"];
    let tree = workspace::capture(&mut workspace.cargo(&tree))?;
    if String::from_utf8_lossy(&tree).contains("seeded-bugs") {
        return Err(Fault::new(
            "the feature `seeded-bugs` is turned on in the product",
            "find who turns it on: `cargo tree -p gate-server -e features -i gate-core`",
        ));
    }
    let by_itself = ["-p", SIMULATION, "--locked", "--all-targets"];
    let strict = ["--", "-D", "warnings"];
    workspace::run(workspace.cargo(&["clippy"]).args(by_itself).args(strict))?;
    workspace::run(&mut workspace.cargo(&["test", "-p", SIMULATION, "--locked"]))?;
    sim::run(workspace, &["--bugs", "--seeds", "5000", "--threads", "2"])?;
    sim::run(workspace, &["--seeds", "20000", "--threads", "2"])
}

fn docs(workspace: &Workspace) -> Outcome {
    let product = ["doc", "--workspace", "--exclude", SIMULATION, "--no-deps", "--locked"];
    let mut all = workspace.cargo(&product);
    all.arg("--document-private-items").env("RUSTDOCFLAGS", "-D warnings");
    workspace::run(&mut all)
}

fn demo(workspace: &Workspace) -> Outcome {
    let demo = ["run", "--release", "--locked", "--", "demo", "--once"];
    workspace::run(&mut workspace.cargo(&demo))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_selected() {
        let last = STEPS.last().map_or("", |step| step.name);
        #[rustfmt::skip]
        let table: [(&[&str], usize, &str); 6] = [
            // selection               steps          the first of them, or the fault
            (&[],                      STEPS.len(),   "tools"),
            (&["--from", "tools"],     STEPS.len(),   "tools"),
            (&["--from", last],        1,             last),
            (&["--only", "clippy"],    1,             "clippy"),
            (&["--only", "lunch"],     0,             "ci has no step `lunch`"),
            (&["--fast"],              0,             "`cargo xtask ci --fast` is not a command"),
        ];
        for (selection, count, said) in table {
            let (found, first) = match selected(selection) {
                Ok(steps) => (steps.len(), steps.first().map_or("", |step| step.name).to_owned()),
                Err(fault) => (0, fault.to_string()),
            };
            assert_eq!(found, count, "{selection:?}");
            assert!(first.contains(said), "{selection:?}: {first}");
        }
    }
}
