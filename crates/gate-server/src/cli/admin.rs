//! Administration: agents, gateways, users, policies, approvals, intents, stops. Works on the store, beside
//! a running server.

mod approvals;
mod gateways;
mod policies;
mod webhooks;

use std::sync::Arc;

use clap::ArgMatches;
use gate_api::{ApprovalRow, IntentView, dollars, rfc3339};
use gate_authority::{
    Actor, Admin, AdminError, AuthorityConfig, IntentList, KeyTerms, LocalAuthority, Whom,
};
use gate_core::{
    AgentKey, AgentName, ApprovalId, Clock, Intent, IntentId, InvalidId, RefundId, Source, State,
    TeamName, Timestamp, UserName,
};
use gate_policy::{NewAgent, Policy};
use gate_store::{AgentRow, UserRow};
use serde_json::json;

use super::set_up::{SetUp, this_program};
use super::{Failed, Output, audit, faults, policy};
use crate::config::{Database, Flags, Lookup, StoreConfig, load_store, parse_span};
use crate::serve::open_store;
use crate::system::{SystemClock, SystemIds};
use approvals::still_missing;

pub(super) use webhooks::webhook_trouble;

/// Most pending approvals that are listed.
const APPROVALS_LISTED_MAX: u32 = 10_000;

/// Runs an administration command.
pub(super) async fn run(
    group: &str,
    given: &ArgMatches,
    lookup: Arc<dyn Lookup>,
    out: &Output,
) -> Result<(), Failed> {
    let (verb, given) = given.subcommand().unwrap_or(("", given));
    match (group, verb) {
        ("audit", "export") => return audit::export(given, lookup, out).await,
        ("audit", "verify") => return audit::verify(given, lookup, out).await,
        _ => {}
    }
    if group == "policy"
        && let Some(done) = policy::without_store(verb, given, out)
    {
        return done;
    }
    let store = store(given, lookup.as_ref(), out)?;
    let acting_as = match text(given, "as") {
        Some(name) => Some(user_name(name)?),
        None => None,
    };
    if acting_as.is_some() {
        only_the_owner_reads(&store.database, lookup.as_ref())?;
    }
    let os_user = os_user(lookup.as_ref());
    let (authority, ids) = open(&store).await?;
    let mut admin = Admin::new(&authority, Actor::cli(&os_user, acting_as.as_ref()));
    if let Some(user) = &acting_as {
        admin = admin.acting_as(user.clone());
    }
    let work = Work { admin, given, out, store: &store, ids: &ids };
    match (group, verb) {
        ("agent", "create") => work.create_agent().await,
        ("agent", "list") => work.list_agents().await,
        ("agent", "show") => work.show_agent().await,
        ("agent", "rotate") => work.rotate_agent().await,
        ("agent", "revoke") => work.revoke_agent().await,
        ("agent", "webhook") => work.webhook().await,
        ("audit", _) => audit::redact(&work.admin, given, acting_as.as_ref(), out).await,
        ("gateway", "create") => work.create_gateway().await,
        ("gateway", "list") => work.list_gateways().await,
        ("gateway", "rotate") => work.rotate_gateway().await,
        ("gateway", _) => work.revoke_gateway().await,
        ("user", "create") => work.create_user().await,
        ("user", "set-roles") => work.set_roles().await,
        ("user", "revoke") => work.revoke_user().await,
        ("user", _) => work.list_users().await,
        ("policy", "apply") => work.apply_policy().await,
        ("policy", "export") => work.export_policy().await,
        ("policy", "history") => work.policy_history().await,
        ("policy", "replay") => work.replay_policy().await,
        ("policy", verb) => {
            let (version, text) = work.admin.policy().await.map_err(failed)?;
            policy::with_policy(verb, (version, &text), given, out)
        }
        ("approval", "list") => work.list_approvals().await,
        ("approval", "show") => work.show_approval().await,
        ("approval", "reopen") => work.reopen(acting_as.as_ref()).await,
        ("approval", verb) => work.decide(verb == "approve", acting_as.as_ref()).await,
        ("intent", "list") => work.list_intents().await,
        ("intent", "show") => work.show_intent().await,
        ("intent", "resolve") => work.resolve_intent(acting_as.as_ref()).await,
        ("intent", _) => work.cancel_intent().await,
        (stop, _) => work.stop(stop == "stop").await,
    }
}

fn store(given: &ArgMatches, lookup: &dyn Lookup, out: &Output) -> Result<StoreConfig, Failed> {
    let (store, warnings) =
        load_store(lookup, &Flags::from_matches(given)).map_err(|found| faults(&found))?;
    warnings.iter().for_each(|warning| out.say(warning));
    Ok(store)
}

/// Opens the store that the arguments and the environment name.
pub(super) async fn opened(
    given: &ArgMatches,
    lookup: &dyn Lookup,
    out: &Output,
) -> Result<LocalAuthority, Failed> {
    open(&store(given, lookup, out)?).await.map(|(authority, _)| authority)
}

/// Opens the store, which is made when there is none.
async fn open(config: &StoreConfig) -> Result<(LocalAuthority, SystemIds), Failed> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let store =
        open_store(&config.database, Arc::clone(&clock), false).await.map_err(Failed::Work)?;
    let ids = SystemIds::default();
    let shared = Arc::new(ids.clone());
    Ok((LocalAuthority::new(store, clock, shared, AuthorityConfig::default()), ids))
}

/// Acting for a person takes a store that nobody but its owner can read: who can write it could
/// decide anything anyway. Of a server's the key to it is its password.
fn only_the_owner_reads(database: &Database, lookup: &dyn Lookup) -> Result<(), Failed> {
    let path = match database {
        Database::File(path) => path.as_path(),
        Database::Postgres(address) => match address.password_file() {
            Some(path) => path,
            None => return Ok(()),
        },
    };
    let Ok(facts) = lookup.facts(path) else {
        return Err(Failed::Work(format!(
            "there is no store at {}: name it with --data-dir or GATEWAY_DATA_DIR",
            path.display()
        )));
    };
    match facts.access {
        Some(access) if access.mode & 0o077 == 0 => Ok(()),
        _ => Err(Failed::Work(format!(
            "{0} can be read by others than its owner, so nobody can act with --as: chmod 600 {0}",
            path.display()
        ))),
    }
}

pub(super) fn os_user(lookup: &dyn Lookup) -> String {
    let named = lookup.variable("SUDO_USER").or_else(|| lookup.variable("USER"));
    match (named, lookup.user()) {
        (Some(name), Some(number)) => format!("{name}({number})"),
        (None, Some(number)) => number.to_string(),
        (Some(name), None) => name,
        (None, None) => "unknown".to_owned(),
    }
}

struct Work<'a> {
    admin: Admin<'a>,
    given: &'a ArgMatches,
    out: &'a Output,
    store: &'a StoreConfig,
    ids: &'a SystemIds,
}

impl Work<'_> {
    async fn create_agent(&self) -> Result<(), Failed> {
        let name = AgentName::parse(required(self.given, "name")).map_err(usage("the name"))?;
        let owner = text(self.given, "owner").map(user_name).transpose()?;
        let starter = self.given.get_flag("starter");
        let terms = key_terms(self.given)?;
        let team = text(self.given, "team").map(TeamName::parse).transpose();
        let entry = NewAgent { team: team.map_err(usage("the team"))?, owner, starter };
        let made = self.admin.create_agent_under(&terms, &name, &entry).await;
        let (agent, key) = made.map_err(failed)?;
        self.new_key(&agent, &key);
        let (_, text) = self.admin.policy().await.map_err(failed)?;
        match Policy::parse(&text) {
            Ok(policy) => self.out.say(policy.words_of(&name).trim_end()),
            Err(faults) => self.out.say(&format!("the policy has {} faults", faults.len())),
        }
        if !starter {
            self.out
                .say("Edit it with `policy export > policy.toml` and `policy apply policy.toml`.");
        }
        let set_up = SetUp { url: "http://127.0.0.1:8787", program: this_program(), key: None };
        self.out.say(&format!(
            "Connect it over MCP, with this key in BURNBOUND_KEY and the gateway where it listens:\n{}",
            set_up.text("")
        ));
        Ok(())
    }

    fn new_key(&self, agent: &AgentRow, key: &AgentKey) {
        let (id, name) = (agent.id.as_str(), agent.name.as_str());
        let key = key.expose();
        self.out.either(&json!({ "id": id, "name": name, "key": key }), || key.to_owned());
        self.out.say(&format!(
            "Agent {name} ({id}). Its key is shown this once; give it to the agent as its bearer key."
        ));
        if let Some(at) = agent.keys.last().and_then(|key| key.expires_at) {
            self.out.say(&format!("The key is taken until {}; rotate it before.", rfc3339(at)));
        }
        if !agent.sources.is_empty() {
            let from = sources(agent).join(", ");
            self.out.say(&format!("Its keys are taken only from {from}."));
        }
    }

    async fn list_agents(&self) -> Result<(), Failed> {
        let agents = self.admin.agents().await.map_err(failed)?;
        let rows: Vec<_> = agents.iter().map(agent_json).collect();
        self.out.either(&rows, || lines(&agents, agent_line));
        Ok(())
    }

    async fn show_agent(&self) -> Result<(), Failed> {
        let agent = self.admin.agent(required(self.given, "agent")).await.map_err(failed)?;
        let (version, text) = self.admin.policy().await.map_err(failed)?;
        let words = Policy::parse(&text).ok().map(|policy| policy.words_of(&agent.name));
        let mut view = agent_json(&agent);
        if let Some(view) = view.as_object_mut() {
            view.insert("policyVersion".to_owned(), version.into());
            view.insert("policy".to_owned(), words.clone().into());
        }
        self.out.either(&view, || {
            let words = words.unwrap_or_else(|| "The policy in force has faults.".to_owned());
            format!("{}\n\n{}", agent_line(&agent), words.trim_end())
        });
        Ok(())
    }

    async fn rotate_agent(&self) -> Result<(), Failed> {
        let now = self.given.get_flag("now");
        let (terms, name) = (key_terms(self.given)?, required(self.given, "agent"));
        let made = self.admin.rotate_agent_under(&terms, name, now).await;
        let (agent, key) = made.map_err(failed)?;
        self.new_key(&agent, &key);
        self.out.say(if now {
            "The old key is refused from now on."
        } else {
            "The old key is taken for 24 more hours; after a leak use --now."
        });
        Ok(())
    }

    async fn revoke_agent(&self) -> Result<(), Failed> {
        let agent = self.admin.revoke_agent(required(self.given, "agent")).await.map_err(failed)?;
        self.out.either(&agent_json(&agent), || {
            format!("{} is revoked; what it had pending is withdrawn", agent.name)
        });
        Ok(())
    }

    async fn create_user(&self) -> Result<(), Failed> {
        let name = user_name(required(self.given, "name"))?;
        let roles: Vec<String> =
            self.given.get_many::<String>("role").unwrap_or_default().cloned().collect();
        let user = self.admin.create_user(&name, &roles).await.map_err(failed)?;
        // There is no console to set up yet, so there is no link to it.
        let link: Option<String> = None;
        let name = user.name.as_str();
        self.out.either(&json!({ "id": name, "name": name, "setupLink": link }), || {
            format!("{name} ({})", user.roles.join(", "))
        });
        Ok(())
    }

    async fn set_roles(&self) -> Result<(), Failed> {
        let name = user_name(required(self.given, "name"))?;
        let roles: Vec<String> =
            self.given.get_many::<String>("role").unwrap_or_default().cloned().collect();
        let user = self.admin.set_roles(&name, &roles).await.map_err(failed)?;
        self.out.either(&user_json(&user), || user_line(&user));
        Ok(())
    }

    async fn revoke_user(&self) -> Result<(), Failed> {
        let name = user_name(required(self.given, "name"))?;
        let user = self.admin.revoke_user(&name).await.map_err(failed)?;
        self.out.either(&user_json(&user), || {
            format!("{name} may do nothing any more; what {name} approved counts no more")
        });
        Ok(())
    }

    async fn list_users(&self) -> Result<(), Failed> {
        let users = self.admin.users().await.map_err(failed)?;
        let rows: Vec<_> = users.iter().map(user_json).collect();
        self.out.either(&rows, || lines(&users, user_line));
        Ok(())
    }

    async fn apply_policy(&self) -> Result<(), Failed> {
        let text = policy::read(required(self.given, "file"))?;
        let (version, warnings) = self.admin.apply_policy(&text).await.map_err(failed)?;
        warnings.iter().for_each(|warning| self.out.say(&format!("warning: {warning}")));
        self.out.either(&json!({ "version": version, "warnings": warnings }), || {
            format!("policy version {version} is in force from the next request on")
        });
        Ok(())
    }

    async fn export_policy(&self) -> Result<(), Failed> {
        let (version, text) = match self.given.get_one::<u64>("version") {
            None => self.admin.policy().await.map_err(failed)?,
            Some(version) => self.policy_version(*version).await?,
        };
        self.out
            .either(&json!({ "version": version, "text": text }), || text.trim_end().to_owned());
        Ok(())
    }

    async fn list_approvals(&self) -> Result<(), Failed> {
        let list = IntentList {
            state: Some(State::PendingApproval),
            limit: APPROVALS_LISTED_MAX,
            ..IntentList::default()
        };
        let mut intents = self.admin.intents(&list).await.map_err(failed)?;
        intents.reverse();
        let rows: Vec<ApprovalRow> = intents.iter().filter_map(ApprovalRow::new).collect();
        self.out.either(&rows, || lines(&intents, approval_line));
        if intents.is_empty() {
            self.out.say("Nothing waits for a person.");
        }
        Ok(())
    }

    async fn decide(&self, approve: bool, user: Option<&UserName>) -> Result<(), Failed> {
        let id = ApprovalId::parse(required(self.given, "id")).map_err(usage("the approval"))?;
        let user = user.ok_or_else(|| Failed::Usage("name yourself with --as USER".to_owned()))?;
        let note = text(self.given, "note");
        let decided = if approve {
            self.admin.approve(&id, user, note).await
        } else {
            self.admin.deny(&id, user, note.unwrap_or_default()).await
        };
        let intent = decided.map_err(failed)?;
        self.intent(&intent);
        if intent.state == State::PendingApproval {
            let waiting = self.admin.approval(&id).await.map_err(failed)?;
            self.out.say(&format!("Noted. {}", still_missing(&waiting.needs)));
            return Ok(());
        }
        self.out.say(match (approve, on_approval(&intent)) {
            (true, Some(gate_core::OnApproval::Execute)) => {
                "Approved. A running gateway makes the refund now."
            }
            (true, _) => "Approved. The refund is made when the agent asks again.",
            (false, _) => "Denied. The agent is told, with your note.",
        });
        Ok(())
    }

    async fn list_intents(&self) -> Result<(), Failed> {
        let state = match text(self.given, "state") {
            None => None,
            Some(name) => Some(State::parse(name).ok_or_else(|| {
                let known: Vec<&str> = State::STORED.map(State::as_str).to_vec();
                Failed::Usage(format!("--state takes one of {}", known.join(", ")))
            })?),
        };
        let list = IntentList {
            agent: text(self.given, "agent").map(str::to_owned),
            state,
            limit: *self.given.get_one::<u32>("limit").unwrap_or(&100),
        };
        let intents = self.admin.intents(&list).await.map_err(failed)?;
        let rows: Vec<IntentView> =
            intents.iter().map(|intent| IntentView::new(intent, false, true)).collect();
        self.out.either(&rows, || lines(&intents, intent_line));
        if intents.is_empty() {
            self.out.say("No intents.");
        }
        Ok(())
    }

    async fn show_intent(&self) -> Result<(), Failed> {
        let id = IntentId::parse(required(self.given, "id")).map_err(usage("the intent"))?;
        self.intent(&self.admin.intent(&id).await.map_err(failed)?);
        Ok(())
    }

    async fn cancel_intent(&self) -> Result<(), Failed> {
        let id = IntentId::parse(required(self.given, "id")).map_err(usage("the intent"))?;
        self.intent(&self.admin.cancel(&id).await.map_err(failed)?);
        Ok(())
    }

    async fn resolve_intent(&self, user: Option<&UserName>) -> Result<(), Failed> {
        let id = IntentId::parse(required(self.given, "id")).map_err(usage("the intent"))?;
        let user = user.ok_or_else(|| Failed::Usage("name yourself with --as USER".to_owned()))?;
        let refund = text(self.given, "refund").map(RefundId::parse).transpose();
        let refund = refund.map_err(usage("the refund"))?;
        let resolved = self.admin.resolve(&id, user, refund.as_ref(), required(self.given, "note"));
        self.intent(&resolved.await.map_err(failed)?);
        self.out.say(if refund.is_some() {
            "Recorded as refunded; a running gateway looks the refund up at once."
        } else {
            "Recorded as failed; what it had reserved is given back."
        });
        Ok(())
    }

    async fn stop(&self, stop: bool) -> Result<(), Failed> {
        let team = text(self.given, "team").map(TeamName::parse).transpose();
        let team = team.map_err(usage("the team"))?;
        let whom = match (text(self.given, "agent"), &team) {
            (Some(agent), _) => Whom::Agent(agent),
            (None, Some(team)) => Whom::Team(team),
            (None, None) => Whom::Everybody,
        };
        let note = text(self.given, "note");
        let done = if stop {
            self.admin.stop(whom, note).await
        } else {
            self.admin.resume(whom, note).await
        };
        let whom = done.map_err(failed)?;
        let what = if stop { "stopped" } else { "resumed" };
        self.out.either(&json!({ "scope": whom, "state": what }), || {
            format!("{whom} {what}, from the next request on")
        });
        Ok(())
    }

    fn intent(&self, intent: &Intent) {
        let view = IntentView::new(intent, false, true);
        self.out.either(&view, || serde_json::to_string_pretty(&view).unwrap_or_default());
    }
}

/// The terms of a new key, as given.
fn key_terms(given: &ArgMatches) -> Result<KeyTerms, Failed> {
    let lifetime = match text(given, "expires") {
        None => None,
        Some(text) => Some(parse_span(text).ok_or_else(|| {
            Failed::Usage(format!(
                "--expires is `{text}`: write a span of time, such as 90d or 12h"
            ))
        })?),
    };
    let sources = given.get_many::<String>("from").map(|ranges| {
        let parsed: Result<Vec<Source>, String> = ranges.map(|text| Source::parse(text)).collect();
        parsed.map_err(|why| Failed::Usage(format!("--from: {why}")))
    });
    Ok(KeyTerms { lifetime, sources: sources.transpose()? })
}

fn sources(agent: &AgentRow) -> Vec<String> {
    agent.sources.iter().map(ToString::to_string).collect()
}

fn agent_line(agent: &AgentRow) -> String {
    let state = agent.revoked_at.map_or("active", |_| "revoked");
    let keys: Vec<String> = agent
        .keys
        .iter()
        .map(|key| {
            let until = key.expires_at.map(|at| format!(" until {}", rfc3339(at)));
            format!("{}…{}", key.hint, until.unwrap_or_default())
        })
        .collect();
    let from = if agent.sources.is_empty() {
        String::new()
    } else {
        format!("  from {}", sources(agent).join(", "))
    };
    format!("{}  {}  {state}  {}{from}", agent.id, agent.name, keys.join(", "))
}

fn agent_json(agent: &AgentRow) -> serde_json::Value {
    let time = |at: Option<Timestamp>| at.map(rfc3339);
    let keys: Vec<_> = agent
        .keys
        .iter()
        .map(|key| {
            json!({
                "hint": key.hint,
                "createdAt": rfc3339(key.created_at),
                "expiresAt": time(key.expires_at),
            })
        })
        .collect();
    json!({
        "id": agent.id.as_str(),
        "name": agent.name.as_str(),
        "createdAt": rfc3339(agent.created_at),
        "revokedAt": time(agent.revoked_at),
        "sources": sources(agent),
        "keys": keys,
    })
}

fn user_json(user: &UserRow) -> serde_json::Value {
    json!({ "name": user.name.as_str(), "roles": user.roles })
}

fn user_line(user: &UserRow) -> String {
    let roles = if user.roles.is_empty() { "revoked".to_owned() } else { user.roles.join(", ") };
    format!("{}  {roles}", user.name)
}

fn on_approval(intent: &Intent) -> Option<gate_core::OnApproval> {
    intent.approval.as_ref().map(|approval| approval.on_approval)
}

fn approval_line(intent: &Intent) -> String {
    let Some(approval) = &intent.approval else { return intent_line(intent) };
    let words = approval.justifications.first().map(|words| format!("  agent says: {words:?}"));
    format!(
        "{}  {}{}  {}  until {}{}",
        approval.id,
        intent.amount,
        worth(intent),
        intent.agent_name,
        rfc3339(approval.expires_at),
        words.unwrap_or_default(),
    )
}

fn intent_line(intent: &Intent) -> String {
    let refund = intent.refund.as_ref().map(|refund| format!("  {}", refund.id));
    let waits = intent.approval.as_ref().filter(|_| intent.state == State::AwaitingStripe);
    let link = waits.and_then(|it| it.hold_url.as_ref()).map(|url| format!("  decide at {url}"));
    format!(
        "{}  {}  {}  {}{}  {}{}{}",
        rfc3339(intent.created_at),
        intent.id,
        intent.state.as_str(),
        intent.amount,
        worth(intent),
        intent.agent_name,
        refund.unwrap_or_default(),
        link.unwrap_or_default(),
    )
}

fn worth(intent: &Intent) -> String {
    intent.worth.as_ref().map(|worth| format!(" (${})", dollars(worth.usd))).unwrap_or_default()
}

fn lines<T>(rows: &[T], line: impl Fn(&T) -> String) -> String {
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub(super) fn text<'a>(given: &'a ArgMatches, name: &str) -> Option<&'a str> {
    given.try_get_one::<String>(name).ok().flatten().map(String::as_str)
}

pub(super) fn required<'a>(given: &'a ArgMatches, name: &str) -> &'a str {
    text(given, name).unwrap_or_default()
}

pub(super) fn user_name(text: &str) -> Result<UserName, Failed> {
    UserName::parse(text).map_err(usage("the user"))
}

pub(super) fn usage(what: &str) -> impl Fn(InvalidId) -> Failed + '_ {
    move |error| Failed::Usage(format!("{what} is {error}"))
}

pub(super) fn failed(error: AdminError) -> Failed {
    match error {
        AdminError::Invalid(_) | AdminError::Policy(_) => Failed::Usage(error.to_string()),
        AdminError::Authority(_)
        | AdminError::Conflict(_)
        | AdminError::Forbidden(_)
        | AdminError::NotFound(_) => Failed::Work(error.to_string()),
    }
}
