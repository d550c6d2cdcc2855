//! The bytes that go to Stripe: built once, when an intent is first submitted, and never again.

use gate_money::Amount;

use crate::ask::RefundReason;
use crate::charge::Channel;
use crate::ids::{AccountId, AgentId, ChargeId, IntentId};

/// A whole request to make a refund. Sent unchanged, however often it is sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FixedRequest {
    /// The form, `application/x-www-form-urlencoded`.
    pub form: String,
    /// `Stripe-Account`, where one is set.
    pub account: Option<AccountId>,
    /// `Stripe-Version`.
    pub version: String,
}

/// What a refund's request is built from.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    /// The intent; its id goes into the metadata.
    pub intent: &'a IntentId,
    /// The agent; its id goes into the metadata.
    pub agent: &'a AgentId,
    /// The charge to refund.
    pub charge: &'a ChargeId,
    /// Exactly what is refunded.
    pub amount: Amount,
    /// Stripe's reason, if one was given.
    pub reason: Option<RefundReason>,
    /// Hex SHA-256 of the agent's id, a zero byte and the idempotency key.
    pub key_hash: &'a str,
    /// What the refund counts for the caps, in millionths of a dollar.
    pub usd_micros: i64,
    /// Head of the audit chain before this was recorded, hex: an anchor outside our database.
    pub audit_head: &'a str,
    /// How the charge was read.
    pub channel: &'a Channel,
}

impl FixedRequest {
    /// Builds the request; whoever submits an intent does so once, and keeps it with the intent.
    ///
    /// Invariant *same-bytes*: what is sent again is what was built here, byte for byte. Every value is of a form that needs no escaping; the brackets of the
    /// metadata's names are escaped.
    #[must_use]
    pub fn build(parts: &RequestParts<'_>) -> Self {
        let mut form = charge_and_amount(parts.charge, parts.amount);
        if let Some(reason) = parts.reason {
            form.push_str("&reason=");
            form.push_str(reason.as_str());
        }
        let usd_micros = parts.usd_micros.to_string();
        for (name, value) in [
            ("burnbound_intent", parts.intent.as_str()),
            ("burnbound_agent", parts.agent.as_str()),
            ("burnbound_key", parts.key_hash),
            ("burnbound_usd_micros", &usd_micros),
            ("burnbound_audit", parts.audit_head),
        ] {
            form.push_str("&metadata%5B");
            form.push_str(name);
            form.push_str("%5D=");
            form.push_str(value);
        }
        Self {
            form,
            account: parts.channel.account.clone(),
            version: parts.channel.version.clone(),
        }
    }

    /// Head of the audit chain before this was recorded, hex, as it went into the metadata.
    #[must_use]
    pub fn audit_head(&self) -> Option<&str> {
        let (_, head) = self.form.split_once("&metadata%5Bburnbound_audit%5D=")?;
        head.split('&').next()
    }

    /// Whether these bytes refund exactly `amount` of `charge` for `intent`.
    pub(crate) fn refunds(&self, intent: &IntentId, charge: &ChargeId, amount: Amount) -> bool {
        let start = charge_and_amount(charge, amount);
        let ours = format!("&metadata%5Bburnbound_intent%5D={intent}&");
        self.form.strip_prefix(start.as_str()).is_some_and(|rest| {
            rest.starts_with('&') && rest.contains(&ours) && !rest.contains("&amount=")
        })
    }
}

fn charge_and_amount(charge: &ChargeId, amount: Amount) -> String {
    format!("charge={charge}&amount={}", amount.minor())
}
