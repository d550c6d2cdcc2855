//! Payment intents: created, confirmed, captured and canceled.

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    account::Call,
    cards::{Card, Decline},
    charges::{Attempt, capture_amount, decline_failure},
    currency,
    failure::Failure,
    form::Metadata,
    list::{Object, PAGE_PARAMS},
};

/// Parameters that a creation may carry and that change nothing here.
const WITHOUT_EFFECT: [&str; 12] = [
    "automatic_payment_methods[]",
    "confirmation_method",
    "error_on_requires_action",
    "off_session",
    "payment_method_options[]",
    "payment_method_types[]",
    "receipt_email",
    "return_url",
    "setup_future_usage",
    "shipping[]",
    "statement_descriptor",
    "statement_descriptor_suffix",
];

/// A payment intent.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) id: String,
    pub(crate) amount: i64,
    pub(crate) amount_capturable: i64,
    pub(crate) amount_received: i64,
    pub(crate) canceled_at: Option<i64>,
    pub(crate) cancellation_reason: Option<String>,
    pub(crate) capture_method: String,
    pub(crate) client_secret: String,
    pub(crate) created: i64,
    pub(crate) currency: String,
    pub(crate) customer: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) last_decline: Option<Decline>,
    pub(crate) latest_charge: Option<String>,
    pub(crate) metadata: Metadata,
    /// The id and the card of the payment method.
    pub(crate) payment_method: Option<(String, Card)>,
    pub(crate) status: IntentStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IntentStatus {
    Canceled,
    /// Only where the control API made a pending charge.
    Processing,
    RequiresCapture,
    RequiresConfirmation,
    RequiresPaymentMethod,
    Succeeded,
}

impl IntentStatus {
    const fn name(self) -> &'static str {
        match self {
            Self::Canceled => "canceled",
            Self::Processing => "processing",
            Self::RequiresCapture => "requires_capture",
            Self::RequiresConfirmation => "requires_confirmation",
            Self::RequiresPaymentMethod => "requires_payment_method",
            Self::Succeeded => "succeeded",
        }
    }
}

impl Object for Intent {
    const NOUN: &'static str = "payment_intent";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let last_error = self.last_decline.map(|decline| {
            json!({
                "charge": self.latest_charge,
                "code": decline.code,
                "decline_code": decline.decline_code,
                "message": decline.message,
                "type": "card_error",
            })
        });
        json!({
            "id": self.id,
            "object": "payment_intent",
            "amount": self.amount,
            "amount_capturable": self.amount_capturable,
            "amount_details": { "tip": {} },
            "amount_received": self.amount_received,
            "application": null,
            "application_fee_amount": null,
            "automatic_payment_methods": null,
            "canceled_at": self.canceled_at,
            "cancellation_reason": self.cancellation_reason,
            "capture_method": self.capture_method,
            "client_secret": self.client_secret,
            "confirmation_method": "automatic",
            "created": self.created,
            "currency": self.currency,
            "customer": self.customer,
            "description": self.description,
            "last_payment_error": last_error,
            "latest_charge": self.latest_charge,
            "livemode": false,
            "metadata": self.metadata,
            "next_action": null,
            "on_behalf_of": null,
            "payment_method": self.payment_method.as_ref().map(|(id, _)| id),
            "payment_method_options": {},
            "payment_method_types": ["card"],
            "processing": null,
            "receipt_email": null,
            "review": null,
            "setup_future_usage": null,
            "shipping": null,
            "source": null,
            "statement_descriptor": null,
            "statement_descriptor_suffix": null,
            "status": self.status,
            "transfer_data": null,
            "transfer_group": null,
        })
    }
}

impl Call<'_> {
    pub(crate) fn create_intent(&mut self, _id: &str) -> Result<Value, Failure> {
        let params = self.params;
        let used = [
            "amount",
            "capture_method",
            "confirm",
            "currency",
            "customer",
            "description",
            "metadata[]",
            "payment_method",
        ];
        params.check_known(&[&used[..], &WITHOUT_EFFECT].concat())?;
        let amount = params.positive("amount")?.ok_or_else(|| Failure::missing("amount"))?;
        let currency = params.required("currency")?.to_lowercase();
        currency::check_charge(amount, &currency)?;
        let methods = ["automatic", "automatic_async", "manual"];
        let capture_method = params.one_of("capture_method", &methods)?.unwrap_or("automatic");
        let confirm = params.flag("confirm")?;
        let metadata = params.merge_metadata(&Metadata::new())?;
        let description = params.owned("description")?;
        let customer = params.owned("customer")?;
        if let Some(customer) = &customer {
            self.account.customers.need(customer, "customer")?;
        }
        let payment_method = self.payment_method()?;
        let status = match payment_method {
            Some(_) => IntentStatus::RequiresConfirmation,
            None => IntentStatus::RequiresPaymentMethod,
        };
        let id = self.random.id("pi_", 24);
        self.account.intents.add(Intent {
            client_secret: self.random.id(&format!("{id}_secret_"), 25),
            id: id.clone(),
            amount,
            amount_capturable: 0,
            amount_received: 0,
            canceled_at: None,
            cancellation_reason: None,
            capture_method: capture_method.to_owned(),
            created: self.now_secs,
            currency,
            customer,
            description,
            last_decline: None,
            latest_charge: None,
            metadata,
            payment_method,
            status,
        });
        if confirm { self.charge_intent(&id) } else { self.intent(&id) }
    }

    pub(crate) fn confirm_intent(&mut self, id: &str) -> Result<Value, Failure> {
        let used = ["capture_method", "payment_method"];
        self.params.check_known(&[&used[..], &WITHOUT_EFFECT].concat())?;
        let methods = ["automatic", "automatic_async", "manual"];
        let capture_method = self.params.one_of("capture_method", &methods)?;
        let from = [IntentStatus::RequiresConfirmation, IntentStatus::RequiresPaymentMethod];
        self.check_intent(id, "confirmed", &from)?;
        let payment_method = self.payment_method()?;
        let intent = self.account.intents.need_mut(id, "intent")?;
        if let Some(method) = capture_method {
            intent.capture_method = method.to_owned();
        }
        if payment_method.is_some() {
            intent.payment_method = payment_method;
        }
        self.charge_intent(id)
    }

    pub(crate) fn capture_intent(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&["amount_to_capture", "metadata[]", "statement_descriptor"])?;
        let wanted = self.params.positive("amount_to_capture")?;
        self.check_intent(id, "captured", &[IntentStatus::RequiresCapture])?;
        let intent = self.account.intents.need_mut(id, "intent")?;
        let amount = capture_amount(wanted, intent.amount_capturable, "amount_to_capture")?;
        intent.metadata = self.params.merge_metadata(&intent.metadata)?;
        intent.amount_capturable = 0;
        intent.amount_received = amount;
        intent.status = IntentStatus::Succeeded;
        if let Some(charge) = intent.latest_charge.clone() {
            self.capture(&charge, amount);
        }
        self.intent(id)
    }

    /// Cancels; an authorised charge is released, which shows as refunded.
    pub(crate) fn cancel_intent(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&["cancellation_reason"])?;
        let reasons = ["duplicate", "fraudulent", "requested_by_customer", "abandoned"];
        let reason = self.params.one_of("cancellation_reason", &reasons)?.map(str::to_owned);
        let from = [
            IntentStatus::RequiresCapture,
            IntentStatus::RequiresConfirmation,
            IntentStatus::RequiresPaymentMethod,
        ];
        self.check_intent(id, "canceled", &from)?;
        let intent = self.account.intents.need_mut(id, "intent")?;
        let released = intent.status == IntentStatus::RequiresCapture;
        intent.amount_capturable = 0;
        intent.canceled_at = Some(self.now_secs);
        intent.cancellation_reason = reason;
        intent.status = IntentStatus::Canceled;
        if let Some(charge) = intent.latest_charge.clone().filter(|_| released) {
            let charge = self.account.charges.need_mut(&charge, "id")?;
            charge.amount_refunded = charge.amount;
        }
        self.intent(id)
    }

    pub(crate) fn read_intent(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&["client_secret"])?;
        self.intent(id)
    }

    pub(crate) fn list_intents(&mut self, _id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[&PAGE_PARAMS[..], &["customer"]].concat())?;
        let customer = self.params.text("customer")?;
        self.account.intents.page("/v1/payment_intents", self.params, |intent| {
            customer.is_none_or(|id| intent.customer.as_deref() == Some(id))
        })
    }

    fn intent(&self, id: &str) -> Result<Value, Failure> {
        Ok(self.account.intents.need(id, "intent")?.render())
    }

    /// The payment method that the request names, under an id of its own.
    fn payment_method(&mut self) -> Result<Option<(String, Card)>, Failure> {
        let Some(token) = self.params.text("payment_method")? else {
            return Ok(None);
        };
        let found = Card::by_token(token);
        let card =
            found.ok_or_else(|| Failure::unknown("PaymentMethod", token, "payment_method"))?;
        Ok(Some((self.random.id("pm_", 24), card)))
    }

    fn check_intent(&self, id: &str, done: &str, from: &[IntentStatus]) -> Result<(), Failure> {
        let intent = self.account.intents.need(id, "intent")?;
        if from.contains(&intent.status) {
            return Ok(());
        }
        let allowed: Vec<&str> = from.iter().map(|status| status.name()).collect();
        Err(Failure::refused(format!(
            "This PaymentIntent could not be {done} because it has a status of {}. Only a \
             PaymentIntent with one of the following statuses may be {done}: {}.",
            intent.status.name(),
            allowed.join(", ")
        ))
        .code("payment_intent_unexpected_state")
        .with("payment_intent", intent.render()))
    }

    /// Charges the intent's payment method and moves the intent on.
    fn charge_intent(&mut self, id: &str) -> Result<Value, Failure> {
        let intent = self.account.intents.need(id, "intent")?;
        let Some((payment_method, card)) = intent.payment_method.clone() else {
            let text = "You cannot confirm this PaymentIntent because it's missing a payment \
                        method. Send 'payment_method', such as pm_card_visa.";
            return Err(Failure::refused(text)
                .code("payment_intent_unexpected_state")
                .with("payment_intent", intent.render()));
        };
        let manual = intent.capture_method == "manual";
        let attempt = Attempt {
            amount: intent.amount,
            capture: !manual,
            card,
            currency: intent.currency.clone(),
            customer: intent.customer.clone(),
            description: intent.description.clone(),
            metadata: intent.metadata.clone(),
            payment_intent: Some(id.to_owned()),
            payment_method,
        };
        let charge_id = self.attempt(attempt);
        let decline = self.account.charges.need(&charge_id, "id")?.failure;
        let intent = self.account.intents.need_mut(id, "intent")?;
        intent.latest_charge = Some(charge_id.clone());
        intent.last_decline = decline;
        match decline {
            Some(decline) => {
                intent.payment_method = None;
                intent.status = IntentStatus::RequiresPaymentMethod;
                let failure = decline_failure(decline, &charge_id);
                return Err(failure.with("payment_intent", intent.render()));
            }
            None if manual => {
                intent.amount_capturable = intent.amount;
                intent.status = IntentStatus::RequiresCapture;
            }
            None => {
                intent.amount_received = intent.amount;
                intent.status = IntentStatus::Succeeded;
            }
        }
        self.intent(id)
    }
}
