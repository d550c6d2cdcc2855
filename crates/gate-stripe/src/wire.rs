//! Stripe's objects as they come, cut down to what is used, and turned into the core's.
//!
//! What is not known is ignored, and what is needed and missing makes the whole answer
//! unreadable: a charge is never filled up with guesses. `charge.refunds` is never read; Stripe
//! leaves it out since 2022-11-15.

use std::collections::BTreeMap;

use gate_core::{
    Channel, Charge, ChargeFacts, ChargeId, ChargeStatus, CustomerFact, CustomerId, Dispute,
    IntentId, ListedRefund, PaymentIntentId, Refund, RefundId, RefundStatus, Timestamp,
};
use gate_money::{Amount, Currency};
use serde::Deserialize;
use serde_json::Value;

/// The metadata under which a refund carries our intent's id.
const INTENT_METADATA: &str = "burnbound_intent";
/// Names the metadata that carries the head of the audit chain.
const AUDIT_METADATA: &str = "burnbound_audit";

/// Why an answer cannot be used; for the log.
#[derive(Debug)]
pub(crate) struct Unusable(pub(crate) &'static str);

/// An object, or only its id where it was not expanded.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Expandable<T> {
    Id(String),
    Object(T),
}

/// An object of which only the id matters.
#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    id: String,
}

impl Expandable<Named> {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Id(id) => id,
            Self::Object(object) => &object.id,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct CustomerWire {
    id: String,
    /// Missing once the customer is deleted.
    created: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ChargeWire {
    pub(crate) id: String,
    pub(crate) disputed: bool,
    pub(crate) livemode: bool,
    amount: i64,
    amount_captured: i64,
    amount_refunded: i64,
    captured: bool,
    created: i64,
    currency: String,
    status: String,
    customer: Option<Expandable<CustomerWire>>,
    payment_intent: Option<Expandable<Named>>,
    payment_method_details: Option<PaymentMethodWire>,
    outcome: Option<OutcomeWire>,
    #[serde(default)]
    metadata: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
struct PaymentMethodWire {
    #[serde(rename = "type")]
    kind: Option<String>,
    card: Option<CardWire>,
}

#[derive(Debug, Deserialize)]
struct CardWire {
    country: Option<String>,
}

#[derive(Debug, Deserialize)]
struct OutcomeWire {
    risk_level: Option<String>,
    risk_score: Option<u32>,
}

impl ChargeWire {
    /// Takes the intent that the charge was read through as its own.
    pub(crate) fn made_for(mut self, intent: &PaymentIntentId) -> Result<Self, Unusable> {
        match &self.payment_intent {
            Some(named) if named.id() != intent.as_str() => {
                return Err(Unusable("the charge belongs to another payment intent"));
            }
            Some(_) => {}
            None => self.payment_intent = Some(Expandable::Id(intent.as_str().to_owned())),
        }
        Ok(self)
    }

    /// The charge in the core's terms. A currency that is not known is an error: guessing its
    /// decimals could refund a hundred times too much.
    pub(crate) fn into_charge(
        self,
        dispute: Dispute,
        channel: Channel,
    ) -> Result<Charge, Unusable> {
        let currency = Currency::parse(&self.currency)
            .map_err(|_| Unusable("the charge is in a currency that is not known"))?;
        let amount = |minor| {
            Amount::from_stripe(minor, currency)
                .map_err(|_| Unusable("the charge has a negative amount"))
        };
        let method =
            self.payment_method_details.unwrap_or(PaymentMethodWire { kind: None, card: None });
        let outcome = self.outcome.unwrap_or(OutcomeWire { risk_level: None, risk_score: None });
        Ok(Charge {
            id: ChargeId::parse(&self.id).map_err(|_| Unusable("no charge id"))?,
            payment_intent: self
                .payment_intent
                .map(|named| PaymentIntentId::parse(named.id()))
                .transpose()
                .map_err(|_| Unusable("no payment intent id"))?,
            amount: amount(self.amount)?,
            amount_captured: amount(self.amount_captured)?,
            amount_refunded: amount(self.amount_refunded)?,
            captured: self.captured,
            // A status that is not known is not a success.
            status: match self.status.as_str() {
                "succeeded" => ChargeStatus::Succeeded,
                "failed" => ChargeStatus::Failed,
                _ => ChargeStatus::Pending,
            },
            dispute,
            customer: customer(self.customer)?,
            created_at: time(self.created)?,
            facts: ChargeFacts {
                payment_method_type: method.kind,
                card_country: method.card.and_then(|card| card.country),
                risk_level: outcome.risk_level,
                risk_score: outcome.risk_score,
                // How many there were otherwise, the charge does not say.
                refund_count: (self.amount_refunded == 0).then_some(0),
                metadata: texts(self.metadata),
            },
            channel,
        })
    }
}

fn customer(customer: Option<Expandable<CustomerWire>>) -> Result<CustomerFact, Unusable> {
    let (id, created) = match customer {
        None => return Ok(CustomerFact::None),
        Some(Expandable::Id(id)) => (id, None),
        Some(Expandable::Object(customer)) => (customer.id, customer.created),
    };
    let id = CustomerId::parse(&id).map_err(|_| Unusable("no customer id"))?;
    Ok(match created {
        None => CustomerFact::Unreadable { id },
        Some(created) => CustomerFact::Known { id, created_at: time(created)? },
    })
}

/// Metadata, whose values Stripe always sends as text.
fn texts(metadata: BTreeMap<String, Value>) -> BTreeMap<String, String> {
    let text = |(key, value): (String, Value)| value.as_str().map(|text| (key, text.to_owned()));
    metadata.into_iter().filter_map(text).collect()
}

fn time(seconds: i64) -> Result<Timestamp, Unusable> {
    seconds.checked_mul(1000).map(Timestamp::from_millis).ok_or(Unusable("no point in time"))
}

#[derive(Debug, Deserialize)]
pub(crate) struct PaymentIntentWire {
    pub(crate) id: String,
    status: String,
    pub(crate) latest_charge: Option<Expandable<ChargeWire>>,
}

/// Whether a payment can have a charge to refund.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PaymentProgress {
    /// It has been paid or authorised, as far as it says; the charge tells.
    Charged,
    /// Given up, or waiting for the customer to start over.
    NotPaid,
    /// Under way.
    NotReady,
}

impl PaymentIntentWire {
    pub(crate) fn progress(&self) -> PaymentProgress {
        match self.status.as_str() {
            "canceled" | "requires_payment_method" | "requires_confirmation" => {
                PaymentProgress::NotPaid
            }
            "processing" | "requires_action" => PaymentProgress::NotReady,
            _ if self.latest_charge.is_none() => PaymentProgress::NotReady,
            _ => PaymentProgress::Charged,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct DisputeWire {
    status: String,
    is_charge_refundable: bool,
}

/// Where the disputes of a disputed charge leave it: refundable only when each of them is an
/// inquiry or was won, and says so itself. Everything else, a status that is not known and no
/// dispute at all included, counts as open.
pub(crate) fn dispute(disputes: &List<DisputeWire>) -> Dispute {
    let harmless = |dispute: &DisputeWire| {
        dispute.is_charge_refundable
            && matches!(
                dispute.status.as_str(),
                "warning_needs_response" | "warning_under_review" | "warning_closed" | "won"
            )
    };
    let some = !disputes.data.is_empty() && !disputes.has_more;
    if some && disputes.data.iter().all(harmless) { Dispute::Refundable } else { Dispute::Open }
}

#[derive(Debug, Deserialize)]
pub(crate) struct List<T> {
    pub(crate) data: Vec<T>,
    pub(crate) has_more: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RefundWire {
    pub(crate) id: String,
    status: Option<String>,
    charge: Option<Expandable<Named>>,
    metadata: Option<BTreeMap<String, Value>>,
    amount: Option<i64>,
    created: Option<i64>,
}

impl RefundWire {
    /// Whether it says that it refunds another charge.
    pub(crate) fn is_of_another(&self, charge: &ChargeId) -> bool {
        self.charge.as_ref().is_some_and(|named| named.id() != charge.as_str())
    }

    /// The refund as a listing shows it; there, amount and time are needed.
    pub(crate) fn into_listed(self) -> Result<ListedRefund, Unusable> {
        let minor = self.amount.ok_or(Unusable("a refund without an amount"))?;
        let created = self.created.ok_or(Unusable("a refund without a time"))?;
        let created_at = Timestamp::from_millis(created.saturating_mul(1000));
        let audit_head = self.metadata(AUDIT_METADATA).map(str::to_owned);
        Ok(ListedRefund { refund: self.into_refund()?, minor, created_at, audit_head })
    }

    fn metadata(&self, name: &str) -> Option<&str> {
        self.metadata.as_ref()?.get(name)?.as_str()
    }

    /// The refund in the core's terms. Without a status it counts as pending, and is followed.
    pub(crate) fn into_refund(self) -> Result<Refund, Unusable> {
        let intent = self.metadata(INTENT_METADATA);
        Ok(Refund {
            id: RefundId::parse(&self.id).map_err(|_| Unusable("no refund id"))?,
            status: RefundStatus::from_stripe(self.status.as_deref().unwrap_or("pending")),
            intent: intent.and_then(|text| IntentId::parse(text).ok()),
        })
    }
}
