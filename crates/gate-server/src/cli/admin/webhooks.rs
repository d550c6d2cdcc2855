//! Webhooks of agents: their secrets, and how far they were told.

use gate_api::rfc3339;
use gate_authority::WebhookState;
use gate_core::{AgentName, Timestamp};
use serde_json::json;

use super::{Failed, Work, failed, required, text, usage};
use crate::notices::webhook_secret;
use crate::serve::master_key;

impl Work<'_> {
    pub(super) async fn webhook(&self) -> Result<(), Failed> {
        let agent = AgentName::parse(required(self.given, "agent")).map_err(usage("the agent"))?;
        // Before anything changes: a secret that cannot be shown must not be made.
        let master = master_key(self.store, self.ids).map_err(Failed::Work)?;
        let (rotate, resume) = (self.given.get_flag("rotate"), self.given.get_flag("resume"));
        let state = match (text(self.given, "resend"), rotate, resume) {
            (Some(event), ..) => self.admin.resend_webhook(&agent, number(event)?).await,
            (None, true, _) => self.admin.rotate_webhook(&agent).await,
            (None, false, true) => self.admin.resume_webhook(&agent).await,
            (None, false, false) => self.admin.webhook(&agent).await,
        };
        let state = state.map_err(failed)?;
        let secrets = state.generations.iter().map(|it| webhook_secret(&master, &agent, *it));
        let secrets: Vec<String> = secrets.map(|secret| secret.expose().to_owned()).collect();
        self.out.either(&webhook_json(&state, &secrets), || webhook_lines(&state, &secrets));
        if rotate {
            self.out.say(
                "Both secrets sign for 24 hours: give the receiver the first of them before these \
                 are over.",
            );
        }
        Ok(())
    }
}

/// The number in an event's id, `msg_42_int_…`, or by itself.
fn number(event: &str) -> Result<u64, Failed> {
    let bare = event.strip_prefix("msg_").and_then(|rest| rest.split('_').next());
    bare.unwrap_or(event).parse().map_err(|_| {
        Failed::Usage(format!("--resend is `{event}`: write the webhook-id of an event, msg_…"))
    })
}

/// What can be said of it in one word.
fn standing(state: &WebhookState) -> &'static str {
    let row = &state.row;
    match (row.url.is_some(), row.disabled_at.is_some(), row.failing_since.is_some()) {
        (false, ..) => "off",
        (true, true, _) => "disabled",
        (true, false, true) => "failing",
        (true, false, false) => "active",
    }
}

/// What is wrong with a webhook, if anything is.
pub(in crate::cli) fn webhook_trouble(state: &WebhookState) -> Option<String> {
    let row = &state.row;
    let disabled = row.disabled_at.map(|at| {
        let at = rfc3339(at);
        format!("disabled since {at}, when its server said 410: change the line, or --resume")
    });
    let failing = row.failing_since.map(|at| {
        let (at, last) = (rfc3339(at), row.last_result.as_deref().unwrap_or_default());
        format!("failing since {at}, attempts so far: {}, the last: {last}", row.attempts)
    });
    disabled.or(failing)
}

fn webhook_json(state: &WebhookState, secrets: &[String]) -> serde_json::Value {
    let (row, time) = (&state.row, |at: Option<Timestamp>| at.map(rfc3339));
    json!({
        "agent": row.agent.as_str(),
        "url": row.url,
        "state": standing(state),
        "secrets": secrets,
        "rotatedAt": time(row.rotated_at),
        "doneTo": row.done_to,
        "newest": state.head,
        "attempts": row.attempts,
        "nextTryAt": time(row.next_try_at),
        "failingSince": time(row.failing_since),
        "disabledAt": time(row.disabled_at),
        "lastTryAt": time(row.last_try_at),
        "lastResult": row.last_result,
        "givenUp": row.given_up,
    })
}

fn webhook_lines(state: &WebhookState, secrets: &[String]) -> String {
    let row = &state.row;
    let url = row.url.as_deref().unwrap_or("the policy has no webhook for it");
    let mut lines = vec![format!("{}  {}  {url}", row.agent, standing(state))];
    lines.extend(secrets.iter().cloned());
    lines.push(format!("dealt with up to entry {} of {}", row.done_to, state.head));
    let last = row.last_try_at.map(|at| {
        let result = row.last_result.as_deref().unwrap_or_default();
        format!("last sent {}: {result}", rfc3339(at))
    });
    let next = row.next_try_at.map(|at| format!("not before {}", rfc3339(at)));
    let given_up = (row.given_up > 0).then(|| format!("{} events given up", row.given_up));
    lines.extend([last, webhook_trouble(state), next, given_up].into_iter().flatten());
    lines.join("\n")
}
