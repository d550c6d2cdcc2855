//! `check`: whether the configuration and the policy hold together and, with `--online`, whether
//! the store, the Stripe key and the exchange rates do.

use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use gate_authority::{Actor, Admin};
use gate_core::Clock;
use gate_policy::Policy;
use gate_stripe::CheckState;
use serde::Serialize;

use super::{Failed, Output, faults};
use crate::config::{self, Flags, Lookup};
use crate::serve;
use crate::system::SystemClock;

/// How long the questions to Stripe may take, all together.
const ONLINE_TIMEOUT: Duration = Duration::from_secs(60);

/// One line of the report.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    /// `ok`, `warning` or `fault`.
    level: &'static str,
    detail: String,
}

impl Finding {
    fn new(what: &str, level: &'static str, detail: impl Into<String>) -> Self {
        Self { what: what.to_owned(), level, detail: detail.into() }
    }
}

/// Runs the check; ends with code 3 when it found faults.
pub(super) async fn run(
    given: &ArgMatches,
    lookup: Arc<dyn Lookup>,
    out: &Output,
) -> Result<(), Failed> {
    let flags = Flags::from_matches(given);
    let loaded = config::load(lookup.as_ref(), &flags).map_err(|found| faults(&found))?;
    let mut found = vec![Finding::new("configuration", "ok", "can be used")];
    let warned = loaded.warnings.iter();
    found.extend(warned.map(|warning| Finding::new("configuration", "warning", warning)));
    let stored = lookup.facts(&loaded.config.store.database).is_ok();
    if stored || given.get_flag("online") {
        // Port 0: a check must not stand in the way of a running gateway.
        let mut config = loaded.config;
        config.server.listen.set_port(0);
        let serving = serve::start(config, lookup).await.map_err(Failed::Work)?;
        found.extend(policy(&serving).await?);
        if given.get_flag("online") {
            found.extend(online(&serving).await);
        }
    } else {
        found.push(Finding::new("store", "ok", "none yet: it is made at the first start"));
    }
    let faulty = found.iter().any(|finding| finding.level == "fault");
    out.either(&found, || {
        let lines = found.iter().map(|f| format!("{:7}  {}: {}", f.level, f.what, f.detail));
        lines.collect::<Vec<_>>().join("\n")
    });
    if faulty { Err(Failed::Faults) } else { Ok(()) }
}

async fn policy(serving: &serve::Serving) -> Result<Vec<Finding>, Failed> {
    let admin = Admin::new(&serving.gateway.authority, Actor::cli("check", None));
    let (version, text) = admin.policy().await.map_err(|error| Failed::Work(error.to_string()))?;
    let name = format!("policy version {version}");
    Ok(match Policy::parse(&text) {
        Ok(policy) => {
            let warnings = policy.warnings();
            let warned = warnings.iter().map(|text| Finding::new(&name, "warning", text));
            std::iter::once(Finding::new(&name, "ok", "can be read")).chain(warned).collect()
        }
        Err(faults) => {
            faults.iter().map(|fault| Finding::new(&name, "fault", fault.to_string())).collect()
        }
    })
}

async fn online(serving: &serve::Serving) -> Vec<Finding> {
    let gateway = &serving.gateway;
    // How it went stands in what readiness says of the rates.
    drop(gateway.fetch_rates_once().await);
    let mut found = Vec::new();
    let view = gateway.readiness.look().await;
    for (check, seen) in &view.checks {
        let level = match seen.status {
            gate_api::CheckStatus::Ok => "ok",
            gate_api::CheckStatus::Degraded => "warning",
            gate_api::CheckStatus::Failing => "fault",
        };
        let name = serde_json::to_value(check).ok();
        let name = name.as_ref().and_then(|name| name.as_str()).unwrap_or("check").to_owned();
        found.push(Finding::new(&name, level, seen.detail.clone()));
    }
    let clock = SystemClock::start();
    for line in gateway.stripe.check(clock.deadline(ONLINE_TIMEOUT)).await {
        let name = format!("Stripe, {}", line.permission.resource.name());
        found.push(match line.state {
            CheckState::Ok => Finding::new(&name, "ok", "the key may read it"),
            CheckState::Missing { switches_off } => {
                Finding::new(&name, "warning", format!("missing; does not work: {switches_off}"))
            }
            CheckState::KeyUnusable => Finding::new(&name, "fault", "Stripe refuses the key"),
            CheckState::Unreachable => Finding::new(&name, "fault", "Stripe could not be asked"),
        });
    }
    found
}
