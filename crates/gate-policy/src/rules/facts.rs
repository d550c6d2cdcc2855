//! What rules see of a request, under the names of the schema.

use cedar_policy::RestrictedExpression;
use gate_core::{CustomerFact, Dispute, RefundReason, Timestamp};

use super::{Context, cedar};
use crate::decide::{Facts, NoRate};
use crate::window;

/// What `context.reason` is where the agent gave none.
pub(super) const NO_REASON: &str = "none";
/// The fact whose values are an entity's, because their names are anybody's.
pub(super) const METADATA: &str = "chargeMetadata";
const DAY_MILLIS: i64 = 24 * 3600 * 1000;

/// Those that are worked out; none where nobody knows.
impl Facts<'_> {
    pub(super) fn usd_micros(&self) -> Option<i64> {
        self.worth.ok().map(|worth| worth.usd.micros())
    }

    pub(super) fn is_full_refund(&self) -> bool {
        self.charge.left().is_ok_and(|left| left.minor() == self.amount.minor())
    }

    /// As Stripe lists them; where nothing was given back there is nothing to list.
    fn refund_count(&self) -> Option<u32> {
        let none = (self.charge.amount_refunded.minor() == 0).then_some(0);
        self.charge.facts.refund_count.or(none)
    }

    /// By anybody, as far as Stripe says, or its customer lately by this store.
    pub(super) fn was_refunded_before(&self) -> bool {
        self.charge.amount_refunded.minor() > 0 || self.customer.refunds_30d > 0
    }

    pub(super) fn charge_age_days(&self) -> i64 {
        days_between(self.charge.created_at, self.now)
    }

    pub(super) fn is_disputed(&self) -> bool {
        match self.charge.dispute {
            Dispute::None => false,
            Dispute::Open | Dispute::Refundable => true,
        }
    }

    pub(super) fn reason_given(&self) -> &'static str {
        self.reason.map_or(NO_REASON, RefundReason::as_str)
    }

    pub(super) fn customer_age_days(&self) -> Option<i64> {
        match self.charge.customer {
            CustomerFact::Known { created_at, .. } => Some(days_between(created_at, self.now)),
            CustomerFact::None | CustomerFact::Unreadable { .. } => None,
        }
    }
}

/// Whole days from `since` to `now`; none in the future.
fn days_between(since: Timestamp, now: Timestamp) -> i64 {
    let millis = now.millis().saturating_sub(since.millis()).max(0);
    millis.checked_div(DAY_MILLIS).unwrap_or(0)
}

/// A fact, worked out when a rule reads it; none where nobody knows.
pub(super) fn known(fact: &str, context: &Context<'_>) -> Option<RestrictedExpression> {
    let facts = context.facts;
    let Facts { charge, amount, customer: history, .. } = facts;
    let stripes = &charge.facts;
    let clock = || window::clock(context.zone, facts.now);
    let long = RestrictedExpression::new_long;
    let bool = RestrictedExpression::new_bool;
    Some(match fact {
        "amountMinor" => long(amount.minor()),
        "currency" => string(amount.currency().lower()),
        "usdMicros" => long(facts.usd_micros()?),
        "isFullRefund" => bool(facts.is_full_refund()),
        "chargeAmountMinor" => long(charge.amount.minor()),
        "refundedMinor" => long(charge.amount_refunded.minor()),
        "refundCount" => long(facts.refund_count()?.into()),
        "chargeAgeDays" => long(facts.charge_age_days()),
        "disputed" => bool(facts.is_disputed()),
        "livemode" => bool(charge.channel.livemode),
        "reason" => string(facts.reason_given()),
        "paymentMethodType" => string(stripes.payment_method_type.as_deref()?),
        "cardCountry" => string(stripes.card_country.as_deref()?),
        "riskLevel" => string(stripes.risk_level.as_deref()?),
        "riskScore" => long(stripes.risk_score?.into()),
        "customerId" => string(charge.customer.id()?.as_str()),
        "customerAgeDays" => long(facts.customer_age_days()?),
        "customerRefunds30d" => long(history.refunds_30d.into()),
        "customerRefundedUsdMicros30d" => long(history.usd_30d.micros()),
        METADATA => RestrictedExpression::new_entity_uid(cedar::metadata()?),
        "hourOfDay" => long(clock().hour().into()),
        "dayOfWeek" => long(clock().weekday().to_monday_one_offset().into()),
        _ => return None,
    })
}

pub(super) fn string(text: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(text.to_owned())
}

/// Why nobody knows it.
pub(super) fn why_unknown(fact: &str, facts: &Facts<'_>) -> String {
    let why = match fact {
        "usdMicros" => {
            let currency = facts.amount.currency();
            return match facts.worth {
                Err(NoRate::Stale) => format!("the exchange rate for {currency} is too old"),
                Err(NoRate::NotSupported) | Ok(_) => {
                    format!("there is no exchange rate for {currency}")
                }
            };
        }
        "refundCount" => "Stripe did not list the charge's refunds",
        "paymentMethodType" => "Stripe does not name the payment method",
        "cardCountry" => "Stripe names no country of a card for this charge",
        "riskLevel" | "riskScore" => "Stripe did not assess this charge's risk",
        _ => match facts.charge.customer {
            CustomerFact::Unreadable { .. } => "the Stripe key may not read customers",
            CustomerFact::None | CustomerFact::Known { .. } => "the charge has no customer",
        },
    };
    why.to_owned()
}
