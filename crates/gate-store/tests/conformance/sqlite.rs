//! What only a file can do: outlast the process, be shared by two, be damaged.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use gate_core::State;
use gate_store::{Reads, Snapshot, SqliteStore, Store, StoreError, Write, verify};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::races::{race, spent};
use crate::world::{
    Says, StillClock, World, agent, audit, day, everything, file_in, insert, intent_with,
    of_intent, reserve, run,
};

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, StillClock::new())
}

async fn write(store: &SqliteStore, writes: Vec<Write>) -> Result<(), StoreError> {
    let judge = Says(move |_, _: &Snapshot| writes.clone());
    store.transact(Reads::default(), Arc::new(judge)).await
}

#[test]
fn a_store_that_is_opened_again_has_everything() {
    run(async {
        let dir = TempDir::new().unwrap();
        let path = file_in(&dir);
        let store = open(&path).unwrap();
        let intent = intent_with("int_1", State::Submitted, |_| {});
        let writes = vec![
            Write::PutAgent(agent(1)),
            insert(intent),
            reserve("int_1", 5, vec![day(1, 0)]),
            audit(1),
        ];
        write(&store, writes).await.unwrap();
        let before = everything(&store).await;
        drop(store);
        let files = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files, 1, "the log is folded into the file");
        let store = open(&path).unwrap();
        assert_eq!(everything(&store).await, before);
        write(&store, vec![audit(2)]).await.unwrap();
        let seen = store
            .read(Reads { audit: Some(gate_store::AuditRange::WHOLE), ..Reads::default() })
            .await
            .unwrap();
        assert_eq!(verify(&seen.audit), Ok(seen.head));
        assert_eq!(seen.head.n, 2);
        assert_eq!(store.commits(), 1, "of this process");
    });
}

#[test]
fn only_the_owner_may_read_the_file() {
    run(async {
        let dir = TempDir::new().unwrap();
        let store = open(&file_in(&dir)).unwrap();
        write(&store, vec![audit(1)]).await.unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", entry.path().display());
        }
    });
}

#[test]
fn two_stores_on_one_file_see_and_wake_each_other() {
    run(async {
        let dir = TempDir::new().unwrap();
        let (one, two) = (open(&file_in(&dir)).unwrap(), open(&file_in(&dir)).unwrap());
        for (n, (writer, reader)) in (1..).zip([(&one, &two), (&two, &one), (&one, &two)]) {
            let mut changes = reader.changes();
            changes.mark();
            write(writer, vec![audit(n)]).await.unwrap();
            let seen = reader
                .read(Reads { audit: Some(gate_store::AuditRange::WHOLE), ..Reads::default() })
                .await
                .unwrap();
            assert_eq!(verify(&seen.audit), Ok(seen.head));
            assert_eq!(seen.head.n, u64::from(n));
            changes.changed().await;
        }
        assert_eq!((one.commits(), two.commits()), (2, 1));
    });
}

/// F8: requests that race on a cap.
#[test]
fn a_cap_of_fifty_holds_against_many_at_once() {
    run(async {
        let dir = TempDir::new().unwrap();
        let stores = [open(&file_in(&dir)).unwrap(), open(&file_in(&dir)).unwrap()];
        write(&stores[0], vec![Write::PutAgent(agent(1))]).await.unwrap();
        let stores = stores.map(|store| -> Arc<dyn Store> { Arc::new(store) });
        for answer in race(&stores, 64, 50).await {
            answer.unwrap();
        }
        assert_eq!(spent(&stores).await, [50, 50]);
        let commits: u64 = stores.iter().map(|store| store.commits()).sum();
        assert!(commits < 51, "{commits} commits: those that wait are committed together");
    });
}

#[test]
fn requests_of_one_batch_fail_alone() {
    run(async {
        let world = World::sqlite().with_agents().await;
        let asked = (0..40).map(|n| {
            let id = format!("int_{}", n / 2);
            let writes = vec![audit(n), insert(intent_with(&id, State::Submitted, |_| {}))];
            world.try_write(writes)
        });
        let answers = futures_util::future::join_all(asked).await;
        for (n, answer) in answers.iter().enumerate() {
            let good = n % 2 == 0;
            assert_eq!(answer.is_ok(), good, "{n}: {answer:?}");
        }
        let seen = world
            .read(Reads { audit: Some(gate_store::AuditRange::WHOLE), ..Reads::default() })
            .await;
        assert_eq!((seen.head.n, verify(&seen.audit)), (20, Ok(seen.head)));
    });
}

#[test]
fn dropping_makes_what_is_queued() {
    run(async {
        let dir = TempDir::new().unwrap();
        let store = open(&file_in(&dir)).unwrap();
        let judge = |n| Arc::new(Says(move |_, _: &Snapshot| vec![audit(n)]));
        // Each is polled once, and so queued; then nobody waits for it any more.
        let mut asked: Vec<_> =
            (0..100).map(|n| store.transact(Reads::default(), judge(n))).collect();
        for ask in &mut asked {
            let _ = futures_util::poll!(ask);
        }
        drop(asked);
        drop(store);
        let store = open(&file_in(&dir)).unwrap();
        let seen = store
            .read(Reads { audit: Some(gate_store::AuditRange::WHOLE), ..Reads::default() })
            .await
            .unwrap();
        assert_eq!((seen.head.n, verify(&seen.audit)), (100, Ok(seen.head)));
    });
}

#[test]
fn what_does_not_fit_the_queue_is_refused_at_once() {
    run(async {
        let dir = TempDir::new().unwrap();
        let store = open(&file_in(&dir)).unwrap();
        let (go, wait) = std::sync::mpsc::sync_channel::<()>(1);
        let wait = std::sync::Mutex::new(wait);
        let slow = Says(move |_, _: &Snapshot| {
            wait.lock().unwrap().recv().unwrap();
            vec![]
        });
        let mut asked = vec![store.transact(Reads::default(), Arc::new(slow))];
        assert!(futures_util::poll!(&mut asked[0]).is_pending());
        let refused = loop {
            let judge = Says(|_, _: &Snapshot| vec![audit(1)]);
            let mut ask = store.transact(Reads::default(), Arc::new(judge));
            match futures_util::poll!(&mut ask) {
                std::task::Poll::Pending => asked.push(ask),
                std::task::Poll::Ready(answer) => break answer.unwrap_err(),
            }
        };
        assert!(refused.to_string().contains("too many requests are waiting"), "{refused}");
        assert!(asked.len() > 1000, "{} fit", asked.len());
        go.send(()).unwrap();
        let good = futures_util::future::join_all(asked).await;
        assert!(good.iter().all(Result::is_ok), "whoever fits is answered");
        let head = store.read(Reads::default()).await.unwrap().head;
        assert_eq!(usize::try_from(head.n).unwrap(), good.len() - 1);
        assert!(store.commits() < 20, "{} commits for all of them", store.commits());
    });
}

#[test]
fn a_judge_that_panics_ends_the_writer_and_says_so() {
    run(async {
        let world = World::sqlite().with_agents().await;
        let before = world.everything().await;
        let panics = Says(|_, _: &Snapshot| panic!("a judge of the tests panics"));
        let asked = [
            world.store.transact(Reads::default(), Arc::new(panics)).await,
            world.try_write(vec![audit(1)]).await,
        ];
        for answer in asked {
            let text = answer.unwrap_err().to_string();
            assert!(text.contains("restart the process"), "{text}");
        }
        assert_eq!(world.everything().await, before, "readers go on; nothing was written");
        // From then on the store says so to whoever waits for it, and to whoever asks for the time.
        world.store.changes().lost().await;
        while world.store.now().await.is_ok() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    type Spoil = fn(&Path);
    let table: [(&str, Spoil, &str); 4] = [
        ("good", |_| {}, ""),
        (
            "not a database",
            |path| std::fs::write(path, "x".repeat(5000)).unwrap(),
            "restore a backup",
        ),
        (
            "another migration",
            |path| spoil(path, "UPDATE migrations SET checksum = 'edited'"),
            "migration 1 was applied with other content",
        ),
        (
            "a newer migration",
            |path| spoil(path, "INSERT INTO migrations (number, checksum) VALUES (99, 'new')"),
            "start the newer version",
        ),
    ];
    for (name, spoil, expected) in table {
        let dir = TempDir::new().unwrap();
        drop(open(&file_in(&dir)).unwrap());
        spoil(&file_in(&dir));
        let found = open(&file_in(&dir)).map_or_else(|error| error.to_string(), |_| String::new());
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{name}: {found}"
        );
        assert!(found.is_empty() || found.contains("gate.db"), "{name}: {found}");
    }
    let dir = TempDir::new().unwrap();
    let found = open(&dir.path().join("none/gate.db")).err().unwrap().to_string();
    assert!(found.contains("see that its directory exists"), "{found}");
}

fn spoil(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "ignore_check_constraints", true).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[test]
fn a_cell_that_cannot_be_read_is_named_and_not_shown() {
    let table = [
        // what was done to the file                             what is named
        ("UPDATE intents SET state = 'secret'", "table intents, row int_1, column state"),
        ("UPDATE intents SET charge_id = 'secret'", "table intents, row int_1, column charge_id"),
        ("UPDATE intents SET reasons = 'secret'", "table intents, row int_1, column reasons"),
        (
            "UPDATE intents SET reasons = '[{\"code\":\"secret\",\"message\":\"\"}]'",
            "table intents, row int_1, column reasons",
        ),
        ("UPDATE intents SET currency = 'secret'", "table intents, row int_1, column currency"),
        ("UPDATE intents SET amount_minor = -1", "table intents, row int_1, column amount_minor"),
        ("UPDATE intents SET rate_kind = 'usd'", "table intents, row int_1, column rate_kind"),
        ("UPDATE intents SET fence = -1", "table intents, row int_1, column fence"),
        (
            "UPDATE intents SET approval_id = 'secret'",
            "table intents, row int_1, column approval_id",
        ),
        ("UPDATE intents SET request_form = 'secret'", "column request_version"),
        ("UPDATE intents SET refund_status = 'secret'", "column refund_status"),
        ("UPDATE agents SET name = 'Secret!'", "table agents, row agt_1, column name"),
        ("UPDATE agent_keys SET hash = x'00'", "table agent_keys"),
    ];
    for (sql, expected) in table {
        run(async {
            let dir = TempDir::new().unwrap();
            let store = open(&file_in(&dir)).unwrap();
            let intent = intent_with("int_1", State::Submitted, |_| {});
            write(&store, vec![Write::PutAgent(agent(1)), insert(intent)]).await.unwrap();
            spoil(&file_in(&dir), sql);
            let reads = Reads { agents: true, ..of_intent("int_1") };
            let read = store.read(reads.clone()).await.unwrap_err();
            let judge = Says(|_, _: &Snapshot| vec![audit(1)]);
            let wrote = store.transact(reads, Arc::new(judge)).await.unwrap_err();
            for error in [read, wrote] {
                let text = error.to_string();
                assert!(matches!(error, StoreError::Corrupt(_)), "{sql}: {text}");
                assert!(text.contains(expected), "{sql}: {text}");
                assert!(!text.to_lowercase().contains("secret"), "{sql}: {text}");
            }
        });
    }
}
