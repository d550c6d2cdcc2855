//! The audit log as a product, on the real binary: what tampering with a store's file comes to,
//! how a stranger verifies an export, and how what is personal is emptied.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use gate_core::Timestamp;
use gate_server::system::SystemClock;
use gate_store::{AuditEntry, AuditRange, Judge, Reads, Snapshot, SqliteStore, Store as _, Write};
use serde_json::{Value, json};

use crate::process::{Home, KEY, POLICY, Server};

/// A store in which refunds were made, one was approved by a person, and one was denied.
async fn busy() -> (Home, Server) {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&format!("{POLICY}approval_threshold = \"5.00\"\n"));
    home.done(&["user", "create", "ada", "--role", "owner"]);
    let gateway = home.serve(&sandbox, &[]);
    for id in ["ch_1", "ch_2", "ch_3"] {
        sandbox.control("/_sandbox/charges", &json!({ "id": id })).await;
    }
    let refund = async |body: Value| gateway.ask(&key, &body).await;
    for minor in [100, 200] {
        let answer = refund(json!({ "target": "ch_1", "amountMinor": minor })).await;
        assert_eq!(answer.line(), "200 refunded");
    }
    let words = "Zoe says it broke";
    let ask = json!({ "target": "ch_2", "justification": words });
    let pending = refund(ask).await;
    assert_eq!(pending.line(), "202 pending_approval");
    let approval = pending.text("/approvalId");
    home.done(&["approval", "deny", approval, "--as", "maria", "--note", "Zoe has it still"]);
    assert_eq!(refund(json!({ "target": "ch_3", "amountMinor": 50 })).await.line(), "200 refunded");
    gateway.terminate();
    assert_eq!(gateway.end().code, Some(0));
    (home, sandbox)
}

fn sql(database: &Path, statements: &str) {
    rusqlite::Connection::open(database).unwrap().execute_batch(statements).unwrap();
}

fn store(database: &Path) -> SqliteStore {
    SqliteStore::open(database, Arc::new(SystemClock::start())).unwrap()
}

async fn entries(database: &Path) -> Vec<AuditEntry> {
    let reads = Reads { audit: Some(AuditRange::WHOLE), ..Reads::default() };
    let seen = store(database).read(reads).await.unwrap();
    seen.audit.into_iter().map(|row| row.entry).collect()
}

/// The number of the first entry with this action.
async fn first(database: &Path, action: &str) -> usize {
    let entries = entries(database).await;
    entries.iter().position(|entry| entry.action == action).unwrap() + 1
}

struct Appends(Vec<AuditEntry>);

impl Judge for Appends {
    fn judge(&self, _: Timestamp, _: &Snapshot) -> Vec<Write> {
        self.0.iter().cloned().map(Write::Audit).collect()
    }
}

/// Seals the log anew from entry `n` on, as somebody would who knows how, with `forge` done to it.
async fn rewrite(database: &Path, n: usize, forge: fn(&mut AuditEntry)) {
    let mut later = entries(database).await.split_off(n - 1);
    forge(&mut later[0]);
    sql(database, &format!("DELETE FROM audit WHERE n >= {n}"));
    let appends = Arc::new(Appends(later));
    store(database).transact(Reads::default(), appends).await.unwrap();
}

/// What `audit verify` finds, each finding as its entry and its words.
fn verified(home: &Home, variables: &[(&str, &str)]) -> Vec<(Value, String)> {
    let online = if variables.is_empty() { "--json" } else { "--online" };
    let ran = home.run_with(
        &["audit", "verify", "--json", online][..3 + usize::from(online != "--json")],
        variables,
    );
    let findings = ran.json()["findings"].as_array().unwrap().clone();
    assert_eq!(ran.code, if findings.is_empty() { 0 } else { 3 }, "{ran:?}");
    let told = |one: &Value| (one["entry"].clone(), one["what"].as_str().unwrap().to_owned());
    findings.iter().map(told).collect()
}

/// Restores the file that a row of a table has altered.
fn restore(from: &Path, to: &Path) {
    for companion in ["-wal", "-shm"] {
        let mut path = to.as_os_str().to_owned();
        path.push(companion);
        drop(std::fs::remove_file(path));
    }
    std::fs::copy(from, to).unwrap();
}

#[tokio::test]
async fn tampering_with_a_file_is_found_and_named() {
    let (home, sandbox) = busy().await;
    let (database, good) = (home.database(), home.path("good.db"));
    std::fs::copy(&database, &good).unwrap();
    assert_eq!(verified(&home, &[]), []);
    let altered =
        |column: &str, value: &str| format!("UPDATE audit SET {column} = {value} WHERE n = 3");
    let actor = "the actor of audit entry 3 was altered";
    let event = "audit entry 3 was altered: its time, its action or one of its digests";
    let seal = |n: u8| {
        format!(
            "the seal of audit entry {n} does not hold: the entry was replaced, put in or moved"
        )
    };
    let (seal_3, seal_4, seal_5) = (seal(3), seal(4), seal(5));
    let text = |text: &str| text.to_owned();
    #[rustfmt::skip]
    let table: Vec<(String, Vec<&str>)> = vec![
        (altered("at", "at + 1"),                   vec![event]),
        (altered("action", "'policy.read'"),        vec![event]),
        (altered("actor", "'cli:nobody'"),          vec![actor]),
        (altered("subject", "'99'"),                vec!["the subject of audit entry 3 was altered"]),
        (altered("details", "'{}'"),                vec!["the details of audit entry 3 was altered"]),
        (altered("salt", "zeroblob(48)"),           vec![actor, "the subject of audit entry 3 was altered", "the details of audit entry 3 was altered"]),
        (altered("marks", "zeroblob(96)"),          vec![actor, "the subject of audit entry 3 was altered", "the details of audit entry 3 was altered", event]),
        (altered("digest", "zeroblob(32)"),         vec![event, &seal_3]),
        (altered("hash", "zeroblob(32)"),           vec![&seal_3]),
        (altered("details", "''"),                  vec!["the details of audit entry 3 is empty, and no entry says who emptied it"]),
        (text("DELETE FROM audit WHERE n = 3"),     vec!["audit entry 3 is missing"]),
        (text("DELETE FROM audit WHERE n IN (3, 4)"), vec!["audit entries 3 to 4 are missing"]),
        (text("DELETE FROM audit WHERE n = 1"),     vec!["audit entry 1 is missing"]),
        (text("UPDATE audit SET n = 99 WHERE n = 3; UPDATE audit SET n = 3 WHERE n = 4; UPDATE audit SET n = 4 WHERE n = 99"),
                                                    vec![&seal_3, &seal_4, &seal_5]),
        (text("INSERT INTO audit SELECT 0, at, actor, action, subject, details, salt, marks, digest, hash FROM audit WHERE n = 1"),
                                                    vec!["audit entry 0 stands where none can be"]),
        (text("INSERT INTO audit SELECT -1, at, actor, action, subject, details, salt, marks, digest, hash FROM audit WHERE n = 1"),
                                                    vec!["it cannot be read any further: "]),
        (text("PRAGMA ignore_check_constraints = 1; UPDATE audit SET digest = x'00' WHERE n = 3"),
                                                    vec!["it cannot be read any further: "]),
        // Digest and all: as an entry, it is whole.
        (text("UPDATE audit SET (at, actor, action, subject, details, salt, marks, digest) = (SELECT at, actor, action, subject, details, salt, marks, digest FROM audit WHERE n = 2) WHERE n = 3"),
                                                    vec![&seal_3]),
    ];
    for (statements, expected) in table {
        sql(&database, &statements);
        let found = verified(&home, &[]);
        let named =
            found.iter().zip(&expected).all(|((_, what), expected)| what.contains(expected));
        // What goes by the requests and the intents comes on top.
        let more = found
            .iter()
            .filter(|(_, what)| what.starts_with("entries ") && !expected.contains(&what.as_str()));
        assert!(named && found.len() == expected.len() + more.count(), "{statements}: {found:#?}");
        restore(&good, &database);
    }
    assert_eq!(verified(&home, &[]), [], "the copy is good");
    drop(sandbox);
}

/// Somebody who can seal can hide a change from the chain, but not from what went out with refunds.
#[tokio::test]
async fn a_log_sealed_anew_is_found_by_the_heads_that_went_out() {
    let (home, sandbox) = busy().await;
    let (database, good) = (home.database(), home.path("good.db"));
    std::fs::copy(&database, &good).unwrap();
    let url = format!("http://{}", sandbox.at);
    let online =
        [("STRIPE_SECRET_KEY", KEY), ("STRIPE_API_BASE", url.as_str()), ("GATEWAY_EPHEMERAL", "1")];
    assert_eq!(verified(&home, &online), []);
    assert_eq!(home.run(&["audit", "verify", "--online"]).code, 2, "without a key");

    // An entry before the first refund, and all after it.
    let made = first(&database, "agent.created").await;
    rewrite(&database, made, |entry| entry.actor = "cli:somebody(1)".to_owned()).await;
    let found = verified(&home, &[]);
    assert_eq!(found.len(), 3, "each refund's request disagrees: {found:#?}");
    let sent = first(&database, "intent.submitted").await - 1;
    assert_eq!(found[0].0, json!(sent));
    assert!(
        found[0].1.starts_with(&format!("entries 1 to {sent}, or some of them, were replaced")),
        "{found:#?}"
    );

    // And the requests with it: then only Stripe knows.
    let forge = "UPDATE intents SET request_form = NULL, request_version = NULL";
    sql(&database, forge);
    assert_eq!(verified(&home, &[]), []);
    let found = verified(&home, &online);
    assert_eq!(found.len(), 3, "{found:#?}");
    for (entry, what) in &found {
        assert!(
            entry.is_null() && what.contains("at Stripe carries a head that no entry has"),
            "{what}"
        );
    }
    restore(&good, &database);

    // Behind the last refund, only what the intents say is left to go by.
    let denied = first(&database, "intent.denied").await;
    rewrite(&database, denied, |entry| entry.actor = "cli:somebody(1)".to_owned()).await;
    let found = verified(&home, &[]);
    assert_eq!(found.len(), 1, "the refund after it: {found:#?}");
    let from = format!("entries {} to ", first(&database, "intent.settled").await + 1);
    assert!(found[0].1.starts_with(&from), "not those before the second refund: {found:#?}");
    restore(&good, &database);
    let newest = entries(&database).await.len();
    sql(&database, &format!("DELETE FROM audit WHERE n = {newest}"));
    let found = verified(&home, &[]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].1.contains(" is settled, and no entry says so"), "{found:#?}");
}

/// Runs the manual's own program on an export; how it ended, and what it said.
fn by_a_stranger(export: &str) -> (bool, String) {
    let manual = include_str!("../docs/audit.md");
    let (_, program) = manual.split_once("```python\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3, as the contract test needs it");
    child.stdin.take().unwrap().write_all(export.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let words = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(words).unwrap().trim_end().to_owned())
}

#[tokio::test]
async fn a_stranger_verifies_an_export() {
    let (home, _sandbox) = busy().await;
    let export = |arguments: &[&str]| home.done(&[&["audit", "export"], arguments].concat()).out;
    let whole = export(&[]);
    let newest: Value = serde_json::from_str(whole.lines().last().unwrap()).unwrap();
    let holds =
        format!("holds up to entry {}, head {}", newest["n"], newest["hash"].as_str().unwrap());
    assert_eq!(by_a_stranger(&whole), (true, holds.clone()));
    let ours = home.done(&["audit", "verify", "--json"]).json();
    assert_eq!((&ours["entries"], &ours["head"]), (&newest["n"], &newest["hash"]));

    let lines: Vec<&str> = whole.lines().collect();
    let without = |n: usize| [&lines[..n - 1], &lines[n..]].concat().join("\n");
    let with = |n: usize, from: &str, to: &str| {
        assert!(lines[n - 1].contains(from), "{}", lines[n - 1]);
        let line = lines[n - 1].replace(from, to);
        [&lines[..n - 1], &[line.as_str()], &lines[n..]].concat().join("\n")
    };
    let table = [
        ("later ones only", lines[3..].join("\n"), true, holds.as_str()),
        ("none", String::new(), true, "no entries"),
        ("actor", with(1, "\"cli:", "\"cli;"), false, "entry 1: the actor was altered"),
        ("action", with(1, "policy.applied", "policy.applauded"), false, "entry 1 was altered"),
        ("removed", without(3), false, "entries 3 to 3 are missing"),
        (
            "emptied",
            with(1, "\"subject\":\"1\"", "\"subject\":\"\""),
            false,
            "emptied, and no entry",
        ),
    ];
    for (name, export, holds, words) in table {
        let (held, said) = by_a_stranger(&export);
        assert_eq!((held, said.starts_with(words)), (holds, true), "{name}: {said}");
    }

    // What was emptied on record is good for a stranger, too.
    home.done(&["audit", "redact", "--user", "maria", "--as", "ada", "--note", "case 118"]);
    let after = export(&[]);
    assert!(!after.contains("maria"), "{after}");
    assert!(by_a_stranger(&after).0);
    assert_eq!(verified(&home, &[]), []);

    // As CSV: the same cells, under the names of the columns.
    let csv = export(&["--format", "csv"]);
    let mut csv = csv.lines();
    assert_eq!(
        csv.next(),
        Some("n,at,atMillis,actor,action,subject,details,salt,marks,digest,hash")
    );
    assert_eq!(csv.count(), after.lines().count());
    assert_eq!(export(&["--since", "2999-01-01"]), "");
    assert_eq!(export(&["--until", "2999-01-01"]), after);
    assert_eq!(home.run(&["audit", "export", "--since", "soon"]).code, 2);
}

/// After a deletion request, the words are in no file of the store.
#[tokio::test]
async fn what_was_emptied_is_in_no_file() {
    let (home, _sandbox) = busy().await;
    let holds = |word: &str| {
        let bytes = std::fs::read(home.database()).unwrap();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    };
    assert!(holds("Zoe"));
    let redact = |as_: &str, more: &[&str]| {
        home.run(
            &[&["audit", "redact", "--as", as_, "--note", "case 119", "--json"], more].concat(),
        )
    };
    assert_eq!(redact("maria", &["--charge", "ch_2"]).code, 1, "not an owner");
    assert_eq!(redact("ada", &["--charge", "ch_9"]).code, 1, "nothing of it");
    assert_eq!(redact("ada", &[]).code, 2, "of what?");
    let done = redact("ada", &["--charge", "ch_2"]);
    assert_eq!((done.code, done.json()), (0, json!({ "entries": 1, "intents": 1 })));
    assert!(!holds("Zoe"), "neither note nor words");
    let entry = redact("ada", &["--entry", "1", "--field", "actor", "--field", "details"]);
    assert_eq!((entry.code, entry.json()), (0, json!({ "entries": 1, "intents": 0 })));
    assert_eq!(verified(&home, &[]), []);
    let shown = home.done(&["intent", "list", "--state", "denied", "--json"]).json();
    assert_eq!(
        shown[0]["reasons"][0]["message"],
        "A person denied this refund; the note was emptied."
    );
}
