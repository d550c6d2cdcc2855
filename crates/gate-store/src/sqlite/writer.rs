//! The thread that writes: whatever waits is committed together.
//!
//! Invariant *answer-after-commit*: no caller hears of success before its writes are on disk.
//! Invariant *nothing-cached*: sums, states and the audit head are read inside the transaction that
//! changes them, because another process may write between two of ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use gate_core::Clock;
use rusqlite::{Connection, TransactionBehavior, ffi};
use tokio::sync::{oneshot, watch};

use super::connection::fault;
use super::room::{Room, begins_a_refund};
use crate::database::at_once;
use crate::port::{Judge, Reads, StoreError};
use crate::{read, write};

/// Most transactions that are committed together.
const BATCH_REQUESTS_MAX: usize = 128;
/// How often an idle writer looks whether another process committed.
const OTHERS_INTERVAL: Duration = Duration::from_millis(100);

/// One transaction that somebody waits for.
pub(super) struct Request {
    pub(super) reads: Reads,
    pub(super) judge: Arc<dyn Judge>,
    pub(super) answer: oneshot::Sender<Result<(), StoreError>>,
}

/// What the thread holds.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) commits: Arc<AtomicU64>,
    pub(super) changed: watch::Sender<u64>,
    /// What is kept for outcomes, by those who make refunds.
    pub(super) room: Option<Room>,
    /// What SQLite's counter of other connections' commits was last.
    others: i64,
}

/// What a batch came to: an answer for each request, or one fault for all of them.
type Settled = Result<Vec<Result<(), StoreError>>, Fault>;

/// Why nothing of a batch was written, or may not have been.
struct Fault {
    text: String,
    /// The disk did not say that it kept what it was given. What it holds is not known any more,
    /// and asking again would not tell: only a new process, which reads the file anew, goes on.
    fatal: bool,
    /// The disk has no room for it.
    full: bool,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        clock: Arc<dyn Clock>,
        commits: Arc<AtomicU64>,
        changed: watch::Sender<u64>,
        room: Option<Room>,
    ) -> Result<Self, StoreError> {
        let others = data_version(&connection).map_err(fault)?;
        Ok(Self { connection, clock, commits, changed, room, others })
    }

    /// Works until the queue is closed and empty, or until the disk cannot be trusted. A judge that
    /// panics ends it as well: requests that wait and all that come later are then unavailable.
    pub(super) fn run(mut self, queue: &Receiver<Request>) {
        loop {
            match queue.recv_timeout(OTHERS_INTERVAL) {
                Ok(first) => {
                    let waiting = std::iter::once(first).chain(queue.try_iter());
                    let batch = waiting.take(BATCH_REQUESTS_MAX).collect();
                    if self.commit_together(batch).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.notice_others();
            if let Some(room) = &mut self.room {
                room.take_back(self.clock.uptime());
            }
        }
    }

    /// Answers every request of a batch; fails when no further batch may be tried.
    fn commit_together(&mut self, batch: Vec<Request>) -> Result<(), ()> {
        let mut settled = self.settle(&batch);
        let is_full = settled.as_ref().is_err_and(|fault| fault.full);
        if is_full && self.room.as_mut().is_some_and(Room::give_up) {
            settled = self.settle(&batch);
        }
        let fatal = settled.as_ref().is_err_and(|fault| fault.fatal);
        let answers = match settled {
            Ok(answers) => answers,
            Err(Fault { text, full, .. }) => {
                if fatal {
                    tracing::error!(error = text, "the disk failed to keep a commit; restart");
                }
                let kind = if full { StoreError::Full } else { StoreError::Unavailable };
                std::iter::repeat_with(|| Err(kind(text.clone()))).take(batch.len()).collect()
            }
        };
        for (request, answer) in batch.into_iter().zip(answers) {
            // Whoever gave up waiting reads again before acting.
            let _ = request.answer.send(answer);
        }
        if fatal { Err(()) } else { Ok(()) }
    }

    /// One transaction for all, one savepoint for each. A request that fails takes only its own
    /// writes with it; a fault of the database takes them all.
    fn settle(&mut self, batch: &[Request]) -> Settled {
        let short = self.room.as_ref().is_some_and(Room::is_given_up);
        let mut transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut wrote = false;
        let mut answers = Vec::with_capacity(batch.len());
        for request in batch {
            let savepoint = transaction.savepoint()?;
            match perform(&savepoint, &*self.clock, request, short) {
                Ok(writes) => {
                    savepoint.commit()?;
                    wrote |= writes > 0;
                    answers.push(Ok(()));
                }
                Err(Kept::Broken(fault)) => return Err(fault),
                Err(Kept::Refused(error)) => {
                    savepoint.finish()?;
                    answers.push(Err(error));
                }
            }
        }
        if wrote {
            transaction.commit()?;
            self.commits.fetch_add(1, Ordering::AcqRel);
            self.tell();
        } else {
            transaction.rollback()?;
        }
        Ok(answers)
    }

    fn notice_others(&mut self) {
        // A fault here is met, and answered, by the next request.
        if let Ok(version) = data_version(&self.connection)
            && version != self.others
        {
            self.others = version;
            self.tell();
        }
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// What kept one request from being made.
enum Kept {
    /// The database: nothing of the batch can be made.
    Broken(Fault),
    /// The request itself; the others go on.
    Refused(StoreError),
}

impl From<StoreError> for Kept {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full(text) => Self::Broken(Fault { text, fatal: false, full: true }),
            StoreError::Unavailable(text) => {
                Self::Broken(Fault { text, fatal: false, full: false })
            }
            StoreError::Conflict(_) | StoreError::Corrupt(_) => Self::Refused(error),
        }
    }
}

/// Reads, asks the judge, writes. Answers with how much was written.
fn perform(
    connection: &Connection,
    clock: &dyn Clock,
    request: &Request,
    short: bool,
) -> Result<usize, Kept> {
    let now = clock.now();
    let seen = at_once(read::snapshot(connection, now, &request.reads))?;
    let writes = request.judge.judge(now, &seen);
    if short && begins_a_refund(&writes) {
        let text = "the disk is full: only outcomes are recorded until there is room again";
        return Err(Kept::Refused(StoreError::Unavailable(text.to_owned())));
    }
    let mut head = seen.head;
    for write in &writes {
        at_once(write::make(connection, &mut head, write))?;
    }
    Ok(writes.len())
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    const SQL: &str = include_str!("sql/data_version.sql");
    connection.prepare_cached(SQL)?.query_row([], |row| row.get(0))
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        let extended = error.sqlite_error().map(|error| error.extended_code);
        let fatal = matches!(extended, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC));
        let error = fault(error);
        let full = matches!(error, StoreError::Full(_));
        let (StoreError::Conflict(text)
        | StoreError::Corrupt(text)
        | StoreError::Full(text)
        | StoreError::Unavailable(text)) = error;
        Self { text, fatal, full }
    }
}
