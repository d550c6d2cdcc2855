//! Every statement is held against the rules of SQL here; then what a full disk does.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use gate_core::Deadline;

use super::*;
use crate::audit::{AuditEntry, verify};
use crate::port::Write;

const SQL_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sqlite/sql");

/// Statements that read a whole table because that is what they are for. None is part of a decision
/// but the stops, of which there are as many as a person made.
const WHOLE_TABLES: [&str; 9] = [
    "agents",
    "audit",
    "gateways",
    "key_holders",
    "migrations",
    "reservations",
    "stops",
    "users",
    "windows",
];

/// Each statement's name and text.
fn statements() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(SQL_DIR).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        all.push((name, fs::read_to_string(path).unwrap()));
    }
    all
}

fn empty_store() -> (tempfile::TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gate.db");
    make_file(&path).unwrap();
    let mut connection = connect(&path).unwrap();
    migrations::migrate(&mut connection, &path).unwrap();
    (dir, connection)
}

#[test]
fn no_statement_goes_through_a_whole_table() {
    let (_dir, connection) = empty_store();
    for (name, sql) in statements() {
        if name == "migrations_table" || name == "data_version" {
            continue;
        }
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let unbound = vec![rusqlite::types::Value::Null; plan.parameter_count()];
        let steps = plan
            .query_map(rusqlite::params_from_iter(unbound), |row| row.get::<_, String>("detail"))
            .unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        let scans = |step: &String| step.starts_with("SCAN ") && step != "SCAN CONSTANT ROW";
        let found = steps.iter().any(scans);
        assert_eq!(found, WHOLE_TABLES.contains(&name.as_str()), "{name}: {steps:?}");
    }
}

#[test]
fn every_file_is_one_statement_with_its_parameters_in_order() {
    let all = statements();
    assert!(all.len() <= STATEMENTS_MAX, "{} statements would push each other out", all.len());
    for (name, sql) in all {
        assert_eq!(sql.find(';'), Some(sql.len() - 2), "{name} is one statement");
        let mut seen = BTreeSet::new();
        for rest in sql.split('$').skip(1) {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let number: usize = digits.parse().unwrap();
            // SQLite counts by first appearance, PostgreSQL by the number: both must agree.
            assert!(seen.contains(&number) || number == seen.len() + 1, "{name}: ${number}");
            seen.insert(number);
        }
    }
}

struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep_until(&self, _: Deadline) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

struct Notes(usize);

impl Judge for Notes {
    fn judge(&self, now: Timestamp, _: &Snapshot) -> Vec<Write> {
        vec![Write::Audit(AuditEntry {
            at: now,
            actor: "gateway".to_owned(),
            action: "intent.settled".to_owned(),
            subject: "int_1".to_owned(),
            details: "x".repeat(self.0),
            salt: [0; 16],
        })]
    }
}

/// Has a writer over `connection` make entries of these sizes in one batch.
fn write(connection: Connection, sizes: &[usize]) -> (Vec<Result<(), StoreError>>, u64) {
    let (queue, waiting) = sync_channel(sizes.len());
    let answers: Vec<_> = sizes
        .iter()
        .map(|size| {
            let (answer, answered) = oneshot::channel();
            let judge = Arc::new(Notes(*size));
            queue.try_send(Request { reads: Reads::default(), judge, answer }).ok().unwrap();
            answered
        })
        .collect();
    drop(queue);
    let commits = Arc::new(AtomicU64::new(0));
    let (changed, _changes) = Changes::channel();
    let writer = Writer::new(connection, Arc::new(NoTime), commits.clone(), changed).unwrap();
    writer.run(&waiting);
    let answers = answers.into_iter().map(|answer| answer.blocking_recv().unwrap()).collect();
    (answers, commits.load(Ordering::Acquire))
}

/// F31: nothing durable, nothing answered but that.
#[test]
fn a_full_disk_takes_the_whole_batch_and_nothing_else() {
    let (dir, connection) = empty_store();
    let path = dir.path().join("gate.db");
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    let limit = |connection: &Connection| {
        let check = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        connection.pragma_update_and_check(None, "max_page_count", pages + 10, check).unwrap();
    };
    limit(&connection);
    let (answers, commits) = write(connection, &[10, 1_000_000, 10]);
    for answer in answers {
        let text = answer.unwrap_err().to_string();
        let expected = "the store cannot be used: database or disk is full; make room on its disk";
        assert_eq!(text, expected);
    }
    assert_eq!((commits, entries(&path)), (0, 0));
    let connection = connect(&path).unwrap();
    limit(&connection);
    let (answers, commits) = write(connection, &[10, 10]);
    assert!(answers.iter().all(Result::is_ok), "there is room for these: {answers:?}");
    assert_eq!((commits, entries(&path)), (1, 2));
}

/// How many audit entries are in the file; they must hold together.
fn entries(path: &Path) -> u64 {
    let reads = Reads { audit: true, ..Reads::default() };
    let connection = connect(path).unwrap();
    let seen = read::snapshot(&connection, Timestamp::from_millis(0), &reads).unwrap();
    verify(&seen.audit).unwrap().n
}
