//! A store in one SQLite file.
//!
//! Invariant *one-writer*: within a process one thread writes, and commits together whatever waits.
//! Other processes may write to the same file: every transaction reads what it decides by inside
//! SQLite's write lock, and nothing is kept between two of them. Reads go beside the writer, each
//! of one state. Every wait has a limit; what does not fit is refused, not queued.

mod migrations;
mod read;
mod rows;
#[cfg(test)]
mod tests;
mod write;
mod writer;

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use gate_core::{Clock, Timestamp};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use crate::changes::Changes;
use crate::port::{Judge, Reads, Snapshot, Store, StoreError};
use writer::{Request, Writer};

/// How long a connection waits for another process's write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Most transactions that wait for the writer.
const WRITES_WAITING_MAX: usize = 1024;
/// Most reads that wait for a reader.
const READS_WAITING_MAX: usize = 1024;
/// Threads that read.
const READERS: usize = 2;
/// Most memory for pages of the file, in KiB, for each connection.
const CACHE_KIB: i64 = 512;
/// Prepared statements that each connection keeps: more than there are files of SQL.
const STATEMENTS_MAX: usize = 96;
/// Only the owner may read and write the file.
const FILE_MODE: u32 = 0o600;

/// A [`Store`] in one SQLite file, with threads of its own.
///
/// Dropping it makes what is queued, and waits for it. When its writer has ended, because a judge
/// panicked or the disk failed to keep a commit, [`Store::now`] and [`Store::transact`] are
/// unavailable for good: end the process, and start a new one.
pub struct SqliteStore {
    clock: Arc<dyn Clock>,
    changes: Changes,
    commits: Arc<AtomicU64>,
    /// Both queues are there until the store is dropped.
    writes: Option<SyncSender<Request>>,
    reads: Option<SyncSender<Read>>,
    writer: Option<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

/// A read that somebody waits for.
struct Read {
    reads: Reads,
    answer: oneshot::Sender<Result<Snapshot, StoreError>>,
}

impl SqliteStore {
    /// Opens the store in the file at `path`, whose time is `clock`'s. Makes the file, for its owner
    /// only, when there is none, and brings its schema up to this program's.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] when the file cannot be made, opened or locked, or was made by a
    /// newer program; [`StoreError::Corrupt`] when it is not what this program, or an older one,
    /// made.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        make_file(path)?;
        let mut connection = connect(path)?;
        migrations::migrate(&mut connection, path)?;
        let commits = Arc::new(AtomicU64::new(0));
        let (changed, changes) = Changes::channel();
        let writer = Writer::new(connection, clock.clone(), commits.clone(), changed)?;
        let (writes, waiting_writes) = sync_channel(WRITES_WAITING_MAX);
        let (reads, waiting_reads) = sync_channel(READS_WAITING_MAX);
        // From here on a failure drops the store, and with it the threads that it has.
        let mut store = Self {
            clock,
            changes,
            commits,
            writes: Some(writes),
            reads: Some(reads),
            writer: None,
            readers: Vec::new(),
        };
        store.writer = Some(thread("store-writer", move || writer.run(&waiting_writes))?);
        let waiting_reads = Arc::new(Mutex::new(waiting_reads));
        for _ in 0..READERS {
            let connection = connect(path)?;
            connection.pragma_update(None, "query_only", true).map_err(rows::fault)?;
            let (clock, waiting) = (store.clock.clone(), waiting_reads.clone());
            let reader = move || answer_reads(connection, &*clock, &waiting);
            store.readers.push(thread("store-reader", reader)?);
        }
        Ok(store)
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        match &self.writer {
            Some(writer) if !writer.is_finished() => Ok(self.clock.now()),
            Some(_) | None => Err(ended()),
        }
    }

    async fn transact(&self, reads: Reads, judge: Arc<dyn Judge>) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        let request = Request { reads, judge, answer };
        enqueue(self.writes.as_ref(), request)?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    async fn read(&self, reads: Reads) -> Result<Snapshot, StoreError> {
        let (answer, answered) = oneshot::channel();
        enqueue(self.reads.as_ref(), Read { reads, answer })?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    fn changes(&self) -> Changes {
        self.changes.clone()
    }

    fn commits(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // A thread ends when its queue is closed and empty; one that panicked has said so. The
        // writer's connection closes last and alone, so that SQLite folds its log into the file.
        self.reads = None;
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        self.writes = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn enqueue<T>(queue: Option<&SyncSender<T>>, item: T) -> Result<(), StoreError> {
    let queue = queue.ok_or_else(ended)?;
    queue.try_send(item).map_err(|refused| match refused {
        TrySendError::Full(_) => StoreError::Unavailable(
            "too many requests are waiting; nothing was written; ask again in a moment".to_owned(),
        ),
        TrySendError::Disconnected(_) => ended(),
    })
}

fn ended() -> StoreError {
    StoreError::Unavailable(
        "its thread has ended, after a panic or because the disk failed to keep a commit; restart \
         the process"
            .to_owned(),
    )
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| StoreError::Unavailable(format!("{name} cannot be started: {error}")))
}

/// Makes the file, unless there is one. SQLite gives its companions the same mode.
fn make_file(path: &Path) -> Result<(), StoreError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
    match made {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::Unavailable(format!(
            "{} cannot be made: {error}; see that its directory exists and is writable",
            path.display()
        ))),
    }
}

/// Opens a connection: nothing is durable before it is on disk, and little memory is used.
fn connect(path: &Path) -> Result<Connection, StoreError> {
    let open = || -> rusqlite::Result<(Connection, String)> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        let journal =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        // Below zero it is an amount of memory, not a number of pages.
        connection.pragma_update(None, "cache_size", CACHE_KIB.saturating_neg())?;
        connection.pragma_update(None, "mmap_size", 0)?;
        Ok((connection, journal))
    };
    match open() {
        Ok((connection, journal)) if journal == "wal" => Ok(connection),
        Ok((_, journal)) => Err(StoreError::Unavailable(format!(
            "{}: its journal is {journal} where it must be wal; put it on a local disk",
            path.display()
        ))),
        Err(error) => Err(match rows::fault(error) {
            StoreError::Corrupt(text) => StoreError::Corrupt(format!("{}: {text}", path.display())),
            StoreError::Unavailable(text) => {
                StoreError::Unavailable(format!("{}: {text}", path.display()))
            }
            conflict @ StoreError::Conflict(_) => conflict,
        }),
    }
}

/// Answers reads until the queue is closed and empty.
fn answer_reads(mut connection: Connection, clock: &dyn Clock, queue: &Mutex<Receiver<Read>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Read { reads, answer }) = next else {
            return;
        };
        let seen = connection
            .transaction()
            .map_err(rows::fault)
            .and_then(|transaction| read::snapshot(&transaction, clock.now(), &reads));
        // Nobody waits any more when this fails.
        let _ = answer.send(seen);
    }
}
