//! A single-threaded executor on virtual time. No task runs by itself: each poll is a step, which
//! task is polled next is drawn from the seed, and time moves only when nobody can go on.
//!
//! Wakers may be woken in any order (tokio's channels pick theirs by thread-local chance); what is
//! ready is a set, so that a seed replays all the same.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::draw::mixed;

/// A work of the simulated world.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whose task it is; a crash ends all tasks of a node.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Node(pub(crate) u8);

impl Node {
    /// The gateways.
    pub(crate) const GATEWAYS: [Self; 2] = [Self(0), Self(1)];
    /// People and agents, and the command line that people use.
    pub(crate) const DESK: Self = Self(2);
    /// Stripe and the way to it, and the way to an authority elsewhere.
    pub(crate) const STRIPE: Self = Self(3);
    /// The processes that serve the authority, where it is elsewhere.
    pub(crate) const REPLICAS: [Self; 2] = [Self(4), Self(5)];
}

/// What one step came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// A task of this node was polled.
    Polled(Node),
    /// Nobody could go on, and time moved.
    Waited,
    /// Nobody can go on before the limit; it is the time now.
    Limit,
}

struct Task {
    node: Node,
    work: Work,
    waker: Waker,
}

struct Inner {
    now_ms: u64,
    /// Sorted.
    ready: Vec<u64>,
    timers: BinaryHeap<Reverse<(u64, u64)>>,
    sleepers: BTreeMap<u64, Waker>,
    next_sleeper: u64,
    spawned: Vec<(u64, Node, Work)>,
    next_task: u64,
}

/// What tasks hold of the executor: time, timers, new tasks.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Mutex<Inner>>);

/// The executor.
pub(crate) struct Executor {
    handle: Handle,
    tasks: BTreeMap<u64, Task>,
    /// Nodes that stand still, and until when.
    frozen: BTreeMap<Node, u64>,
    seed: u64,
    polls: u64,
}

struct Awake {
    task: u64,
    handle: Handle,
}

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.handle.inner().ready(self.task);
    }
}

impl Inner {
    fn ready(&mut self, task: u64) {
        if let Err(place) = self.ready.binary_search(&task) {
            self.ready.insert(place, task);
        }
    }
}

impl Handle {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Virtual milliseconds since the world began.
    pub(crate) fn now_ms(&self) -> u64 {
        self.inner().now_ms
    }

    /// Starts a task of `node`.
    pub(crate) fn spawn(&self, node: Node, work: impl Future<Output = ()> + Send + 'static) {
        let mut inner = self.inner();
        let id = inner.next_task;
        inner.next_task += 1;
        inner.spawned.push((id, node, Box::pin(work)));
        inner.ready(id);
    }

    /// Completes when the world is `at_ms` old.
    pub(crate) fn sleep_until(&self, at_ms: u64) -> Sleep {
        Sleep { handle: self.clone(), at_ms, place: None }
    }

    /// Completes `for_ms` from now.
    pub(crate) fn sleep(&self, for_ms: u64) -> Sleep {
        self.sleep_until(self.now_ms().saturating_add(for_ms))
    }

    /// Lets others go first.
    pub(crate) const fn give_way(&self) -> GiveWay {
        GiveWay { gave: false }
    }
}

/// See [`Handle::sleep_until`].
pub(crate) struct Sleep {
    handle: Handle,
    at_ms: u64,
    place: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let handle = self.handle.clone();
        let mut inner = handle.inner();
        if inner.now_ms >= self.at_ms {
            return Poll::Ready(());
        }
        let at_ms = self.at_ms;
        let place = *self.place.get_or_insert_with(|| {
            let place = inner.next_sleeper;
            inner.next_sleeper += 1;
            inner.timers.push(Reverse((at_ms, place)));
            place
        });
        inner.sleepers.insert(place, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.handle.inner().sleepers.remove(&place);
        }
    }
}

/// See [`Handle::give_way`].
pub(crate) struct GiveWay {
    gave: bool,
}

impl Future for GiveWay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.gave, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Executor {
    /// An executor without tasks, whose order of polls comes from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let inner = Inner {
            now_ms: 0,
            ready: Vec::new(),
            timers: BinaryHeap::new(),
            sleepers: BTreeMap::new(),
            next_sleeper: 0,
            spawned: Vec::new(),
            next_task: 0,
        };
        let handle = Handle(Arc::new(Mutex::new(inner)));
        Self { handle, tasks: BTreeMap::new(), frozen: BTreeMap::new(), seed, polls: 0 }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// How many polls there were.
    pub(crate) const fn polls(&self) -> u64 {
        self.polls
    }

    /// Polls one task, or lets time pass to the next timer, up to `limit_ms`.
    pub(crate) fn step(&mut self, limit_ms: u64) -> Step {
        let mut inner = self.handle.inner();
        for (id, node, work) in inner.spawned.drain(..) {
            let waker = Waker::from(Arc::new(Awake { task: id, handle: self.handle.clone() }));
            self.tasks.insert(id, Task { node, work, waker });
        }
        let now_ms = inner.now_ms;
        self.frozen.retain(|_, until_ms| *until_ms > now_ms);
        let frozen = |id: &u64| {
            !self.frozen.is_empty()
                && self.tasks.get(id).is_some_and(|task| self.frozen.contains_key(&task.node))
        };
        let held = inner.ready.iter().filter(|id| frozen(id)).count();
        if inner.ready.len() == held {
            // Who stands still goes on by itself.
            let limit_ms = match self.frozen.values().min() {
                Some(thaws_ms) if held > 0 && *thaws_ms < limit_ms => {
                    let due = inner.wait(*thaws_ms);
                    drop(inner);
                    due.into_iter().flatten().for_each(Waker::wake);
                    return Step::Waited;
                }
                _ => limit_ms,
            };
            let due = inner.wait(limit_ms);
            drop(inner);
            return due.map_or(Step::Limit, |due| {
                due.into_iter().for_each(Waker::wake);
                Step::Waited
            });
        }
        self.polls += 1;
        let chosen = mixed(self.seed, 1, self.polls, 0) as usize % (inner.ready.len() - held);
        let mut free = inner.ready.iter().enumerate().filter(|(_, id)| !frozen(id));
        let place = free.nth(chosen).map_or(0, |(place, _)| place);
        let id = inner.ready.remove(place);
        drop(inner);
        let Some(task) = self.tasks.get_mut(&id) else {
            return Step::Waited;
        };
        let node = task.node;
        let mut context = Context::from_waker(&task.waker);
        if task.work.as_mut().poll(&mut context).is_ready() {
            self.tasks.remove(&id);
        }
        Step::Polled(node)
    }

    /// Lets a node stand still for `for_ms`: time goes on, and it does not notice.
    pub(crate) fn freeze(&mut self, node: Node, for_ms: u64) {
        let until_ms = self.handle.now_ms() + for_ms;
        self.frozen.insert(node, until_ms);
    }

    /// Ends every task of a node where it stands.
    pub(crate) fn crash(&mut self, node: Node) {
        let (ended, kept) =
            std::mem::take(&mut self.tasks).into_iter().partition(|(_, task)| task.node == node);
        self.tasks = kept;
        let mut inner = self.handle.inner();
        let (spawned, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut inner.spawned).into_iter().partition(|(_, of, _)| *of == node);
        inner.spawned = others;
        drop(inner);
        // What a task holds may wake others or end timers as it goes: not under the lock.
        let _: (BTreeMap<u64, Task>, Vec<_>) = (ended, spawned);
    }
}

impl Inner {
    /// Moves time to the next timer that somebody still waits for, or to the limit.
    fn wait(&mut self, limit_ms: u64) -> Option<Vec<Waker>> {
        while let Some(Reverse((at_ms, place))) = self.timers.peek().copied() {
            if self.sleepers.contains_key(&place) {
                if at_ms > limit_ms {
                    break;
                }
                self.now_ms = self.now_ms.max(at_ms);
                return Some(self.due());
            }
            self.timers.pop();
        }
        self.now_ms = self.now_ms.max(limit_ms);
        None
    }

    /// Takes out whoever's time has come.
    fn due(&mut self) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(Reverse((at_ms, place))) = self.timers.peek().copied() {
            if at_ms > self.now_ms {
                break;
            }
            self.timers.pop();
            due.extend(self.sleepers.remove(&place));
        }
        due
    }
}

/// Wakes everybody who waits for it, each time it is rung.
#[derive(Clone, Default)]
pub(crate) struct Bell(Arc<Mutex<(u64, Vec<Waker>)>>);

impl Bell {
    /// Wakes everybody.
    pub(crate) fn ring(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Completes when it is next rung.
    pub(crate) fn rung(&self) -> Rung {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        Rung { bell: self.clone(), heard }
    }
}

/// See [`Bell::rung`].
pub(crate) struct Rung {
    bell: Bell,
    heard: u64,
}

impl Future for Rung {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.bell.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 != self.heard {
            return Poll::Ready(());
        }
        state.1.retain(|waker| !waker.will_wake(context.waker()));
        state.1.push(context.waker().clone());
        Poll::Pending
    }
}

/// A value that one task hands to another, once.
pub(crate) struct Slot<T>(Arc<Mutex<SlotState<T>>>);

/// The giving end; dropped unused, the taker learns that nothing will come.
pub(crate) struct Give<T>(Arc<Mutex<SlotState<T>>>);

struct SlotState<T> {
    value: Option<T>,
    closed: bool,
    waiting: Option<Waker>,
}

/// The two ends of a hand-over.
pub(crate) fn hand_over<T>() -> (Give<T>, Slot<T>) {
    let state = Arc::new(Mutex::new(SlotState { value: None, closed: false, waiting: None }));
    (Give(Arc::clone(&state)), Slot(state))
}

impl<T> Give<T> {
    /// Hands the value over.
    pub(crate) fn give(self, value: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).value = Some(value);
    }
}

impl<T> Drop for Give<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}

impl<T> Future for Slot<T> {
    /// `None` when the giver is gone.
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.value.is_some() || state.closed {
            return Poll::Ready(state.value.take());
        }
        state.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64) -> Vec<(u64, u8)> {
        let mut executor = Executor::new(seed);
        let handle = executor.handle();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for n in 0..4 {
            let (own, seen) = (handle.clone(), Arc::clone(&seen));
            handle.spawn(Node(n), async move {
                for _ in 0..3 {
                    own.give_way().await;
                    seen.lock().unwrap().push((own.now_ms(), n));
                }
                own.sleep(u64::from(n)).await;
                seen.lock().unwrap().push((own.now_ms(), n));
            });
        }
        while executor.step(100) != Step::Limit {}
        assert_eq!(executor.handle().now_ms(), 100);
        seen.lock().unwrap().clone()
    }

    #[test]
    fn a_seed_replays_and_another_differs() {
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let ends: Vec<_> = order(3).split_off(13);
        assert_eq!(ends, [(1, 1), (2, 2), (3, 3)], "timers go by time");
    }

    #[test]
    fn a_crash_ends_what_its_node_does_and_tells_who_waits() {
        let mut executor = Executor::new(1);
        let handle = executor.handle();
        let (give, slot) = hand_over::<u8>();
        let own = handle.clone();
        handle.spawn(Node(0), async move {
            own.sleep(50).await;
            give.give(1);
        });
        let told = Arc::new(Mutex::new(None));
        let tell = Arc::clone(&told);
        handle.spawn(Node(1), async move { *tell.lock().unwrap() = Some(slot.await) });
        while executor.step(10) != Step::Limit {}
        assert_eq!(*told.lock().unwrap(), None);
        executor.crash(Node(0));
        while executor.step(100) != Step::Limit {}
        assert_eq!(*told.lock().unwrap(), Some(None));
    }
}
