//! The project's own commands: `cargo xtask <verb>`, one file a verb.
//!
//! Whatever is checked before a change is accepted is checked here, so that the same command
//! gives the same answer on a laptop and in CI. Every failure says what to do next.
#![allow(clippy::print_stdout, reason = "a command line talks to whoever typed it")]

mod ci;
mod clients;
mod contract;
mod dist;
mod fault;
mod foreign;
mod generate;
mod imports;
mod sim;
mod source;
mod tidy;
mod tools;
mod torture;
mod workspace;

use std::process::ExitCode;

use crate::fault::{Fault, Outcome};
use crate::workspace::Workspace;

const HELP: &str = "\
cargo xtask <verb>

  ci [--from STEP | --only STEP]   every check that a change must pass, in order
  clients                          other people's MCP clients and the conformance suite
  contract                         Stripe's own Python library against the sandbox
  dist [--repository URL] [--binary PATH]
                                   what a release consists of, in target/dist
  gen [--check]                    write the generated files, or say which are out of date
  imports                          hold the crates' dependencies against the import table
  install-tools                    install what the checks need and this machine lacks
  sim [--seeds N | --seed N | --bugs | …]
                                   the gateway under every fault, on virtual time; see --help
  tidy                             hold the files against the house rules
  torture [--kills N] [--seed S] [--minutes M]
                                   kill the release binary at random instants, and look
  torture --rounds N [--kills N] [--seed S]
                                   200 requests at once over two authorities, and look
  help                             this text

Steps of ci, in order:";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Outcome {
    let workspace = Workspace::find()?;
    match words {
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP} {}", ci::names().join(", "));
            Ok(())
        }
        ["ci", selection @ ..] => ci::run(&workspace, selection),
        ["clients"] => clients::run(&workspace),
        ["contract"] => contract::run(&workspace),
        ["dist", words @ ..] => dist::run(&workspace, words),
        ["gen"] => generate::write(&workspace),
        ["gen", "--check"] => generate::check(&workspace),
        ["imports"] => imports::run(&workspace),
        ["install-tools"] => tools::run(&workspace),
        ["sim", words @ ..] => sim::run(&workspace, words),
        ["tidy"] => tidy::run(&workspace),
        ["torture", words @ ..] => torture::run(&workspace, words),
        unknown => Err(Fault::new(
            format!("`cargo xtask {}` is not a command", unknown.join(" ")),
            "see the verbs with `cargo xtask help`",
        )),
    }
}
