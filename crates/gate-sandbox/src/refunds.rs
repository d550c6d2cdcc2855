//! Refunds: what they refuse, what they do to their charge, and their life afterwards.
//!
//! Invariant captured-only: the refunds of a charge that have not failed or been canceled never
//! sum to more than was captured of it. A refund is made only here, and only within
//! [`Charge::refundable`].

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    account::{Account, Call, Settings},
    cards::Behaviour,
    charges::{Charge, ChargeStatus},
    currency,
    failure::Failure,
    form::Metadata,
    ids::Random,
    list::{Object, PAGE_PARAMS},
};

/// When the refunds of Stripe's two asynchronous test cards move on, in seconds.
const ASYNCHRONOUS_SECS: i64 = 60 * 60;
/// How long a customer has to say where the money is to go, in seconds: 45 days.
const ACTION_SECS: i64 = 45 * 24 * 60 * 60;

const REASONS: [&str; 3] = ["duplicate", "fraudulent", "requested_by_customer"];

/// A refund.
#[derive(Clone, Debug)]
pub(crate) struct Refund {
    pub(crate) id: String,
    pub(crate) amount: i64,
    balance_transaction: Option<String>,
    pub(crate) charge: String,
    created: i64,
    currency: String,
    failure_balance_transaction: Option<String>,
    failure_reason: Option<String>,
    metadata: Metadata,
    payment_intent: Option<String>,
    pending_reason: Option<String>,
    reason: Option<String>,
    pub(crate) status: RefundStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RefundStatus {
    Canceled,
    Failed,
    Pending,
    RequiresAction,
    Succeeded,
}

impl RefundStatus {
    /// Whether the money went back, so that the charge can be refunded again.
    pub(crate) const fn undone(self) -> bool {
        matches!(self, Self::Canceled | Self::Failed)
    }
}

/// A turn in a refund's life: the new status, and the reason where one belongs to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Turn {
    status: RefundStatus,
    failure_reason: Option<String>,
    pending_reason: Option<String>,
}

impl From<RefundStatus> for Turn {
    fn from(status: RefundStatus) -> Self {
        Self { status, failure_reason: None, pending_reason: None }
    }
}

impl Refund {
    /// Takes on a status, and lets go of what belonged to the one before.
    fn take(&mut self, turn: Turn, random: &mut Random) {
        self.status = turn.status;
        self.pending_reason = None;
        match turn.status {
            RefundStatus::Canceled => self.come_back("merchant_request", turn, random),
            RefundStatus::Failed => self.come_back("unknown", turn, random),
            RefundStatus::Pending => {
                let reason = turn.pending_reason.unwrap_or_else(|| "processing".to_owned());
                self.pending_reason = Some(reason);
            }
            RefundStatus::RequiresAction | RefundStatus::Succeeded => {}
        }
    }

    fn come_back(&mut self, default_reason: &str, turn: Turn, random: &mut Random) {
        let reason = turn.failure_reason.unwrap_or_else(|| default_reason.to_owned());
        self.failure_reason = Some(reason);
        self.failure_balance_transaction = Some(random.id("txn_", 24));
    }

    /// How the customer says where the money is to go.
    fn next_action(&self) -> Value {
        json!({
            "display_details": {
                "email_sent": {
                    "email_sent_at": self.created, "email_sent_to": "customer@example.com",
                },
                "expires_at": self.created.saturating_add(ACTION_SECS),
            },
            "type": "display_details",
        })
    }
}

impl Object for Refund {
    const NOUN: &'static str = "refund";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let mut rendered = json!({
            "id": self.id,
            "object": "refund",
            "amount": self.amount,
            "balance_transaction": self.balance_transaction,
            "charge": self.charge,
            "created": self.created,
            "currency": self.currency,
            "destination_details": { "card": { "type": "refund" }, "type": "card" },
            "metadata": self.metadata,
            "payment_intent": self.payment_intent,
            "reason": self.reason,
            "receipt_number": null,
            "source_transfer_reversal": null,
            "status": self.status,
            "transfer_reversal": null,
        });
        // Stripe leaves these out where they do not apply.
        let sometimes = [
            ("failure_balance_transaction", &self.failure_balance_transaction),
            ("failure_reason", &self.failure_reason),
            ("pending_reason", &self.pending_reason),
        ];
        if let Some(fields) = rendered.as_object_mut() {
            for (name, value) in sometimes {
                if let Some(value) = value {
                    fields.insert(name.to_owned(), json!(value));
                }
            }
            if self.status == RefundStatus::RequiresAction {
                fields.insert("next_action".to_owned(), self.next_action());
            }
        }
        rendered
    }
}

/// What a creation asks for, once its parameters are in order.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    amount: Option<i64>,
    metadata: Metadata,
    reason: Option<String>,
    /// The two parameters that need a fee or a transfer to give back.
    fee: bool,
    transfer: bool,
}

impl Call<'_> {
    pub(crate) fn create_refund(&mut self, _id: &str) -> Result<Value, Failure> {
        let wish = self.refund_wish()?;
        let charge = self.charge_to_refund()?;
        let amount = self.refund_amount(charge, &wish)?;
        let charge = charge.id.clone();
        if self.caller.agent_tagged() {
            return Err(self.hold_refund(charge, amount, wish));
        }
        let (now_secs, settings) = (self.now_secs, self.settings);
        self.account.make_refund(&charge, amount, wish, now_secs, settings, self.random)
    }

    fn refund_wish(&self) -> Result<Wish, Failure> {
        let params = self.params;
        params.check_known(&[
            "amount",
            "charge",
            "currency",
            "customer",
            "instructions_email",
            "metadata[]",
            "origin",
            "payment_intent",
            "reason",
            "refund_application_fee",
            "reverse_transfer",
        ])?;
        for name in ["currency", "customer", "origin"] {
            if params.text(name)?.is_some() {
                let text = format!(
                    "The parameter {name} is only for refunds of a customer's cash balance, which \
                     the sandbox does not have. Name a charge or a payment_intent instead."
                );
                return Err(Failure::invalid(text).param(name));
            }
        }
        let text = match (params.text("charge")?, params.text("payment_intent")?) {
            (None, None) => {
                "One of the following params should be provided for this request: payment_intent \
                 or charge."
            }
            (Some(_), Some(_)) => {
                "You may only specify one of these parameters: payment_intent, charge."
            }
            _ => "",
        };
        if !text.is_empty() {
            return Err(Failure::invalid(text).code("parameter_missing"));
        }
        Ok(Wish {
            amount: params.positive("amount")?,
            metadata: params.merge_metadata(&Metadata::new())?,
            reason: params.one_of("reason", &REASONS)?.map(str::to_owned),
            fee: params.flag("refund_application_fee")?,
            transfer: params.flag("reverse_transfer")?,
        })
    }

    /// The charge that the request means, captured and in nobody's way.
    fn charge_to_refund(&self) -> Result<&Charge, Failure> {
        let charge = match self.params.text("payment_intent")? {
            None => self.account.charges.need(self.params.required("charge")?, "id")?,
            Some(id) => {
                let intent = self.account.intents.need(id, "payment_intent")?;
                let latest = intent.latest_charge.as_deref();
                let charge = latest.and_then(|charge| self.account.charges.find(charge));
                charge.filter(|charge| charge.status != ChargeStatus::Failed).ok_or_else(|| {
                    Failure::refused(format!(
                        "This PaymentIntent ({id}) does not have a successful charge to refund."
                    ))
                })?
            }
        };
        self.account.check_charge(charge)?;
        Ok(charge)
    }

    fn refund_amount(&self, charge: &Charge, wish: &Wish) -> Result<i64, Failure> {
        let has = |field: &str| charge.overrides.get(field).is_some_and(|value| !value.is_null());
        for (name, wanted, there, what) in [
            ("refund_application_fee", wish.fee, has("application_fee"), "application fee"),
            ("reverse_transfer", wish.transfer, has("transfer"), "transfer"),
        ] {
            if wanted && !there {
                let text = format!("Charge {} has no {what} to give back.", charge.id);
                return Err(Failure::refused(text).param(name));
            }
        }
        let Some(amount) = wish.amount else {
            return Ok(charge.refundable());
        };
        currency::check_step(amount, &charge.currency)?;
        if amount <= charge.refundable() {
            return Ok(amount);
        }
        let (what, limit) = if amount > charge.amount {
            ("charge amount", charge.amount)
        } else {
            ("unrefunded amount on charge", charge.refundable())
        };
        let failure = Failure::refused(format!(
            "Refund amount ({}) is greater than {what} ({})",
            currency::written(amount, &charge.currency),
            currency::written(limit, &charge.currency)
        ))
        .param("amount");
        Err(if self.settings.over_refund_code { failure.code("amount_too_large") } else { failure })
    }

    pub(crate) fn update_refund(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&["metadata[]"])?;
        let refund = self.account.refunds.need_mut(id, "id")?;
        let before = refund.render();
        refund.metadata = self.params.merge_metadata(&refund.metadata)?;
        let after = refund.render();
        if after != before {
            self.account.note_refund(self.now_secs, &before, &after);
        }
        Ok(after)
    }

    pub(crate) fn cancel_refund(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[])?;
        let refund = self.account.refunds.need(id, "id")?;
        if refund.status != RefundStatus::RequiresAction {
            let text = "Only a refund with a status of requires_action can be canceled.";
            return Err(Failure::refused(text));
        }
        let canceled = Turn::from(RefundStatus::Canceled);
        let moved = self.account.move_refund(id, canceled, self.now_secs, self.random);
        moved.map_err(Failure::refused)
    }

    pub(crate) fn read_refund(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[])?;
        Ok(self.account.refunds.need(id, "id")?.render())
    }

    pub(crate) fn list_refunds(&mut self, _id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[&PAGE_PARAMS[..], &["charge", "payment_intent"]].concat())?;
        let charge = self.params.text("charge")?;
        let intent = self.params.text("payment_intent")?;
        self.account.refunds.page("/v1/refunds", self.params, |refund| {
            charge.is_none_or(|id| refund.charge == id)
                && intent.is_none_or(|id| refund.payment_intent.as_deref() == Some(id))
        })
    }
}

impl Account {
    /// Whether a charge can be refunded at all.
    fn check_charge(&self, charge: &Charge) -> Result<(), Failure> {
        let id = &charge.id;
        if charge.status == ChargeStatus::Failed {
            let text = format!("Charge {id} failed and cannot be refunded.");
            return Err(Failure::refused(text).code("charge_not_refundable"));
        }
        if charge.refundable() <= 0 {
            let text = format!("Charge {id} has already been refunded.");
            return Err(Failure::refused(text).code("charge_already_refunded"));
        }
        if !charge.captured {
            return Err(uncaptured(charge));
        }
        if self.dispute_blocks_refunds(id) {
            let text = format!("Charge {id} has been charged back; cannot issue a refund.");
            return Err(Failure::refused(text).code("charge_disputed"));
        }
        Ok(())
    }

    /// Whether the charge still has the amount.
    pub(crate) fn check_refundable(&self, charge: &str, amount: i64) -> Result<(), Failure> {
        let charge = self.charges.need(charge, "charge")?;
        self.check_charge(charge)?;
        if amount <= charge.refundable() {
            return Ok(());
        }
        Err(Failure::refused(format!(
            "Refund amount ({}) is greater than unrefunded amount on charge ({})",
            currency::written(amount, &charge.currency),
            currency::written(charge.refundable(), &charge.currency)
        )))
    }

    /// Makes the refund; `amount` is within what the charge can give back.
    pub(crate) fn make_refund(
        &mut self,
        charge: &str,
        amount: i64,
        wish: Wish,
        now_secs: i64,
        settings: &Settings,
        random: &mut Random,
    ) -> Result<Value, Failure> {
        let id = random.id("re_", 24);
        let transaction = random.id("txn_", 24);
        let charge = self.charges.need_mut(charge, "id")?;
        let charge_before = charge.render();
        let mut refund = Refund {
            id: id.clone(),
            amount,
            balance_transaction: Some(transaction),
            charge: charge.id.clone(),
            created: now_secs,
            currency: charge.currency.clone(),
            failure_balance_transaction: None,
            failure_reason: None,
            metadata: wish.metadata,
            payment_intent: charge.payment_intent.clone(),
            pending_reason: None,
            reason: wish.reason,
            status: RefundStatus::Succeeded,
        };
        let (turn, later) = first_and_later(charge, settings);
        refund.take(turn, random);
        if !refund.status.undone() {
            charge.amount_refunded = charge.amount_refunded.saturating_add(amount);
        }
        let charge_after = charge.render();
        let rendered = refund.render();
        let undone = refund.status.undone();
        self.refunds.add(refund);
        if let Some(status) = later {
            let at_secs = now_secs.saturating_add(ASYNCHRONOUS_SECS);
            self.scheduled.push((at_secs, id, status));
        }
        self.note(now_secs, "refund.created", &rendered, None);
        if undone {
            self.note(now_secs, "refund.failed", &rendered, None);
        } else {
            let before = Some(&charge_before);
            self.note(now_secs, "charge.refunded", &charge_after, before);
        }
        Ok(rendered)
    }

    /// Moves a refund to another status; one that failed or was canceled gives its amount back to
    /// its charge and is then at its end.
    ///
    /// # Errors
    ///
    /// A sentence for the person who ordered it.
    pub(crate) fn move_refund(
        &mut self,
        id: &str,
        turn: Turn,
        now_secs: i64,
        random: &mut Random,
    ) -> Result<Value, String> {
        let Some(refund) = self.refunds.find_mut(id) else {
            return Err(format!(
                "there is no refund {id} in account {}; name another account in Stripe-Account",
                self.id
            ));
        };
        if refund.status.undone() {
            return Err(format!("refund {id} has already ended; make a new one instead"));
        }
        let before = refund.render();
        refund.take(turn, random);
        if refund.status.undone()
            && let Some(charge) = self.charges.find_mut(&refund.charge)
        {
            charge.amount_refunded = charge.amount_refunded.saturating_sub(refund.amount);
        }
        let after = refund.render();
        let failed = refund.status == RefundStatus::Failed;
        self.note_refund(now_secs, &before, &after);
        if failed {
            self.note(now_secs, "refund.failed", &after, Some(&before));
        }
        Ok(after)
    }

    /// Notes that a refund changed, under both names that Stripe has for that.
    fn note_refund(&mut self, now_secs: i64, before: &Value, after: &Value) {
        for kind in ["refund.updated", "charge.refund.updated"] {
            self.note(now_secs, kind, after, Some(before));
        }
    }
}

/// What a refund of the charge is at first, and what it becomes by itself.
fn first_and_later(charge: &Charge, settings: &Settings) -> (Turn, Option<RefundStatus>) {
    let pending = |reason: &str| Turn {
        pending_reason: Some(reason.to_owned()),
        ..Turn::from(RefundStatus::Pending)
    };
    let usual = match charge.status {
        ChargeStatus::Pending => pending("charge_pending"),
        ChargeStatus::Failed | ChargeStatus::Succeeded => RefundStatus::Succeeded.into(),
    };
    match charge.card.behaviour {
        Behaviour::RefundPends => (pending("processing"), Some(RefundStatus::Succeeded)),
        Behaviour::RefundFails => (usual, Some(RefundStatus::Failed)),
        Behaviour::Declined(_) | Behaviour::Disputed { .. } | Behaviour::Succeeds => {
            (settings.new_refunds.clone().unwrap_or(usual), None)
        }
    }
}

/// An authorisation is not refunded but let go. Stripe's own text for payment intents is not
/// documented. A full refund of a bare charge would let go of it at Stripe; the sandbox refuses
/// that too, so that nobody leans on it.
fn uncaptured(charge: &Charge) -> Failure {
    match &charge.payment_intent {
        Some(intent) => Failure::refused(format!(
            "This PaymentIntent ({intent}) has a status of requires_capture and nothing to \
             refund. Cancel it instead."
        ))
        .code("payment_intent_unexpected_state"),
        None => Failure::refused(format!(
            "You cannot partially refund an uncaptured charge ({}). Capture it first.",
            charge.id
        ))
        .code("charge_not_refundable"),
    }
}
