//! Brings the schema of a file up to this program's.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::connection::fault;
use crate::database::at_once;
use crate::migrations;
use crate::port::StoreError;

/// Applies what is missing, inside SQLite's write lock. `path` is only for messages.
///
/// # Errors
///
/// As [`migrations::migrate`]; nothing was changed in any case.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
    at_once(migrations::migrate(&*transaction, &path.display().to_string()))?;
    transaction.commit().map_err(fault)
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
                (name, sql.split_whitespace().collect())
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
        whole.execute_batch(include_str!("../schema.sql")).unwrap();
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
                 content than this program has; start the version that made it, or restore a backup",
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
