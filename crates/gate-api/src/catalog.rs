//! The manual's page of codes, rendered from the tables that the code itself answers from.

use std::fmt::Write as _;

use gate_core::{FailureCode, ReasonCode, State};

use crate::intent::{Status, standing};
use crate::problem_code::ProblemCode;

const INTRO: &str = "# Errors and codes

Every code that the gateway answers with. Codes are never renamed, so programs may rely on them; the
texts beside them may change. This page is generated from the program's own tables.

An answer to a request for a refund is one of two things. An **intent** says where the refund
stands, also when the policy or a person said no. A **problem** (`application/problem+json`, RFC
9457) says why the request came to no intent's answer.

`retry` says when asking again makes sense:

| `retry` | Meaning |
| --- | --- |
| `never` | Asking again unchanged gets the same answer. |
| `same_key` | Ask again with the same idempotency key and the same arguments. It never refunds twice. |
| `later` | As `same_key`, but not at once: after `Retry-After`, or after a reason's `resetsAt`. |
";

const STATUSES: &str = "
## Statuses of an intent

`status` is the answer in one word, `state` where the record stands. The HTTP status is that of the
answer to a request for a refund; reads are answered with 200.

| `status` | HTTP | `state` | `retry` | Meaning |
| --- | --- | --- | --- | --- |
";

const PROBLEMS: &str = "
## Problems

Nothing was refunded by a request that gets a problem, with one exception that says so itself:
`gateway_answer_lost`. `detail` says what happened and what to do; `requestId` finds the request in
the gateway's log.

| HTTP | `code` | `retry` | Meaning |
| --- | --- | --- | --- |
";

const DENIALS: &str = "
## Reasons of a denial

The `reasons` of an intent, the hardest first. Reasons of a limit carry `limit`, `left` and
`resetsAt`, where they apply.

| `code` | Meaning |
| --- | --- |
";

const APPROVALS: &str = "
## Reasons of an approval

Why a person has to decide.

| `code` | Meaning |
| --- | --- |
";

const FAILURES: &str = "
## Failures

The `code` of an intent that is `failed`.

| `code` | Meaning |
| --- | --- |
";

/// The manual's page of codes, in Markdown.
#[must_use]
pub fn errors_markdown() -> String {
    let mut page = String::new();
    page.push_str(INTRO);
    page.push_str(STATUSES);
    for status in Status::OF_INTENTS {
        page.push_str(&status_row(status));
    }
    row(&mut page, &["`dry_run`", "200", "none", "", Status::DryRun.meaning()]);
    page.push_str(PROBLEMS);
    for code in ProblemCode::ALL {
        let (http, name) = (code.http_status().to_string(), quoted(code.as_str()));
        let retry = quoted(code.retry().as_str());
        row(&mut page, &[&http, &name, &retry, code.meaning()]);
    }
    page.push_str(DENIALS);
    for code in ReasonCode::ALL.iter().filter(|code| code.denies()) {
        row(&mut page, &[&quoted(code.as_str()), code.meaning()]);
    }
    page.push_str(APPROVALS);
    for code in ReasonCode::ALL.iter().filter(|code| code.asks()) {
        row(&mut page, &[&quoted(code.as_str()), code.meaning()]);
    }
    page.push_str(FAILURES);
    for code in FailureCode::ALL {
        row(&mut page, &[&quoted(code.as_str()), code.meaning()]);
    }
    page
}

/// One status with everything that the states behind it come to.
fn status_row(status: Status) -> String {
    let (mut states, mut https, mut retries) = (Vec::new(), Vec::new(), Vec::new());
    let note = |list: &mut Vec<String>, text: String| {
        if !list.contains(&text) {
            list.push(text);
        }
    };
    for state in State::STORED {
        for resets in [true, false] {
            let standing = standing(state, resets);
            if standing.status == status {
                note(&mut states, quoted(state.as_str()));
                note(&mut https, standing.http_status.to_string());
                note(&mut retries, quoted(standing.retry.as_str()));
            }
        }
    }
    let mut line = String::new();
    row(
        &mut line,
        &[
            &quoted(status.as_str()),
            &https.join(", "),
            &states.join(", "),
            // Only a denial has two: `later` where a reason resets.
            &retries.join(" where a reason has `resetsAt`, else "),
            status.meaning(),
        ],
    );
    line
}

fn quoted(code: &str) -> String {
    format!("`{code}`")
}

fn row(page: &mut String, cells: &[&str]) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate_core::Retry;

    #[test]
    fn nothing_is_missing() {
        let page = errors_markdown();
        let codes = ProblemCode::ALL.iter().map(|code| code.as_str());
        let codes = codes
            .chain(ReasonCode::ALL.iter().map(|code| code.as_str()))
            .chain(FailureCode::ALL.iter().map(|code| code.as_str()))
            .chain(State::STORED.map(State::as_str))
            .chain(Status::OF_INTENTS.map(Status::as_str))
            .chain([Retry::Never, Retry::SameKey, Retry::Later].map(Retry::as_str));
        for code in codes {
            assert!(page.contains(&format!("`{code}`")), "{code}");
        }
    }

    #[test]
    fn the_page_is_well_formed() {
        let page = errors_markdown();
        let mut columns = 0;
        for line in page.lines() {
            let cells = line.matches('|').count();
            if columns > 0 && cells > 0 {
                assert_eq!(cells, columns, "{line}");
            }
            columns = cells;
            assert!(!line.ends_with(' '), "{line}");
            assert!(line.starts_with('|') || line.len() <= 100, "{line}");
        }
        assert!(page.ends_with("|\n"));
    }

    #[test]
    fn the_statuses_are_those_of_the_code() {
        #[rustfmt::skip]
        let table = [
            "| `refunded` | 200 | `settled` | `never` |",
            "| `pending_approval` | 202 | `pending_approval`, `awaiting_stripe` | `same_key` |",
            "| `approved` | 200 | `approved` | `same_key` |",
            "| `denied` | 200 | `denied`, `expired`, `canceled` | `later` where a reason has `resetsAt`, else `never` |",
            "| `in_progress` | 202 | `submitted` | `same_key` |",
            "| `failed` | 200 | `failed` | `never` |",
            "| `not_executed` | 200 | `not_executed` | `same_key` |",
            "| `reversed` | 200 | `reversed` | `never` |",
            "| `dry_run` | 200 | none |",
            "| 422 | `charge_disputed` | `never` |",
        ];
        let page = errors_markdown();
        for start in table {
            assert!(page.lines().any(|line| line.starts_with(start)), "{start}");
        }
    }
}
