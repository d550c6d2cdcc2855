//! What lies in the store as JSON inside a cell: lists and facts that no query looks into.

use std::collections::BTreeMap;

use gate_core::{
    AccountId, Channel, Charge, ChargeFacts, ChargeId, ChargeStatus, CustomerFact, CustomerId,
    DecisionReason, Dispute, KeyMark, PaymentIntentId, ReasonCode, Requirement, Timestamp,
    UserName, Vote,
};
use gate_money::{Amount, Currency, MicroUsd};
use serde::{Deserialize, Serialize};

/// A reason.
#[derive(Deserialize, Serialize)]
pub(super) struct ReasonRow {
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_micros: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_micros: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count_limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resets_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_fact: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requires: Option<RequirementRow>,
}

#[derive(Deserialize, Serialize)]
struct RequirementRow {
    roles: Vec<String>,
    people: u16,
}

impl ReasonRow {
    pub(super) fn of(reason: &DecisionReason) -> Self {
        let DecisionReason {
            code,
            message,
            limit,
            left,
            count_limit,
            resets_at,
            rule,
            unknown_fact,
            requires,
        } = reason;
        Self {
            code: code.as_str().to_owned(),
            message: message.clone(),
            limit_micros: limit.map(MicroUsd::micros),
            left_micros: left.map(MicroUsd::micros),
            count_limit: *count_limit,
            resets_at: resets_at.map(Timestamp::millis),
            rule: rule.clone(),
            unknown_fact: unknown_fact.clone(),
            requires: requires.as_ref().map(|requires| RequirementRow {
                roles: requires.roles.clone(),
                people: requires.people,
            }),
        }
    }

    fn reason(self) -> Option<DecisionReason> {
        let requires = |row: RequirementRow| Requirement { roles: row.roles, people: row.people };
        Some(DecisionReason {
            code: ReasonCode::parse(&self.code)?,
            message: self.message,
            limit: self.limit_micros.map(MicroUsd::new).transpose().ok()?,
            left: self.left_micros.map(MicroUsd::new).transpose().ok()?,
            count_limit: self.count_limit,
            resets_at: self.resets_at.map(Timestamp::from_millis),
            rule: self.rule,
            unknown_fact: self.unknown_fact,
            requires: self.requires.map(requires),
        })
    }
}

/// The reasons in a cell.
pub(super) fn reasons(text: &str) -> Option<Vec<DecisionReason>> {
    let rows: Vec<ReasonRow> = serde_json::from_str(text).ok()?;
    rows.into_iter().map(ReasonRow::reason).collect()
}

/// One person's yes.
#[derive(Deserialize, Serialize)]
pub(super) struct VoteRow {
    by: String,
    roles: Vec<String>,
    at: i64,
    note: Option<String>,
}

impl VoteRow {
    pub(super) fn of(vote: &Vote) -> Self {
        let Vote { by, roles, at, note } = vote;
        Self { by: by.to_string(), roles: roles.clone(), at: at.millis(), note: note.clone() }
    }

    fn vote(self) -> Option<Vote> {
        Some(Vote {
            by: UserName::parse(&self.by).ok()?,
            roles: self.roles,
            at: Timestamp::from_millis(self.at),
            note: self.note,
        })
    }
}

/// The votes in a cell.
pub(super) fn votes(text: &str) -> Option<Vec<Vote>> {
    let rows: Vec<VoteRow> = serde_json::from_str(text).ok()?;
    rows.into_iter().map(VoteRow::vote).collect()
}

/// A charge as it was seen.
#[derive(Deserialize, Serialize)]
pub(super) struct SeenRow {
    id: String,
    payment_intent: Option<String>,
    currency: String,
    minor: i64,
    captured_minor: i64,
    refunded_minor: i64,
    captured: bool,
    status: String,
    dispute: String,
    customer: Option<String>,
    customer_created_at: Option<i64>,
    created_at: i64,
    payment_method_type: Option<String>,
    card_country: Option<String>,
    risk_level: Option<String>,
    risk_score: Option<u32>,
    refund_count: Option<u32>,
    metadata: BTreeMap<String, String>,
    account: Option<String>,
    livemode: bool,
    version: String,
    // Newer than the others: rows of before do not have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    agent_tagged: bool,
}

impl SeenRow {
    pub(super) fn of(charge: &Charge) -> Self {
        let Charge {
            id,
            payment_intent,
            amount,
            amount_captured,
            amount_refunded,
            captured,
            status,
            dispute,
            customer,
            created_at,
            facts,
            channel: Channel { account, livemode, version, key, agent_tagged },
        } = charge;
        let ChargeFacts {
            payment_method_type,
            card_country,
            risk_level,
            risk_score,
            refund_count,
            metadata,
        } = facts.clone();
        Self {
            id: id.to_string(),
            payment_intent: payment_intent.as_ref().map(ToString::to_string),
            currency: amount.currency().code().to_owned(),
            minor: amount.minor(),
            captured_minor: amount_captured.minor(),
            refunded_minor: amount_refunded.minor(),
            captured: *captured,
            status: status_name(*status).to_owned(),
            dispute: dispute_name(*dispute).to_owned(),
            customer: customer.id().map(ToString::to_string),
            customer_created_at: match customer {
                CustomerFact::Known { created_at, .. } => Some(created_at.millis()),
                CustomerFact::None | CustomerFact::Unreadable { .. } => None,
            },
            created_at: created_at.millis(),
            payment_method_type,
            card_country,
            risk_level,
            risk_score,
            refund_count,
            metadata,
            account: account.as_ref().map(ToString::to_string),
            livemode: *livemode,
            version: version.clone(),
            key: key.as_ref().map(ToString::to_string),
            agent_tagged: *agent_tagged,
        }
    }

    fn charge(self) -> Option<Charge> {
        let currency = Currency::parse(&self.currency).ok()?;
        let amount = |minor| Amount::from_stripe(minor, currency).ok();
        let customer = self.customer.map(|id| CustomerId::parse(&id)).transpose().ok()?;
        Some(Charge {
            id: ChargeId::parse(&self.id).ok()?,
            payment_intent: self
                .payment_intent
                .map(|id| PaymentIntentId::parse(&id))
                .transpose()
                .ok()?,
            amount: amount(self.minor)?,
            amount_captured: amount(self.captured_minor)?,
            amount_refunded: amount(self.refunded_minor)?,
            captured: self.captured,
            status: STATUSES.into_iter().find(|status| status_name(*status) == self.status)?,
            dispute: DISPUTES.into_iter().find(|state| dispute_name(*state) == self.dispute)?,
            customer: match (customer, self.customer_created_at) {
                (None, _) => CustomerFact::None,
                (Some(id), None) => CustomerFact::Unreadable { id },
                (Some(id), Some(at)) => {
                    CustomerFact::Known { id, created_at: Timestamp::from_millis(at) }
                }
            },
            created_at: Timestamp::from_millis(self.created_at),
            facts: ChargeFacts {
                payment_method_type: self.payment_method_type,
                card_country: self.card_country,
                risk_level: self.risk_level,
                risk_score: self.risk_score,
                refund_count: self.refund_count,
                metadata: self.metadata,
            },
            channel: Channel {
                account: self.account.map(|id| AccountId::parse(&id)).transpose().ok()?,
                livemode: self.livemode,
                version: self.version,
                key: self.key.map(|mark| KeyMark::parse(&mark)).transpose().ok()?,
                agent_tagged: self.agent_tagged,
            },
        })
    }
}

/// The charge in a cell.
pub(super) fn seen(text: &str) -> Option<Charge> {
    serde_json::from_str::<SeenRow>(text).ok()?.charge()
}

const STATUSES: [ChargeStatus; 3] =
    [ChargeStatus::Failed, ChargeStatus::Pending, ChargeStatus::Succeeded];

const fn status_name(status: ChargeStatus) -> &'static str {
    match status {
        ChargeStatus::Failed => "failed",
        ChargeStatus::Pending => "pending",
        ChargeStatus::Succeeded => "succeeded",
    }
}

const DISPUTES: [Dispute; 3] = [Dispute::Refundable, Dispute::None, Dispute::Open];

const fn dispute_name(dispute: Dispute) -> &'static str {
    match dispute {
        Dispute::Refundable => "refundable",
        Dispute::None => "none",
        Dispute::Open => "open",
    }
}
