//! A stateful Stripe for demos and tests, without sockets.
//!
//! [`Sandbox::handle`] takes one HTTP request and answers what Stripe would, as far as refunds are
//! concerned: charges, payment intents, refunds, disputes, customers, idempotency, permissions,
//! lists, search and expansion, in the shapes of version `2025-09-30.clover`. Under `/_sandbox/` lies a
//! control API that makes charges, moves the clock and orders faults.
//!
//! It promises to be deterministic: the same seed and the same requests at the same times give the
//! same bytes. It keeps everything in memory and forgets only idempotency keys and events, so it is
//! for tests and demos, not for weeks. It shares no code with the gateway: its currency table and its
//! arithmetic are its own, so that the one can catch out the other.
//!
//! Refunds of an agent-tagged key are held for an approval that the control API gives.
//!
//! What happens to refunds, their charges, disputes and approvals becomes events. Once an endpoint is set,
//! [`Sandbox::take_deliveries`] hands out the signed deliveries that are due; whoever drives the
//! sandbox sends them and says with [`Sandbox::delivered`] how that went.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        reason = "tests compute freely"
    )
)]

mod account;
mod api;
mod cards;
mod charges;
mod clock;
mod control;
mod currency;
mod customers;
mod disputes;
mod events;
mod expand;
mod failure;
mod faults;
mod feed;
mod form;
mod holds;
mod idempotency;
mod ids;
mod intents;
mod keys;
mod list;
mod rates;
mod refunds;
mod route;
mod search;
mod seed;
#[cfg(test)]
mod tests;
mod webhook;

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use serde_json::Value;

use crate::{
    account::{Account, Settings},
    clock::Moment,
    faults::Faults,
    form::Params,
    ids::Random,
    keys::Keys,
    list::Object,
    webhook::{Cause, Outbox},
};

pub use crate::{
    events::EVENTS_KEPT_MAX,
    webhook::{DELIVERIES_SHOWN_MAX, WEBHOOK_RETRY_SECS, WEBHOOKS_WAITING_MAX, WebhookDelivery},
};

/// How many received requests [`Sandbox::requests`] remembers; older ones are forgotten first.
pub const REQUESTS_KEPT_MAX: usize = 10_000;

/// One HTTP request, as the socket layer read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The method in capitals.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query without its question mark; empty when there is none.
    pub query: String,
    /// Header names (in any case) and values.
    pub headers: Vec<(String, String)>,
    /// The whole body. The socket layer limits its size.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of the header `name`, whatever its case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(held, _)| held.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }
}

/// The answer to a request, and how it must be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Headers to send, `Date` and `Content-Type` among them; the length is left to the socket
    /// layer.
    pub headers: Vec<(String, String)>,
    /// The body to send.
    pub body: Vec<u8>,
    /// What the socket layer must do with all this.
    pub delivery: Delivery,
}

/// How the socket layer delivers a [`Reply`]; everything but `Normal` comes from an ordered fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Send the answer.
    Normal,
    /// Send the answer after `ms` milliseconds. The request has already been executed, and until
    /// then the sandbox treats its idempotency key as in flight.
    Delay {
        /// Milliseconds to wait before the first byte.
        ms: u64,
    },
    /// Close the connection in an orderly way and send nothing.
    Drop,
    /// Reset the connection and send nothing.
    Reset,
    /// Send status and headers at once, and the body spread over `ms` milliseconds.
    SlowBody {
        /// Milliseconds until the last byte.
        ms: u64,
    },
}

/// One request to the Stripe API, as `GET /_sandbox/requests` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Received {
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The `Idempotency-Key` header.
    pub idempotency_key: Option<String>,
    /// Query and form parameters by their names as sent (`metadata[k]`); a name that came several
    /// times has a list of its values.
    pub form: Value,
    /// The status that was answered, delivered or not; `None` when a fault kept the request from
    /// being looked at.
    pub status: Option<u16>,
}

/// The stateful Stripe.
#[derive(Clone, Debug)]
pub struct Sandbox {
    random: Random,
    /// Seconds that the sandbox's clock is ahead of the real one.
    advanced_secs: i64,
    /// The account that requests without a `Stripe-Account` header mean.
    own_account: String,
    accounts: BTreeMap<String, Account>,
    keys: Keys,
    faults: Faults,
    settings: Settings,
    received: VecDeque<Received>,
    outbox: Outbox,
}

impl Sandbox {
    /// An empty Stripe whose ids all come from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let own_account = random.id("acct_", 16);
        Self {
            random,
            advanced_secs: 0,
            outbox: Outbox::new(seed, own_account.clone()),
            own_account,
            accounts: BTreeMap::new(),
            keys: Keys::default(),
            faults: Faults::default(),
            settings: Settings::default(),
            received: VecDeque::new(),
        }
    }

    /// Answers one request. `now` is the real time in milliseconds since 1970; the sandbox's own
    /// clock is that plus what `POST /_sandbox/clock` added.
    pub fn handle(&mut self, now: i64, request: &Request) -> Reply {
        let moment = self.moment(now);
        match request.path.strip_prefix("/_sandbox") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                self.control(moment, rest.trim_matches('/'), request)
            }
            _ => self.answer_api(moment, request),
        }
    }

    /// Every charge as the API renders it: by account, and in the order they were made.
    #[must_use]
    pub fn charges(&self) -> Vec<Value> {
        self.accounts.values().flat_map(|held| held.charges.iter()).map(Object::render).collect()
    }

    /// Every refund as the API renders it: by account, and in the order they were made.
    #[must_use]
    pub fn refunds(&self) -> Vec<Value> {
        self.accounts.values().flat_map(|held| held.refunds.iter()).map(Object::render).collect()
    }

    /// Every event that can still be read, as the API renders it: by account, and in the order
    /// they were made.
    #[must_use]
    pub fn events(&self) -> Vec<Value> {
        self.accounts.values().flat_map(|held| held.events.iter()).map(Object::render).collect()
    }

    /// Hands out the webhook deliveries that are due, in the order in which to send them. `now` is
    /// the real time in milliseconds since 1970, as for [`Sandbox::handle`].
    ///
    /// What was handed out is due again after [`WEBHOOK_RETRY_SECS`] of the sandbox's clock,
    /// unless [`Sandbox::delivered`] says in the meantime that it was received.
    pub fn take_deliveries(&mut self, now: i64) -> Vec<WebhookDelivery> {
        let moment = self.moment(now);
        self.catch_up(moment);
        self.outbox.take(moment)
    }

    /// Says how an attempt went: `ok` is true for an answer with a 2xx status. Then the event is
    /// not delivered again; otherwise the next attempt is due a while after `now`, until
    /// [`WEBHOOK_RETRY_SECS`] are used up. Reports of attempts that nobody knows only count.
    pub fn delivered(&mut self, event_id: &str, attempt: u32, ok: bool, now: i64) {
        let moment = self.moment(now);
        if self.outbox.delivered(event_id, attempt, ok, moment) {
            let mut accounts = self.accounts.values_mut();
            if let Some(event) = accounts.find_map(|held| held.events.find_mut(event_id)) {
                event.pending_webhooks = 0;
            }
        }
    }

    /// When [`Sandbox::take_deliveries`] next has something to do, in real milliseconds since
    /// 1970; it may then still hand out nothing. `None` until something happens.
    #[must_use]
    pub fn next_delivery_ms(&self) -> Option<i64> {
        let refunds = self.accounts.values().flat_map(|held| &held.scheduled);
        let refunds = refunds.map(|(at_secs, ..)| *at_secs);
        let holds = self.accounts.values().filter_map(Account::next_expiry);
        let by_themselves = refunds.chain(holds).map(|at_secs| at_secs.saturating_mul(1000));
        let due_ms = by_themselves.chain(self.outbox.next_due_ms()).min()?;
        Some(due_ms.saturating_sub(self.advanced_secs.saturating_mul(1000)))
    }

    /// The latest [`REQUESTS_KEPT_MAX`] requests to the Stripe API, oldest first; control calls
    /// are not among them.
    pub fn requests(&self) -> impl Iterator<Item = &Received> {
        self.received.iter()
    }

    const fn moment(&self, now: i64) -> Moment {
        Moment::new(now, self.advanced_secs)
    }

    /// Lets happen what is to happen by itself until `now`.
    fn catch_up(&mut self, now: Moment) {
        for account in self.accounts.values_mut() {
            account.settle(now.secs, &mut self.outbox.random);
        }
        self.publish(Cause::default(), now);
    }

    /// Makes events of all that happened.
    fn publish(&mut self, cause: Cause<'_>, now: Moment) {
        for account in self.accounts.values_mut() {
            self.outbox.publish(account, cause, now, &mut self.faults);
        }
    }

    fn remember(&mut self, request: &Request, params: &Params, status: Option<u16>) {
        if self.received.len() >= REQUESTS_KEPT_MAX {
            self.received.pop_front();
        }
        self.received.push_back(Received {
            method: request.method.clone(),
            path: request.path.clone(),
            idempotency_key: request.header("idempotency-key").map(str::to_owned),
            form: params.to_json(),
            status,
        });
    }
}
