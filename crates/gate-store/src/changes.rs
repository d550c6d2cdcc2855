//! Waiting for a commit, instead of asking again and again.

use tokio::sync::watch;

/// A counter that rises with every commit. Readers that read after [`Changes::mark`] and then wait
/// miss nothing.
#[derive(Clone, Debug)]
pub struct Changes(watch::Receiver<u64>);

impl Changes {
    pub(crate) fn channel() -> (watch::Sender<u64>, Self) {
        let (sender, receiver) = watch::channel(0);
        (sender, Self(receiver))
    }

    /// Takes note of everything committed so far.
    pub fn mark(&mut self) {
        self.0.mark_unchanged();
    }

    /// Completes when the store can write no more, for good: its writer has ended.
    pub async fn lost(&mut self) {
        while self.0.changed().await.is_ok() {}
    }

    /// Completes at the first commit after the last [`Changes::mark`]; never, once the store is
    /// gone.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
