//! How SQLite goes about every statement, and what a full disk does.

use std::path::Path;
use std::time::Duration;

use gate_core::Deadline;

use super::*;
use crate::audit::{AuditEntry, verify};
use crate::port::Write;
use crate::statements::{WHOLE_TABLES, statements};

fn empty_store() -> (tempfile::TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gate.db");
    make_file(&path).unwrap();
    let mut connection = connect(&path).unwrap();
    migrate::migrate(&mut connection, &path).unwrap();
    (dir, connection)
}

#[test]
fn every_statement_stays_prepared() {
    assert!(statements().len() < STATEMENTS_MAX, "they would push each other out");
}

#[test]
fn no_statement_goes_through_a_whole_table() {
    let (_dir, connection) = empty_store();
    for (name, sql) in statements() {
        if name == "migrations_table" {
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
    let seen = at_once(read::snapshot(&connection, Timestamp::from_millis(0), &reads)).unwrap();
    verify(&seen.audit).unwrap().n
}
