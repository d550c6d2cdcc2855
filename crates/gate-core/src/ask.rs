//! What an agent asks for. Nothing here is a fact: facts come from Stripe.

use std::fmt;

use gate_money::Currency;

use crate::ids::{ChargeId, IdempotencyKey, InvalidId, PaymentIntentId};

/// Longest justification, in characters.
const JUSTIFICATION_CHARS_MAX: usize = 500;

/// One request for one refund.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ask {
    /// Which of our tools it came through.
    pub tool: Tool,
    /// The payment to give back.
    pub target: Target,
    /// How much of it.
    pub wanted: Wanted,
    /// The currency the caller believes the payment is in; only ever compared.
    pub believed_currency: Option<Currency>,
    /// Stripe's reason, if one was given.
    pub reason: Option<RefundReason>,
    /// Free text for reviewers. Decides nothing.
    pub justification: Option<Justification>,
    /// The caller's key; without one the authority matches by charge and amount, and makes one.
    pub key: Option<IdempotencyKey>,
    /// Only say what would be decided.
    pub dry_run: bool,
}

impl Ask {
    /// Asks for `wanted` of `target`, and nothing else: no reason, no key, for real.
    #[must_use]
    pub const fn new(target: Target, wanted: Wanted) -> Self {
        Self {
            tool: Tool::StripeRefund,
            target,
            wanted,
            believed_currency: None,
            reason: None,
            justification: None,
            key: None,
            dry_run: false,
        }
    }
}

/// The tools through which a refund can be asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tool {
    /// The connector's: a person always decides.
    FinanceRefund,
    /// The gateway's own.
    StripeRefund,
}

impl Tool {
    /// The name in the policy, in tool lists and in the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FinanceRefund => "finance_refund",
            Self::StripeRefund => "stripe_refund",
        }
    }

    /// The tool of that name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::FinanceRefund, Self::StripeRefund].into_iter().find(|tool| tool.as_str() == text)
    }
}

/// The payment a refund is asked of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// A charge by its id.
    Charge(ChargeId),
    /// A payment intent by its id: its latest charge is meant.
    PaymentIntent(PaymentIntentId),
}

impl Target {
    /// Takes a `ch_…`, `py_…` or `pi_…` id.
    ///
    /// # Errors
    ///
    /// [`InvalidId`] for anything else.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        if let Ok(id) = PaymentIntentId::parse(text) {
            return Ok(Self::PaymentIntent(id));
        }
        ChargeId::parse(text).map(Self::Charge)
    }

    /// Whether this names the payment that `charge`, made for `payment_intent`, is.
    #[must_use]
    pub fn names(&self, charge: &ChargeId, payment_intent: Option<&PaymentIntentId>) -> bool {
        match self {
            Self::Charge(id) => id == charge,
            Self::PaymentIntent(id) => Some(id) == payment_intent,
        }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Charge(id) => id.as_str(),
            Self::PaymentIntent(id) => id.as_str(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much is to be given back, as asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wanted {
    /// Everything that is still refundable; fixed when the request is first decided.
    Full,
    /// So many minor units of the charge's currency, 1 to 2^53−1.
    Minor(i64),
}

/// Stripe's reasons for a refund.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefundReason {
    /// The customer was charged twice.
    Duplicate,
    /// Also puts the customer's card and e-mail on Stripe's block lists.
    Fraudulent,
    /// The customer asked for it.
    RequestedByCustomer,
}

impl RefundReason {
    /// Every reason, in the order in which messages name them.
    pub const ALL: [Self; 3] = [Self::RequestedByCustomer, Self::Duplicate, Self::Fraudulent];

    /// Stripe's name of the reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Fraudulent => "fraudulent",
            Self::RequestedByCustomer => "requested_by_customer",
        }
    }

    /// The reason of that name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// An agent's own words for reviewers, at most 500 characters. Untrusted; never part of a decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Justification(String);

impl Justification {
    /// Takes a text of 1 to 500 characters.
    ///
    /// # Errors
    ///
    /// The number of characters, when there are none or too many.
    pub fn parse(text: &str) -> Result<Self, usize> {
        match text.chars().count() {
            1..=JUSTIFICATION_CHARS_MAX => Ok(Self(text.to_owned())),
            count => Err(count),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
