//! One account's objects, and the call that works on them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    charges::Charge,
    customers::Customer,
    disputes::Dispute,
    events::{self, Event, Happening},
    failure::Failure,
    form::Params,
    holds::Hold,
    idempotency::Kept,
    ids::Random,
    intents::Intent,
    keys::{Caller, Resource},
    list::{Object, Shelf},
    rates::Rates,
    refunds::{Refund, RefundStatus, Turn},
};

/// What the control API can set for all accounts.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    /// Whether a refund over the charge is answered with the code `amount_too_large`. Which of the
    /// two shapes Stripe uses is not documented, so both can be had.
    pub(crate) over_refund_code: bool,
    /// What refunds are when they are made, where the card does not say otherwise.
    pub(crate) new_refunds: Option<Turn>,
    /// Whether Stripe's rate limits hold. Without them a test may be as fast as it can.
    pub(crate) rate_limits: bool,
}

/// One account's objects; nothing is seen from another account.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) charges: Shelf<Charge>,
    pub(crate) customers: Shelf<Customer>,
    pub(crate) disputes: Shelf<Dispute>,
    pub(crate) events: Shelf<Event>,
    pub(crate) holds: Shelf<Hold>,
    pub(crate) intents: Shelf<Intent>,
    pub(crate) refunds: Shelf<Refund>,
    pub(crate) kept: Kept,
    pub(crate) rates: Rates,
    /// Refunds that move on by themselves: when, in the sandbox's seconds, which, and to what.
    pub(crate) scheduled: Vec<(i64, String, RefundStatus)>,
    /// What happened and is not an event yet.
    pub(crate) happenings: Vec<Happening>,
}

/// One request that is being executed.
pub(crate) struct Call<'a> {
    pub(crate) account: &'a mut Account,
    pub(crate) random: &'a mut Random,
    /// The sandbox's clock, seconds since 1970.
    pub(crate) now_secs: i64,
    pub(crate) settings: &'a Settings,
    pub(crate) params: &'a Params,
    pub(crate) caller: &'a Caller,
}

impl Account {
    pub(crate) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    /// The object `id` as the API renders it, if the account has it.
    pub(crate) fn render(&self, resource: Resource, id: &str) -> Option<Value> {
        match resource {
            Resource::Charges => self.charges.find(id).map(Object::render),
            Resource::Customers => self.customers.find(id).map(Object::render),
            Resource::Disputes => self.disputes.find(id).map(Object::render),
            Resource::ApprovalRequests => self.holds.find(id).map(Object::render),
            Resource::Events => self.events.find(id).map(Object::render),
            Resource::PaymentIntents => self.intents.find(id).map(Object::render),
            Resource::Refunds => self.refunds.find(id).map(Object::render),
            Resource::Account | Resource::Balance | Resource::Connect => None,
        }
    }

    /// Moves on the refunds whose time has come, lets approvals expire, and forgets old events.
    pub(crate) fn settle(&mut self, now_secs: i64, random: &mut Random) {
        let scheduled = std::mem::take(&mut self.scheduled);
        let (due, later) = scheduled.into_iter().partition(|(at_secs, ..)| *at_secs <= now_secs);
        self.scheduled = later;
        let due: Vec<(i64, String, RefundStatus)> = due;
        for (at_secs, id, status) in due {
            // A refund that the control API ended in the meantime stays as it is.
            let _ = self.move_refund(&id, Turn::from(status), at_secs, random);
        }
        self.expire_holds(now_secs);
        events::forget_old(&mut self.events, now_secs);
    }
}

impl Call<'_> {
    pub(crate) fn read_account(&mut self, _id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[])?;
        Ok(json!({
            "id": self.account.id,
            "object": "account",
            "business_type": null,
            "charges_enabled": true,
            "country": "US",
            "default_currency": "usd",
            "details_submitted": true,
            "email": null,
            "metadata": {},
            "payouts_enabled": true,
            "type": "standard",
        }))
    }

    /// What was captured less what was refunded, by currency; the sandbox takes no fees.
    pub(crate) fn read_balance(&mut self, _id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[])?;
        let mut sums = BTreeMap::from([("usd", 0_i64)]);
        for charge in self.account.charges.iter() {
            let sum = sums.entry(&charge.currency).or_default();
            *sum = sum.saturating_add(charge.kept());
        }
        let of = |amount: i64, currency: &str| {
            json!({
                "amount": amount, "currency": currency, "source_types": { "card": amount },
            })
        };
        let available: Vec<Value> = sums.iter().map(|(code, sum)| of(*sum, code)).collect();
        let pending: Vec<Value> = sums.keys().map(|code| of(0, code)).collect();
        Ok(json!({
            "object": "balance",
            "available": available,
            "connect_reserved": [],
            "livemode": false,
            "pending": pending,
        }))
    }
}

/// Lays `over` over `value`; objects are merged, everything else is replaced.
pub(crate) fn lay_over(value: &mut Value, over: &Map<String, Value>) {
    let Some(held) = value.as_object_mut() else {
        return;
    };
    for (name, new) in over {
        match (held.get_mut(name), new) {
            (Some(old @ Value::Object(_)), Value::Object(inner)) => lay_over(old, inner),
            _ => {
                held.insert(name.clone(), new.clone());
            }
        }
    }
}
