//! Brings a database to this program's schema: numbered steps that only add, each applied once and
//! never edited afterwards, all in one transaction. A step is written once, in SQLite's words, and
//! each database says how it puts them ([`Database::dialect`]).

use ring::digest::{SHA256, digest};

use crate::database::{Database, params};
use crate::port::StoreError;
use crate::rows::rows;

/// Every step, in order; the first is number 1.
const STEPS: [&str; 4] = [
    include_str!("migrations/0001_begin.sql"),
    include_str!("migrations/0002_gateways.sql"),
    include_str!("migrations/0003_holds.sql"),
    include_str!("migrations/0004_webhooks.sql"),
];

const APPLIED: &str = include_str!("sql/migrations.sql");

/// Applies what is missing; nothing, when nothing is. Whoever calls has begun a transaction in which
/// nobody else migrates, and commits it when this succeeds. `place` is only for messages.
///
/// # Errors
///
/// [`StoreError::Corrupt`] when a step was applied with other content than this program has;
/// [`StoreError::Unavailable`] when a newer program made the schema, or it cannot be applied.
pub(crate) async fn migrate<D: Database>(database: &D, place: &str) -> Result<(), StoreError> {
    const TABLE: &str = include_str!("sql/migrations_table.sql");
    const APPLY: &str = include_str!("sql/insert_migration.sql");
    database.define(TABLE).await?;
    let applied = rows(database, APPLIED, "migrations", params![], |cells| {
        Ok((cells.integer("number")?, cells.owned("checksum")?))
    });
    let mut applied = applied.await?.into_iter();
    for (number, step) in (1_i64..).zip(STEPS) {
        let checksum = checksum(&D::dialect(step));
        match applied.next() {
            None => {
                database.define(step).await?;
                database.run("a migration", APPLY, &params![number, &checksum]).await?;
            }
            Some(same) if same == (number, checksum) => {}
            Some(_) => {
                return Err(StoreError::Corrupt(format!(
                    "{place}: migration {number} was applied with other content than this program \
                     has; start the version that made it, or restore a backup"
                )));
            }
        }
    }
    match applied.next() {
        None => Ok(()),
        Some((number, _)) => Err(StoreError::Unavailable(format!(
            "{place}: its schema is of a newer version (migration {number}) than this program \
             knows; start the newer version, or restore a backup from before it"
        ))),
    }
}

/// The newest step that was applied to a database that has a list of them; 0 for none.
///
/// # Errors
///
/// [`StoreError`].
pub(crate) async fn newest_applied(database: &impl Database) -> Result<u64, StoreError> {
    let numbers = rows(database, APPLIED, "migrations", params![], |cells| cells.count("number"));
    Ok(numbers.await?.pop().unwrap_or_default())
}

/// The newest step that there is.
pub(crate) fn newest_known() -> u64 {
    u64::try_from(STEPS.len()).unwrap_or(u64::MAX)
}

fn checksum(step: &str) -> String {
    let digest = digest(&SHA256, step.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
