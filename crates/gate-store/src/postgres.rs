//! A store in a PostgreSQL database, which several processes share.
//!
//! Invariant *one-at-a-time*: every transaction that may write first takes one lock of the
//! database's, and reads after that. What it reads is therefore what it changes: no other process
//! of this program writes before it has committed. That is the order `agent, team, organisation,
//! audit head` with its last and dearest lock taken first: a judge sees the head of the audit chain
//! and its entry follows that head, so two transactions can never run beside each other, and finer
//! locks before that one, or serialisable isolation instead of it, would only find out later that
//! one of the two has to begin again. The isolation is *read committed* on purpose: under the
//! stricter ones a transaction sees the state of before its wait for the lock.
//!
//! The lock is an advisory one: a row would be rewritten with every transaction, and the lock of a
//! table is in the way of vacuuming it. The keys and checks of the schema hold even without it: two
//! that took the same audit number or idempotency key cannot both commit.
//!
//! The clock is the database's, so that all processes judge by the same.

mod address;
mod listener;
mod session;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{Hook, HookError, Manager, Object, Pool, PoolError, Runtime, Timeouts};
use gate_core::Timestamp;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::address::CONNECT_TIMEOUT;
pub use self::address::PostgresAddress;
use self::session::{Session, TO_READ, TO_WRITE, fault, is_passing};
use self::tls::Tls;
use crate::changes::Changes;
use crate::database::params;
use crate::port::{Judge, Reads, Snapshot, Store, StoreError};
use crate::rows::row;
use crate::{migrations, read, write};

/// Connections of a process that write. Several would only wait for each other at the database's
/// lock, which costs more than waiting here: half the throughput, when it was measured with four.
const WRITERS: usize = 1;
/// Most connections of a process that read.
const READERS: usize = 4;
/// How long a request waits for one of them.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long a transaction may take in all, its waits and its tries together.
const TRANSACTION_MAX: Duration = Duration::from_secs(60);
/// How often a transaction is begun before it is given up.
const TRIES_MAX: u32 = 5;

/// A [`Store`] in a PostgreSQL database.
///
/// Opens at most six connections: one that writes, four that read, and one that listens. Lost
/// connections are made anew when they are needed next.
pub struct PostgresStore {
    writers: Pool,
    readers: Pool,
    commits: AtomicU64,
    changed: watch::Sender<u64>,
    changes: Changes,
    /// Ends with the store.
    _listener: JoinSet<()>,
}

/// What is known of a database before a store is opened in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PostgresState {
    /// The schema's newest migration there; 0 in an empty database.
    pub schema: u64,
    /// The newest migration that this program knows.
    pub known: u64,
}

/// How a try of a transaction ended.
enum Tried<T> {
    Done(T),
    /// It came to nothing, and another try may do better.
    Again(StoreError),
    Failed(StoreError),
}

impl PostgresStore {
    /// Opens the store at `address`, and brings the schema of an empty or older database up to this
    /// program's; of several processes that do so at once one does the work, and the others wait.
    /// To be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] when the database cannot be reached or used, or a newer program
    /// made its schema; [`StoreError::Corrupt`] when its schema is not what this program made.
    pub async fn open(address: &PostgresAddress) -> Result<Self, StoreError> {
        let writers = pool(address, WRITERS)?;
        migrate(&writers, &address.to_string()).await?;
        let (changed, changes) = Changes::channel();
        let mut listener = JoinSet::new();
        let (first, listening) = oneshot::channel();
        let config = address.with_password().map_err(StoreError::Unavailable)?;
        let teller = changed.clone();
        listener.spawn(listener::run(config, tls(address)?, teller, first));
        // Whoever waits from now on misses nothing; if this failed, it is told again and again.
        let _ = listening.await;
        let readers = pool(address, READERS)?;
        let commits = AtomicU64::new(0);
        Ok(Self { writers, readers, commits, changed, changes, _listener: listener })
    }

    /// Looks at the database at `address` without changing anything in it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] when the database cannot be reached or used.
    pub async fn look(address: &PostgresAddress) -> Result<PostgresState, StoreError> {
        const HAS_MIGRATIONS: &str = include_str!("postgres/sql/has_migrations.sql");
        let readers = pool(address, 1)?;
        let client = connection(&readers).await?;
        check_settings(&client).await?;
        let begun = Session::begin(client, TO_READ).await;
        let session = begun.map_err(|error| fault(&error))?;
        let listed = row(&session, HAS_MIGRATIONS, "tables", params![], |_| Ok(())).await?;
        let schema = match listed {
            Some(()) => migrations::newest_applied(&session).await?,
            None => 0,
        };
        Ok(PostgresState { schema, known: migrations::newest_known() })
    }

    /// One try of a transaction that may write. Answers with the number of writes.
    async fn attempt(&self, reads: &Reads, judge: &dyn Judge) -> Tried<usize> {
        let session = match begin(&self.writers, TO_WRITE).await {
            Ok(session) => session,
            Err(failed) => return failed,
        };
        match perform(&session, reads, judge).await {
            Ok(0) => Tried::Done(0),
            Ok(writes) => match session.commit().await {
                Ok(()) => Tried::Done(writes),
                // The server says itself that it did not commit; a lost answer says nothing.
                Err(error) if was_refused(&error) => Tried::failed(&error),
                Err(error) => Tried::Failed(fate_unknown(&fault(&error))),
            },
            Err(error) if session.may_be_tried_again() => Tried::Again(error),
            Err(error) => Tried::Failed(error),
        }
    }

    async fn try_to_read(&self, reads: &Reads) -> Tried<Snapshot> {
        let session = match begin(&self.readers, TO_READ).await {
            Ok(session) => session,
            Err(failed) => return failed,
        };
        match read::snapshot(&session, session.now, reads).await {
            Ok(seen) => Tried::Done(seen),
            Err(error) if session.may_be_tried_again() => Tried::Again(error),
            Err(error) => Tried::Failed(error),
        }
    }
}

impl<T> Tried<T> {
    fn failed(error: &tokio_postgres::Error) -> Self {
        if is_passing(error) { Self::Again(fault(error)) } else { Self::Failed(fault(error)) }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        tried(async || match begin(&self.readers, TO_READ).await {
            Ok(session) => Tried::Done(session.now),
            Err(failed) => failed,
        })
        .await
    }

    async fn transact(&self, reads: Reads, judge: Arc<dyn Judge>) -> Result<(), StoreError> {
        let tries = tried(|| self.attempt(&reads, &*judge));
        // Whoever is cut short may have been committing.
        let late = |_| fate_unknown(&StoreError::Unavailable("it took too long".to_owned()));
        let writes = timeout(TRANSACTION_MAX, tries).await.map_err(late)??;
        if writes > 0 {
            self.commits.fetch_add(1, Ordering::AcqRel);
            listener::tell(&self.changed);
        }
        Ok(())
    }

    async fn read(&self, reads: Reads) -> Result<Snapshot, StoreError> {
        let late = |_| StoreError::Unavailable("PostgreSQL took too long; ask again".to_owned());
        timeout(TRANSACTION_MAX, tried(|| self.try_to_read(&reads))).await.map_err(late)?
    }

    fn changes(&self) -> Changes {
        self.changes.clone()
    }

    fn commits(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }
}

/// Brings the schema up to this program's, while nobody else writes or migrates.
async fn migrate(pool: &Pool, place: &str) -> Result<(), StoreError> {
    let client = connection(pool).await?;
    check_settings(&client).await?;
    let begun = Session::begin(client, TO_WRITE).await;
    let session = begun.map_err(|error| fault(&error))?;
    migrations::migrate(&session, place).await?;
    session.commit().await.map_err(|error| fault(&error))
}

/// Tries until it is done, failed, or tried often enough.
async fn tried<T, F: Future<Output = Tried<T>>>(attempt: impl Fn() -> F) -> Result<T, StoreError> {
    let mut tries = 1;
    loop {
        match attempt().await {
            Tried::Done(done) => return Ok(done),
            Tried::Again(_) if tries < TRIES_MAX => tries = tries.saturating_add(1),
            Tried::Again(error) | Tried::Failed(error) => return Err(error),
        }
    }
}

/// Reads, asks the judge, writes. Answers with how much was written; the commit is the caller's.
async fn perform(session: &Session, reads: &Reads, judge: &dyn Judge) -> Result<usize, StoreError> {
    let seen = read::snapshot(session, session.now, reads).await?;
    let writes = judge.judge(session.now, &seen);
    let mut head = seen.head;
    for write in &writes {
        write::make(session, &mut head, write).await?;
    }
    Ok(writes.len())
}

fn fate_unknown(error: &StoreError) -> StoreError {
    StoreError::Unavailable(format!(
        "whether it was committed is not known: read before asking again ({error})"
    ))
}

/// Whether the server itself said that it did not commit.
fn was_refused(error: &tokio_postgres::Error) -> bool {
    use tokio_postgres::error::Severity;
    // A server that stops may have committed before it said so.
    let severity = error.as_db_error().and_then(tokio_postgres::error::DbError::parsed_severity);
    severity == Some(Severity::Error)
}

/// Begins a transaction on a connection of `pool`'s, or says how that failed.
async fn begin<T>(pool: &Pool, script: &'static str) -> Result<Session, Tried<T>> {
    let client = connection(pool).await.map_err(Tried::Failed)?;
    Session::begin(client, script).await.map_err(|error| Tried::failed(&error))
}

async fn connection(pool: &Pool) -> Result<Object, StoreError> {
    pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            fault(&error)
        }
        PoolError::Timeout(_) => StoreError::Unavailable(
            "no connection to PostgreSQL became free in time; nothing was written; ask again in a \
             moment"
                .to_owned(),
        ),
        PoolError::Closed
        | PoolError::NoRuntimeSpecified
        | PoolError::PostCreateHook(HookError::Message(_)) => {
            StoreError::Unavailable(format!("PostgreSQL: {error}"))
        }
    })
}

/// Connections that are made when they are needed.
fn pool(address: &PostgresAddress, size: usize) -> Result<Pool, StoreError> {
    let config = address.with_password().map_err(StoreError::Unavailable)?;
    let manager = Manager::new(config, tls(address)?);
    let timeouts = Timeouts {
        wait: Some(WAIT_MAX),
        create: Some(CONNECT_TIMEOUT),
        recycle: Some(CONNECT_TIMEOUT),
    };
    Pool::builder(manager)
        .max_size(size)
        .timeouts(timeouts)
        .runtime(Runtime::Tokio1)
        .post_create(Hook::async_fn(|client, _| {
            Box::pin(async {
                const DURABLE: &str = include_str!("postgres/sql/durable.sql");
                client.batch_execute(DURABLE).await.map_err(HookError::Backend)
            })
        }))
        .build()
        .map_err(|error| StoreError::Unavailable(format!("PostgreSQL: {error}")))
}

fn tls(address: &PostgresAddress) -> Result<Tls, StoreError> {
    Tls::new(address.root_cert.as_deref()).map_err(StoreError::Unavailable)
}

/// Refuses a database that cannot keep every text, and warns of one that forgets.
async fn check_settings(client: &Object) -> Result<(), StoreError> {
    const SQL: &str = include_str!("postgres/sql/settings.sql");
    let read = async {
        let settings = client.query_one(SQL, &[]).await?;
        Ok((settings.try_get(0)?, settings.try_get(1)?))
    };
    let (encoding, fsync): (String, String) =
        read.await.map_err(|error: tokio_postgres::Error| fault(&error))?;
    if fsync != "on" {
        tracing::warn!("PostgreSQL runs with fsync={fsync}: a power loss can lose commits");
    }
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(StoreError::Unavailable(format!(
        "the database's encoding is {encoding}, and must be UTF8: make another with \
         `createdb --encoding=UTF8 --template=template0`"
    )))
}
