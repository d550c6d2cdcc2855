//! How SQLite goes about every statement, and what a full disk does.

use std::fs;
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
            salt: [0; 48],
        })]
    }
}

/// Has a writer over `connection` make entries of these sizes in one batch.
fn write(connection: Connection, sizes: &[usize]) -> (Vec<Result<(), StoreError>>, u64) {
    let judges = sizes.iter().map(|size| Arc::new(Notes(*size)) as Arc<dyn Judge>);
    write_all(connection, judges.collect(), None)
}

/// Has a writer over `connection` make one batch.
fn write_all(
    connection: Connection,
    judges: Vec<Arc<dyn Judge>>,
    room: Option<Room>,
) -> (Vec<Result<(), StoreError>>, u64) {
    let (queue, waiting) = sync_channel(judges.len());
    let answers: Vec<_> = judges
        .into_iter()
        .map(|judge| {
            let (answer, answered) = oneshot::channel();
            queue.try_send(Request { reads: Reads::default(), judge, answer }).ok().unwrap();
            answered
        })
        .collect();
    drop(queue);
    let commits = Arc::new(AtomicU64::new(0));
    let (changed, _changes) = Changes::channel();
    let writer = Writer::new(connection, Arc::new(NoTime), commits.clone(), changed, room).unwrap();
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

/// A request that reserves spend: the beginning of a refund.
struct Begins;

impl Judge for Begins {
    fn judge(&self, _: Timestamp, _: &Snapshot) -> Vec<Write> {
        let intent = gate_core::IntentId::parse("int_1").unwrap();
        vec![Write::Reserve { intent, usd: gate_money::MicroUsd::ZERO, windows: Vec::new() }]
    }
}

/// F31: the room is given up for outcomes alone, and kept again once the disk has some.
#[test]
fn room_is_kept_for_outcomes() {
    let (dir, connection) = empty_store();
    let path = dir.path().join("gate.db");
    let file = dir.path().join("gate.db-room");
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    let check = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    connection.pragma_update_and_check(None, "max_page_count", pages + 10, check).unwrap();
    let room = Room::beside(&path);
    let (is_short, kept) = (room.state(), || fs::metadata(&file).map_or(0, |file| file.len()));
    assert_eq!((is_short.load(Ordering::Acquire), kept()), (false, 4 * 1024 * 1024));

    let notes = |size| Arc::new(Notes(size)) as Arc<dyn Judge>;
    let (answers, _) = write_all(connection, vec![notes(1_000_000)], Some(room));
    assert!(matches!(answers[..], [Err(StoreError::Full(_))]), "{answers:?}");
    assert_eq!((is_short.load(Ordering::Acquire), kept()), (true, 0), "given up");

    let mut room = Room::beside(&path);
    assert!(room.give_up());
    let batch = vec![Arc::new(Begins) as Arc<dyn Judge>, notes(10)];
    let (answers, commits) = write_all(connect(&path).unwrap(), batch, Some(room));
    let [Err(StoreError::Unavailable(text)), Ok(())] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(text, "the disk is full: only outcomes are recorded until there is room again");
    assert_eq!((commits, entries(&path)), (1, 1), "the outcome is there");

    let mut room = Room::beside(&path);
    assert!(room.give_up() && !room.give_up());
    room.take_back(Duration::from_secs(4));
    assert!(room.is_given_up(), "it is not tried all the time");
    room.take_back(Duration::from_secs(5));
    assert_eq!((room.is_given_up(), kept()), (false, 4 * 1024 * 1024));
}

/// How many audit entries are in the file; they must hold together.
fn entries(path: &Path) -> u64 {
    let reads = Reads { audit: Some(crate::audit::AuditRange::WHOLE), ..Reads::default() };
    let connection = connect(path).unwrap();
    let seen = at_once(read::snapshot(&connection, Timestamp::from_millis(0), &reads)).unwrap();
    verify(&seen.audit).unwrap().n
}
