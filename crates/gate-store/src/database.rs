//! What reading and writing need of a database, so that both are written once for all.
//!
//! A statement is a file in `sql/`, in words that every database understands. What goes in is
//! [`Value`]s, what comes out is read by [`Cells`]. A database that answers at once, as SQLite does,
//! gives futures that are ready; [`at_once`] takes what they hold.

use std::borrow::Cow;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use gate_core::Timestamp;
use gate_money::MicroUsd;

use crate::port::StoreError;

/// A connection on which a transaction was begun.
pub(crate) trait Database {
    /// The rows that a statement answers with, each mapped; `table` is for messages.
    ///
    /// # Errors
    ///
    /// What `map` says, or [`StoreError::Unavailable`].
    fn rows<T: Send>(
        &self,
        sql: &'static str,
        table: &'static str,
        params: &[Value<'_>],
        map: impl Fn(&mut Cells<'_>) -> Result<T, StoreError> + Send,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send;

    /// Runs a statement that changes something, and answers with how many rows it changed; `write`
    /// is for messages.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when what is stored does not allow it, [`StoreError::Corrupt`] when
    /// a figure would leave its bounds, [`StoreError::Unavailable`].
    fn run(
        &self,
        write: &'static str,
        sql: &'static str,
        params: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Runs the statements of a migration, which are in SQLite's words.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`].
    fn define(&self, statements: &str) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// A migration's statements in the words of this database.
    fn dialect(statements: &str) -> Cow<'_, str>;
}

/// What the future of a database that never waits holds.
///
/// # Errors
///
/// Its own; [`StoreError::Unavailable`] when it waits after all.
pub(crate) fn at_once<T>(
    future: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(StoreError::Unavailable(
            "a step on a local file waited for something else; report this fault".to_owned(),
        )),
    }
}

/// What stands in one cell. Flags are 0 and 1, times are milliseconds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Text(Cow<'a, str>),
    Blob(&'a [u8]),
}

/// A statement's parameters, in the order of their numbers.
macro_rules! params {
    ($($value:expr),* $(,)?) => { [$($crate::database::Value::from($value)),*] };
}
pub(crate) use params;

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Self::Integer(flag.into())
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u16> for Value<'_> {
    fn from(number: u16) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Blob(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row as the database hands it over.
pub(crate) trait Row {
    /// What stands in a column, counted from 0; `None` when it is nothing that a [`Value`] can be.
    fn value(&self, column: usize) -> Option<Value<'_>>;

    /// The name of a column, counted from 0.
    fn name(&self, column: usize) -> Option<&str>;
}

/// The cells of a row, taken from left to right, each by the name that its column must have. A cell
/// that is not what it should be is named by table, row and column; what stands in it is never
/// shown.
pub(crate) struct Cells<'a> {
    row: &'a dyn Row,
    table: &'static str,
    next: usize,
}

impl<'a> Cells<'a> {
    pub(crate) const fn new(row: &'a dyn Row, table: &'static str) -> Self {
        Self { row, table, next: 0 }
    }

    /// That `column` cannot be read.
    pub(crate) fn corrupt(&self, column: &str) -> StoreError {
        let id = match self.row.value(0) {
            Some(Value::Text(id)) => id.into_owned(),
            Some(Value::Integer(id)) => id.to_string(),
            Some(Value::Null | Value::Blob(_)) | None => "?".to_owned(),
        };
        let table = self.table;
        StoreError::Corrupt(format!(
            "table {table}, row {id}, column {column}; stop the program, and restore the last good \
             backup or start the version that wrote it"
        ))
    }

    fn cell(&mut self, column: &'static str) -> Result<Value<'a>, StoreError> {
        debug_assert_eq!(
            self.row.name(self.next),
            Some(column),
            "the statement's columns are in another order"
        );
        let cell = self.row.value(self.next).ok_or_else(|| self.corrupt(column))?;
        self.next = self.next.saturating_add(1);
        Ok(cell)
    }

    pub(crate) fn text(&mut self, column: &'static str) -> Result<Cow<'a, str>, StoreError> {
        self.text_if(column)?.ok_or_else(|| self.corrupt(column))
    }

    pub(crate) fn text_if(
        &mut self,
        column: &'static str,
    ) -> Result<Option<Cow<'a, str>>, StoreError> {
        match self.cell(column)? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            Value::Integer(_) | Value::Blob(_) => Err(self.corrupt(column)),
        }
    }

    pub(crate) fn owned(&mut self, column: &'static str) -> Result<String, StoreError> {
        self.text(column).map(Cow::into_owned)
    }

    pub(crate) fn owned_if(&mut self, column: &'static str) -> Result<Option<String>, StoreError> {
        Ok(self.text_if(column)?.map(Cow::into_owned))
    }

    pub(crate) fn integer(&mut self, column: &'static str) -> Result<i64, StoreError> {
        self.integer_if(column)?.ok_or_else(|| self.corrupt(column))
    }

    pub(crate) fn integer_if(&mut self, column: &'static str) -> Result<Option<i64>, StoreError> {
        match self.cell(column)? {
            Value::Null => Ok(None),
            Value::Integer(number) => Ok(Some(number)),
            Value::Text(_) | Value::Blob(_) => Err(self.corrupt(column)),
        }
    }

    pub(crate) fn count(&mut self, column: &'static str) -> Result<u64, StoreError> {
        let integer = self.integer(column)?;
        u64::try_from(integer).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn flag(&mut self, column: &'static str) -> Result<bool, StoreError> {
        self.integer(column).map(|flag| flag != 0)
    }

    pub(crate) fn time(&mut self, column: &'static str) -> Result<Timestamp, StoreError> {
        self.integer(column).map(Timestamp::from_millis)
    }

    pub(crate) fn time_if(
        &mut self,
        column: &'static str,
    ) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.integer_if(column)?.map(Timestamp::from_millis))
    }

    pub(crate) fn dollars(&mut self, column: &'static str) -> Result<MicroUsd, StoreError> {
        let micros = self.integer(column)?;
        MicroUsd::new(micros).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn bytes<const N: usize>(
        &mut self,
        column: &'static str,
    ) -> Result<[u8; N], StoreError> {
        match self.cell(column)? {
            Value::Blob(bytes) => bytes.try_into().map_err(|_| self.corrupt(column)),
            Value::Null | Value::Integer(_) | Value::Text(_) => Err(self.corrupt(column)),
        }
    }

    /// A text that `parse` understands.
    pub(crate) fn parsed<T, P: IntoOption<T>>(
        &mut self,
        column: &'static str,
        parse: impl Fn(&str) -> P,
    ) -> Result<T, StoreError> {
        let text = self.text(column)?;
        parse(&text).into_option().ok_or_else(|| self.corrupt(column))
    }

    /// Nothing, or a text that `parse` understands.
    pub(crate) fn parsed_if<T, P: IntoOption<T>>(
        &mut self,
        column: &'static str,
        parse: impl Fn(&str) -> P,
    ) -> Result<Option<T>, StoreError> {
        let Some(text) = self.text_if(column)? else {
            return Ok(None);
        };
        match parse(&text).into_option() {
            Some(value) => Ok(Some(value)),
            None => Err(self.corrupt(column)),
        }
    }
}

/// What a parser answers with: `Some` or `Ok`, or nothing that could be said without the text.
pub(crate) trait IntoOption<T> {
    fn into_option(self) -> Option<T>;
}

impl<T> IntoOption<T> for Option<T> {
    fn into_option(self) -> Self {
        self
    }
}

impl<T, E> IntoOption<T> for Result<T, E> {
    fn into_option(self) -> Option<T> {
        self.ok()
    }
}
