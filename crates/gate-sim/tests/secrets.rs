//! That no key stands in a log line, whatever goes wrong.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gate_sim::{Options, run};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn lines(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.lines().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[test]
fn no_key_is_logged() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(lines.clone())
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .finish();
    tracing_subscriber::util::SubscriberInitExt::try_init(subscriber).unwrap();
    for seed in 0..30 {
        assert_eq!(run(seed, &Options::default()).violations, [], "seed {seed}");
    }
    let text = String::from_utf8(lines.lines().clone()).unwrap();
    assert!(text.contains("sent a refund to Stripe"), "nothing was logged");
    for secret in ["rk_test_", "bb_agent_", "Bearer "] {
        assert!(!text.contains(secret), "{secret} is in a log line");
    }
}
