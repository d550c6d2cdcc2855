//! `demo`: everything on loopback, with nothing to sign up for. The sandbox stands in for Stripe;
//! the gateway, its store and its authority are the real ones.

mod tour;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ArgMatches;
use gate_authority::{Actor, Admin};
use gate_core::{AgentName, UserName};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cli::{Failed, Output, faults, stop_at_signal};
use crate::config::{self, FileFacts, Flags, Lookup, Process};
use crate::embedded::Embedded;
use crate::listen;
use crate::serve::{self, Seams, Serving};
use crate::stripe_sandbox::SharedSandbox;
use crate::system::SystemClock;

/// The demo's agent, and the person who reviews for it.
const AGENT: &str = "support-bot";
const REVIEWER: &str = "maria";
/// What its Stripe signs webhooks with; both live and end with the demo.
const WEBHOOK_SECRET: &str = "whsec_demo";
/// The demo's policy.
const POLICY: &str = include_str!("demo/policy.toml");

/// Runs the demo: the tour once, or until somebody stops it.
pub(crate) async fn run(given: &ArgMatches, out: &Output) -> Result<(), Failed> {
    let seed = *given.get_one::<u64>("seed").unwrap_or(&0);
    let port = *given.get_one::<u16>("port").unwrap_or(&0);
    let home = tempfile::Builder::new()
        .prefix("action-gateway-demo-")
        .tempdir()
        .map_err(|error| Failed::Work(format!("no folder for the demo can be made: {error}")))?;
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let sandbox = start_sandbox(seed, &stop, &tasks).await?;
    let serving = start_gateway(&sandbox.1, home.path(), port).await?;
    let url = serving.url();
    let Some(authority) = serving.gateway.decider.embedded().cloned() else {
        return Err(Failed::Work("the demo's authority is not in this process".to_owned()));
    };
    let agent_key = set_up(&authority).await.map_err(Failed::Work)?;
    let stopping = stop.clone();
    tasks.spawn(async move {
        if let Err(said) = serving.run(stopping).await {
            tracing::error!("{said}");
        }
    });
    let stage = tour::Stage {
        authority: Arc::clone(&authority.authority),
        sandbox: sandbox.0,
        sandbox_url: sandbox.1,
        url,
        home: home.path().to_owned(),
        agent_key,
    };
    let played = if given.get_flag("once") {
        tour::play(&stage, out).await
    } else {
        tour::guide(&stage, out);
        stop_at_signal().cancelled().await;
        Ok(())
    };
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    played.map_err(Failed::Work)
}

async fn start_sandbox(
    seed: u64,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<(SharedSandbox, String), Failed> {
    let sandbox = SharedSandbox::new(seed, Arc::new(SystemClock::start()));
    let (listener, address) = listen::open(([127, 0, 0, 1], 0).into())
        .await
        .map_err(|error| Failed::Work(format!("no loopback port can be had: {error}")))?;
    tasks.spawn(sandbox.clone().serve(listener, stop.clone()));
    Ok((sandbox, format!("http://{address}")))
}

/// The gateway as `serve` starts it, configured by flags alone: the demo looks at no variable, so
/// that a real key or a real store is never touched.
async fn start_gateway(sandbox_url: &str, home: &Path, port: u16) -> Result<Serving, Failed> {
    let settings = [
        ("stripe.api_base", sandbox_url.to_owned()),
        ("rates.fx_url", format!("{sandbox_url}/_sandbox/rates/eurofxref-daily.xml")),
        ("store.data_dir", home.display().to_string()),
        ("store.ephemeral", "1".to_owned()),
        ("server.port", port.to_string()),
    ];
    let flags: Flags = settings.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let lookup = Arc::new(Isolated);
    let loaded = config::load(lookup.as_ref(), &flags).map_err(|found| faults(&found))?;
    serve::start(loaded.config, lookup, Seams::default()).await.map_err(Failed::Work)
}

/// Makes the agent, the reviewer and the policy; answers the agent's key.
async fn set_up(embedded: &Embedded) -> Result<String, String> {
    let admin = Admin::new(&embedded.authority, Actor::cli("demo", None));
    let agent = AgentName::parse(AGENT).map_err(|error| error.to_string())?;
    let reviewer = UserName::parse(REVIEWER).map_err(|error| error.to_string())?;
    let told = |error: gate_authority::AdminError| error.to_string();
    admin.create_user(&reviewer, &["reviewer".to_owned()]).await.map_err(told)?;
    admin.apply_policy(POLICY).await.map_err(told)?;
    let (_, key) = admin.create_agent(&agent, None, false).await.map_err(told)?;
    // So that the first refund in another currency has a rate to be counted by.
    embedded.fetch_rates_once().await.map_err(|error| error.to_string())?;
    Ok(key.expose().to_owned())
}

/// The variables that the demo is given.
const GIVEN: [(&str, &str); 2] =
    [("STRIPE_SECRET_KEY", "rk_test_demo"), ("STRIPE_WEBHOOK_SECRET", WEBHOOK_SECRET)];

/// The process with an environment of its own.
struct Isolated;

impl Lookup for Isolated {
    fn absolute(&self, path: &Path) -> PathBuf {
        Process.absolute(path)
    }

    fn facts(&self, path: &Path) -> io::Result<FileFacts> {
        Process.facts(path)
    }

    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        Process.read_file(path)
    }

    fn user(&self) -> Option<u32> {
        Process.user()
    }

    fn variable(&self, name: &str) -> Option<String> {
        let mut given = GIVEN.iter().filter(|(known, _)| *known == name);
        given.next().map(|(_, value)| (*value).to_owned())
    }

    fn variables(&self) -> Vec<String> {
        GIVEN.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
}
