//! A stateful Stripe for demos and tests, without sockets.
//!
//! [`Sandbox::handle`] takes one HTTP request and answers what Stripe would, as far as refunds are
//! concerned: charges, payment intents, refunds, disputes, customers, idempotency, permissions,
//! lists and expansion, in the shapes of version `2025-09-30.clover`. Under `/_sandbox/` lies a
//! control API that makes charges, moves the clock and orders faults.
//!
//! It promises to be deterministic: the same seed and the same requests at the same times give the
//! same bytes. It keeps everything in memory and forgets only idempotency keys, so it is for tests
//! and demos, not for weeks. It shares no code with the gateway: its currency table and its
//! arithmetic are its own, so that the one can catch out the other.
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
mod expand;
mod failure;
mod faults;
mod feed;
mod form;
mod idempotency;
mod ids;
mod intents;
mod keys;
mod list;
mod refunds;
mod route;
#[cfg(test)]
mod tests;

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
        let moment = Moment::new(now, self.advanced_secs);
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

    /// The latest [`REQUESTS_KEPT_MAX`] requests to the Stripe API, oldest first; control calls
    /// are not among them.
    pub fn requests(&self) -> impl Iterator<Item = &Received> {
        self.received.iter()
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
