//! `POST /_sandbox/seed`: many payments, disputes and customers at once, so that a test of reports
//! has something to page through.
//!
//! They are spread over the time before the call, oldest first. The statuses go round: seven of ten
//! payments succeeded, and the disputes take every status that Stripe has, one after the other.
//! Seeding makes no events.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    account::Account, control::ChargeOrder, customers::Customer, disputes::Dispute, form::Metadata,
    ids::Random, list::Object,
};

/// How many of each kind one call makes at most.
const SEEDED_MAX: u16 = 10_000;
/// Seconds between two of a kind when nothing is said.
const SPACING_SECS: u32 = 60;

/// The statuses of disputes, those of later versions of Stripe's interface included.
const DISPUTE_STATUSES: [&str; 10] = [
    "needs_response",
    "won",
    "warning_needs_response",
    "lost",
    "under_review",
    "warning_closed",
    "warning_under_review",
    "prevented",
    "appeal_needs_response",
    "appeal_under_review",
];
const DISPUTE_REASONS: [&str; 4] =
    ["fraudulent", "product_not_received", "duplicate", "subscription_canceled"];
/// Amounts are multiples of ten, as three-decimal currencies need them.
const CURRENCIES: [&str; 4] = ["usd", "eur", "jpy", "kwd"];

/// How much is wanted.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SeedOrder {
    #[serde(default)]
    customers: u16,
    #[serde(default)]
    disputes: u16,
    #[serde(default)]
    payments: u16,
    #[serde(default = "spacing")]
    spacing_seconds: u32,
}

const fn spacing() -> u32 {
    SPACING_SECS
}

impl SeedOrder {
    /// Makes everything, or nothing.
    ///
    /// # Errors
    ///
    /// A sentence for the person who ordered it.
    pub(crate) fn sow(
        &self,
        account: &mut Account,
        random: &mut Random,
        now_secs: i64,
    ) -> Result<Value, String> {
        if [self.customers, self.disputes, self.payments].iter().any(|many| *many > SEEDED_MAX) {
            return Err(format!("at most {SEEDED_MAX} of each kind can be made in one call"));
        }
        if self.disputes > 0 && self.payments == 0 {
            return Err("disputes are about payments: ask for `payments` as well".to_owned());
        }
        let customers = self.customers(account, random, now_secs);
        let charges = self.payments(account, random, now_secs, &customers)?;
        self.disputes(account, random, now_secs, &charges);
        Ok(json!({
            "customers": self.customers, "disputes": self.disputes, "payments": self.payments,
        }))
    }

    /// When number `place` of `many` was made: the last one now.
    fn made_secs(&self, place: u16, many: u16, now_secs: i64) -> i64 {
        let back = i64::from(many.saturating_sub(place).saturating_sub(1));
        now_secs.saturating_sub(back.saturating_mul(i64::from(self.spacing_seconds)))
    }

    fn customers(&self, account: &mut Account, random: &mut Random, now_secs: i64) -> Vec<String> {
        let mut ids = Vec::new();
        for place in 0..self.customers {
            let id = random.id("cus_", 14);
            let fields = Map::from_iter([
                ("name".to_owned(), json!(format!("Customer {place:05}"))),
                ("email".to_owned(), json!(format!("customer{place:05}@example.com"))),
            ]);
            account.customers.add(Customer {
                id: id.clone(),
                card: None,
                created: self.made_secs(place, self.customers, now_secs),
                metadata: Metadata::new(),
                fields,
            });
            ids.push(id);
        }
        ids
    }

    /// The charges that succeeded.
    fn payments(
        &self,
        account: &mut Account,
        random: &mut Random,
        now_secs: i64,
        customers: &[String],
    ) -> Result<Vec<String>, String> {
        let mut succeeded = Vec::new();
        for place in 0..self.payments {
            let id = random.id("ch_", 24);
            let (name, value) = match place % 10 {
                3 => ("status", json!("failed")),
                6 => ("captured", json!(false)),
                9 => ("status", json!("pending")),
                _ => {
                    succeeded.push(id.clone());
                    ("status", json!("succeeded"))
                }
            };
            let mut order = json!({
                "amount": 1000_i64.saturating_add(i64::from(place).saturating_mul(10)),
                "created": self.made_secs(place, self.payments, now_secs),
                "currency": around(&CURRENCIES, place),
                "customer": around(customers, place),
                "description": format!("Order {place:05}"),
                "id": id,
                "payment_intent": random.id("pi_", 24),
            });
            if let Some(fields) = order.as_object_mut() {
                fields.insert(name.to_owned(), value);
            }
            let order: ChargeOrder =
                serde_json::from_value(order).map_err(|fault| fault.to_string())?;
            order.into_charge(account, random, now_secs)?;
        }
        Ok(succeeded)
    }

    fn disputes(
        &self,
        account: &mut Account,
        random: &mut Random,
        now_secs: i64,
        charges: &[String],
    ) {
        for place in 0..self.disputes {
            let charge = around(charges, place).and_then(|id| account.charges.find_mut(id));
            let status = around(&DISPUTE_STATUSES, place).copied().unwrap_or_default();
            let reason = around(&DISPUTE_REASONS, place).copied().unwrap_or_default();
            let Some(charge) = charge else { continue };
            charge.disputed = true;
            let dispute = Dispute {
                id: random.id("dp_", 24),
                amount: charge.amount_captured,
                charge: charge.id().to_owned(),
                created: self.made_secs(place, self.disputes, now_secs),
                currency: charge.currency.clone(),
                is_charge_refundable: Dispute::refundable_by_status(status),
                payment_intent: charge.payment_intent.clone(),
                reason: reason.to_owned(),
                status: status.to_owned(),
                overrides: Map::new(),
            };
            account.disputes.add(dispute);
        }
    }
}

/// Number `place` of `all`, which goes round.
fn around<T>(all: &[T], place: u16) -> Option<&T> {
    all.get(usize::from(place).checked_rem(all.len())?)
}
