//! What is done with policies before they are in force: checked, tried, compared, put in words.
//! Where the files are given, no store is opened.

use std::path::Path;

use clap::ArgMatches;
use gate_api::ReasonView;
use gate_core::{Decision, DecisionReason};
use gate_policy::{Cases, Fault, Policy, Scenario, Verdict, diff};
use serde_json::{Value, json};

use super::{Failed, Output};

/// Longest policy that is read, in bytes.
const POLICY_BYTES_MAX: u64 = 256 * 1024;

/// Runs a command for which all files are given; none when it needs the policy in force.
pub(super) fn without_store(
    verb: &str,
    given: &ArgMatches,
    out: &Output,
) -> Option<Result<(), Failed>> {
    let file = |name: &str| given.try_get_one::<String>(name).ok().flatten();
    match (verb, file("file"), file("new")) {
        ("check", Some(file), _) => Some(check(file, file_of(given, "cases"), out)),
        ("diff", Some(old), Some(new)) => {
            Some(read(old).and_then(|old| compare(&old, &read(new)?, out)))
        }
        ("show", Some(file), _) => Some(read(file).and_then(|text| show(None, &text, out))),
        ("try", Some(file), _) => Some(read(file).and_then(|text| attempt(&text, given, out))),
        _ => None,
    }
}

/// Runs a command with the policy in force where no file is given.
pub(super) fn with_policy(
    verb: &str,
    (version, text): (u64, &str),
    given: &ArgMatches,
    out: &Output,
) -> Result<(), Failed> {
    match verb {
        "diff" => {
            let file = file_of(given, "file").map_or("-", String::as_str);
            compare(text, &read(file)?, out)
        }
        "try" => attempt(text, given, out),
        _ => show(Some(version), text, out),
    }
}

fn file_of<'a>(given: &'a ArgMatches, name: &str) -> Option<&'a String> {
    given.try_get_one::<String>(name).ok().flatten()
}

fn check(file: &str, cases: Option<&String>, out: &Output) -> Result<(), Failed> {
    let text = read(file)?;
    let policy = match Policy::parse(&text) {
        Ok(policy) => policy,
        Err(found) => {
            out.either(&json!({ "faults": rows(&found), "warnings": [] }), || lines(&found));
            return Err(Failed::Faults);
        }
    };
    let warnings = policy.warnings();
    let table = match cases {
        Some(cases) => Some((cases.clone(), read(cases)?)),
        None => beside(file),
    };
    let mut outcomes = Vec::new();
    if let Some((name, table)) = &table {
        match Cases::parse(table) {
            Ok(cases) => outcomes = cases.run(&policy),
            Err(found) => {
                let json = json!({ "faults": rows(&found), "file": name, "warnings": warnings });
                out.either(&json, || format!("{name}:\n{}", lines(&found)));
                return Err(Failed::Faults);
            }
        }
    }
    let wrong = outcomes.iter().filter(|outcome| outcome.wrong.is_some()).count();
    let cases: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            let mut row = verdict_json(&outcome.verdict);
            if let Some(row) = row.as_object_mut() {
                row.insert("name".to_owned(), json!(outcome.name));
                row.insert("wrong".to_owned(), json!(outcome.wrong));
            }
            row
        })
        .collect();
    out.either(&json!({ "faults": [], "warnings": warnings, "cases": cases }), || {
        let mut told: Vec<String> =
            warnings.iter().map(|warning| format!("warning: {warning}")).collect();
        for outcome in &outcomes {
            told.extend(outcome.wrong.iter().map(|wrong| format!("{}: {wrong}", outcome.name)));
        }
        if let Some((name, _)) = &table {
            told.push(format!("{} cases in {name}, {wrong} of them wrong", outcomes.len()));
        }
        told.push("the policy is sound".to_owned());
        told.push(String::new());
        told.push(policy.words());
        told.join("\n").trim_end().to_owned()
    });
    if wrong == 0 { Ok(()) } else { Err(Failed::Faults) }
}

/// The table of cases that lies beside a policy: `policy.cases.toml` beside `policy.toml`.
fn beside(file: &str) -> Option<(String, String)> {
    let path = Path::new(file).with_extension("cases.toml");
    let name = path.to_str().filter(|_| file != "-" && path.is_file())?;
    let text = read(name).ok()?;
    Some((name.to_owned(), text))
}

fn show(version: Option<u64>, text: &str, out: &Output) -> Result<(), Failed> {
    let words = parsed(text, out)?.words();
    out.either(&json!({ "version": version, "words": words }), || match version {
        Some(version) => format!("Policy version {version}.\n\n{}", words.trim_end()),
        None => words.trim_end().to_owned(),
    });
    Ok(())
}

fn compare(old: &str, new: &str, out: &Output) -> Result<(), Failed> {
    let changes = diff(&parsed(old, out)?, &parsed(new, out)?);
    out.either(&json!({ "changes": changes }), || match changes.as_slice() {
        [] => "They mean the same.".to_owned(),
        changes => changes.join("\n"),
    });
    Ok(())
}

fn attempt(text: &str, given: &ArgMatches, out: &Output) -> Result<(), Failed> {
    let policy = parsed(text, out)?;
    let facts = given.get_many::<String>("facts").into_iter().flatten();
    let facts: Result<Vec<String>, Failed> = facts.map(|fact| line(fact)).collect();
    let scenario = Scenario::parse(&facts?.join("\n")).map_err(|faults| {
        let told: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        Failed::Usage(format!("these facts will not do: {}", told.join("; ")))
    })?;
    let verdict = scenario.decide(&policy);
    out.either(&verdict_json(&verdict), || {
        let reasons = verdict.reasons.iter().map(|reason| {
            let asks = reason.requires.as_ref().map_or(String::new(), |requires| {
                let roles = match requires.roles.as_slice() {
                    [] => "anybody who may approve".to_owned(),
                    roles => format!("the role {}", roles.join(" or ")),
                };
                format!(" Asks {} of {roles}.", requires.people)
            });
            format!("  {}: {}{asks}", reason.code.as_str(), reason.message)
        });
        let decision = decision(verdict.decision).to_owned();
        std::iter::once(decision).chain(reasons).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

/// `key=value` as a line of TOML: lists and tables as they are, everything else in quotes.
fn line(fact: &str) -> Result<String, Failed> {
    let Some((key, value)) = fact.split_once('=') else {
        return Err(Failed::Usage(format!("`{fact}` is no fact: write key=value")));
    };
    let value = match value.trim_start().starts_with(['[', '{']) {
        true => value.to_owned(),
        false => json!(value).to_string(),
    };
    Ok(format!("{key} = {value}"))
}

/// A policy that is to be worked with; its faults are told.
fn parsed(text: &str, out: &Output) -> Result<Policy, Failed> {
    Policy::parse(text).map_err(|found| {
        out.either(&json!({ "faults": rows(&found) }), || lines(&found));
        Failed::Faults
    })
}

fn verdict_json(verdict: &Verdict) -> Value {
    let reasons: Vec<Value> = verdict.reasons.iter().map(reason_json).collect();
    json!({ "decision": decision(verdict.decision), "reasons": reasons })
}

/// As the API tells it, and whose approval it takes.
fn reason_json(reason: &DecisionReason) -> Value {
    let mut row = json!(ReasonView::new(reason));
    if let (Some(row), Some(it)) = (row.as_object_mut(), &reason.requires) {
        row.insert("requires".to_owned(), json!({ "roles": it.roles, "people": it.people }));
    }
    row
}

const fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
        Decision::RequireApproval => "require_approval",
    }
}

fn rows(faults: &[Fault]) -> Vec<Value> {
    let row = |fault: &Fault| json!({ "line": fault.line, "column": fault.column, "message": fault.message });
    faults.iter().map(row).collect()
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The text of a policy; `-` is standard input.
pub(super) fn read(file: &str) -> Result<String, Failed> {
    use std::io::Read as _;
    let read = |from: &mut dyn std::io::Read| {
        let mut text = String::new();
        from.take(POLICY_BYTES_MAX).read_to_string(&mut text).map(|_| text)
    };
    let text = match file {
        "-" => read(&mut std::io::stdin()),
        path => std::fs::File::open(path).and_then(|mut file| read(&mut file)),
    };
    text.map_err(|error| Failed::Usage(format!("the policy {file} cannot be read: {error}")))
}
