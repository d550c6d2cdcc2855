//! The real charge, as read from Stripe, and what of it can still be given back.

use std::collections::BTreeMap;

use gate_money::{Amount, Currency, MoneyError};

use crate::ask::Wanted;
use crate::error::ActionError;
use crate::ids::{AccountId, ChargeId, CustomerId, KeyMark, PaymentIntentId};
use crate::time::Timestamp;

/// Facts of one charge. Every one of them comes from Stripe, none from an agent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Charge {
    /// The charge.
    pub id: ChargeId,
    /// The payment intent it was made for, if there is one.
    pub payment_intent: Option<PaymentIntentId>,
    /// What was charged or, when uncaptured, authorised. May be of any granularity.
    pub amount: Amount,
    /// What was captured of it.
    pub amount_captured: Amount,
    /// What was given back, uncaptured rests included (Stripe books them as refunded).
    pub amount_refunded: Amount,
    /// Whether money was taken at all.
    pub captured: bool,
    /// Whether the payment succeeded.
    pub status: ChargeStatus,
    /// Where a dispute of it stands.
    pub dispute: Dispute,
    /// What is known of its customer.
    pub customer: CustomerFact,
    /// When it was made.
    pub created_at: Timestamp,
    /// What only a policy's rules look at.
    pub facts: ChargeFacts,
    /// How it was read; a refund of it is sent the same way.
    pub channel: Channel,
}

/// Facts of a charge that only a policy's rules look at. What Stripe did not tell is absent: a rule
/// counts it as unknown, which is never innocent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ChargeFacts {
    /// Stripe's type of the payment method: `card`, `sepa_debit`, …
    pub payment_method_type: Option<String>,
    /// The country of the card, two letters.
    pub card_country: Option<String>,
    /// Radar's word: `normal`, `elevated`, `highest`, …
    pub risk_level: Option<String>,
    /// Radar's score, 0 to 100.
    pub risk_score: Option<u32>,
    /// How many refunds the charge has had, whoever made them.
    pub refund_count: Option<u32>,
    /// What the merchant wrote on the charge.
    pub metadata: BTreeMap<String, String>,
}

/// How a charge was read: which account, which mode, which version of Stripe's interface, and with
/// which key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Channel {
    /// The connected account, where one is set.
    pub account: Option<AccountId>,
    /// Live money, or test mode.
    pub livemode: bool,
    /// The pinned `Stripe-Version`.
    pub version: String,
    /// Which key it was read with, where the processor tells keys apart.
    pub key: Option<KeyMark>,
    /// Whether the processor may hold what is sent with this key for an approval of its own, as far
    /// as is known. Then what may have been sent is never sent again: only looked for.
    pub agent_tagged: bool,
}

/// Stripe's status of a charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChargeStatus {
    /// It failed, or was never paid.
    Failed,
    /// It is not decided yet.
    Pending,
    /// It was paid (or, uncaptured, authorised).
    Succeeded,
}

/// Where a dispute of a charge stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dispute {
    /// An inquiry, or a dispute that is over: the charge can be refunded.
    Refundable,
    /// There never was one.
    None,
    /// The money is in dispute; a refund would be given twice.
    Open,
}

/// What is known of a charge's customer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CustomerFact {
    /// The charge has no customer.
    None,
    /// The customer, and since when Stripe knows it.
    Known {
        /// The customer.
        id: CustomerId,
        /// When it was created.
        created_at: Timestamp,
    },
    /// There is a customer, but the key may not read it: its age is unknown.
    Unreadable {
        /// The customer.
        id: CustomerId,
    },
}

impl CustomerFact {
    /// The customer's id, readable or not.
    #[must_use]
    pub const fn id(&self) -> Option<&CustomerId> {
        match self {
            Self::None => None,
            Self::Known { id, .. } | Self::Unreadable { id } => Some(id),
        }
    }
}

impl Charge {
    /// A charge of `amount` that was paid and captured, of which nothing was given back; without
    /// customer or dispute, and of unknown age.
    ///
    /// # Errors
    ///
    /// None in practice: zero is an amount of every currency.
    pub fn paid(id: ChargeId, amount: Amount, channel: Channel) -> Result<Self, MoneyError> {
        Ok(Self {
            id,
            payment_intent: None,
            amount,
            amount_captured: amount,
            amount_refunded: Amount::from_stripe(0, amount.currency())?,
            captured: true,
            status: ChargeStatus::Succeeded,
            dispute: Dispute::None,
            customer: CustomerFact::None,
            created_at: Timestamp::default(),
            facts: ChargeFacts::default(),
            channel,
        })
    }

    /// What can still be refunded, zero included: `amount − amount_refunded`, and never more than
    /// was captured. (`amount_captured − amount_refunded` would subtract an uncaptured rest twice.)
    ///
    /// # Errors
    ///
    /// [`ActionError`] when the figures contradict each other.
    pub fn left(&self) -> Result<Amount, ActionError> {
        let rest = self
            .amount
            .checked_sub(self.amount_refunded)
            .map_err(|_| ActionError::StripeError { detail: "the charge's figures contradict" })?;
        let captured = self.amount_captured;
        Ok(if rest.minor() > captured.minor() { captured } else { rest })
    }
}

/// The amount that a request of `charge` comes to: what was asked, or everything that is left.
///
/// # Errors
///
/// The problem that keeps this charge, or this amount of it, from being refunded now. Nothing was
/// done in any case.
pub fn resolve(
    charge: &Charge,
    wanted: Wanted,
    believed: Option<Currency>,
) -> Result<Amount, ActionError> {
    let currency = charge.amount.currency();
    if let Some(believed) = believed
        && believed != currency
    {
        return Err(ActionError::CurrencyMismatch { believed, charged: currency });
    }
    match charge.status {
        ChargeStatus::Failed => return Err(ActionError::ChargeNotPaid),
        ChargeStatus::Pending => return Err(ActionError::ChargeNotReady),
        ChargeStatus::Succeeded => {}
    }
    if !charge.captured {
        return Err(ActionError::ChargeNotCaptured);
    }
    match charge.dispute {
        Dispute::Open => return Err(ActionError::ChargeDisputed),
        Dispute::None | Dispute::Refundable => {}
    }
    let left = charge.left()?;
    if left.minor() == 0 {
        return Err(ActionError::ChargeAlreadyRefunded { by: None });
    }
    let minor = match wanted {
        Wanted::Full => left.minor(),
        Wanted::Minor(minor) => minor,
    };
    let amount = Amount::new(minor, currency).map_err(ActionError::InvalidAmount)?;
    if amount.minor() > left.minor() {
        return Err(ActionError::AmountOverRefundable { asked: amount, left });
    }
    Ok(amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::charge;

    #[test]
    fn what_is_left_and_what_keeps_a_refund_back() {
        type Change = fn(&mut Charge);
        let part = Wanted::Minor;
        #[rustfmt::skip]
        let table: [(&str, Change, Wanted, Result<i64, &str>); 16] = [
            // a charge of 10.00 EUR, changed               asked        amount, or the problem
            ("in full",          |_| {},                    Wanted::Full, Ok(1000)),
            ("in part",          |_| {},                    part(300),    Ok(300)),
            ("the last cent",    |_| {},                    part(1000),   Ok(1000)),
            ("one too many",     |_| {},                    part(1001),   Err("amount_over_refundable")),
            ("nothing",          |_| {},                    part(0),      Err("invalid_amount")),
            ("less",             |_| {},                    part(-5),     Err("invalid_amount")),
            ("the rest",         |c| refunded(c, 400),      Wanted::Full, Ok(600)),
            ("over the rest",    |c| refunded(c, 400),      part(601),    Err("amount_over_refundable")),
            ("all gone",         |c| refunded(c, 1000),     Wanted::Full, Err("charge_already_refunded")),
            // captured in part: Stripe books the rest as refunded
            ("partial capture",  |c| captured(c, 700, 300), Wanted::Full, Ok(700)),
            ("and one over",     |c| captured(c, 700, 300), part(701),    Err("amount_over_refundable")),
            ("rest not booked",  |c| captured(c, 700, 0),   Wanted::Full, Ok(700)),
            ("uncaptured",       |c| c.captured = false,    Wanted::Full, Err("charge_not_captured")),
            ("in dispute",       |c| c.dispute = Dispute::Open,       Wanted::Full, Err("charge_disputed")),
            ("an inquiry",       |c| c.dispute = Dispute::Refundable, Wanted::Full, Ok(1000)),
            ("unpaid",           |c| c.status = ChargeStatus::Failed, Wanted::Full, Err("charge_not_paid")),
        ];
        for (name, change, wanted, expected) in table {
            let mut charge = charge("ch_1", 1000, "EUR");
            change(&mut charge);
            let found = resolve(&charge, wanted, None);
            assert_eq!(found.map(Amount::minor).map_err(|e| e.code()), expected, "{name}");
        }
    }

    #[test]
    fn yen_taken_for_cents_are_caught() {
        let charge = charge("ch_1", 9899, "JPY");
        let usd = resolve(&charge, Wanted::Full, Some(Currency::USD));
        assert_eq!(usd.map_err(|e| e.code()), Err("currency_mismatch"));
        assert_eq!(resolve(&charge, Wanted::Full, Some(Currency::JPY)).unwrap().minor(), 9899);
    }

    fn refunded(charge: &mut Charge, minor: i64) {
        charge.amount_refunded = Amount::from_stripe(minor, charge.amount.currency()).unwrap();
    }

    fn captured(charge: &mut Charge, minor: i64, rest_refunded: i64) {
        charge.amount_captured = Amount::from_stripe(minor, charge.amount.currency()).unwrap();
        refunded(charge, rest_refunded);
    }
}
