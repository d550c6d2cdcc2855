//! Charges: made by token, by payment intent or over the control API, captured and listed.
//!
//! `amount_refunded` holds the refunds that have not failed and, after a partial capture, the rest
//! that was never captured; so `amount − amount_refunded` is what can still be refunded.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    account::{Call, lay_over},
    cards::{Behaviour, Card, Decline},
    currency,
    failure::Failure,
    form::Metadata,
    list::{Object, PAGE_PARAMS},
};

/// A charge.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) id: String,
    /// Minor units, as are the other amounts.
    pub(crate) amount: i64,
    pub(crate) amount_captured: i64,
    pub(crate) amount_refunded: i64,
    pub(crate) balance_transaction: Option<String>,
    pub(crate) captured: bool,
    pub(crate) card: Card,
    pub(crate) created: i64,
    /// Lower case.
    pub(crate) currency: String,
    pub(crate) customer: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) disputed: bool,
    pub(crate) failure: Option<Decline>,
    pub(crate) metadata: Metadata,
    pub(crate) payment_intent: Option<String>,
    pub(crate) payment_method: String,
    pub(crate) status: ChargeStatus,
    /// What the control API said about fields that the sandbox does not work with.
    pub(crate) overrides: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChargeStatus {
    Failed,
    Pending,
    Succeeded,
}

/// An attempt to charge a card.
pub(crate) struct Attempt {
    pub(crate) amount: i64,
    pub(crate) capture: bool,
    pub(crate) card: Card,
    pub(crate) currency: String,
    pub(crate) customer: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) metadata: Metadata,
    pub(crate) payment_intent: Option<String>,
    pub(crate) payment_method: String,
}

impl Charge {
    /// What can still be refunded, if it is captured at all.
    pub(crate) const fn refundable(&self) -> i64 {
        self.amount.saturating_sub(self.amount_refunded)
    }

    /// What of the charge has reached the balance and stayed there.
    pub(crate) const fn kept(&self) -> i64 {
        if self.captured { self.refundable() } else { 0 }
    }
}

impl Object for Charge {
    const NOUN: &'static str = "charge";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let declined = self.failure.is_some();
        let mut rendered = json!({
            "id": self.id,
            "object": "charge",
            "amount": self.amount,
            "amount_captured": self.amount_captured,
            "amount_refunded": self.amount_refunded,
            "application": null,
            "application_fee": null,
            "application_fee_amount": null,
            "balance_transaction": self.balance_transaction,
            "billing_details": { "address": null, "email": null, "name": null, "phone": null },
            "calculated_statement_descriptor": "SANDBOX",
            "captured": self.captured,
            "created": self.created,
            "currency": self.currency,
            "customer": self.customer,
            "description": self.description,
            "disputed": self.disputed,
            "failure_balance_transaction": null,
            "failure_code": self.failure.map(|decline| decline.code),
            "failure_message": self.failure.map(|decline| decline.message),
            "fraud_details": {},
            "livemode": false,
            "metadata": self.metadata,
            "on_behalf_of": null,
            "outcome": {
                "network_status":
                    if declined { "declined_by_network" } else { "approved_by_network" },
                "reason": self.failure.map(|decline| decline.decline_code),
                "risk_level": "normal",
                "risk_score": 12,
                "seller_message": if declined { "The bank declined." } else { "Payment complete." },
                "type": if declined { "issuer_declined" } else { "authorized" },
            },
            "paid": self.status != ChargeStatus::Failed,
            "payment_intent": self.payment_intent,
            "payment_method": self.payment_method,
            "payment_method_details": {
                "card": {
                    "brand": self.card.brand,
                    "country": "US",
                    "exp_month": 12,
                    "exp_year": 2034,
                    "funding": "credit",
                    "last4": self.card.last4,
                    "network": self.card.brand,
                },
                "type": "card",
            },
            "receipt_email": null,
            "receipt_number": null,
            "receipt_url": null,
            "refunded": self.amount_refunded == self.amount,
            "review": null,
            "shipping": null,
            "source_transfer": null,
            "statement_descriptor": null,
            "statement_descriptor_suffix": null,
            "status": self.status,
            "transfer_data": null,
            "transfer_group": null,
        });
        lay_over(&mut rendered, &self.overrides);
        rendered
    }
}

impl Call<'_> {
    pub(crate) fn create_charge(&mut self, _id: &str) -> Result<Value, Failure> {
        let params = self.params;
        params.check_known(&[
            "amount",
            "capture",
            "currency",
            "customer",
            "description",
            "metadata[]",
            "receipt_email",
            "shipping[]",
            "source",
            "statement_descriptor",
            "statement_descriptor_suffix",
            "transfer_group",
        ])?;
        let amount = params.positive("amount")?.ok_or_else(|| Failure::missing("amount"))?;
        let currency = params.required("currency")?.to_lowercase();
        currency::check_charge(amount, &currency)?;
        let capture = params.text("capture")?.is_none() || params.flag("capture")?;
        let metadata = params.merge_metadata(&Metadata::new())?;
        let source = params.text("source")?;
        let customer = params.owned("customer")?;
        let card = self.card_to_charge(source, customer.as_deref())?;
        let description = params.owned("description")?;
        let payment_method = self.random.id("card_", 24);
        let id = self.attempt(Attempt {
            amount,
            capture,
            card,
            currency,
            customer,
            description,
            metadata,
            payment_intent: None,
            payment_method,
        });
        let charge = self.account.charges.need(&id, "id")?;
        match charge.failure {
            Some(decline) => Err(decline_failure(decline, &id)),
            None => Ok(charge.render()),
        }
    }

    fn card_to_charge(
        &self,
        source: Option<&str>,
        customer: Option<&str>,
    ) -> Result<Card, Failure> {
        let held = match customer {
            Some(id) => self.account.customers.need(id, "customer")?.card,
            None => None,
        };
        match (source, customer) {
            (Some(token), _) => {
                Card::by_token(token).ok_or_else(|| Failure::unknown("token", token, "source"))
            }
            (None, Some(_)) => held.ok_or_else(|| {
                Failure::declined("Cannot charge a customer that has no active card")
                    .code("missing")
                    .param("card")
            }),
            (None, None) => Err(Failure::invalid("Must provide source or customer.")
                .code("parameter_missing")
                .param("source")),
        }
    }

    /// Charges a card and answers the new charge's id; a declined one is kept as failed.
    pub(crate) fn attempt(&mut self, attempt: Attempt) -> String {
        let id = self.random.id("ch_", 24);
        let failure = match attempt.card.behaviour {
            Behaviour::Declined(decline) => Some(decline),
            Behaviour::Disputed { .. }
            | Behaviour::RefundFails
            | Behaviour::RefundPends
            | Behaviour::Succeeds => None,
        };
        self.account.charges.add(Charge {
            id: id.clone(),
            amount: attempt.amount,
            amount_captured: 0,
            amount_refunded: 0,
            balance_transaction: None,
            captured: false,
            card: attempt.card,
            created: self.now_secs,
            currency: attempt.currency,
            customer: attempt.customer,
            description: attempt.description,
            disputed: false,
            failure,
            metadata: attempt.metadata,
            payment_intent: attempt.payment_intent,
            payment_method: attempt.payment_method,
            status: if failure.is_some() { ChargeStatus::Failed } else { ChargeStatus::Succeeded },
            overrides: Map::new(),
        });
        if attempt.capture && failure.is_none() {
            self.capture(&id, attempt.amount);
        }
        id
    }

    /// Captures `amount` of an authorised charge. The rest counts as refunded.
    pub(crate) fn capture(&mut self, id: &str, amount: i64) {
        let transaction = self.random.id("txn_", 24);
        let Some(charge) = self.account.charges.find_mut(id) else {
            return;
        };
        charge.captured = true;
        charge.amount_captured = amount;
        charge.amount_refunded = charge.amount.saturating_sub(amount);
        charge.balance_transaction = Some(transaction);
        if let Behaviour::Disputed { status, reason } = charge.card.behaviour {
            self.open_dispute(id, status, reason);
        }
    }

    pub(crate) fn capture_charge(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&["amount"])?;
        let wanted = self.params.positive("amount")?;
        let charge = self.account.charges.need(id, "charge")?;
        if charge.captured {
            let text = format!("Charge {id} has already been captured.");
            return Err(Failure::refused(text).code("charge_already_captured"));
        }
        if charge.payment_intent.is_some() {
            let text = "This charge belongs to a PaymentIntent. Capture that instead.";
            return Err(Failure::refused(text));
        }
        if charge.status != ChargeStatus::Succeeded || charge.refundable() < charge.amount {
            return Err(Failure::refused(format!("Charge {id} cannot be captured.")));
        }
        let amount = capture_amount(wanted, charge.amount, "amount")?;
        self.capture(id, amount);
        Ok(self.account.charges.need(id, "charge")?.render())
    }

    pub(crate) fn read_charge(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[])?;
        Ok(self.account.charges.need(id, "id")?.render())
    }

    pub(crate) fn list_charges(&mut self, _id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[&PAGE_PARAMS[..], &["customer", "payment_intent"]].concat())?;
        let customer = self.params.text("customer")?;
        let intent = self.params.text("payment_intent")?;
        self.account.charges.page("/v1/charges", self.params, |charge| {
            customer.is_none_or(|id| charge.customer.as_deref() == Some(id))
                && intent.is_none_or(|id| charge.payment_intent.as_deref() == Some(id))
        })
    }
}

/// What to capture of an authorisation of `authorized`: the amount wanted, or all.
pub(crate) fn capture_amount(
    wanted: Option<i64>,
    authorized: i64,
    param: &str,
) -> Result<i64, Failure> {
    match wanted {
        Some(amount) if amount > authorized => Err(Failure::refused(format!(
            "The amount to capture ({amount}) is greater than the amount authorized ({authorized})."
        ))
        .code("amount_too_large")
        .param(param)),
        amount => Ok(amount.unwrap_or(authorized)),
    }
}

/// Stripe's 402 for a declined card.
pub(crate) fn decline_failure(decline: Decline, charge: &str) -> Failure {
    Failure::declined(decline.message)
        .code(decline.code)
        .with("charge", charge)
        .with("decline_code", decline.decline_code)
}
