//! Older versions of the policy, and history decided again.

use gate_api::{ReasonView, dollars, rfc3339};
use gate_authority::{Change, Replay, Sum};
use gate_core::Decision;
use gate_money::MicroUsd;
use serde_json::{Value, json};

use super::{Failed, Work, failed, lines, policy, required};
use crate::config::parse_span;

impl Work<'_> {
    pub(super) async fn policy_history(&self) -> Result<(), Failed> {
        let versions = self.admin.policy_history().await.map_err(failed)?;
        let rows: Vec<Value> = versions
            .iter()
            .map(|row| {
                json!({
                    "version": row.version,
                    "author": row.author,
                    "createdAt": rfc3339(row.created_at),
                })
            })
            .collect();
        self.out.either(&rows, || {
            lines(&versions, |row| {
                format!("{}  {}  {}", row.version, rfc3339(row.created_at), row.author)
            })
        });
        if versions.is_empty() {
            self.out.say("No policy was ever applied: the one of a new store is in force.");
        }
        Ok(())
    }

    /// An older version: its number and its text.
    pub(super) async fn policy_version(&self, version: u64) -> Result<(u64, String), Failed> {
        let versions = self.admin.policy_history().await.map_err(failed)?;
        let row = versions.into_iter().find(|row| row.version == version).ok_or_else(|| {
            Failed::Work(format!("there is no version {version}: `policy history` lists them"))
        })?;
        Ok((row.version, row.text))
    }

    pub(super) async fn replay_policy(&self) -> Result<(), Failed> {
        let text = policy::read(required(self.given, "file"))?;
        let since = required(self.given, "since");
        let span = parse_span(since).ok_or_else(|| {
            Failed::Usage(format!("--since {since} is not a span: write it like 12h or 30d"))
        })?;
        let replay = self.admin.replay(&text, span).await.map_err(failed)?;
        self.out.either(&as_json(&replay), || as_text(&replay));
        if replay.left_out > 0 {
            let count = replay.left_out;
            self.out.say(&format!("{count} could not be decided again: their facts were not kept"));
        }
        Ok(())
    }
}

const fn told(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny => "denied",
        Decision::RequireApproval => "pending_approval",
    }
}

fn as_json(replay: &Replay) -> Value {
    let sum = |sum: &Sum| {
        json!({
            "was": told(sum.was),
            "would": told(sum.would),
            "count": sum.count,
            "usdMicros": sum.usd.micros(),
        })
    };
    let change = |change: &Change| {
        json!({
            "intentId": change.intent.as_str(),
            "createdAt": rfc3339(change.at),
            "agent": change.agent.as_str(),
            "amount": change.amount.to_string(),
            "usdMicros": change.usd.map(MicroUsd::micros),
            "was": told(change.was),
            "would": told(change.would),
            "reasons": change.reasons.iter().map(ReasonView::new).collect::<Vec<_>>(),
        })
    };
    json!({
        "decided": replay.decided,
        "leftOut": replay.left_out,
        "sums": replay.sums.iter().map(sum).collect::<Vec<_>>(),
        "changed": replay.changed.iter().map(change).collect::<Vec<_>>(),
    })
}

fn as_text(replay: &Replay) -> String {
    let mut text = vec![format!(
        "{} requests decided again, {} of them otherwise",
        replay.decided,
        replay.changed.len()
    )];
    for sum in &replay.sums {
        let (was, would) = (told(sum.was), told(sum.would));
        let (count, usd) = (sum.count, dollars(sum.usd));
        text.push(if sum.was == sum.would {
            format!("  {count} stay {was} (${usd})")
        } else {
            format!("  {count} go from {was} to {would} (${usd})")
        });
    }
    for change in &replay.changed {
        let why = change.reasons.first().map(|reason| format!(": {}", reason.message));
        text.push(format!(
            "{}  {}  {}  {}  {} → {}{}",
            rfc3339(change.at),
            change.intent,
            change.amount,
            change.agent,
            told(change.was),
            told(change.would),
            why.unwrap_or_default()
        ));
    }
    text.join("\n")
}
