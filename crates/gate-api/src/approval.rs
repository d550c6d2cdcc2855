//! An approval as its agent reads it, and as a line of the command line's list.

use gate_core::Intent;
use schemars::JsonSchema;
use serde::Serialize;

use crate::intent::ReasonView;
use crate::money::AmountView;
use crate::schema;
use crate::time::rfc3339;

/// Where an approval stands.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Approval")]
pub struct ApprovalView {
    /// Its id.
    pub id: String,
    /// The intent that waits for it.
    pub intent_id: String,
    /// Where it stands.
    #[schemars(schema_with = "schema::approval_state")]
    pub state: &'static str,
    /// Whose approval it is.
    #[schemars(schema_with = "schema::approver")]
    pub approver: &'static str,
    /// What would be refunded.
    pub amount: AmountView,
    /// Why a person was asked, the hardest first.
    pub reasons: Vec<ReasonView>,
    /// When it expires unless it is decided, or used, before.
    #[schemars(schema_with = "schema::time")]
    pub expires_at: String,
    /// When it was decided.
    #[schemars(schema_with = "schema::nullable_time")]
    pub decided_at: Option<String>,
    /// What the reviewer wrote.
    #[schemars(schema_with = "schema::nullable_string")]
    pub note: Option<String>,
    /// Where people decide it in Stripe's dashboard, when the approval is Stripe's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub dashboard_url: Option<String>,
}

impl ApprovalView {
    /// The approval of `intent`; none when no person was asked.
    #[must_use]
    pub fn new(intent: &Intent) -> Option<Self> {
        let approval = intent.approval.as_ref()?;
        Some(Self {
            id: approval.id.to_string(),
            intent_id: intent.id.to_string(),
            state: approval.state.as_str(),
            approver: approval.approver.as_str(),
            amount: AmountView::new(intent.amount, intent.worth.as_ref()),
            reasons: intent.reasons.iter().map(ReasonView::new).collect(),
            expires_at: rfc3339(approval.expires_at),
            decided_at: approval.decided_at.map(rfc3339),
            note: approval.note.clone(),
            dashboard_url: approval.hold_url.as_ref().map(ToString::to_string),
        })
    }
}

/// A line of `approval list --json`.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRow {
    /// Its id.
    pub id: String,
    /// The intent that waits for it.
    pub intent_id: String,
    /// Where it stands.
    #[schemars(schema_with = "schema::approval_state")]
    pub state: &'static str,
    /// What would be refunded.
    pub amount: AmountView,
    /// The name of the agent that asks.
    pub agent: String,
    /// When it expires unless it is decided, or used, before.
    #[schemars(schema_with = "schema::time")]
    pub expires_at: String,
}

impl ApprovalRow {
    /// The approval of `intent`; none when no person was asked.
    #[must_use]
    pub fn new(intent: &Intent) -> Option<Self> {
        let approval = intent.approval.as_ref()?;
        Some(Self {
            id: approval.id.to_string(),
            intent_id: intent.id.to_string(),
            state: approval.state.as_str(),
            amount: AmountView::new(intent.amount, intent.worth.as_ref()),
            agent: intent.agent_name.to_string(),
            expires_at: rfc3339(approval.expires_at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{approval, intent};
    use gate_core::{ApprovalState, State, Timestamp};

    #[test]
    fn golden() {
        let mut intent = intent(State::PendingApproval);
        intent.approval = Some(approval(ApprovalState::Pending));
        let amount = r#"{"minor":1250,"currency":"eur","decimals":2,"text":"12.50 EUR","usdMicros":13965000}"#;
        let head = r#""id":"apr_1","intentId":"int_1""#;
        let text = |value: &ApprovalView| serde_json::to_string(value).unwrap();
        assert_eq!(
            text(&ApprovalView::new(&intent).unwrap()),
            format!(
                r#"{{{head},"state":"pending","approver":"authority","amount":{amount},"reasons":[],"expiresAt":"1970-01-02T00:00:00.000Z","decidedAt":null,"note":null}}"#
            )
        );
        assert_eq!(
            serde_json::to_string(&ApprovalRow::new(&intent).unwrap()).unwrap(),
            format!(
                r#"{{{head},"state":"pending","amount":{amount},"agent":"support-bot","expiresAt":"1970-01-02T00:00:00.000Z"}}"#
            )
        );
        let decided = intent.approval.as_mut().unwrap();
        decided.state = ApprovalState::Denied;
        decided.decided_at = Some(Timestamp::from_millis(1));
        decided.note = Some("asked the customer".to_owned());
        let text = text(&ApprovalView::new(&intent).unwrap());
        assert!(text.contains(r#""state":"denied""#), "{text}");
        assert!(
            text.ends_with(
                r#""decidedAt":"1970-01-01T00:00:00.001Z","note":"asked the customer"}"#
            ),
            "{text}"
        );
    }

    #[test]
    fn without_a_person_there_is_none() {
        let intent = intent(State::Settled);
        assert_eq!(ApprovalView::new(&intent), None);
        assert_eq!(ApprovalRow::new(&intent), None);
    }
}
