//! The client: which requests are made, in which order, and what is remembered of the key.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use form_urlencoded::Serializer;
use gate_core::{
    AccountId, Channel, Charge, ChargeId, Clock, Deadline, Dispute, Doubt, HoldId, HoldSeen,
    ListedRefund, PaymentIntentId, Processor, ReadError, Refund, SendError, Target, Ticket,
    Timestamp,
};
use gate_http::{HeaderText, Method, Request, Response, Transport, TransportError};
use serde::de::DeserializeOwned;

use crate::guard::CALLS_PER_MINUTE;
use crate::holds::{self, HOLDS_VERSION};
use crate::key::{KeySource, StripeKey};
use crate::permissions::Resource;
use crate::problem::request_id;
use crate::reads::read;
use crate::sends::outcome;
use crate::wire::{
    ChargeWire, DisputeWire, Expandable, List, PaymentIntentWire, PaymentProgress, RefundWire,
    Unusable, dispute,
};

/// Where Stripe's interface is.
pub const API_BASE: &str = "https://api.stripe.com";
/// The version of Stripe's interface that this client was written against.
pub const STRIPE_VERSION: &str = "2025-09-30.clover";
/// Most objects on one page of a list; Stripe's own limit.
const PAGE_OBJECTS: &str = "100";
/// Most pages of one charge's refunds that are read. A charge with more is an error: a part of
/// its refunds would say that ours is not there.
const REFUND_PAGES_MAX: u32 = 50;

/// Which Stripe is spoken to, and how.
#[derive(Clone, Debug)]
pub struct StripeConfig {
    /// The start of every URL, without a path; [`API_BASE`] unless a sandbox stands in.
    pub api_base: String,
    /// `Stripe-Version`; [`STRIPE_VERSION`] unless an operator knows better.
    pub version: String,
    /// The connected account that is read and refunded on, where there is one.
    pub account: Option<AccountId>,
    /// Whether Stripe will hold refunds of the key for approvals of its own; also learnt from the
    /// first that it holds.
    pub agent_tagged: bool,
    /// Most calls that [`StripeReads`](crate::StripeReads) makes in any 60 s, at least 1; more than
    /// ten in a second it never makes. Refunds are not counted.
    pub reads_per_minute: u32,
}

impl Default for StripeConfig {
    fn default() -> Self {
        Self {
            api_base: API_BASE.to_owned(),
            version: STRIPE_VERSION.to_owned(),
            account: None,
            agent_tagged: false,
            reads_per_minute: CALLS_PER_MINUTE,
        }
    }
}

/// Stripe, as the core's processor.
pub struct StripeClient {
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    config: StripeConfig,
    keys: Arc<dyn KeySource>,
    limits: Mutex<Limits>,
    health: Mutex<StripeHealth>,
}

/// What the last answers said of the key and of our clock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StripeHealth {
    /// Whether Stripe refused the key itself.
    pub key_refused: bool,
    /// How far our clock is from Stripe's, either way; none before the first answer.
    pub clock_apart: Option<Duration>,
}

/// What a key turned out not to be allowed. Forgotten when another key comes.
#[derive(Default)]
struct Limits {
    key: Option<StripeKey>,
    /// Customers cannot be read, so their age stays unknown.
    no_customers: bool,
    /// Stripe held a refund of it.
    agent_tagged: bool,
    /// Charges cannot be had along with their payment intents, only by their own ids.
    no_latest_charge: bool,
}

/// Everything that differs between two requests.
struct Call<'a> {
    method: Method,
    path: &'a str,
    version: &'a str,
    account: Option<&'a AccountId>,
    idempotency_key: Option<String>,
    body: Option<Body<'a>>,
}

/// What is sent: a form, as the first version of Stripe's interface takes it, or JSON for the second,
/// which also knows the account by another header.
enum Body<'a> {
    Form(&'a str),
    Json(String),
}

impl StripeClient {
    /// A client that asks `keys` for its key before each request.
    #[must_use]
    pub fn new(
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
        config: StripeConfig,
        keys: Arc<dyn KeySource>,
    ) -> Self {
        Self { transport, clock, config, keys, limits: Mutex::default(), health: Mutex::default() }
    }

    /// Reads one object or page as it is, for tools that show Stripe's data: `path` like
    /// `/v1/payment_intents`, and `query` unescaped.
    ///
    /// # Errors
    ///
    /// [`ReadError`]; `resource` is what is named when the key may not read it.
    pub async fn read(
        &self,
        path: &str,
        query: &[(&str, &str)],
        resource: Resource,
        by: Deadline,
    ) -> Result<serde_json::Value, ReadError> {
        self.get(&self.key()?, path, query, resource, by).await
    }

    /// What the last answers said of the key and of our clock.
    #[must_use]
    pub fn health(&self) -> StripeHealth {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_health(&self, response: &Response) {
        let theirs = response.header("date").and_then(http_date);
        let ours = self.clock.now();
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.key_refused = response.status == 401;
        if let Some(theirs) = theirs {
            health.clock_apart = Some(ours.since(theirs).max(theirs.since(ours)));
        }
    }

    pub(crate) fn key(&self) -> Result<StripeKey, ReadError> {
        self.keys.key().ok_or(ReadError::KeyMissing)
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    pub(crate) const fn reads_per_minute(&self) -> u32 {
        self.config.reads_per_minute
    }

    pub(crate) fn channel_of(&self, key: &StripeKey) -> Channel {
        Channel {
            account: self.config.account.clone(),
            livemode: key.livemode(),
            version: self.config.version.clone(),
            key: key.mark(),
            agent_tagged: self.config.agent_tagged || self.limits(key).agent_tagged,
        }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        key: &StripeKey,
        path: &str,
        query: &[(&str, &str)],
        resource: Resource,
        by: Deadline,
    ) -> Result<T, ReadError> {
        read(self.fetch(key, path, query, by).await, resource, &self.channel_of(key))
    }

    /// One attempt at a read, and whatever answer came.
    pub(crate) async fn fetch(
        &self,
        key: &StripeKey,
        path: &str,
        query: &[(&str, &str)],
        by: Deadline,
    ) -> Result<Response, TransportError> {
        let mut path_and_query = path.to_owned();
        if !query.is_empty() {
            let query = Serializer::new(String::new()).extend_pairs(query).finish();
            path_and_query.push('?');
            path_and_query.push_str(&query);
        }
        let call = Call {
            method: Method::Get,
            path: &path_and_query,
            version: &self.config.version,
            account: self.config.account.as_ref(),
            idempotency_key: None,
            body: None,
        };
        self.send(key, call, by).await
    }

    /// One call about an approval request.
    async fn ask_of_hold(
        &self,
        key: &StripeKey,
        path: &str,
        body: Option<Body<'_>>,
        by: Deadline,
    ) -> Result<Response, TransportError> {
        let call = Call {
            method: if body.is_some() { Method::Post } else { Method::Get },
            path,
            version: HOLDS_VERSION,
            account: self.config.account.as_ref(),
            idempotency_key: None,
            body,
        };
        self.send(key, call, by).await
    }

    /// The one place where a request is put together.
    async fn send(
        &self,
        key: &StripeKey,
        call: Call<'_>,
        by: Deadline,
    ) -> Result<Response, TransportError> {
        let mut headers =
            vec![("Authorization", key.authorization()), ("Stripe-Version", call.version.into())];
        if let Some(account) = call.account {
            let second = call.path.starts_with("/v2/");
            let name = if second { "Stripe-Context" } else { "Stripe-Account" };
            headers.push((name, account.as_str().into()));
        }
        if let Some(key) = call.idempotency_key {
            headers.push(("Idempotency-Key", HeaderText::Plain(key)));
        }
        let body = match call.body {
            None => Vec::new(),
            Some(Body::Form(form)) => {
                headers.push(("Content-Type", "application/x-www-form-urlencoded".into()));
                form.as_bytes().to_vec()
            }
            Some(Body::Json(text)) => {
                headers.push(("Content-Type", "application/json".into()));
                text.into_bytes()
            }
        };
        let base = self.config.api_base.trim_end_matches('/');
        let request =
            Request { method: call.method, url: format!("{base}{}", call.path), headers, body };
        let began = self.clock.uptime();
        let answer = self.transport.send(request, by).await;
        let took = self.clock.uptime().saturating_sub(began);
        if let Ok(response) = &answer {
            self.note_health(response);
        }
        let (path, _) = call.path.split_once('?').unwrap_or((call.path, ""));
        tracing::debug!(
            http.path = path,
            http.status = answer.as_ref().ok().map(|response| response.status),
            stripe.request_id = answer.as_ref().ok().and_then(request_id),
            error = answer.as_ref().err().map(tracing::field::display),
            took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "asked Stripe"
        );
        answer
    }

    /// Reads what has a customer in it: with the customer where the key may read it, else without.
    async fn get_with_customer<T: DeserializeOwned>(
        &self,
        key: &StripeKey,
        path: &str,
        expand: &[(&str, &str)],
        customer: &str,
        resource: Resource,
        by: Deadline,
    ) -> Result<T, ReadError> {
        if !self.limits(key).no_customers {
            let with_customer = [expand, &[("expand[]", customer)]].concat();
            match self.get(key, path, &with_customer, resource, by).await {
                Err(ReadError::Permission { .. }) => {}
                answer => return answer,
            }
        }
        // Only a 403 that goes away with the customer was about the customer.
        let found = self.get(key, path, expand, resource, by).await?;
        if !std::mem::replace(&mut self.limits(key).no_customers, true) {
            tracing::warn!(
                permission = Resource::Customers.read(),
                "the Stripe key may not read customers: their age is unknown in rules"
            );
        }
        Ok(found)
    }

    async fn charge_by_id(
        &self,
        key: &StripeKey,
        id: &ChargeId,
        by: Deadline,
    ) -> Result<ChargeWire, ReadError> {
        let path = format!("/v1/charges/{id}");
        let charge: ChargeWire =
            self.get_with_customer(key, &path, &[], "customer", Resource::Charges, by).await?;
        if charge.id != id.as_str() {
            return Err(unreadable(Unusable("another charge than the one asked for")));
        }
        Ok(charge)
    }

    async fn charge_of_intent(
        &self,
        key: &StripeKey,
        id: &PaymentIntentId,
        by: Deadline,
    ) -> Result<ChargeWire, ReadError> {
        let intent = self.payment_intent(key, id, by).await?;
        if intent.id != id.as_str() {
            let why = "another payment intent than the one asked for";
            return Err(unreadable(Unusable(why)));
        }
        let charge = match (intent.progress(), intent.latest_charge) {
            (PaymentProgress::NotPaid, _) => return Err(ReadError::NotPaid),
            (PaymentProgress::NotReady, _) | (PaymentProgress::Charged, None) => {
                return Err(ReadError::NotReady);
            }
            (PaymentProgress::Charged, Some(Expandable::Object(charge))) => charge,
            (PaymentProgress::Charged, Some(Expandable::Id(id))) => {
                let id = ChargeId::parse(&id).map_err(|_| unreadable(Unusable("no charge id")))?;
                self.charge_by_id(key, &id, by).await?
            }
        };
        charge.made_for(id).map_err(unreadable)
    }

    /// Reads a payment intent, with its charge in the same call where the key may have it so.
    async fn payment_intent(
        &self,
        key: &StripeKey,
        id: &PaymentIntentId,
        by: Deadline,
    ) -> Result<PaymentIntentWire, ReadError> {
        let path = format!("/v1/payment_intents/{id}");
        if !self.limits(key).no_latest_charge {
            let with_charge = [("expand[]", "latest_charge")];
            let customer = "latest_charge.customer";
            let answer = self
                .get_with_customer(key, &path, &with_charge, customer, Resource::PaymentIntents, by)
                .await;
            match answer {
                Err(ReadError::Permission { .. }) => {}
                answer => return answer,
            }
        }
        let found = self.get(key, &path, &[], Resource::PaymentIntents, by).await?;
        self.limits(key).no_latest_charge = true;
        Ok(found)
    }

    /// Where a dispute of the charge stands. A key that may not read disputes leaves every
    /// disputed charge open: what cannot be decided is not refunded.
    async fn dispute_of(
        &self,
        key: &StripeKey,
        charge: &ChargeWire,
        by: Deadline,
    ) -> Result<Dispute, ReadError> {
        if !charge.disputed {
            return Ok(Dispute::None);
        }
        let query = [("charge", charge.id.as_str()), ("limit", PAGE_OBJECTS)];
        let disputes: Result<List<DisputeWire>, ReadError> =
            self.get(key, "/v1/disputes", &query, Resource::Disputes, by).await;
        match disputes {
            Ok(disputes) => Ok(dispute(&disputes)),
            Err(ReadError::Permission { permission }) => {
                tracing::warn!(
                    permission,
                    charge.id,
                    "the Stripe key may not read disputes: a disputed charge counts as open"
                );
                Ok(Dispute::Open)
            }
            Err(error) => Err(error),
        }
    }

    /// What is known of the key's limits; nothing, when another key was in use before.
    fn limits(&self, key: &StripeKey) -> MutexGuard<'_, Limits> {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if !limits.key.as_ref().is_some_and(|known| known.is(key)) {
            *limits = Limits { key: Some(key.clone()), ..Limits::default() };
        }
        limits
    }

    /// What must hold before a byte leaves: there is a key, and it moves the ticket's money.
    fn key_for(&self, ticket: &Ticket) -> Result<StripeKey, SendError> {
        let not_sent = |message: &str| {
            SendError::NotSent(Doubt { message: message.to_owned(), after: None, give_up: true })
        };
        let key = self.keys.key().ok_or_else(|| {
            not_sent(
                "the gateway has no Stripe key and nothing was sent; an operator has to set one",
            )
        })?;
        if key.livemode() != ticket.livemode() {
            return Err(not_sent(
                "the gateway's Stripe key is of the other mode, test or live, than the charge and \
                 nothing was sent; an operator has to set the right one",
            ));
        }
        Ok(key)
    }
}

#[async_trait]
impl Processor for StripeClient {
    async fn channel(&self) -> Result<Channel, ReadError> {
        Ok(self.channel_of(&self.key()?))
    }

    async fn charge(&self, target: &Target, by: Deadline) -> Result<Charge, ReadError> {
        let key = self.key()?;
        let charge = match target {
            Target::Charge(id) => self.charge_by_id(&key, id, by).await?,
            Target::PaymentIntent(id) => self.charge_of_intent(&key, id, by).await?,
        };
        if charge.livemode != key.livemode() {
            return Err(ReadError::LivemodeMismatch);
        }
        let dispute = self.dispute_of(&key, &charge, by).await?;
        let mut charge = charge.into_charge(dispute, self.channel_of(&key)).map_err(unreadable)?;
        // A charge says how much was given back, and not in how many refunds.
        let refunded = charge.amount_refunded.minor();
        if refunded > 0 && refunded < charge.amount.minor() {
            charge.facts.refund_count = match self.refunds_of(&charge.id, by).await {
                Ok(refunds) => {
                    let stood = refunds.iter().filter(|it| !it.refund.status.came_back());
                    u32::try_from(stood.count()).ok()
                }
                // Whoever may not list them does not know; a policy's rules are told so.
                Err(ReadError::Permission { .. }) => None,
                Err(error) => return Err(error),
            };
        }
        Ok(charge)
    }

    async fn refund(&self, ticket: &Ticket, by: Deadline) -> Result<Refund, SendError> {
        let key = self.key_for(ticket)?;
        let fixed = ticket.request();
        let call = Call {
            method: Method::Post,
            path: "/v1/refunds",
            version: &fixed.version,
            account: fixed.account.as_ref(),
            idempotency_key: Some(ticket.idempotency_key()),
            body: Some(Body::Form(&fixed.form)),
        };
        let answer = self.send(&key, call, by).await;
        let status = answer.as_ref().ok().map(|response| response.status);
        let request = answer.as_ref().ok().and_then(request_id).map(str::to_owned);
        let error = answer.as_ref().err().map(ToString::to_string);
        let found = outcome(answer, ticket, &self.channel_of(&key));
        if matches!(found, Err(SendError::Held(_))) {
            self.limits(&key).agent_tagged = true;
        }
        tracing::info!(
            intent.id = ticket.intent().as_str(),
            http.status = status,
            stripe.request_id = request,
            refund.id = found.as_ref().ok().map(|refund| refund.id.as_str()),
            error,
            outcome = class(&found),
            "sent a refund to Stripe"
        );
        found
    }

    async fn refunds_of(
        &self,
        charge: &ChargeId,
        by: Deadline,
    ) -> Result<Vec<ListedRefund>, ReadError> {
        let key = self.key()?;
        let mut refunds: Vec<ListedRefund> = Vec::new();
        for _ in 0..REFUND_PAGES_MAX {
            let mut query = vec![("charge", charge.as_str()), ("limit", PAGE_OBJECTS)];
            if let Some(last) = refunds.last() {
                query.push(("starting_after", last.refund.id.as_str()));
            }
            let page: List<RefundWire> =
                self.get(&key, "/v1/refunds", &query, Resource::Refunds, by).await?;
            if page.data.is_empty() && page.has_more {
                return Err(unreadable(Unusable("an empty page with more after it")));
            }
            for refund in page.data {
                if refund.is_of_another(charge) {
                    return Err(unreadable(Unusable("a refund of another charge")));
                }
                refunds.push(refund.into_listed().map_err(unreadable)?);
            }
            if !page.has_more {
                return Ok(refunds);
            }
        }
        Err(unreadable(Unusable("more refunds of one charge than are read")))
    }

    async fn hold(&self, id: &HoldId, by: Deadline) -> Result<HoldSeen, ReadError> {
        let key = self.key()?;
        let answer = self.ask_of_hold(&key, &holds::path(id, ""), None, by).await;
        let request: serde_json::Value = read(answer, Resource::Approvals, &self.channel_of(&key))
            .inspect_err(|error| {
                tracing::warn!(
                    approval_request.id = id.as_str(),
                    ?error,
                    "Stripe's own approval could not be read; its refund is still looked for"
                );
            })?;
        let seen = holds::seen(&request);
        if seen.hold.id.as_ref().is_some_and(|of| of != id) {
            return Err(unreadable(Unusable("another approval request than the one asked for")));
        }
        Ok(seen)
    }

    async fn justify(&self, id: &HoldId, words: &str, by: Deadline) {
        let Some(key) = self.keys.key() else { return };
        let reason = serde_json::json!({ "reason": words }).to_string();
        let mut status = None;
        // The call was renamed twice; a name that Stripe does not know is a 404.
        for verb in ["", "/update", "/submit"] {
            let body = Some(Body::Json(reason.clone()));
            let answer = self.ask_of_hold(&key, &holds::path(id, verb), body, by).await;
            status = answer.ok().map(|response| response.status);
            if !matches!(status, Some(404 | 405)) {
                break;
            }
        }
        if !matches!(status, Some(200..=299)) {
            tracing::warn!(
                approval_request.id = id.as_str(),
                http.status = status,
                "Stripe was not told what the agent said: the refund waits there without it"
            );
        }
    }
}

/// The time of an HTTP `Date` header, to the second.
fn http_date(text: &str) -> Option<Timestamp> {
    let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Timestamp::from_millis(parsed.as_millisecond()))
}

/// Logs why an answer that was read cannot be used, for the error does not say.
fn unreadable(Unusable(why): Unusable) -> ReadError {
    tracing::error!(why, "an answer of Stripe's cannot be used");
    ReadError::Unreadable
}

/// The class of an attempt, for the log.
const fn class(found: &Result<Refund, SendError>) -> &'static str {
    match found {
        Ok(_) => "made",
        Err(SendError::Held(_)) => "held",
        Err(SendError::NotSent(_)) => "not_sent",
        Err(SendError::NotStored(_)) => "not_stored",
        Err(SendError::Refused(_)) => "refused",
        Err(SendError::Unknown(_)) => "unknown",
    }
}
