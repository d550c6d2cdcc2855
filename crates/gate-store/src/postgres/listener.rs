//! Hears of commits, by whichever process.
//!
//! A connection of its own listens. When it is lost, whoever waits is woken at once, again with
//! every try to connect, and once more when it listens again: nothing is missed, because whoever is
//! woken reads again, and asking in turns stands in for listening meanwhile.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client, Config};

use super::tls::Tls;

/// How long after a loss it is tried to listen again; so often whoever waits is woken meanwhile.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it is asked whether the connection is still there.
const BEAT: Duration = Duration::from_secs(10);
/// How long the answer to that may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Listens for ever. `first` is told when it listens for the first time, or dropped when that fails.
pub(super) async fn run(
    config: Config,
    tls: Tls,
    changed: watch::Sender<u64>,
    first: oneshot::Sender<()>,
) {
    let mut first = Some(first);
    loop {
        if let Err(error) = listen(&config, tls.clone(), &changed, first.take()).await {
            tracing::warn!(%error, "the connection that listens to PostgreSQL was lost");
        }
        tell(&changed);
        sleep(PAUSE).await;
    }
}

pub(super) fn tell(changed: &watch::Sender<u64>) {
    changed.send_modify(|count| *count = count.wrapping_add(1));
}

/// Listens until the connection is lost.
async fn listen(
    config: &Config,
    tls: Tls,
    changed: &watch::Sender<u64>,
    first: Option<oneshot::Sender<()>>,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = config.connect(tls).await?;
    let hear = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message? {
                tell(changed);
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = hear => ended,
        ended = beat(&client, changed, first) => ended,
    }
}

/// Begins to listen, and asks now and then whether the connection is still there.
async fn beat(
    client: &Client,
    changed: &watch::Sender<u64>,
    first: Option<oneshot::Sender<()>>,
) -> Result<(), tokio_postgres::Error> {
    const LISTEN: &str = include_str!("sql/listen.sql");
    client.batch_execute(LISTEN).await?;
    match first {
        // Nobody waits yet, or hears that the receiver is gone.
        Some(first) => first.send(()).unwrap_or_default(),
        // Of what was committed since the loss, nothing was heard.
        None => tell(changed),
    }
    loop {
        sleep(BEAT).await;
        match timeout(ANSWER_MAX, client.batch_execute("")).await {
            Ok(answered) => answered?,
            Err(_) => return Ok(()),
        }
    }
}
