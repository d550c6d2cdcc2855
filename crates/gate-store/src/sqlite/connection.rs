//! SQLite as a [`Database`]: every answer is there at once.

use std::borrow::Cow;
use std::future::ready;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ffi, params_from_iter};

use crate::database::{Cells, Database, Row, Value};
use crate::port::StoreError;

impl Database for Connection {
    fn rows<T: Send>(
        &self,
        sql: &'static str,
        table: &'static str,
        params: &[Value<'_>],
        map: impl Fn(&mut Cells<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        ready(rows(self, sql, table, params, map))
    }

    fn run(
        &self,
        write: &'static str,
        sql: &'static str,
        params: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send {
        let changed = self
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params_from_iter(params)));
        ready(match changed {
            Ok(rows) => Ok(u64::try_from(rows).unwrap_or(u64::MAX)),
            Err(error) => Err(refusal(write, error)),
        })
    }

    fn define(&self, statements: &str) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(self.execute_batch(statements).map_err(fault))
    }

    fn dialect(statements: &str) -> Cow<'_, str> {
        Cow::Borrowed(statements)
    }
}

fn rows<T>(
    connection: &Connection,
    sql: &str,
    table: &'static str,
    params: &[Value<'_>],
    map: impl Fn(&mut Cells<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let mut rows = statement.query(params_from_iter(params)).map_err(fault)?;
    let mut mapped = Vec::new();
    while let Some(row) = rows.next().map_err(fault)? {
        mapped.push(map(&mut Cells::new(row, table))?);
    }
    Ok(mapped)
}

impl Row for rusqlite::Row<'_> {
    fn value(&self, column: usize) -> Option<Value<'_>> {
        match self.get_ref(column).ok()? {
            ValueRef::Null => Some(Value::Null),
            ValueRef::Integer(number) => Some(Value::Integer(number)),
            ValueRef::Text(text) => std::str::from_utf8(text).ok().map(Value::from),
            ValueRef::Blob(bytes) => Some(Value::Blob(bytes)),
            ValueRef::Real(_) => None,
        }
    }

    fn name(&self, column: usize) -> Option<&str> {
        self.as_ref().column_name(column).ok()
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Why a write was not made.
fn refusal(write: &'static str, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error().map(|e| (e.code, e.extended_code)) {
        Some((ErrorCode::ConstraintViolation, extended)) => match extended {
            ffi::SQLITE_CONSTRAINT_CHECK | ffi::SQLITE_CONSTRAINT_DATATYPE => {
                StoreError::Corrupt(format!("{write}: {error}"))
            }
            _ => StoreError::Conflict(write.to_owned()),
        },
        _ => fault(error),
    }
}

/// What an error of SQLite's means. Its texts name tables and columns, and hold no values.
pub(super) fn fault(error: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode as Code;
    let advice = match error.sqlite_error_code() {
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
            return StoreError::Corrupt(format!(
                "{error}; stop the program, keep a copy of the file, and restore a backup"
            ));
        }
        Some(Code::DiskFull) => {
            return StoreError::Full(format!("{error}; make room on its disk"));
        }
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => "another process writes; ask again",
        Some(Code::CannotOpen | Code::ReadOnly | Code::PermissionDenied) => {
            "see that this user may write the file and its directory"
        }
        Some(Code::SystemIoFailure) => "see that its disk is there and healthy",
        _ => "restart the process if it stays like this",
    };
    StoreError::Unavailable(format!("{error}; {advice}"))
}
