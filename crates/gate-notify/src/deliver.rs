//! Takes notices, sends them, and records what came of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt};
use gate_core::{AgentName, AuthorityError, Clock, Fate, Ids, Notice, Outbox};
use gate_http::{Method, Request, Transport, TransportError};
use tokio_util::sync::CancellationToken;

use crate::notice::{body, id};
use crate::signature::{Secret, signatures};

/// The deadline of one attempt.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a notice is taken for: longer than an attempt and recording what came of it.
const LEASE: Duration = Duration::from_secs(30);
/// Longest body of an answer that is read, in bytes; nobody looks at it.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How old an event is when it is given up, if it was tried.
const KEPT: Duration = Duration::from_secs(3 * 24 * 3600);
/// Longest pause after the first failure; doubles with each, up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// Agents that are sent to at once.
const FLIGHTS_MAX: usize = 32;
/// Least time between two looks that commits give rise to.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// How often the outbox is looked at by itself, and how soon again when that failed.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
const LOOK_RETRY: Duration = Duration::from_secs(5);

/// Tells when there may be something new.
#[async_trait]
pub trait Wake: Send {
    /// Takes note of everything that happened so far.
    fn mark(&mut self);

    /// Completes when something happened since.
    async fn woken(&mut self);
}

/// The secret of an agent in one of its generations.
pub type Secrets = Arc<dyn Fn(&AgentName, u32) -> Secret + Send + Sync>;

/// Sends notices.
pub struct Deliverer {
    outbox: Arc<dyn Outbox>,
    secrets: Secrets,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Deliverer {
    /// A deliverer. `transport` is what decides where it may send to; it follows no redirects.
    #[must_use]
    pub fn new(
        outbox: Arc<dyn Outbox>,
        secrets: Secrets,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self { outbox, secrets, transport, clock, ids }
    }

    /// Sends what is to be sent until `stop`, and finishes what is under way then.
    pub async fn run(&self, wake: &mut dyn Wake, stop: &CancellationToken) {
        let mut flights = FuturesUnordered::new();
        let mut flying: BTreeSet<AgentName> = BTreeSet::new();
        while !stop.is_cancelled() {
            wake.mark();
            let pause = match self.outbox.waiting().await {
                Ok(waiting) => {
                    for agent in waiting.due {
                        if flights.len() < FLIGHTS_MAX && flying.insert(agent.clone()) {
                            flights.push(self.flight(agent, stop));
                        }
                    }
                    waiting.next_in.unwrap_or(LOOK_INTERVAL).min(LOOK_INTERVAL)
                }
                Err(error) => {
                    tracing::warn!("cannot look for notices to send: {error}");
                    LOOK_RETRY
                }
            };
            let woken = async {
                wake.woken().await;
                self.clock.sleep_until(self.clock.deadline(LOOK_PAUSE)).await;
            };
            tokio::select! {
                () = stop.cancelled() => {}
                Some(agent) = flights.next() => drop(flying.remove(&agent)),
                () = woken => {}
                () = self.clock.sleep_until(self.clock.deadline(pause)) => {}
            }
        }
        while flights.next().await.is_some() {}
    }

    /// Sends one agent's notices, one after the other, until there is none, or one is not taken.
    async fn flight(&self, agent: AgentName, stop: &CancellationToken) -> AgentName {
        if let Err(error) = self.deliver(&agent, || !stop.is_cancelled()).await {
            tracing::warn!(%agent, "cannot take or record a notice: {error}");
            self.clock.sleep_until(self.clock.deadline(LOOK_RETRY)).await;
        }
        agent
    }

    /// Sends one agent's notices until there is none, or one is not taken, or `go_on` says no after one
    /// that was.
    ///
    /// # Errors
    ///
    /// The outbox's. What was sent may be sent again.
    pub async fn deliver(
        &self,
        agent: &AgentName,
        go_on: impl Fn() -> bool + Send,
    ) -> Result<(), AuthorityError> {
        while let Some(mut notice) = self.outbox.take(agent, LEASE).await? {
            loop {
                let (fate, result) = self.attempt(&notice).await;
                tell(&notice, fate, &result);
                let goes_on = fate == Fate::Delivered && go_on();
                let lease = goes_on.then_some(LEASE);
                match self.outbox.record(&notice, fate, &result, lease).await? {
                    Some(next) => notice = next,
                    None if goes_on => break,
                    None => return Ok(()),
                }
            }
        }
        Ok(())
    }

    async fn attempt(&self, notice: &Notice) -> (Fate, String) {
        let by = self.clock.deadline(CALL_TIMEOUT);
        let sent = self.transport.send(self.request(notice), by).await;
        self.fate(notice, sent.map(|answer| answer.status))
    }

    fn request(&self, notice: &Notice) -> Request {
        let (id, body) = (id(notice), body(notice));
        let secret = |generation: &u32| (self.secrets)(&notice.agent, *generation);
        let secrets: Vec<Secret> = notice.generations.iter().map(secret).collect();
        let timestamp = notice.taken_at.millis().div_euclid(1000).to_string();
        let signature = signatures(&secrets, &id, &timestamp, &body);
        Request {
            method: Method::Post,
            url: notice.url.clone(),
            headers: vec![
                ("content-type", "application/json".into()),
                ("user-agent", concat!("action-gateway/", env!("CARGO_PKG_VERSION")).into()),
                ("webhook-id", id.as_str().into()),
                ("webhook-timestamp", timestamp.as_str().into()),
                ("webhook-signature", signature.as_str().into()),
            ],
            body,
        }
    }

    fn fate(&self, notice: &Notice, sent: Result<u16, TransportError>) -> (Fate, String) {
        let result = match sent {
            Ok(status @ 200..=299) => return (Fate::Delivered, status.to_string()),
            Ok(410) => return (Fate::Gone, "410".to_owned()),
            Ok(status @ 300..=399) => format!("{status}, and redirects are not followed"),
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let pause = jittered(pause_max(notice.attempts), self.ids.as_ref());
        let is_old = notice.taken_at.since(notice.at) >= KEPT;
        (if is_old { Fate::GivenUp(pause) } else { Fate::Failed(pause) }, result)
    }
}

/// The longest pause after a failure that `before` failures went before.
#[must_use]
pub fn pause_max(before: u32) -> Duration {
    let factor = 2_u32.checked_pow(before).unwrap_or(u32::MAX);
    PAUSE_FIRST.saturating_mul(factor).min(PAUSE_MAX)
}

/// Anything up to `bound`, so that many who failed together do not come back together.
fn jittered(bound: Duration, ids: &dyn Ids) -> Duration {
    let mut bytes = [0; 2];
    ids.fill(&mut bytes);
    let part = u32::from(u16::from_be_bytes(bytes)).saturating_add(1);
    bound.saturating_mul(part).checked_div(1 << 16).unwrap_or(bound)
}

fn tell(notice: &Notice, fate: Fate, result: &str) {
    let Notice { agent, n, event, intent, .. } = notice;
    let id = &intent.id;
    match fate {
        Fate::Delivered => {
            tracing::debug!(%agent, n, event, intent.id = %id, "told its webhook: {result}");
        }
        Fate::Failed(pause) => tracing::info!(
            %agent, n, event, intent.id = %id, pause_secs = pause.as_secs(),
            "its webhook did not take it: {result}"
        ),
        Fate::GivenUp(_) => tracing::warn!(
            %agent, n, event, intent.id = %id,
            "given up: its webhook did not take it for three days; `agent webhook --resend` sends \
             it again: {result}"
        ),
        Fate::Gone => tracing::warn!(
            %agent, n, event, intent.id = %id,
            "its webhook says that it is gone, and is told nothing more: change its line in the \
             policy, or use `agent webhook --resume`"
        ),
    }
}
