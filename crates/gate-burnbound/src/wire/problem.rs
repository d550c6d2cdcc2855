//! Errors as problem documents (RFC 9457), and back: what the core would have been told by an
//! authority in its own process.

use gate_api::{Concern, Problem};
use gate_core::{ActionError, AuthorityError, GatewayFault, IntentId, State};
use gate_money::{Amount, Currency, MoneyError};
use serde::{Deserialize, Serialize};

use super::AmountBody;

/// What went wrong.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProblemBody {
    /// What happened, in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, for people.
    pub detail: String,
    /// The stable code.
    pub code: String,
    /// The request's id at the authority.
    pub request_id: String,
    /// What the code is about.
    #[serde(default)]
    facts: Facts,
}

/// What a code is about; each code has its own of these.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<AmountBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<AmountBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    intent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    argument: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    believed: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    charged: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    livemode: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    permission: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
}

/// The arguments of a request that can differ from the first time.
const ARGUMENTS: [&str; 3] = ["target", "amountMinor", "reason"];

impl ProblemBody {
    /// The problem that `error` is, in answer to the request `request_id`.
    #[must_use]
    pub fn new(error: &AuthorityError, request_id: &str) -> Self {
        match error {
            AuthorityError::Asked(error) => {
                Self { facts: Facts::of(error), ..Self::of_action(error.clone(), request_id) }
            }
            AuthorityError::Broken(_) => {
                let error = ActionError::AuthorityError { detail: String::new() };
                Self::of_action(error, request_id)
            }
            AuthorityError::Gateway(fault) => {
                let status = if *fault == GatewayFault::ProtocolVersion { 426 } else { 401 };
                Self::plain(status, fault.as_str(), fault.meaning(), request_id)
            }
            AuthorityError::Stale => Self::plain(
                409,
                "stale_report",
                "Somebody else holds the lease by now.",
                request_id,
            ),
            AuthorityError::StoreUnavailable(_) => {
                Self::of_action(ActionError::StoreUnavailable, request_id)
            }
            AuthorityError::Unauthenticated => {
                Self::of_action(ActionError::Unauthenticated, request_id)
            }
            AuthorityError::Unavailable(_) => {
                Self::of_action(ActionError::AuthorityUnavailable, request_id)
            }
        }
    }

    /// A problem of the call itself.
    #[must_use]
    pub fn plain(status: u16, code: &str, detail: &str, request_id: &str) -> Self {
        Self {
            title: code.replace('_', " "),
            status,
            detail: detail.to_owned(),
            code: code.to_owned(),
            request_id: request_id.to_owned(),
            facts: Facts::default(),
        }
    }

    fn of_action(error: ActionError, request_id: &str) -> Self {
        let problem = Problem::new(error, Concern::Records, request_id);
        Self {
            title: problem.title.to_owned(),
            status: problem.status,
            detail: problem.detail,
            code: problem.code.to_owned(),
            request_id: problem.request_id,
            facts: Facts::default(),
        }
    }

    /// What kept the authority from doing what it was asked. What cannot be told apart is broken.
    #[must_use]
    pub fn error(&self) -> AuthorityError {
        if let Some(fault) = GatewayFault::parse(&self.code) {
            return AuthorityError::Gateway(fault);
        }
        let told = format!("{} {} (request {})", self.code, self.detail, self.request_id);
        match self.code.as_str() {
            "stale_report" => AuthorityError::Stale,
            "unauthenticated" => AuthorityError::Unauthenticated,
            "store_unavailable" => AuthorityError::StoreUnavailable(told),
            "authority_unavailable" | "shutting_down" => AuthorityError::Unavailable(told),
            code => match self.facts.action(code) {
                Some(error) => AuthorityError::Asked(error),
                None => AuthorityError::Broken(told),
            },
        }
    }
}

impl Facts {
    fn of(error: &ActionError) -> Self {
        let none = Self::default();
        match error {
            ActionError::AmountOverRefundable { asked, left } => {
                Self { asked: Some((*asked).into()), left: Some((*left).into()), ..none }
            }
            ActionError::ChargeAlreadyRefunded { by } => {
                Self { intent_id: by.as_ref().map(ToString::to_string), ..none }
            }
            ActionError::ChargeNotFound { livemode, account } => {
                Self { livemode: Some(*livemode), account: account.clone(), ..none }
            }
            ActionError::CurrencyMismatch { believed, charged } => Self {
                believed: Some(believed.lower().to_owned()),
                charged: Some(charged.lower().to_owned()),
                ..none
            },
            ActionError::IdempotencyKeyReused { argument, intent } => Self {
                argument: Some((*argument).to_owned()),
                intent_id: Some(intent.to_string()),
                ..none
            },
            ActionError::InvalidAmount(MoneyError::InvalidAmount { minor, currency, .. }) => {
                let currency = currency.lower().to_owned();
                Self { asked: Some(AmountBody { minor: *minor, currency }), ..none }
            }
            ActionError::NotCancelable { state } => {
                Self { state: Some(state.as_str().to_owned()), ..none }
            }
            ActionError::StripePermission { permission } => {
                Self { permission: Some(permission.clone()), ..none }
            }
            ActionError::ApprovalNotFound
            | ActionError::AuthorityError { .. }
            | ActionError::AuthorityUnavailable
            | ActionError::ChargeDisputed
            | ActionError::ChargeNotCaptured
            | ActionError::ChargeNotPaid
            | ActionError::ChargeNotReady
            | ActionError::ChargeNotRefundable
            | ActionError::IntentNotFound
            | ActionError::InvalidAmount(_)
            | ActionError::LivemodeMismatch
            | ActionError::ShuttingDown
            | ActionError::StoreUnavailable
            | ActionError::StripeError { .. }
            | ActionError::StripeKeyMissing
            | ActionError::StripeUnavailable
            | ActionError::Unauthenticated => none,
        }
    }

    /// The error that a code and these facts are; none for one that the core would not know.
    fn action(&self, code: &str) -> Option<ActionError> {
        let amount = |amount: &Option<AmountBody>| amount.as_ref()?.amount("amount").ok();
        let currency = |text: &Option<String>| Currency::parse(text.as_deref()?).ok();
        let intent = self.intent_id.as_deref().and_then(|id| IntentId::parse(id).ok());
        Some(match code {
            "amount_over_refundable" => ActionError::AmountOverRefundable {
                asked: amount(&self.asked)?,
                left: amount(&self.left)?,
            },
            "approval_not_found" => ActionError::ApprovalNotFound,
            "charge_already_refunded" => ActionError::ChargeAlreadyRefunded { by: intent },
            "charge_disputed" => ActionError::ChargeDisputed,
            "charge_not_captured" => ActionError::ChargeNotCaptured,
            "charge_not_found" => ActionError::ChargeNotFound {
                livemode: self.livemode?,
                account: self.account.clone(),
            },
            "charge_not_paid" => ActionError::ChargeNotPaid,
            "charge_not_ready" => ActionError::ChargeNotReady,
            "charge_not_refundable" => ActionError::ChargeNotRefundable,
            "currency_mismatch" => ActionError::CurrencyMismatch {
                believed: currency(&self.believed)?,
                charged: currency(&self.charged)?,
            },
            "idempotency_key_reused" => ActionError::IdempotencyKeyReused {
                argument: ARGUMENTS
                    .into_iter()
                    .find(|name| self.argument.as_deref() == Some(*name))?,
                intent: intent?,
            },
            "intent_not_found" => ActionError::IntentNotFound,
            "invalid_amount" => ActionError::InvalidAmount(self.invalid_amount()),
            "livemode_mismatch" => ActionError::LivemodeMismatch,
            "not_cancelable" => {
                ActionError::NotCancelable { state: State::parse(self.state.as_deref()?)? }
            }
            "stripe_error" => {
                ActionError::StripeError { detail: "the charge's figures contradict" }
            }
            "stripe_key_missing" => ActionError::StripeKeyMissing,
            "stripe_permission" => {
                ActionError::StripePermission { permission: self.permission.clone()? }
            }
            "stripe_unavailable" => ActionError::StripeUnavailable,
            _ => return None,
        })
    }

    /// The same fault that the amount had there, nearest amounts included.
    fn invalid_amount(&self) -> MoneyError {
        let asked = self.asked.as_ref();
        let fault = asked.and_then(|asked| {
            let currency = Currency::parse(&asked.currency).ok()?;
            Amount::new(asked.minor, currency).err()
        });
        fault.unwrap_or(MoneyError::Overflow)
    }
}
