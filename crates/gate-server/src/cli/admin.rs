//! Administration: agents, users, policies, approvals, intents, stops. Works on the store, beside
//! a running server.

use std::path::Path;
use std::sync::Arc;

use clap::ArgMatches;
use gate_api::{ApprovalRow, IntentView, dollars, rfc3339};
use gate_authority::{Actor, Admin, AdminError, AuthorityConfig, IntentList, LocalAuthority};
use gate_core::{
    AgentKey, AgentName, ApprovalId, Clock, Intent, IntentId, InvalidId, RefundId, State,
    Timestamp, UserName,
};
use gate_policy::Policy;
use gate_store::{AgentRow, SqliteStore};
use serde_json::json;

use super::{Failed, Output, faults};
use crate::config::{Flags, Lookup, StoreConfig, load_store};
use crate::serve::make_data_dir;
use crate::system::{SystemClock, SystemIds};

/// Most pending approvals that are listed.
const APPROVALS_LISTED_MAX: u32 = 10_000;
/// Longest policy that is read, in bytes.
const POLICY_BYTES_MAX: u64 = 256 * 1024;

/// Runs an administration command.
pub(super) async fn run(
    group: &str,
    given: &ArgMatches,
    lookup: Arc<dyn Lookup>,
    out: &Output,
) -> Result<(), Failed> {
    let (verb, given) = given.subcommand().unwrap_or(("", given));
    if (group, verb) == ("policy", "check") {
        return check_policy(given, out);
    }
    let (store, warnings) =
        load_store(lookup.as_ref(), &Flags::from_matches(given)).map_err(|found| faults(&found))?;
    warnings.iter().for_each(|warning| out.say(warning));
    let acting_as = match text(given, "as") {
        Some(name) => Some(user_name(name)?),
        None => None,
    };
    if acting_as.is_some() {
        only_the_owner_reads(&store.database, lookup.as_ref())?;
    }
    let os_user = os_user(lookup.as_ref());
    let authority = open(&store)?;
    let admin = Admin::new(&authority, Actor::cli(&os_user, acting_as.as_ref()));
    let work = Work { admin, given, out };
    match (group, verb) {
        ("agent", "create") => work.create_agent().await,
        ("agent", "list") => work.list_agents().await,
        ("agent", "rotate") => work.rotate_agent().await,
        ("agent", "revoke") => work.revoke_agent().await,
        ("user", "create") => work.create_user().await,
        ("user", _) => work.list_users().await,
        ("policy", "apply") => work.apply_policy().await,
        ("policy", "export") => work.export_policy().await,
        ("policy", _) => work.show_policy().await,
        ("approval", "list") => work.list_approvals().await,
        ("approval", verb) => work.decide(verb == "approve", acting_as.as_ref()).await,
        ("intent", "list") => work.list_intents().await,
        ("intent", "show") => work.show_intent().await,
        ("intent", "resolve") => work.resolve_intent(acting_as.as_ref()).await,
        ("intent", _) => work.cancel_intent().await,
        (stop, _) => work.stop(stop == "stop").await,
    }
}

/// Opens the store, which is made when there is none.
fn open(config: &StoreConfig) -> Result<LocalAuthority, Failed> {
    if let Some(dir) = config.database.parent() {
        make_data_dir(dir).map_err(Failed::Work)?;
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let store = SqliteStore::open(&config.database, Arc::clone(&clock))
        .map_err(|error| Failed::Work(format!("{}: {error}", config.database.display())))?;
    let ids = Arc::new(SystemIds::default());
    Ok(LocalAuthority::new(Arc::new(store), clock, ids, AuthorityConfig::default()))
}

/// Acting for a person takes a store that nobody but its owner can read: who can write it could
/// decide anything anyway.
fn only_the_owner_reads(database: &Path, lookup: &dyn Lookup) -> Result<(), Failed> {
    let Ok(facts) = lookup.facts(database) else {
        return Err(Failed::Work(format!(
            "there is no store at {}: name it with --data-dir or GATEWAY_DATA_DIR",
            database.display()
        )));
    };
    match facts.access {
        Some(access) if access.mode & 0o077 == 0 => Ok(()),
        _ => Err(Failed::Work(format!(
            "{0} can be read by others than its owner, so nobody can act with --as: chmod 600 {0}",
            database.display()
        ))),
    }
}

fn os_user(lookup: &dyn Lookup) -> String {
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
}

impl Work<'_> {
    async fn create_agent(&self) -> Result<(), Failed> {
        let name = AgentName::parse(required(self.given, "name")).map_err(usage("the name"))?;
        let owner = text(self.given, "owner").map(user_name).transpose()?;
        let starter = self.given.get_flag("starter");
        let made = self.admin.create_agent(&name, owner.as_ref(), starter).await;
        let (agent, key) = made.map_err(failed)?;
        self.new_key(&agent, &key);
        let (_, text) = self.admin.policy().await.map_err(failed)?;
        match Policy::parse(&text) {
            Ok(policy) => self.out.say(policy.agent_in_words(&name).trim_end()),
            Err(faults) => self.out.say(&format!("the policy has {} faults", faults.len())),
        }
        if !starter {
            self.out
                .say("Edit it with `policy export > policy.toml` and `policy apply policy.toml`.");
        }
        self.out.say(&format!(
            "Connect it over MCP, with this key in BURNBOUND_KEY and the gateway where it listens:\n{}",
            mcp_set_up("http://127.0.0.1:8787", "$BURNBOUND_KEY")
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
    }

    async fn list_agents(&self) -> Result<(), Failed> {
        let agents = self.admin.agents().await.map_err(failed)?;
        let rows: Vec<_> = agents.iter().map(agent_json).collect();
        self.out.either(&rows, || {
            lines(&agents, |agent| {
                let state = agent.revoked_at.map_or("active", |_| "revoked");
                let hints: Vec<&str> = agent.keys.iter().map(|key| key.hint.as_str()).collect();
                format!("{}  {}  {state}  {}…", agent.id, agent.name, hints.join("… "))
            })
        });
        Ok(())
    }

    async fn rotate_agent(&self) -> Result<(), Failed> {
        let now = self.given.get_flag("now");
        let made = self.admin.rotate_agent(required(self.given, "agent"), now).await;
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

    async fn list_users(&self) -> Result<(), Failed> {
        let users = self.admin.users().await.map_err(failed)?;
        let rows: Vec<_> = users
            .iter()
            .map(|user| json!({ "name": user.name.as_str(), "roles": user.roles }))
            .collect();
        self.out.either(&rows, || {
            lines(&users, |user| format!("{}  {}", user.name, user.roles.join(", ")))
        });
        Ok(())
    }

    async fn apply_policy(&self) -> Result<(), Failed> {
        let text = policy_text(required(self.given, "file"))?;
        let (version, warnings) = self.admin.apply_policy(&text).await.map_err(failed)?;
        warnings.iter().for_each(|warning| self.out.say(&format!("warning: {warning}")));
        self.out.either(&json!({ "version": version, "warnings": warnings }), || {
            format!("policy version {version} is in force from the next request on")
        });
        Ok(())
    }

    async fn export_policy(&self) -> Result<(), Failed> {
        let (version, text) = self.admin.policy().await.map_err(failed)?;
        self.out
            .either(&json!({ "version": version, "text": text }), || text.trim_end().to_owned());
        Ok(())
    }

    async fn show_policy(&self) -> Result<(), Failed> {
        let (version, text) = self.admin.policy().await.map_err(failed)?;
        let policy = Policy::parse(&text).map_err(|faults| {
            Failed::Work(format!("the policy in force has {} faults", faults.len()))
        })?;
        let words = policy.in_words();
        self.out.either(&json!({ "version": version, "words": words }), || {
            format!("Policy version {version}.\n\n{}", words.trim_end())
        });
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
        let agent = text(self.given, "agent");
        let scope = if stop {
            self.admin.stop(agent, text(self.given, "note")).await
        } else {
            self.admin.resume(agent).await
        };
        let whom = scope.map_err(failed)?;
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

fn check_policy(given: &ArgMatches, out: &Output) -> Result<(), Failed> {
    let text = policy_text(required(given, "file"))?;
    match Policy::parse(&text) {
        Ok(policy) => {
            let warnings = policy.warnings();
            out.either(&json!({ "faults": [], "warnings": warnings }), || {
                let told = warnings.iter().map(|warning| format!("warning: {warning}\n"));
                format!("{}the policy is sound\n\n{}", told.collect::<String>(), policy.in_words())
                    .trim_end()
                    .to_owned()
            });
            Ok(())
        }
        Err(found) => {
            let rows: Vec<_> = found
                .iter()
                .map(|fault| {
                    json!({ "line": fault.line, "column": fault.column, "message": fault.message })
                })
                .collect();
            out.either(&json!({ "faults": rows, "warnings": [] }), || {
                lines(&found, ToString::to_string)
            });
            Err(Failed::Faults)
        }
    }
}

fn policy_text(file: &str) -> Result<String, Failed> {
    use std::io::Read as _;
    let read = |from: &mut dyn std::io::Read| {
        let mut text = String::new();
        from.take(POLICY_BYTES_MAX).read_to_string(&mut text).map(|_| text)
    };
    let text = match file {
        "-" => read(&mut std::io::stdin()),
        path => std::fs::File::open(path).and_then(|mut file| read(&mut file)),
    };
    text.map_err(|error| Failed::Usage(format!("the policy {file} cannot be read: {error}")))
}

/// How MCP clients are told of the gateway at `url`, in two lines: a command, and what most read
/// from a file.
pub(crate) fn mcp_set_up(url: &str, key: &str) -> String {
    let bearer = format!("Bearer {key}");
    let server = json!({ "type": "http", "url": format!("{url}/mcp"), "headers": { "Authorization": bearer } });
    format!(
        "  claude mcp add --transport http action-gateway {url}/mcp --header \"Authorization: {bearer}\"\n  \
         {}",
        json!({ "mcpServers": { "action-gateway": server } })
    )
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
        "keys": keys,
    })
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
    format!(
        "{}  {}  {}  {}{}  {}{}",
        rfc3339(intent.created_at),
        intent.id,
        intent.state.as_str(),
        intent.amount,
        worth(intent),
        intent.agent_name,
        refund.unwrap_or_default(),
    )
}

fn worth(intent: &Intent) -> String {
    intent.worth.as_ref().map(|worth| format!(" (${})", dollars(worth.usd))).unwrap_or_default()
}

fn lines<T>(rows: &[T], line: impl Fn(&T) -> String) -> String {
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn text<'a>(given: &'a ArgMatches, name: &str) -> Option<&'a str> {
    given.try_get_one::<String>(name).ok().flatten().map(String::as_str)
}

fn required<'a>(given: &'a ArgMatches, name: &str) -> &'a str {
    text(given, name).unwrap_or_default()
}

fn user_name(text: &str) -> Result<UserName, Failed> {
    UserName::parse(text).map_err(usage("the user"))
}

fn usage(what: &str) -> impl Fn(InvalidId) -> Failed + '_ {
    move |error| Failed::Usage(format!("{what} is {error}"))
}

fn failed(error: AdminError) -> Failed {
    match error {
        AdminError::Invalid(_) | AdminError::Policy(_) => Failed::Usage(error.to_string()),
        AdminError::Authority(_)
        | AdminError::Conflict(_)
        | AdminError::Forbidden(_)
        | AdminError::NotFound(_) => Failed::Work(error.to_string()),
    }
}
