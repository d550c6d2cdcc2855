//! PostgreSQL as a [`Database`]: one transaction of one connection, and what its errors mean.

use std::borrow::Cow;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use deadpool_postgres::Object;
use gate_core::Timestamp;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::database::{Cells, Database, Row, Value, at_once};
use crate::port::StoreError;

/// Takes the lock whose number is `gate` in ASCII, and reads the clock when it has it. The server
/// does one statement after the other: what is read later is read under the lock.
pub(super) const TO_WRITE: &str = include_str!("sql/begin_write.sql");
/// One state, whatever others write meanwhile.
pub(super) const TO_READ: &str = include_str!("sql/begin_read.sql");

/// A transaction that was begun. Dropped before it was committed, it is undone.
pub(super) struct Session {
    client: Object,
    open: bool,
    /// The database's time: not before the transaction began to see anything.
    pub(super) now: Timestamp,
    /// Whether it failed in a way in which the same transaction, begun anew, may succeed.
    again: AtomicBool,
}

impl Session {
    /// Begins a transaction by one of the scripts above: one trip to the server.
    ///
    /// # Errors
    ///
    /// The server's; nothing happened.
    pub(super) async fn begin(
        client: Object,
        script: &'static str,
    ) -> Result<Self, tokio_postgres::Error> {
        let (now, again) = (Timestamp::from_millis(0), AtomicBool::new(false));
        let mut session = Self { client, open: true, now, again };
        for message in session.client.simple_query(script).await? {
            if let SimpleQueryMessage::Row(row) = message
                && let Ok(Some(millis)) = row.try_get("now_millis")
                && let Ok(millis) = millis.parse()
            {
                session.now = Timestamp::from_millis(millis);
            }
        }
        Ok(session)
    }

    /// Commits, and tells everybody who listens.
    ///
    /// # Errors
    ///
    /// The server's, or that it was not heard.
    pub(super) async fn commit(mut self) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(include_str!("sql/commit.sql")).await?;
        self.open = false;
        Ok(())
    }

    /// Whether the transaction came to nothing, and may be tried again.
    pub(super) fn may_be_tried_again(&self) -> bool {
        self.again.load(Ordering::Relaxed)
    }

    async fn query(
        &self,
        sql: &'static str,
        params: &[Value<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
        let statement = self.client.prepare_cached(sql).await?;
        self.client.query(&statement, &as_params(params)).await
    }

    async fn execute(
        &self,
        sql: &'static str,
        params: &[Value<'_>],
    ) -> Result<u64, tokio_postgres::Error> {
        let statement = self.client.prepare_cached(sql).await?;
        self.client.execute(&statement, &as_params(params)).await
    }

    fn note(&self, error: tokio_postgres::Error) -> StoreError {
        self.again.store(is_passing(&error), Ordering::Relaxed);
        fault(&error)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.open {
            // It is sent with the first poll, and the answer need not be waited for: whoever uses
            // the connection next is served after it.
            let rollback = self.client.batch_execute(include_str!("sql/rollback.sql"));
            let _ = at_once(async { rollback.await.map_err(|error| fault(&error)) });
        }
    }
}

impl Database for Session {
    async fn rows<T: Send>(
        &self,
        sql: &'static str,
        table: &'static str,
        params: &[Value<'_>],
        map: impl Fn(&mut Cells<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.query(sql, params).await.map_err(|error| self.note(error))?;
        rows.iter().map(|row| map(&mut Cells::new(row, table))).collect()
    }

    async fn run(
        &self,
        write: &'static str,
        sql: &'static str,
        params: &[Value<'_>],
    ) -> Result<u64, StoreError> {
        self.execute(sql, params).await.map_err(|error| match refusal(write, &error) {
            Some(refused) => refused,
            None => self.note(error),
        })
    }

    async fn define(&self, statements: &str) -> Result<(), StoreError> {
        let statements = Self::dialect(statements);
        self.client.batch_execute(&statements).await.map_err(|error| self.note(error))
    }

    /// What it makes of a step that was released must stay as it is: its checksum is kept.
    fn dialect(statements: &str) -> Cow<'_, str> {
        const WORDS: [(&str, &str); 5] = [
            (") STRICT, WITHOUT ROWID;", ");"),
            (") STRICT;", ");"),
            (" BLOB", " BYTEA"),
            (" INTEGER", " BIGINT"),
            // Ordered by bytes, as ids and types are, and not by a language.
            (" TEXT", " TEXT COLLATE \"C\""),
        ];
        let put = |text: String, (word, own): (&str, &str)| text.replace(word, own);
        Cow::Owned(WORDS.into_iter().fold(statements.to_owned(), put))
    }
}

fn as_params<'a>(params: &'a [Value<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|value| -> &(dyn ToSql + Sync) { value }).collect()
}

impl Row for tokio_postgres::Row {
    fn value(&self, column: usize) -> Option<Value<'_>> {
        self.try_get(column).ok()
    }

    fn name(&self, column: usize) -> Option<&str> {
        self.columns().get(column).map(tokio_postgres::Column::name)
    }
}

impl<'a> FromSql<'a> for Value<'a> {
    fn from_sql(
        kind: &Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        if *kind == Type::INT8 {
            i64::from_sql(kind, raw).map(Self::Integer)
        } else if *kind == Type::TEXT {
            <&str>::from_sql(kind, raw).map(Self::from)
        } else {
            <&[u8]>::from_sql(kind, raw).map(Self::Blob)
        }
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::TEXT | Type::BYTEA)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) => number.to_sql_checked(kind, out),
            Self::Text(text) => text.as_ref().to_sql_checked(kind, out),
            Self::Blob(bytes) => bytes.to_sql_checked(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Why a write was not made, when what is stored or what was to be written is the reason.
fn refusal(write: &'static str, error: &tokio_postgres::Error) -> Option<StoreError> {
    let code = error.code()?;
    let bounds = [
        SqlState::CHECK_VIOLATION,
        SqlState::NOT_NULL_VIOLATION,
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
    ];
    if bounds.contains(code) {
        return Some(StoreError::Corrupt(format!("{write}: {}", text(error))));
    }
    match code.code().get(..2) {
        Some("23") => Some(StoreError::Conflict(write.to_owned())),
        Some("22") => Some(StoreError::Conflict(format!("{write}: {}", text(error)))),
        _ => None,
    }
}

/// Whether the same transaction, begun anew, may succeed: it lost against another, or its
/// connection had gone. Never asked about a commit.
pub(super) fn is_passing(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => {
            let passing = [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            ];
            passing.contains(code)
        }
        None => true,
    }
}

/// What an error means. Its texts name tables and columns, and hold no values.
pub(super) fn fault(error: &tokio_postgres::Error) -> StoreError {
    let what = text(error);
    let code = error.code().map_or("", SqlState::code);
    let advice = match code {
        "" => "see that PostgreSQL runs and can be reached; ask again",
        "25006" => "it only follows another: name the one that may be written to",
        "3D000" => "make the database, or name another",
        "40001" | "40P01" => "others wrote at the same time; ask again",
        "42501" => "give this user the right to it",
        "53100" => "make room on its disk",
        "53300" => "raise its max_connections, or start fewer gateways",
        "55P03" => "another process has been writing for too long; ask again",
        "57014" => "it took too long; ask again",
        "57P01" | "57P02" | "57P03" => "it is starting or stopping; ask again in a moment",
        "XX001" | "XX002" => {
            return StoreError::Corrupt(format!("{what}; stop the program, and restore a backup"));
        }
        code if code.starts_with("28") => "see the user and the password in its address",
        _ => "see PostgreSQL's log",
    };
    StoreError::Unavailable(format!("PostgreSQL: {what}; {advice}"))
}

/// The message of the server's, or of whatever kept it from being heard; no details, which may
/// hold values.
fn text(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
