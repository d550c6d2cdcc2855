//! The facts of a charge, as a gateway read them.

use std::collections::BTreeMap;

use gate_core::{
    AccountId, Channel, Charge, ChargeFacts, ChargeId, ChargeStatus, CustomerFact, CustomerId,
    Dispute, KeyMark, PaymentIntentId,
};
use serde::{Deserialize, Serialize};

use super::{AmountBody, Malformed, known, read, read_if, text_of, time, time_of};

/// A charge.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChargeBody {
    id: String,
    payment_intent: Option<String>,
    amount: AmountBody,
    amount_captured: AmountBody,
    amount_refunded: AmountBody,
    captured: bool,
    status: String,
    dispute: String,
    customer: Option<CustomerBody>,
    created_at: String,
    facts: FactsBody,
    channel: ChannelBody,
}

/// What only a policy's rules look at.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FactsBody {
    payment_method_type: Option<String>,
    card_country: Option<String>,
    risk_level: Option<String>,
    risk_score: Option<u32>,
    refund_count: Option<u32>,
    metadata: BTreeMap<String, String>,
}

impl From<&ChargeFacts> for FactsBody {
    fn from(facts: &ChargeFacts) -> Self {
        let ChargeFacts {
            payment_method_type,
            card_country,
            risk_level,
            risk_score,
            refund_count,
            metadata,
        } = facts.clone();
        Self { payment_method_type, card_country, risk_level, risk_score, refund_count, metadata }
    }
}

impl From<FactsBody> for ChargeFacts {
    fn from(body: FactsBody) -> Self {
        let FactsBody {
            payment_method_type,
            card_country,
            risk_level,
            risk_score,
            refund_count,
            metadata,
        } = body;
        Self { payment_method_type, card_country, risk_level, risk_score, refund_count, metadata }
    }
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CustomerBody {
    id: String,
    /// None when the key may not read it.
    created_at: Option<String>,
}

/// How a charge was read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChannelBody {
    account: Option<String>,
    livemode: bool,
    version: String,
    // Newer than the others: an older side does not send them, and does not take them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    agent_tagged: bool,
}

const STATUSES: [(ChargeStatus, &str); 3] = [
    (ChargeStatus::Failed, "failed"),
    (ChargeStatus::Pending, "pending"),
    (ChargeStatus::Succeeded, "succeeded"),
];
const DISPUTES: [(Dispute, &str); 3] =
    [(Dispute::None, "none"), (Dispute::Open, "open"), (Dispute::Refundable, "refundable")];

/// The name of a value in a table of names.
fn name<T: Copy + PartialEq>(table: &[(T, &'static str)], value: T) -> String {
    let found = table.iter().find(|(known, _)| *known == value);
    found.map(|(_, name)| *name).unwrap_or_default().to_owned()
}

/// The value of a name.
fn named<T: Copy>(table: &[(T, &'static str)], text: &str) -> Option<T> {
    table.iter().find(|(_, name)| *name == text).map(|(value, _)| *value)
}

impl From<&Charge> for ChargeBody {
    fn from(charge: &Charge) -> Self {
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
            channel,
        } = charge;
        Self {
            id: text_of(id),
            payment_intent: payment_intent.as_ref().map(text_of),
            amount: (*amount).into(),
            amount_captured: (*amount_captured).into(),
            amount_refunded: (*amount_refunded).into(),
            captured: *captured,
            status: name(&STATUSES, *status),
            dispute: name(&DISPUTES, *dispute),
            customer: match customer {
                CustomerFact::None => None,
                CustomerFact::Known { id, created_at } => {
                    Some(CustomerBody { id: text_of(id), created_at: Some(time(*created_at)) })
                }
                CustomerFact::Unreadable { id } => {
                    Some(CustomerBody { id: text_of(id), created_at: None })
                }
            },
            created_at: time(*created_at),
            facts: facts.into(),
            channel: channel.into(),
        }
    }
}

impl TryFrom<ChargeBody> for Charge {
    type Error = Malformed;

    fn try_from(body: ChargeBody) -> Result<Self, Malformed> {
        let customer = match body.customer {
            None => CustomerFact::None,
            Some(CustomerBody { id, created_at }) => {
                let id = read("customer", CustomerId::parse(&id))?;
                match created_at {
                    None => CustomerFact::Unreadable { id },
                    Some(at) => CustomerFact::Known { id, created_at: time_of("customer", &at)? },
                }
            }
        };
        Ok(Self {
            id: read("charge", ChargeId::parse(&body.id))?,
            payment_intent: read_if(
                "paymentIntent",
                body.payment_intent.as_ref(),
                PaymentIntentId::parse,
            )?,
            amount: body.amount.amount("amount")?,
            amount_captured: body.amount_captured.amount("amountCaptured")?,
            amount_refunded: body.amount_refunded.amount("amountRefunded")?,
            captured: body.captured,
            status: known("status", named(&STATUSES, &body.status))?,
            dispute: known("dispute", named(&DISPUTES, &body.dispute))?,
            customer,
            created_at: time_of("createdAt", &body.created_at)?,
            facts: body.facts.into(),
            channel: body.channel.try_into()?,
        })
    }
}

impl From<&Channel> for ChannelBody {
    fn from(channel: &Channel) -> Self {
        let Channel { account, livemode, version, key, agent_tagged } = channel;
        Self {
            account: account.as_ref().map(text_of),
            livemode: *livemode,
            version: version.clone(),
            key: key.as_ref().map(text_of),
            agent_tagged: *agent_tagged,
        }
    }
}

impl TryFrom<ChannelBody> for Channel {
    type Error = Malformed;

    fn try_from(body: ChannelBody) -> Result<Self, Malformed> {
        let account = read_if("account", body.account.as_ref(), AccountId::parse)?;
        let key = read_if("key", body.key.as_ref(), KeyMark::parse)?;
        let ChannelBody { livemode, version, agent_tagged, .. } = body;
        Ok(Self { account, livemode, version, key, agent_tagged })
    }
}
