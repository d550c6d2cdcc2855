//! What keeps a request from being decided or answered: facts for people, a code for programs, an
//! instruction for the agent. Whatever is in here, nothing was refunded by this request.

use std::fmt;

use gate_money::{Amount, Currency, MoneyError};

use crate::ids::IntentId;
use crate::state::State;

/// A request that did not come to an intent's answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ActionError {
    /// More was asked than is left on the charge.
    AmountOverRefundable {
        /// What was asked.
        asked: Amount,
        /// What is left.
        left: Amount,
    },
    /// No approval of this agent has this id.
    ApprovalNotFound,
    /// The authority answered something that cannot be acted on.
    AuthorityError {
        /// For the log, never for the agent.
        detail: String,
    },
    /// The authority could not be asked, or its answer was lost.
    AuthorityUnavailable,
    /// Nothing of the charge is left.
    ChargeAlreadyRefunded {
        /// The intent that refunded it, where it is one of ours.
        by: Option<IntentId>,
    },
    /// The charge is in dispute.
    ChargeDisputed,
    /// The charge was authorised and never captured.
    ChargeNotCaptured,
    /// Stripe knows no such charge in this account and mode.
    ChargeNotFound {
        /// Whether live money was looked through.
        livemode: bool,
        /// The connected account that was looked through.
        account: Option<String>,
    },
    /// The payment did not succeed.
    ChargeNotPaid,
    /// The payment is not decided yet.
    ChargeNotReady,
    /// Stripe does not refund this payment.
    ChargeNotRefundable,
    /// The caller believes in another currency than Stripe.
    CurrencyMismatch {
        /// What the caller said.
        believed: Currency,
        /// What Stripe says.
        charged: Currency,
    },
    /// The same key was used with another argument.
    IdempotencyKeyReused {
        /// The argument that differs.
        argument: &'static str,
        /// The intent that holds the key.
        intent: IntentId,
    },
    /// No intent of this agent has this id.
    IntentNotFound,
    /// Not an amount that Stripe would refund.
    InvalidAmount(MoneyError),
    /// The charge is of the other mode than the key.
    LivemodeMismatch,
    /// The intent is past the point where it can be withdrawn.
    NotCancelable {
        /// Where it stands.
        state: State,
    },
    /// The gateway is stopping and takes no new work.
    ShuttingDown,
    /// The store could not be read or written.
    StoreUnavailable,
    /// Stripe answered something that cannot be acted on.
    StripeError {
        /// What was wrong, fit for the agent.
        detail: &'static str,
    },
    /// No Stripe key is configured.
    StripeKeyMissing,
    /// The Stripe key may not do what is needed.
    StripePermission {
        /// The permission that is missing, in the dashboard's words.
        permission: String,
    },
    /// Stripe could not be reached, or asks for patience.
    StripeUnavailable,
    /// Nobody's key, or no longer.
    Unauthenticated,
}

/// When asking again makes sense.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Retry {
    /// After some time, with the same key.
    Later,
    /// Not with the same arguments.
    Never,
    /// At once, with the same key.
    SameKey,
}

impl Retry {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Later => "later",
            Self::Never => "never",
            Self::SameKey => "same_key",
        }
    }
}

impl ActionError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::AmountOverRefundable { .. } => "amount_over_refundable",
            Self::ApprovalNotFound => "approval_not_found",
            Self::AuthorityError { .. } => "authority_error",
            Self::AuthorityUnavailable => "authority_unavailable",
            Self::ChargeAlreadyRefunded { .. } => "charge_already_refunded",
            Self::ChargeDisputed => "charge_disputed",
            Self::ChargeNotCaptured => "charge_not_captured",
            Self::ChargeNotFound { .. } => "charge_not_found",
            Self::ChargeNotPaid => "charge_not_paid",
            Self::ChargeNotReady => "charge_not_ready",
            Self::ChargeNotRefundable => "charge_not_refundable",
            Self::CurrencyMismatch { .. } => "currency_mismatch",
            Self::IdempotencyKeyReused { .. } => "idempotency_key_reused",
            Self::IntentNotFound => "intent_not_found",
            Self::InvalidAmount(_) => "invalid_amount",
            Self::LivemodeMismatch => "livemode_mismatch",
            Self::NotCancelable { .. } => "not_cancelable",
            Self::ShuttingDown => "shutting_down",
            Self::StoreUnavailable => "store_unavailable",
            Self::StripeError { .. } => "stripe_error",
            Self::StripeKeyMissing => "stripe_key_missing",
            Self::StripePermission { .. } => "stripe_permission",
            Self::StripeUnavailable => "stripe_unavailable",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    /// When asking again makes sense.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::AmountOverRefundable { .. }
            | Self::ApprovalNotFound
            | Self::ChargeAlreadyRefunded { .. }
            | Self::ChargeDisputed
            | Self::ChargeNotCaptured
            | Self::ChargeNotFound { .. }
            | Self::ChargeNotPaid
            | Self::ChargeNotRefundable
            | Self::CurrencyMismatch { .. }
            | Self::IdempotencyKeyReused { .. }
            | Self::IntentNotFound
            | Self::InvalidAmount(_)
            | Self::LivemodeMismatch
            | Self::NotCancelable { .. }
            | Self::StripePermission { .. }
            | Self::Unauthenticated => Retry::Never,
            Self::ChargeNotReady | Self::StripeKeyMissing => Retry::Later,
            Self::AuthorityError { .. }
            | Self::AuthorityUnavailable
            | Self::ShuttingDown
            | Self::StoreUnavailable
            | Self::StripeError { .. }
            | Self::StripeUnavailable => Retry::SameKey,
        }
    }
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AmountOverRefundable { asked, left } => {
                write!(f, "{asked} were asked and {left} can still be refunded of this charge")
            }
            Self::ApprovalNotFound => f.write_str("this agent has no approval of this id"),
            Self::AuthorityError { .. } => f.write_str("the policy authority gave no usable answer"),
            Self::AuthorityUnavailable => f.write_str("the policy authority could not be asked"),
            Self::ChargeAlreadyRefunded { by: Some(intent) } => {
                write!(f, "the charge was already refunded in full, last by intent {intent}")
            }
            Self::ChargeAlreadyRefunded { by: None } => {
                f.write_str("the charge was already refunded in full")
            }
            Self::ChargeDisputed => {
                f.write_str("the charge is in dispute; a refund would give the money twice")
            }
            Self::ChargeNotCaptured => f.write_str(
                "the charge was authorised but never captured; cancel the payment, do not refund it",
            ),
            Self::ChargeNotFound { livemode, account } => {
                let mode = if *livemode { "live" } else { "test" };
                write!(f, "Stripe knows no such payment in {mode} mode")?;
                match account {
                    Some(account) => write!(f, " of account {account}"),
                    None => f.write_str(" of this account"),
                }
            }
            Self::ChargeNotPaid => {
                f.write_str("the payment did not succeed; there is nothing to refund")
            }
            Self::ChargeNotReady => f.write_str("the payment is still being processed"),
            Self::ChargeNotRefundable => f.write_str("Stripe does not refund this payment"),
            Self::CurrencyMismatch { believed, charged } => write!(
                f,
                "the request says {believed} and the charge is in {charged}; \
                 amounts are in minor units of {charged}"
            ),
            Self::IdempotencyKeyReused { argument, intent } => write!(
                f,
                "this idempotency key belongs to intent {intent}, which was asked with another \
                 `{argument}`; use a new key for a new refund"
            ),
            Self::IntentNotFound => f.write_str("this agent has no intent of this id"),
            Self::InvalidAmount(error) => write!(f, "{error}"),
            Self::LivemodeMismatch => {
                f.write_str("the charge is of the other mode than the gateway's Stripe key")
            }
            Self::NotCancelable { state } => {
                write!(f, "the intent is {} and can no longer be withdrawn", state.as_str())
            }
            Self::ShuttingDown => f.write_str("the gateway is stopping"),
            Self::StoreUnavailable => f.write_str("the gateway's store could not be used"),
            Self::StripeError { detail } => write!(f, "Stripe gave no usable answer: {detail}"),
            Self::StripeKeyMissing => f.write_str("the gateway has no Stripe key"),
            Self::StripePermission { permission } => {
                write!(f, "the gateway's Stripe key lacks the permission {permission}")
            }
            Self::StripeUnavailable => f.write_str("Stripe could not be reached"),
            Self::Unauthenticated => {
                f.write_str("the agent key is missing, unknown, revoked or expired")
            }
        }
    }
}

impl std::error::Error for ActionError {}
