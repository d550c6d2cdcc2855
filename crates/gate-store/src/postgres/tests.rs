//! The schema and its migrations in PostgreSQL, and how it goes about every statement.

use gate_cluster::{Cluster, Database};

use super::*;
use crate::database::Database as _;
use crate::statements::{WHOLE_TABLES, statements};

/// Every column, constraint and index, in order.
const OBJECTS: &str = "
    SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name
    FROM information_schema.columns WHERE table_schema = 'public'
    ORDER BY table_name, ordinal_position;
    SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace ORDER BY conrelid::regclass::text, conname;
    SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname";

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

async fn open(database: &Database) -> Result<PostgresStore, StoreError> {
    PostgresStore::open(&PostgresAddress::parse(&database.url).unwrap()).await
}

fn migrated() -> Database {
    let database = Cluster::shared().database();
    run(async { open(&database).await.map(drop).unwrap() });
    database
}

#[test]
fn all_migrations_together_are_the_schema() {
    let (cluster, whole) = (Cluster::shared(), Cluster::shared().database());
    let schema = Session::dialect(include_str!("../schema.sql")).into_owned();
    cluster.sql(&whole.name, &schema);
    let expected = cluster.sql(&whole.name, OBJECTS);
    let texts = expected.lines().filter(|line| line.contains("|text|"));
    assert!(texts.clone().count() > 9 && texts.clone().all(|line| line.ends_with("|C")));
    assert_eq!(cluster.sql(&migrated().name, OBJECTS), expected);
}

#[test]
fn what_was_applied_is_not_applied_again_and_not_trusted_blindly() {
    let table: [(&str, &str, &str); 4] = [
        // what was done to the database, and what comes of it
        ("nothing", "SELECT 1", "good"),
        (
            "another step under its number",
            "UPDATE migrations SET checksum = 'x' WHERE number = 1",
            "migration 1 was applied with other content than this program has; start the version \
             that made it, or restore a backup",
        ),
        (
            "a step that this program lacks",
            "INSERT INTO migrations (number, checksum) VALUES (1000, 'x')",
            "its schema is of a newer version (migration 1000) than this program knows; start the \
             newer version, or restore a backup from before it",
        ),
        (
            "its steps missing from the list",
            "DELETE FROM migrations",
            "relation \"agents\" already exists; see PostgreSQL's log",
        ),
    ];
    let cluster = Cluster::shared();
    for (name, done, expected) in table {
        let database = migrated();
        cluster.sql(&database.name, done);
        let before = cluster.sql(&database.name, OBJECTS);
        let found = run(open(&database));
        let found = found.map_or_else(|error| error.to_string(), |_| "good".to_owned());
        assert!(found.ends_with(expected), "{name}: {found}");
        assert_eq!(cluster.sql(&database.name, OBJECTS), before, "{name}");
    }
}

#[test]
fn a_look_changes_nothing() {
    let (cluster, empty) = (Cluster::shared(), Cluster::shared().database());
    let look = |database: &Database| {
        let address = PostgresAddress::parse(&database.url).unwrap();
        run(async { PostgresStore::look(&address).await.unwrap() })
    };
    let known = migrations::newest_known();
    assert_eq!(look(&empty), PostgresState { schema: 0, known });
    assert_eq!(cluster.sql(&empty.name, OBJECTS), "");
    assert_eq!(look(&migrated()), PostgresState { schema: known, known });
}

#[test]
fn eight_that_start_at_once_migrate_once() {
    let database = Cluster::shared().database();
    run(async {
        let starters = (0..8).map(|_| open(&database));
        let stores = futures_util::future::join_all(starters).await;
        for store in &stores {
            assert!(store.is_ok(), "{:?}", store.as_ref().err());
        }
    });
    let applied = Cluster::shared().sql(&database.name, "SELECT number FROM migrations");
    assert_eq!(applied.lines().count(), usize::try_from(migrations::newest_known()).unwrap());
}

/// With whole tables forbidden, PostgreSQL still goes through one where no index will do.
#[test]
fn no_statement_goes_through_a_whole_table() {
    let database = migrated();
    let mut script =
        "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan;".to_owned();
    let all: Vec<_> =
        statements().into_iter().filter(|(name, _)| name != "migrations_table").collect();
    for (name, sql) in &all {
        let count = (1..99).take_while(|n| sql.contains(&format!("${n}"))).count();
        let nulls = vec!["NULL"; count].join(", ");
        let execute = if count == 0 { String::new() } else { format!("({nulls})") };
        script.push_str(&format!(
            "PREPARE s_{name} AS {sql} SELECT '== {name}'; EXPLAIN EXECUTE s_{name}{execute};"
        ));
    }
    let plans = Cluster::shared().sql(&database.name, &script);
    let plans: Vec<_> = plans.split("== ").skip(1).collect();
    assert_eq!(plans.len(), all.len());
    for plan in plans {
        let (name, steps) = plan.split_once('\n').unwrap();
        let scans = steps.contains("Seq Scan");
        assert!(!scans || WHOLE_TABLES.contains(&name), "{plan}");
    }
}
