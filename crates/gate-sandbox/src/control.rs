//! The control API under `/_sandbox/`: what a test needs and Stripe does not offer.
//!
//! Bodies and answers are JSON; an error is `{"error":{"message":"…"}}` and says what to do. The
//! control calls need no key, are subject to no faults but those of webhooks, and are not listed
//! among the requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::{
    Delivery, Reply, Request, Sandbox,
    account::Account,
    cards::{Card, VISA},
    charges::{Charge, ChargeStatus},
    clock::{self, Moment},
    customers::Customer,
    disputes::Dispute,
    faults::Fault,
    feed,
    form::Metadata,
    holds::HoldOrder,
    ids::Random,
    intents::{Intent, IntentStatus},
    keys::{Access, Grant, Resource},
    list::Object,
    refunds::Turn,
    seed::SeedOrder,
    webhook::Cause,
};

/// How far the clock may be moved altogether, in seconds: a hundred years.
const ADVANCE_SECS_MAX: i64 = 100 * 365 * 24 * 60 * 60;

const PATHS: &str = "GET deliveries, GET requests, GET rates/eurofxref-daily.xml, GET webhook, \
                     POST approval_requests/{id}, POST charges, POST clock, POST disputes, POST disputes/{id}, POST faults, \
                     DELETE faults, POST keys, POST refunds/{id}, POST seed, POST settings, \
                     POST webhook";

/// A sentence and the status it goes with.
type Refusal = (u16, String);

/// `POST /_sandbox/charges`. Every field overrides a default; what is not listed is laid over the
/// charge as it is rendered. Objects that are named and do not exist are made.
#[derive(Deserialize)]
pub(crate) struct ChargeOrder {
    amount: Option<i64>,
    amount_captured: Option<i64>,
    amount_refunded: Option<i64>,
    captured: Option<bool>,
    created: Option<i64>,
    currency: Option<String>,
    customer: Option<CustomerOrder>,
    description: Option<String>,
    dispute: Option<DisputeOrder>,
    disputed: Option<bool>,
    id: Option<String>,
    metadata: Option<Metadata>,
    payment_intent: Option<String>,
    refunded: Option<bool>,
    /// A test token, for the card's behaviour.
    source: Option<String>,
    status: Option<ChargeStatus>,
    #[serde(flatten)]
    overrides: Map<String, Value>,
}

/// A customer by id, or what is to be known about a new one.
#[derive(Deserialize)]
#[serde(untagged)]
enum CustomerOrder {
    Id(String),
    Fields(CustomerFields),
}

#[derive(Default, Deserialize)]
struct CustomerFields {
    created: Option<i64>,
    id: Option<String>,
    metadata: Option<Metadata>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

#[derive(Default, Deserialize)]
struct DisputeOrder {
    amount: Option<i64>,
    created: Option<i64>,
    id: Option<String>,
    is_charge_refundable: Option<bool>,
    reason: Option<String>,
    status: Option<String>,
    #[serde(flatten)]
    overrides: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClockOrder {
    advance_seconds: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyOrder {
    key: String,
    permissions: Option<BTreeMap<Resource, Access>>,
    #[serde(default)]
    agent_tagged: bool,
}

/// `POST /_sandbox/disputes`: a dispute of a charge that is there already.
#[derive(Deserialize)]
struct NewDisputeOrder {
    charge: String,
    #[serde(flatten)]
    dispute: DisputeOrder,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DisputeMove {
    status: String,
}

/// What is named is set; `"newRefunds": null` leaves new refunds to their cards again.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SettingsOrder {
    over_refund_code: Option<bool>,
    #[serde(default, deserialize_with = "named")]
    new_refunds: Option<Option<Turn>>,
    rate_limits: Option<bool>,
}

/// `POST /_sandbox/webhook`: where deliveries go, or nowhere when `url` is null.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookOrder {
    url: Option<String>,
    secret: Option<String>,
}

impl Sandbox {
    /// Answers the control request for `path`, which is what follows `/_sandbox/`.
    pub(crate) fn control(&mut self, now: Moment, path: &str, request: &Request) -> Reply {
        self.catch_up(now);
        let segments: Vec<&str> = path.split('/').collect();
        let mut content_type = "application/json";
        let answered = match (request.method.as_str(), segments.as_slice()) {
            ("GET", ["rates", "eurofxref-daily.xml"]) => {
                content_type = "text/xml";
                Ok(feed::daily(now.secs))
            }
            ("GET", ["deliveries"]) => Ok(self.outbox.deliveries(now).to_string()),
            ("GET", ["webhook"]) => Ok(self.outbox.shown().to_string()),
            ("GET", ["requests"]) => Ok(json!(self.received).to_string()),
            ("POST", ["approval_requests", id]) => self.decide_hold(now, request, id),
            ("POST", ["charges"]) => self.order_charge(now, request),
            ("POST", ["clock"]) => self.advance(now, request),
            ("POST", ["disputes"]) => self.open_dispute(now, request),
            ("POST", ["disputes", id]) => self.move_dispute(now, request, id),
            ("POST", ["faults"]) => self.order_fault(request),
            ("DELETE", ["faults"]) => {
                self.faults.clear();
                Ok(json!({ "waiting": 0 }).to_string())
            }
            ("POST", ["keys"]) => self.set_key(request),
            ("POST", ["refunds", id]) => self.move_refund(now, request, id),
            ("POST", ["seed"]) => self.sow(now, request),
            ("POST", ["settings"]) => self.set(request),
            ("POST", ["webhook"]) => self.set_webhook(request),
            (method, _) => {
                Err((404, format!("there is no {method} /_sandbox/{path}; these exist: {PATHS}")))
            }
        };
        let cause = Cause { method: &request.method, path: &request.path, ..Cause::default() };
        self.publish(cause, now);
        let (status, body) = match answered {
            Ok(body) => (200, body),
            Err((status, message)) => {
                (status, json!({ "error": { "message": message } }).to_string())
            }
        };
        let headers = vec![
            ("Content-Type".to_owned(), content_type.to_owned()),
            ("Date".to_owned(), clock::http_date(now.secs)),
        ];
        Reply { status, headers, body: body.into_bytes(), delivery: Delivery::Normal }
    }

    /// The account that a control request means: that of its `Stripe-Account` header, else the own.
    fn account_of(&mut self, request: &Request) -> (&mut Account, &mut Random) {
        let id = request.header("stripe-account").unwrap_or(&self.own_account);
        let account = self.accounts.entry(id.to_owned()).or_insert_with_key(|id| Account::new(id));
        (account, &mut self.random)
    }

    fn order_charge(&mut self, now: Moment, request: &Request) -> Result<String, Refusal> {
        let order: ChargeOrder = read(request)?;
        let (account, random) = self.account_of(request);
        let charge = order.into_charge(account, random, now.secs).map_err(|text| (400, text))?;
        Ok(charge.to_string())
    }

    fn sow(&mut self, now: Moment, request: &Request) -> Result<String, Refusal> {
        let order: SeedOrder = read(request)?;
        let (account, random) = self.account_of(request);
        let sown = order.sow(account, random, now.secs).map_err(|text| (400, text))?;
        Ok(sown.to_string())
    }

    fn move_refund(&mut self, now: Moment, request: &Request, id: &str) -> Result<String, Refusal> {
        let turn: Turn = read(request)?;
        let (account, random) = self.account_of(request);
        let status = if account.refunds.find(id).is_some() { 400 } else { 404 };
        let moved = account.move_refund(id, turn, now.secs, random);
        Ok(moved.map_err(|text| (status, text))?.to_string())
    }

    fn decide_hold(&mut self, now: Moment, request: &Request, id: &str) -> Result<String, Refusal> {
        let order: HoldOrder = read(request)?;
        let settings = self.settings.clone();
        let (account, random) = self.account_of(request);
        let status = if account.holds.find(id).is_some() { 400 } else { 404 };
        let decided = account.decide_hold(id, order, now.secs, &settings, random);
        Ok(decided.map_err(|text| (status, text))?.to_string())
    }

    fn open_dispute(&mut self, now: Moment, request: &Request) -> Result<String, Refusal> {
        let NewDisputeOrder { charge, dispute } = read(request)?;
        let (account, random) = self.account_of(request);
        let Some(charge) = account.charges.find(&charge) else {
            let text = format!(
                "there is no charge {charge} in account {}; name another account in Stripe-Account",
                account.id
            );
            return Err((404, text));
        };
        dispute.check_new(account).map_err(|text| (400, text))?;
        let created = dispute.created.unwrap_or(now.secs);
        let dispute = DisputeOrder { created: Some(created), ..dispute };
        let dispute = dispute.into_dispute(charge, random);
        let rendered = dispute.render();
        account.add_dispute(dispute, now.secs);
        Ok(rendered.to_string())
    }

    fn move_dispute(
        &mut self,
        now: Moment,
        request: &Request,
        id: &str,
    ) -> Result<String, Refusal> {
        let DisputeMove { status } = read(request)?;
        let (account, _) = self.account_of(request);
        let moved = account.move_dispute(id, status, now.secs);
        Ok(moved.map_err(|text| (404, text))?.to_string())
    }

    fn advance(&mut self, now: Moment, request: &Request) -> Result<String, Refusal> {
        let ClockOrder { advance_seconds } = read(request)?;
        let advanced =
            self.advanced_secs.checked_add(advance_seconds).filter(|_| advance_seconds >= 0);
        let Some(advanced) = advanced.filter(|secs| *secs <= ADVANCE_SECS_MAX) else {
            let text = format!(
                "the clock only moves forward, by at most {ADVANCE_SECS_MAX} seconds altogether"
            );
            return Err((400, text));
        };
        self.advanced_secs = advanced;
        let secs = now.secs.saturating_add(advance_seconds);
        Ok(json!({ "advancedSeconds": advanced, "now": secs }).to_string())
    }

    fn order_fault(&mut self, request: &Request) -> Result<String, Refusal> {
        let fault: Fault = read(request)?;
        let waiting = self.faults.order(fault).map_err(|text| (400, text))?;
        Ok(json!({ "waiting": waiting }).to_string())
    }

    fn set_key(&mut self, request: &Request) -> Result<String, Refusal> {
        let KeyOrder { key, permissions, agent_tagged } = read(request)?;
        if !key.starts_with("rk_test_") {
            let text = "only restricted test keys, `rk_test_…`, can be given permissions; every \
                        `sk_test_…` key has them all";
            return Err((400, text.to_owned()));
        }
        self.keys.set(key.clone(), Grant { permissions, agent_tagged });
        Ok(json!({ "key": key }).to_string())
    }

    fn set(&mut self, request: &Request) -> Result<String, Refusal> {
        let SettingsOrder { over_refund_code, new_refunds, rate_limits } = read(request)?;
        if over_refund_code.is_none() && new_refunds.is_none() && rate_limits.is_none() {
            return Err((400, "name `overRefundCode`, `newRefunds` or `rateLimits`".to_owned()));
        }
        if let Some(code) = over_refund_code {
            self.settings.over_refund_code = code;
        }
        if let Some(turn) = new_refunds {
            self.settings.new_refunds = turn;
        }
        if let Some(hold) = rate_limits {
            self.settings.rate_limits = hold;
        }
        Ok(json!(self.settings).to_string())
    }

    fn set_webhook(&mut self, request: &Request) -> Result<String, Refusal> {
        let refused = |text: &str| Err((400, text.to_owned()));
        match read(request)? {
            WebhookOrder { url: None, .. } => self.outbox.close(),
            WebhookOrder { url: Some(url), secret } => {
                if !url.starts_with("http://") && !url.starts_with("https://") {
                    return refused("`url` must begin with http:// or https://, or be null");
                }
                let Some(secret) = secret.filter(|secret| !secret.is_empty()) else {
                    return refused("deliveries are signed: send a `secret` too, such as whsec_…");
                };
                self.outbox.open(url, &secret);
            }
        }
        Ok(self.outbox.shown().to_string())
    }
}

/// The three amounts of a charge, in minor units.
struct Amounts {
    amount: i64,
    captured: i64,
    refunded: i64,
}

impl ChargeOrder {
    fn is_captured(&self) -> bool {
        self.captured.unwrap_or(self.status != Some(ChargeStatus::Failed))
    }

    /// The amounts, if they fit together: no more is captured than there is, and what was never
    /// captured of a captured charge counts as refunded.
    fn amounts(&self) -> Result<Amounts, String> {
        let amount = self.amount.unwrap_or(1000);
        let capturable = if self.is_captured() { amount } else { 0 };
        let captured = self.amount_captured.unwrap_or(capturable);
        let released = capturable.saturating_sub(captured);
        let gone = if self.refunded == Some(true) { amount } else { released };
        let refunded = self.amount_refunded.unwrap_or(gone);
        if amount < 0 {
            return Err("`amount` must be at least 0".to_owned());
        }
        if !(0..=capturable).contains(&captured) {
            return Err(format!("`amount_captured` must be between 0 and {capturable}"));
        }
        if !(released..=amount).contains(&refunded) {
            return Err(format!(
                "`amount_refunded` must be between {released}, which was never captured, and \
                 {amount}"
            ));
        }
        Ok(Amounts { amount, captured, refunded })
    }

    /// Makes the charge and everything that it names.
    pub(crate) fn into_charge(
        self,
        account: &mut Account,
        random: &mut Random,
        now_secs: i64,
    ) -> Result<Value, String> {
        let amounts = self.amounts()?;
        let captured = self.is_captured();
        let card = match &self.source {
            None => VISA,
            Some(token) => Card::by_token(token)
                .ok_or_else(|| format!("{token} is no test token; try tok_visa"))?,
        };
        let id = self.id.unwrap_or_else(|| random.id("ch_", 24));
        if account.charges.find(&id).is_some() {
            return Err(format!("charge {id} exists already; choose another id"));
        }
        let dispute = self.dispute.or_else(|| self.disputed?.then(DisputeOrder::default));
        if let Some(order) = &dispute {
            order.check_new(account)?;
        }
        let created = self.created.unwrap_or(now_secs);
        let customer = self.customer.map(|order| order.into_id(account, random, created));
        let charge = Charge {
            id: id.clone(),
            amount: amounts.amount,
            amount_captured: amounts.captured,
            amount_refunded: amounts.refunded,
            balance_transaction: captured.then(|| random.id("txn_", 24)),
            captured,
            card,
            created,
            currency: self.currency.unwrap_or_else(|| "usd".to_owned()).to_lowercase(),
            customer,
            description: self.description,
            disputed: false,
            failure: None,
            metadata: self.metadata.unwrap_or_default(),
            payment_intent: self.payment_intent,
            payment_method: random.id("pm_", 24),
            status: self.status.unwrap_or(ChargeStatus::Succeeded),
            overrides: self.overrides,
        };
        if let Some(intent) = intent_of(&charge, random)
            && account.intents.find(&intent.id).is_none()
        {
            account.intents.add(intent);
        }
        let dispute = dispute.map(|order| order.into_dispute(&charge, random));
        account.charges.add(charge);
        if let Some(dispute) = dispute {
            account.add_dispute(dispute, now_secs);
        }
        account.charges.find(&id).map(Object::render).ok_or_else(|| "lost the charge".to_owned())
    }
}

impl CustomerOrder {
    /// The customer's id; a customer that does not exist yet is made, `created` with the charge.
    fn into_id(self, account: &mut Account, random: &mut Random, created: i64) -> String {
        let order = match self {
            Self::Id(id) => CustomerFields { id: Some(id), ..CustomerFields::default() },
            Self::Fields(fields) => fields,
        };
        let id = order.id.unwrap_or_else(|| random.id("cus_", 14));
        if account.customers.find(&id).is_none() {
            account.customers.add(Customer {
                id: id.clone(),
                card: Some(VISA),
                created: order.created.unwrap_or(created),
                metadata: order.metadata.unwrap_or_default(),
                fields: order.fields,
            });
        }
        id
    }
}

impl DisputeOrder {
    fn check_new(&self, account: &Account) -> Result<(), String> {
        match self.id.as_deref().filter(|id| account.disputes.find(id).is_some()) {
            None => Ok(()),
            Some(id) => Err(format!("dispute {id} exists already; choose another id")),
        }
    }

    fn into_dispute(self, charge: &Charge, random: &mut Random) -> Dispute {
        let status = self.status.unwrap_or_else(|| "needs_response".to_owned());
        Dispute {
            id: self.id.unwrap_or_else(|| random.id("dp_", 24)),
            amount: self.amount.unwrap_or(charge.amount_captured),
            charge: charge.id.clone(),
            created: self.created.unwrap_or(charge.created),
            currency: charge.currency.clone(),
            is_charge_refundable: self
                .is_charge_refundable
                .unwrap_or_else(|| Dispute::refundable_by_status(&status)),
            payment_intent: charge.payment_intent.clone(),
            reason: self.reason.unwrap_or_else(|| "fraudulent".to_owned()),
            status,
            overrides: self.overrides,
        }
    }
}

/// The payment intent that a charge names, in the state that the charge implies.
fn intent_of(charge: &Charge, random: &mut Random) -> Option<Intent> {
    let id = charge.payment_intent.clone()?;
    let status = match (charge.status, charge.captured) {
        (ChargeStatus::Failed, _) => IntentStatus::RequiresPaymentMethod,
        (ChargeStatus::Pending, _) => IntentStatus::Processing,
        (ChargeStatus::Succeeded, true) => IntentStatus::Succeeded,
        (ChargeStatus::Succeeded, false) => IntentStatus::RequiresCapture,
    };
    let capturable = if status == IntentStatus::RequiresCapture { charge.amount } else { 0 };
    Some(Intent {
        amount: charge.amount,
        amount_capturable: capturable,
        amount_received: charge.amount_captured,
        canceled_at: None,
        cancellation_reason: None,
        capture_method: "automatic".to_owned(),
        client_secret: random.id(&format!("{id}_secret_"), 25),
        created: charge.created,
        currency: charge.currency.clone(),
        customer: charge.customer.clone(),
        description: charge.description.clone(),
        id,
        last_decline: None,
        latest_charge: Some(charge.id.clone()),
        metadata: charge.metadata.clone(),
        payment_method: Some((charge.payment_method.clone(), charge.card)),
        status,
    })
}

/// A field that is there, even if it is null.
fn named<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The body of a control request.
fn read<T: DeserializeOwned>(request: &Request) -> Result<T, Refusal> {
    serde_json::from_slice(&request.body).map_err(|fault| {
        (400, format!("the body of POST {} is not what is expected: {fault}", request.path))
    })
}
