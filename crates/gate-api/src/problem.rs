//! The problem document (RFC 9457) that a request gets which came to no answer.
//!
//! Its detail says what happened, whether money moved, and what to do; it never repeats what a log
//! is for, nor a secret.

use std::time::Duration;

use gate_core::{ActionError, Ids, Retry};
use schemars::JsonSchema;
use serde::Serialize;

use crate::connector::ConnectorError;
use crate::money::AmountView;
use crate::schema;
use crate::surface::{SurfaceError, whole_secs};

/// How long to wait where the error itself does not say.
const LATER: Duration = Duration::from_secs(60);

/// What a request was about: only one that could move money is told that none moved. A failed read
/// says nothing about the refund that it was to read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Concern {
    /// It asked for a refund.
    Refund,
    /// It read, listed or withdrew something.
    Records,
}

/// What went wrong.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What happened, in a few words; the same for each code.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What happened, whether anything was refunded, and what to do.
    pub detail: String,
    /// The stable code, listed in the manual.
    #[schemars(schema_with = "schema::problem_code")]
    pub code: &'static str,
    /// When asking again makes sense.
    #[schemars(schema_with = "schema::retry")]
    pub retry: &'static str,
    /// The request's id, for the operator.
    pub request_id: String,
    /// The member or parameter at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub field: Option<String>,
    /// The intent that stands in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub intent_id: Option<String>,
    /// What can still be refunded of the charge.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AmountView")]
    pub left: Option<AmountView>,
    /// Headers that go with it over HTTP.
    #[serde(skip)]
    pub headers: Vec<(&'static str, String)>,
}

impl Problem {
    /// The media type of the document.
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// The problem that `error` is, in answer to the request `request_id`.
    #[must_use]
    pub fn new(error: impl Into<SurfaceError>, concern: Concern, request_id: &str) -> Self {
        let error = error.into();
        let code = error.code();
        let facts = Facts::of(&error);
        Self {
            title: code.title(),
            status: code.http_status(),
            detail: detail(&error, concern),
            code: code.as_str(),
            retry: error.retry().as_str(),
            request_id: request_id.to_owned(),
            field: facts.field,
            intent_id: facts.intent_id,
            left: facts.left,
            headers: headers(&error),
        }
    }
}

/// A new id for a request: what a problem and the log call it.
#[must_use]
pub fn request_id(ids: &dyn Ids) -> String {
    let mut random = [0_u8; 12];
    ids.fill(&mut random);
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("req_{hex}")
}

/// What a program wants to know beyond the code.
#[derive(Default)]
struct Facts {
    field: Option<String>,
    intent_id: Option<String>,
    left: Option<AmountView>,
}

impl Facts {
    fn of(error: &SurfaceError) -> Self {
        let field = |name: &str| Self { field: Some(name.to_owned()), ..Self::default() };
        match error {
            SurfaceError::Action(error) => Self::of_action(error),
            SurfaceError::InvalidAmount { field: name, .. } => field(name),
            SurfaceError::InvalidRequest { field, .. } => {
                Self { field: field.clone(), ..Self::default() }
            }
            SurfaceError::InvalidTarget { .. } => field("target"),
            SurfaceError::Connector(ConnectorError::CursorRefused) => field("cursor"),
            SurfaceError::BodyTooLarge { .. }
            | SurfaceError::Connector(_)
            | SurfaceError::GatewayAnswerLost
            | SurfaceError::GatewayNotConfigured { .. }
            | SurfaceError::GatewayUnavailable
            | SurfaceError::HostRefused { .. }
            | SurfaceError::HttpMethodNotAllowed { .. }
            | SurfaceError::NotFound
            | SurfaceError::OriginRefused { .. }
            | SurfaceError::RateLimited { .. }
            | SurfaceError::Recovering
            | SurfaceError::ToolNotGranted { .. }
            | SurfaceError::UnsupportedMediaType => Self::default(),
        }
    }

    fn of_action(error: &ActionError) -> Self {
        match error {
            ActionError::AmountOverRefundable { left, .. } => {
                Self { left: Some(AmountView::new(*left, None)), ..Self::default() }
            }
            ActionError::ChargeAlreadyRefunded { by } => {
                Self { intent_id: by.as_ref().map(ToString::to_string), ..Self::default() }
            }
            ActionError::IdempotencyKeyReused { argument, intent } => Self {
                field: Some((*argument).to_owned()),
                intent_id: Some(intent.to_string()),
                ..Self::default()
            },
            ActionError::ApprovalNotFound
            | ActionError::AuthorityError { .. }
            | ActionError::AuthorityUnavailable
            | ActionError::ChargeDisputed
            | ActionError::ChargeNotCaptured
            | ActionError::ChargeNotFound { .. }
            | ActionError::ChargeNotPaid
            | ActionError::ChargeNotReady
            | ActionError::ChargeNotRefundable
            | ActionError::CurrencyMismatch { .. }
            | ActionError::IntentNotFound
            | ActionError::InvalidAmount(_)
            | ActionError::LivemodeMismatch
            | ActionError::NotCancelable { .. }
            | ActionError::ShuttingDown
            | ActionError::StoreUnavailable
            | ActionError::StripeError { .. }
            | ActionError::StripeKeyMissing
            | ActionError::StripePermission { .. }
            | ActionError::StripeUnavailable
            | ActionError::Unauthenticated => Self::default(),
        }
    }
}

/// What happened; whether money moved; what to do.
fn detail(error: &SurfaceError, concern: Concern) -> String {
    let what = sentence(&error.to_string());
    let money = match (concern, error) {
        (Concern::Records, _) => "",
        (Concern::Refund, SurfaceError::Action(ActionError::AuthorityUnavailable)) => {
            " Nothing has been sent to Stripe."
        }
        // The one problem that does not know.
        (Concern::Refund, SurfaceError::GatewayAnswerLost) => {
            " The refund may have been made; get_intent with its idempotencyKey says so. Never use \
             a new key to ask again."
        }
        (Concern::Refund, _) => " Nothing was refunded.",
    };
    let advice = match error.retry() {
        Retry::Later => match concern {
            Concern::Refund => " Ask again later with the same key.",
            Concern::Records => " Ask again later.",
        },
        Retry::Never => error.action().map_or("", advice),
        Retry::SameKey => match concern {
            Concern::Refund => " Ask again with the same key before you refund in another way.",
            Concern::Records => " Ask again in a moment.",
        },
    };
    format!("{what}{money}{advice}")
}

/// What to do about an error that asking again unchanged does not mend. Errors that do not reach the
/// core say so in their own text.
const fn advice(error: &ActionError) -> &'static str {
    match error {
        ActionError::AmountOverRefundable { .. } => {
            " Ask for no more than what is left, or leave the amount out to refund all of it."
        }
        ActionError::ApprovalNotFound | ActionError::IntentNotFound => {
            " Check the id; the tool list_refunds, or GET /v1/intents, lists this agent's own."
        }
        ActionError::ChargeNotFound { .. } => {
            " Check the id, and that it is of this mode and account."
        }
        ActionError::CurrencyMismatch { .. } => {
            " Check the amount, and ask with the charge's own currency or without one."
        }
        ActionError::IdempotencyKeyReused { .. } => {
            " With this key, ask exactly as the first time."
        }
        ActionError::InvalidAmount(_) => " Ask for an amount that would do.",
        ActionError::LivemodeMismatch => " Use a charge of the gateway's mode.",
        ActionError::NotCancelable { .. } => " Read the intent to see what became of it.",
        ActionError::StripePermission { .. } => {
            " Tell the operator, who changes the key in Stripe; asking again does not help before."
        }
        ActionError::Unauthenticated => {
            " Send a valid key as Authorization: Bearer bb_agent_…; the operator makes new ones."
        }
        ActionError::ChargeAlreadyRefunded { .. }
        | ActionError::ChargeDisputed
        | ActionError::ChargeNotCaptured
        | ActionError::ChargeNotPaid
        | ActionError::ChargeNotRefundable => " Do not ask again; tell the person you work for.",
        // These are mended by time.
        ActionError::AuthorityError { .. }
        | ActionError::AuthorityUnavailable
        | ActionError::ChargeNotReady
        | ActionError::ShuttingDown
        | ActionError::StoreUnavailable
        | ActionError::StripeError { .. }
        | ActionError::StripeKeyMissing
        | ActionError::StripeUnavailable => "",
    }
}

fn headers(error: &SurfaceError) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    if let SurfaceError::Action(ActionError::Unauthenticated) = error {
        headers.push(("WWW-Authenticate", "Bearer".to_owned()));
    }
    if let SurfaceError::HttpMethodNotAllowed { allow } = error {
        headers.push(("Allow", (*allow).to_owned()));
    }
    let later = (error.retry() == Retry::Later).then_some(LATER);
    if let Some(after) = error.after().or(later) {
        headers.push(("Retry-After", whole_secs(after).to_string()));
    }
    headers
}

/// A line as a sentence: a capital in front, a full stop behind.
fn sentence(line: &str) -> String {
    let mut chars = line.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    let stop = if line.ends_with(['.', '…']) { "" } else { "." };
    first.into_iter().chain(chars).chain(stop.chars()).collect()
}

#[cfg(test)]
mod tests;
