//! `check`: whether the configuration and the policy hold together; with `--online`, whether the
//! store, the Stripe key and the exchange rates do; with `--invariants`, whether the whole record
//! does and, where there is a Stripe key, Stripe's refunds with it.

use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use gate_authority::{Actor, Admin, Level, invariants, invariants_at_stripe};
use gate_core::Clock;
use gate_policy::Policy;
use gate_store::{PostgresAddress, PostgresState, PostgresStore};
use gate_stripe::{CheckState, Resource, StripeClient};
use serde::Serialize;

use super::admin::webhook_trouble;
use super::{Failed, Output, faults};
use crate::config::{self, Database, Flags, Lookup};
use crate::embedded::Embedded;
use crate::serve::{self, Seams};
use crate::system::SystemClock;

/// How long the questions to Stripe may take, all together.
const ONLINE_TIMEOUT: Duration = Duration::from_secs(60);
/// What findings about a database server are called.
const DATABASE: &str = "database";
/// What findings about the record are called, when they are none.
const INVARIANTS: &str = "invariants";

/// One line of the report.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    /// `ok`, `warning` or `fault`.
    level: &'static str,
    detail: String,
    /// The intent that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<String>,
    /// What to do, where the detail does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn new(what: &str, level: &'static str, detail: impl Into<String>) -> Self {
        Self { what: what.to_owned(), level, detail: detail.into(), intent: None, fix: None }
    }

    fn line(&self) -> String {
        let intent = self.intent.as_ref().map(|id| format!(" {id}:")).unwrap_or_default();
        let fix = self.fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
        format!("{:7}  {}:{intent} {}{fix}", self.level, self.what, self.detail)
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
    let stored = match loaded.config.store.as_ref().map(|store| &store.database) {
        None => false,
        Some(Database::File(path)) => lookup.facts(path).is_ok(),
        Some(Database::Postgres(address)) => {
            let (finding, stored) = postgres(address).await;
            found.push(finding);
            if !stored && found.last().is_some_and(|finding| finding.level == "fault") {
                return report(&found, out);
            }
            stored
        }
    };
    if stored || given.get_flag("online") {
        // Port 0: a check must not stand in the way of a running gateway.
        let mut config = loaded.config;
        let stripe_timeout = config.stripe.key.as_ref().map(|_| config.stripe.timeout);
        config.server.listen.set_port(0);
        let serving = serve::start(config, lookup, Seams::default()).await.map_err(Failed::Work)?;
        let embedded = serving.gateway.decider.embedded().cloned();
        let policy = match &embedded {
            Some(embedded) => policy(embedded, &mut found).await?,
            None => None,
        };
        if given.get_flag("online") {
            online(&serving, policy.as_ref(), &mut found).await;
            if embedded.is_none() {
                let detail = "the policy is with the authority: which rules need a fact that the \
                              Stripe key may not read is told there, by `check --online` with the \
                              same permissions";
                found.push(Finding::new("policy", "warning", detail));
            }
        }
        match (&embedded, given.get_flag(INVARIANTS)) {
            (_, false) => {}
            (Some(embedded), true) => {
                let stripe = serving.gateway.stripe.as_ref();
                found.extend(record(embedded, stripe, stripe_timeout).await?);
            }
            (None, true) => {
                let detail = "the record is with the authority: run `check --invariants` there";
                found.push(Finding::new(INVARIANTS, "warning", detail));
            }
        }
    } else if loaded.config.remote.is_some() {
        let detail = "a remote authority: `check --online` asks it";
        found.push(Finding::new("authority", "ok", detail));
    } else {
        found.push(Finding::new("store", "ok", "none yet: it is made at the first start"));
    }
    report(&found, out)
}

/// Whether the database can be reached, and its schema; also whether there is a store in it.
async fn postgres(address: &PostgresAddress) -> (Finding, bool) {
    match PostgresStore::look(address).await {
        Ok(PostgresState { schema: 0, .. }) => {
            let detail = format!("{address} can be reached and is empty");
            (Finding::new(DATABASE, "ok", detail), false)
        }
        Ok(PostgresState { schema, known }) if schema <= known => {
            let later = if schema < known { ", and is brought up to this program's" } else { "" };
            let detail = format!("{address} has the schema of migration {schema}{later}");
            (Finding::new(DATABASE, "ok", detail), true)
        }
        Ok(PostgresState { schema, known }) => {
            let detail = format!(
                "{address} has the schema of migration {schema}, and this program knows {known}"
            );
            let fix = Some("start the newer version".to_owned());
            (Finding { fix, ..Finding::new(DATABASE, "fault", detail) }, false)
        }
        Err(error) => (Finding::new(DATABASE, "fault", format!("{address}: {error}")), false),
    }
}

fn report(found: &Vec<Finding>, out: &Output) -> Result<(), Failed> {
    let faulty = found.iter().any(|finding| finding.level == "fault");
    out.either(found, || found.iter().map(Finding::line).collect::<Vec<_>>().join("\n"));
    if faulty { Err(Failed::Faults) } else { Ok(()) }
}

/// Reports on the policy in force and its webhooks, and answers with it when it can be read.
async fn policy(embedded: &Embedded, found: &mut Vec<Finding>) -> Result<Option<Policy>, Failed> {
    let admin = Admin::new(&embedded.authority, Actor::cli("check", None));
    let (version, text) = admin.policy().await.map_err(|error| Failed::Work(error.to_string()))?;
    let name = format!("policy version {version}");
    let webhooks = admin.webhooks().await.map_err(|error| Failed::Work(error.to_string()))?;
    found.extend(webhooks.iter().map(|state| {
        let what = format!("webhook of {}", state.row.agent);
        match webhook_trouble(state) {
            None => Finding::new(&what, "ok", "takes what it is told, or was told nothing yet"),
            Some(trouble) => Finding::new(&what, "warning", trouble),
        }
    }));
    Ok(match Policy::parse(&text) {
        Ok(policy) => {
            found.push(Finding::new(&name, "ok", "can be read"));
            found.extend(policy.warnings().iter().map(|it| Finding::new(&name, "warning", it)));
            Some(policy)
        }
        Err(faults) => {
            let faults = faults.iter().map(|it| Finding::new(&name, "fault", it.to_string()));
            found.extend(faults);
            None
        }
    })
}

/// Holds the record against the invariants, and against Stripe where there is a key.
async fn record(
    embedded: &Embedded,
    stripe: &StripeClient,
    stripe_timeout: Option<Duration>,
) -> Result<Vec<Finding>, Failed> {
    let failed = |error: gate_core::AuthorityError| Failed::Work(error.to_string());
    let in_store = invariants(&embedded.authority).await.map_err(failed)?;
    let mut found = Vec::new();
    if in_store.is_empty() {
        found.push(Finding::new(INVARIANTS, "ok", "the record holds together"));
    }
    let mut broken = in_store;
    let Some(timeout) = stripe_timeout else {
        let detail = "Stripe was not looked at: there is no Stripe key";
        found.push(Finding::new(INVARIANTS, "warning", detail));
        found.extend(broken.into_iter().map(broken_invariant));
        return Ok(found);
    };
    let at_stripe =
        invariants_at_stripe(&embedded.authority, stripe, timeout).await.map_err(failed)?;
    let detail = format!("the refunds of {} charges were listed at Stripe", at_stripe.looked_at);
    found.push(Finding::new(INVARIANTS, "ok", detail));
    if let Some((left_out, why)) = at_stripe.left_out {
        let detail = format!("{left_out} charges were not looked at: {why}");
        found.push(Finding::new(INVARIANTS, "warning", detail));
    }
    broken.extend(at_stripe.findings);
    found.extend(broken.into_iter().map(broken_invariant));
    Ok(found)
}

fn broken_invariant(finding: gate_authority::Finding) -> Finding {
    let level = match finding.level {
        Level::Fault => "fault",
        Level::Warning => "warning",
    };
    Finding {
        what: format!("invariant {}", finding.invariant),
        level,
        detail: finding.what,
        intent: finding.intent.map(|id| id.to_string()),
        fix: Some(finding.fix),
    }
}

/// Reports on the store, the rates, Stripe, its key, and the rules that want more than the key has.
async fn online(serving: &serve::Serving, policy: Option<&Policy>, found: &mut Vec<Finding>) {
    let gateway = &serving.gateway;
    // How it went stands in what readiness says of the rates.
    if let Some(embedded) = gateway.decider.embedded() {
        drop(embedded.fetch_rates_once().await);
    }
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
        match line.state {
            CheckState::Ok => found.push(Finding::new(&name, "ok", "the key may read it")),
            CheckState::Missing { switches_off } => {
                let detail = format!("the key may not read it; does not work: {switches_off}");
                let permission = line.permission.resource.read();
                let fix = format!(
                    "add `{permission}` to the key, in Stripe's dashboard under Developers, API keys"
                );
                let missing = |detail| Finding {
                    fix: Some(fix.clone()),
                    ..Finding::new(&name, "warning", detail)
                };
                found.push(missing(detail));
                let facts = facts_of(line.permission.resource).iter();
                let rules = facts.flat_map(|fact| policy.map(|it| it.without(fact))).flatten();
                found.extend(rules.map(missing));
            }
            CheckState::KeyUnusable => {
                found.push(Finding::new(&name, "fault", "Stripe refuses the key"));
            }
            CheckState::Unreachable => {
                found.push(Finding::new(&name, "fault", "Stripe could not be asked"));
            }
        }
    }
}

/// The facts of rules that are unknown without a permission for it. What no refund is made without
/// stands for itself.
const fn facts_of(resource: Resource) -> &'static [&'static str] {
    match resource {
        Resource::Customers => &["customerAgeDays"],
        Resource::Approvals
        | Resource::Balance
        | Resource::Charges
        | Resource::Disputes
        | Resource::PaymentIntents
        | Resource::Refunds => &[],
    }
}
