//! The command line: what there is, what each command takes, and how it ends.
//!
//! Results go to standard output, words for people to standard error. Exit codes: 0 done, 1 failed,
//! 2 bad usage or configuration, 3 a check found faults.

mod admin;
mod arguments;
mod audit;
mod check;
mod output;
mod policy;
mod set_up;

use std::process::ExitCode;
use std::sync::Arc;

use clap::ArgMatches;
use gate_tools::McpDoor;
use tokio_util::sync::CancellationToken;

use crate::config::{self, ConfigFault, Flags, Lookup, Process};
use crate::serve::{self, MakeDoor};
use crate::{demo, forward, logging, stripe_sandbox};

pub(crate) use output::Output;
pub(crate) use set_up::{SetUp, this_program};

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failed {
    /// A check found faults; they are told already.
    Faults,
    /// The configuration or the arguments will not do.
    Usage(String),
    /// It was tried and went wrong.
    Work(String),
}

impl Failed {
    const fn code(&self) -> u8 {
        match self {
            Self::Faults => 3,
            Self::Usage(_) => 2,
            Self::Work(_) => 1,
        }
    }
}

pub(crate) fn faults(faults: &[ConfigFault]) -> Failed {
    let lines: Vec<String> = faults.iter().map(|fault| format!("  {fault}")).collect();
    Failed::Usage(format!("the configuration has faults:\n{}", lines.join("\n")))
}

/// Runs the command that the process was started with.
#[must_use]
pub fn run() -> ExitCode {
    run_with(McpDoor::new)
}

/// The same, where `serve` speaks MCP through another door: a test's, which adds to ours.
#[must_use]
pub fn run_with(door: MakeDoor) -> ExitCode {
    let matches = match arguments::command().try_get_matches() {
        Ok(matches) => matches,
        Err(told) => {
            // Help and version are results; everything else is bad usage.
            let code = if told.use_stderr() { 2 } else { 0 };
            drop(told.print());
            return ExitCode::from(code);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            Output::plain().say(&format!("the runtime cannot be started: {error}"));
            return ExitCode::from(1);
        }
    };
    match runtime.block_on(dispatch(&matches, door)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            if let Failed::Usage(told) | Failed::Work(told) = &failed {
                Output::plain().say(&format!("action-gateway: {told}"));
            }
            ExitCode::from(failed.code())
        }
    }
}

async fn dispatch(matches: &ArgMatches, door: MakeDoor) -> Result<(), Failed> {
    let lookup: Arc<dyn Lookup> = Arc::new(Process);
    let (name, given) = matches.subcommand().unwrap_or_default_command()?;
    let out = Output::new(given);
    match name {
        "authority" => authority_command(given, lookup, &out).await,
        "serve" => serve_command(given, lookup, &out, door).await,
        "demo" => demo::run(given, &out).await,
        "stripe-sandbox" => sandbox_command(given, &out).await,
        "mcp" => forward::run(lookup.as_ref()).await,
        "check" => check::run(given, lookup, &out).await,
        "reconcile" => reconcile(given, lookup, &out).await,
        "print" => print(given, &out),
        _ => admin::run(name, given, lookup, &out).await,
    }
}

trait Subcommand<'a> {
    fn unwrap_or_default_command(self) -> Result<(&'a str, &'a ArgMatches), Failed>;
}

impl<'a> Subcommand<'a> for Option<(&'a str, &'a ArgMatches)> {
    fn unwrap_or_default_command(self) -> Result<(&'a str, &'a ArgMatches), Failed> {
        self.ok_or_else(|| Failed::Usage("name a command; --help lists them".to_owned()))
    }
}

async fn serve_command(
    given: &ArgMatches,
    lookup: Arc<dyn Lookup>,
    out: &Output,
    door: MakeDoor,
) -> Result<(), Failed> {
    let loaded = config::load(lookup.as_ref(), &Flags::from_matches(given))
        .map_err(|found| faults(&found))?;
    logging::init(&loaded.config.log).map_err(|error| Failed::Work(error.to_string()))?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    if loaded.config.stripe.key.is_none() {
        tracing::warn!(
            "no Stripe key: every refund answers stripe_key_missing; set STRIPE_SECRET_KEY_FILE"
        );
    }
    if loaded.config.stripe.webhook.is_none() {
        tracing::info!(
            "no webhook secret: refunds are followed by polling only, hourly on their first day \
             and then daily; set STRIPE_WEBHOOK_SECRET_FILE to hear from Stripe at once"
        );
    }
    let serving = serve::start_with(loaded.config, lookup, door).await.map_err(Failed::Work)?;
    out.listening(&serving.url());
    tracing::info!(address = %serving.address, version = env!("CARGO_PKG_VERSION"), "serving");
    if let Some(url) = serving.authority_url() {
        out.authority_listening(&url);
        tracing::info!(url, "serving the authority to gateways");
    }
    let stop = stop_at_signal();
    serving.run(stop).await.map_err(Failed::Work)
}

async fn authority_command(
    given: &ArgMatches,
    lookup: Arc<dyn Lookup>,
    out: &Output,
) -> Result<(), Failed> {
    let loaded = config::load(lookup.as_ref(), &Flags::from_matches(given))
        .map_err(|found| faults(&found))?;
    logging::init(&loaded.config.log).map_err(|error| Failed::Work(error.to_string()))?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let serving = serve::start_authority(&loaded.config, &lookup).await.map_err(Failed::Work)?;
    out.listening(&serving.served.url());
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "serving the authority to gateways");
    serving.run(stop_at_signal()).await.map_err(Failed::Work)
}

/// One round of the reconciler and the sweeper, beside a running gateway or without one.
async fn reconcile(
    given: &ArgMatches,
    lookup: Arc<dyn Lookup>,
    out: &Output,
) -> Result<(), Failed> {
    let mut loaded = config::load(lookup.as_ref(), &Flags::from_matches(given))
        .map_err(|found| faults(&found))?;
    // Nobody is served: any port will do.
    loaded.config.server.listen.set_port(0);
    let serving = serve::start(loaded.config, lookup).await.map_err(Failed::Work)?;
    let found = serving.gateway.round().await.map_err(|error| Failed::Work(error.to_string()))?;
    let rows: Vec<_> = found
        .iter()
        .map(|(id, what)| serde_json::json!({ "intentId": id.as_str(), "found": what }))
        .collect();
    out.either(&rows, || {
        found.iter().map(|(id, what)| format!("{id}  {what}")).collect::<Vec<_>>().join("\n")
    });
    if found.is_empty() {
        out.say("Nothing was left half-way.");
    }
    Ok(())
}

/// A token that is cancelled at SIGTERM or SIGINT.
pub(crate) fn stop_at_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let told = stop.clone();
    // Ends with the process; awaited by nobody because there is nothing left of it to await.
    tokio_util::task::TaskTracker::new().spawn(async move {
        if let Err(error) = serve::told_to_stop().await {
            tracing::error!("signals cannot be had: {error}");
        }
        told.cancel();
    });
    stop
}

async fn sandbox_command(given: &ArgMatches, out: &Output) -> Result<(), Failed> {
    let port = *given.get_one::<u16>("port").unwrap_or(&0);
    let seed = *given.get_one::<u64>("seed").unwrap_or(&0);
    let clock = Arc::new(crate::system::SystemClock::start());
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let (listener, address) = crate::listen::open(at)
        .await
        .map_err(|error| Failed::Work(format!("cannot listen on {at}: {error}; try --port 0")))?;
    out.listening(&format!("http://{address}"));
    let sandbox = stripe_sandbox::SharedSandbox::new(seed, clock);
    sandbox.serve(listener, stop_at_signal()).await;
    Ok(())
}

fn print(given: &ArgMatches, out: &Output) -> Result<(), Failed> {
    let what = given.get_one::<String>("what").map(String::as_str).unwrap_or_default();
    let json = |value: &serde_json::Value| {
        serde_json::to_string_pretty(value).map_err(|error| Failed::Work(error.to_string()))
    };
    let text = match what {
        "config" => config::reference_markdown(),
        "errors" => gate_api::errors_markdown(),
        "manifest" => json(&crate::listing::manifest())?,
        "openapi" => json(&crate::http::api_document())?,
        "server" => json(&crate::listing::server())?,
        _ => json(&config::file_schema())?,
    };
    out.result(text.trim_end());
    Ok(())
}
