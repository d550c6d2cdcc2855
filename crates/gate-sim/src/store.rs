//! The store of one node: the shipped in-memory store, behind awaits and faults of its own.
//! Whatever is committed is seen by the witness in the same instant.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use gate_core::Timestamp;
use gate_core::bugs::{self, Bug};
use gate_store::{Changes, Judge, MemStore, Reads, Snapshot, Spent, Store, StoreError, Write};

use crate::coverage::Hit;
use crate::draw::mixed;
use crate::executor::{Handle, Node};
use crate::faults::{Class, Fault, Faults, Place};
use crate::witness::{Pending, Witness};

/// See the module.
pub(crate) struct SimStore {
    pub(crate) node: Node,
    pub(crate) inner: Arc<MemStore>,
    pub(crate) handle: Handle,
    pub(crate) faults: Arc<Faults>,
    pub(crate) witness: Witness,
    pub(crate) seed: u64,
    pub(crate) reads: AtomicU64,
}

/// When something was judged, what was seen as spent, and what is to be written.
type Judged = (Timestamp, Vec<Spent>, Vec<Write>);

/// Looks over a judge's shoulder.
struct Watched {
    judge: Arc<dyn Judge>,
    /// What was there before the transaction, for a store that is not serialisable.
    before: Option<Snapshot>,
    last: Mutex<Option<Judged>>,
}

impl Judge for Watched {
    fn judge(&self, now: Timestamp, seen: &Snapshot) -> Vec<Write> {
        let mut shown = None;
        if let Some(before) = &self.before {
            let shown = shown.insert(seen.clone());
            if bugs::on(Bug::StaleSums) {
                shown.spent.clone_from(&before.spent);
            } else {
                shown.prior.clone_from(&before.prior);
            }
        }
        let writes = self.judge.judge(now, shown.as_ref().unwrap_or(seen));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (!writes.is_empty()).then(|| (now, seen.spent.clone(), writes.clone()));
        writes
    }
}

/// What `judge` would write now.
pub(crate) fn predicted(store: &MemStore, reads: &Reads, judge: &dyn Judge) -> Vec<Write> {
    let now = store.now().now_or_never().and_then(Result::ok).unwrap_or_default();
    let seen = store.read(reads.clone()).now_or_never().and_then(Result::ok).unwrap_or_default();
    judge.judge(now, &seen)
}

impl SimStore {
    fn gives_way(&self) -> bool {
        let n = self.reads.fetch_add(1, Ordering::Relaxed);
        mixed(self.seed, 20, u64::from(self.node.0), n).is_multiple_of(4)
    }

    /// Comes to the store: slow or down, as drawn.
    async fn come(&self, place: Place) -> Result<Option<Fault>, Fault> {
        let fault = self.faults.at(place, self.node);
        if let Some(fault) = &fault {
            self.witness.seen().faulted(fault);
        }
        match fault {
            Some(fault) if fault.class == Class::StoreSlow => {
                self.handle.sleep(fault.chance % 8000).await;
            }
            // Reads give way now and then only; there are many of them.
            _ if place == Place::StoreRead && !self.gives_way() => {}
            _ => self.handle.give_way().await,
        }
        match fault {
            Some(fault) if fault.class == Class::StoreDown => Err(fault),
            other => Ok(other),
        }
    }
}

fn down() -> StoreError {
    StoreError::Unavailable("simulated".to_owned())
}

#[async_trait]
impl Store for SimStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.inner.now().await
    }

    async fn transact(&self, reads: Reads, judge: Arc<dyn Judge>) -> Result<(), StoreError> {
        let pending = Pending::Commit(Box::new(reads.clone()), Arc::clone(&judge));
        let guard = self.witness.begin(self.node, pending);
        let weak = bugs::on(Bug::StaleSums) || bugs::on(Bug::TwinNotSeen);
        let before = if weak { self.inner.read(reads.clone()).await.ok() } else { None };
        let fault = match self.come(Place::Transact).await {
            Ok(fault) => fault,
            Err(_) => {
                let writes = predicted(&self.inner, &reads, judge.as_ref());
                let mut seen = self.witness.seen();
                for (_, moved) in seen.moves_of(&writes) {
                    seen.coverage.note(moved, Some(Hit::StoreDown));
                }
                return Err(down());
            }
        };
        let watched = Arc::new(Watched { judge, before, last: Mutex::default() });
        let judge: Arc<dyn Judge> = Arc::<Watched>::clone(&watched);
        let result = self.inner.transact(reads, judge).await;
        if let Err(error) = &result {
            self.witness.seen().breach("I9", format!("the store refused a write: {error}"));
        }
        let written = watched.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        let moves = match written {
            Some((now, spent, writes)) if result.is_ok() => {
                self.witness.seen().committed(self.node, now, &spent, &writes)
            }
            _ => Vec::new(),
        };
        let lost = fault.is_some_and(|fault| fault.class == Class::StoreLost);
        if lost {
            let mut seen = self.witness.seen();
            for (_, moved) in &moves {
                seen.coverage.note(*moved, Some(Hit::StoreLost));
            }
        }
        guard.committed(moves);
        self.handle.give_way().await;
        if lost { Err(down()) } else { result }
    }

    async fn read(&self, reads: Reads) -> Result<Snapshot, StoreError> {
        self.come(Place::StoreRead).await.map_err(|_| down())?;
        self.inner.read(reads).await
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }

    fn commits(&self) -> u64 {
        self.inner.commits()
    }
}
