//! Brings a database to this program's schema: numbered steps that only add, each applied once and
//! never edited afterwards, all in one transaction.

use std::path::Path;

use ring::digest::{SHA256, digest};
use rusqlite::{Connection, TransactionBehavior, params};

use super::rows::{fault, rows};
use crate::port::StoreError;

/// Every step with its number, in order.
const STEPS: [(i64, &str); 2] = [
    (1, include_str!("migrations/0001_begin.sql")),
    (3, include_str!("migrations/0003_gateways.sql")),
];

/// Applies what is missing; nothing, when nothing is. `path` is only for messages.
///
/// # Errors
///
/// [`StoreError::Corrupt`] when a step was applied with other content than this program has;
/// [`StoreError::Unavailable`] when a newer program made the schema, or it cannot be applied.
/// Nothing was changed in any case.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    const TABLE: &str = include_str!("sql/migrations_table.sql");
    const APPLIED: &str = include_str!("sql/migrations.sql");
    const APPLY: &str = include_str!("sql/insert_migration.sql");
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
    transaction.execute_batch(TABLE).map_err(fault)?;
    let applied = rows(&transaction, APPLIED, "migrations", [], |cells| {
        Ok((cells.integer("number")?, cells.owned("checksum")?))
    })?;
    let mut applied = applied.into_iter();
    for (number, step) in STEPS {
        let checksum = checksum(step);
        match applied.next() {
            None => {
                transaction.execute_batch(step).map_err(fault)?;
                transaction.execute(APPLY, params![number, checksum]).map_err(fault)?;
            }
            Some(same) if same == (number, checksum) => {}
            Some(_) => {
                return Err(StoreError::Corrupt(format!(
                    "{}: migration {number} was applied with other content than this program has; \
                     start the version that made the file, or restore a backup",
                    path.display()
                )));
            }
        }
    }
    if let Some((number, _)) = applied.next() {
        return Err(StoreError::Unavailable(format!(
            "{}: its schema is of a newer version (migration {number}) than this program knows; \
             start the newer version, or restore a backup from before it",
            path.display()
        )));
    }
    transaction.commit().map_err(fault)
}

fn checksum(step: &str) -> String {
    let digest = digest(&SHA256, step.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every object of a schema with its text, whatever the spaces and comments in it.
    fn objects(connection: &Connection) -> Vec<(String, String)> {
        let mut statement = connection
            .prepare("SELECT name, COALESCE(sql, '') FROM sqlite_master ORDER BY name")
            .unwrap();
        let objects =
            statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).unwrap();
        objects
            .map(|object| {
                let (name, sql) = object.unwrap();
                (name, sql.split_whitespace().collect::<Vec<_>>().join(" "))
            })
            .collect()
    }

    fn migrated() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, Path::new("gate.db")).unwrap();
        connection
    }

    #[test]
    fn all_migrations_together_are_the_schema() {
        let whole = Connection::open_in_memory().unwrap();
        whole.execute_batch(include_str!("schema.sql")).unwrap();
        assert_eq!(objects(&migrated()), objects(&whole));
    }

    #[test]
    fn what_was_applied_is_not_applied_again_and_not_trusted_blindly() {
        let table: [(&str, &str, &str); 4] = [
            // what was done to the file, and what comes of it
            ("nothing", "SELECT 1", "good"),
            (
                "another step under its number",
                "UPDATE migrations SET checksum = 'x' WHERE number = 1",
                "the store holds something unreadable: gate.db: migration 1 was applied with other \
                 content than this program has; start the version that made the file, or restore a \
                 backup",
            ),
            (
                "a step that this program lacks",
                "INSERT INTO migrations (number, checksum) VALUES (99, 'x')",
                "the store cannot be used: gate.db: its schema is of a newer version (migration 99) \
                 than this program knows; start the newer version, or restore a backup from before \
                 it",
            ),
            (
                "its first step missing from the list",
                "DELETE FROM migrations WHERE number = 1",
                "the store holds something unreadable: gate.db: migration 1 was applied with other \
                 content",
            ),
        ];
        for (name, done, expected) in table {
            let mut connection = migrated();
            connection.execute_batch(done).unwrap();
            let before = (objects(&connection), connection.total_changes());
            let found = migrate(&mut connection, Path::new("gate.db"));
            let found = found.map_or_else(|error| error.to_string(), |()| "good".to_owned());
            let after = (objects(&connection), connection.total_changes());
            assert!(found.starts_with(expected), "{name}: {found}");
            assert_eq!(after, before, "{name}");
        }
    }
}
