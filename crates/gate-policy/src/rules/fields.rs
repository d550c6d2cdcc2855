//! The fields of a rule: what each means as a Cedar condition, and in words.

use std::collections::{BTreeMap, BTreeSet};

use gate_money::MicroUsd;

use crate::decide::Facts;

/// One field. The kinds are in the order in which they are looked at: what is always known comes
/// first, so that nobody is asked about the unknown where the known decides.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Field {
    ChargeMetadata(BTreeMap<String, String>),
    ChargeOlderThanDays(u32),
    CurrencyIn(BTreeSet<String>),
    Disputed(bool),
    FullRefund(bool),
    Livemode(bool),
    ReasonIn(BTreeSet<String>),
    RefundedBefore(bool),
    AmountOver(MicroUsd),
    PaymentMethodIn(BTreeSet<String>),
    RiskLevelIn(BTreeSet<String>),
    CustomerYoungerThanDays(u32),
}

impl Field {
    /// The Cedar condition that it means.
    pub(crate) fn cedar(&self) -> String {
        let given = |holds: &bool, condition: &str| {
            if *holds { condition.to_owned() } else { format!("!({condition})") }
        };
        match self {
            Self::AmountOver(limit) => format!("context.usdMicros > {}", limit.micros()),
            Self::ChargeMetadata(pairs) => joined(pairs.iter(), " && ", |(key, value)| {
                format!(
                    "context.chargeMetadata.hasTag({key:?}) && \
                     context.chargeMetadata.getTag({key:?}) == {value:?}"
                )
            }),
            Self::ChargeOlderThanDays(days) => format!("context.chargeAgeDays > {days}"),
            Self::CurrencyIn(list) => one_of(list, "context.currency"),
            Self::CustomerYoungerThanDays(days) => format!("context.customerAgeDays < {days}"),
            Self::Disputed(holds) => given(holds, "context.disputed"),
            Self::FullRefund(holds) => given(holds, "context.isFullRefund"),
            Self::Livemode(holds) => given(holds, "context.livemode"),
            Self::PaymentMethodIn(list) => one_of(list, "context.paymentMethodType"),
            Self::ReasonIn(list) => one_of(list, "context.reason"),
            Self::RefundedBefore(holds) => {
                given(holds, "context.refundedMinor > 0 || context.customerRefunds30d > 0")
            }
            Self::RiskLevelIn(list) => one_of(list, "context.riskLevel"),
        }
    }

    /// What that condition comes to; none where it reads what nobody knows.
    pub(super) fn holds(&self, facts: &Facts<'_>) -> Option<bool> {
        let charge = facts.charge;
        let known = &charge.facts;
        Some(match self {
            Self::AmountOver(limit) => facts.usd_micros()? > limit.micros(),
            Self::ChargeMetadata(pairs) => {
                pairs.iter().all(|(key, value)| known.metadata.get(key) == Some(value))
            }
            Self::ChargeOlderThanDays(days) => facts.charge_age_days() > i64::from(*days),
            Self::CurrencyIn(list) => list.contains(facts.amount.currency().lower()),
            Self::CustomerYoungerThanDays(days) => facts.customer_age_days()? < i64::from(*days),
            Self::Disputed(holds) => facts.is_disputed() == *holds,
            Self::FullRefund(holds) => facts.is_full_refund() == *holds,
            Self::Livemode(holds) => charge.channel.livemode == *holds,
            Self::PaymentMethodIn(list) => list.contains(known.payment_method_type.as_ref()?),
            Self::ReasonIn(list) => list.contains(facts.reason_given()),
            Self::RefundedBefore(holds) => facts.was_refunded_before() == *holds,
            Self::RiskLevelIn(list) => list.contains(known.risk_level.as_ref()?),
        })
    }

    /// What it says, as a piece of a sentence.
    pub(crate) fn words(&self) -> String {
        let or = |list: &BTreeSet<String>| joined(list.iter(), " or ", Clone::clone);
        let days = |days: &u32| format!("{days} {}", if *days == 1 { "day" } else { "days" });
        match self {
            Self::AmountOver(limit) => format!("the refund is worth more than {limit}"),
            Self::ChargeMetadata(pairs) => joined(pairs.iter(), " and ", |(key, value)| {
                format!("the charge's metadata has {key:?} = {value:?}")
            }),
            Self::ChargeOlderThanDays(count) => {
                format!("the charge is older than {}", days(count))
            }
            Self::CurrencyIn(list) => {
                format!("the currency is {}", or(list).to_ascii_uppercase().replace("OR", "or"))
            }
            Self::CustomerYoungerThanDays(count) => {
                format!("the customer is younger than {}", days(count))
            }
            Self::Disputed(true) => "the charge was disputed".to_owned(),
            Self::Disputed(false) => "the charge was never disputed".to_owned(),
            Self::FullRefund(true) => "all that is left of the charge is refunded".to_owned(),
            Self::FullRefund(false) => "only a part of the charge is refunded".to_owned(),
            Self::Livemode(true) => "it is live money".to_owned(),
            Self::Livemode(false) => "it is test money".to_owned(),
            Self::PaymentMethodIn(list) => format!("the payment method is {}", or(list)),
            Self::ReasonIn(list) => format!("the reason is {}", or(list)),
            Self::RefundedBefore(true) => {
                "the charge was refunded before, or its customer within 30 days".to_owned()
            }
            Self::RefundedBefore(false) => {
                "neither the charge was refunded before, nor its customer within 30 days".to_owned()
            }
            Self::RiskLevelIn(list) => format!("Stripe's risk level is {}", or(list)),
        }
    }
}

fn one_of(list: &BTreeSet<String>, fact: &str) -> String {
    format!("[{}].contains({fact})", joined(list.iter(), ", ", |item| format!("{item:?}")))
}

fn joined<T>(items: impl Iterator<Item = T>, with: &str, tell: impl Fn(T) -> String) -> String {
    items.map(tell).collect::<Vec<_>>().join(with)
}
