//! Which call of the authority's port a signed call belongs to: one port call sends as many as it
//! takes. What it answers must have been said to it by the authority.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gate_core::{AttemptId, IntentId};

use crate::coverage::{Hit, Move};

thread_local! {
    static CALL: RefCell<Option<Arc<PortCall>>> = const { RefCell::new(None) };
    static REQUEST: RefCell<Option<Arc<Request>>> = const { RefCell::new(None) };
}

/// One call of the port, of a gateway that asks elsewhere.
pub(crate) struct PortCall {
    /// Whether it decides, or tells what became of it.
    pub(crate) changes: bool,
    state: Mutex<Progress>,
}

/// How far a port call has come.
#[derive(Default)]
pub(crate) struct Progress {
    /// What is sent, without what is new with each attempt.
    pub(crate) content: Option<(String, Vec<u8>)>,
    /// Whether an answer of the authority's to one of its calls came whole.
    pub(crate) answered: bool,
    /// What hit it so far.
    pub(crate) hits: BTreeSet<Hit>,
    /// What it moved at the authority.
    pub(crate) moves: Vec<(IntentId, Move)>,
    /// The attempt that it takes back.
    pub(crate) reclaims: Option<AttemptId>,
    /// It was told that nothing was done for it.
    pub(crate) refused: bool,
}

impl PortCall {
    pub(crate) fn new(changes: bool) -> Arc<Self> {
        Arc::new(Self { changes, state: Mutex::default() })
    }

    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port call that is being worked on.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CALL.with_borrow(Clone::clone)
    }

    /// Does `work` as this port call.
    pub(crate) async fn within<T>(self: &Arc<Self>, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let before = CALL.replace(Some(Arc::clone(self)));
            let polled = work.as_mut().poll(context);
            CALL.set(before);
            polled
        })
        .await
    }
}

/// One agent's request, as long as its gateway works on it.
#[derive(Default)]
pub(crate) struct Request(Mutex<Asked>);

/// What the authority was asked for a request.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) attempts: BTreeSet<AttemptId>,
    /// What hit a decision whose answer never came.
    pub(crate) hits: BTreeSet<Hit>,
}

impl Request {
    pub(crate) fn asked(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request that is being worked on.
    pub(crate) fn current() -> Option<Arc<Self>> {
        REQUEST.with_borrow(Clone::clone)
    }

    /// Does `work` for a request of its own.
    pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
        let request = Arc::new(Self::default());
        let mut work = pin!(work);
        poll_fn(|context| {
            let before = REQUEST.replace(Some(Arc::clone(&request)));
            let polled = work.as_mut().poll(context);
            REQUEST.set(before);
            polled
        })
        .await
    }
}
