//! Stripe's errors.
//!
//! A failure knows whether execution had begun when it came up, because that decides whether it is
//! kept under the idempotency key: refusals of the business are, faults of the request are not.

use serde_json::{Map, Value, json};

/// An error answer.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    kind: &'static str,
    code: Option<&'static str>,
    message: String,
    param: Option<String>,
    extra: Vec<(&'static str, Value)>,
    /// Whether execution had begun, so that the answer is kept under the idempotency key.
    pub(crate) begun: bool,
}

impl Failure {
    fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            code: None,
            message: message.into(),
            param: None,
            extra: Vec::new(),
            begun: false,
        }
    }

    /// The request is at fault; nothing was begun.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// The request is in order, but what it asks for is refused.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { begun: true, ..Self::invalid(message) }
    }

    /// A required parameter is not there.
    pub(crate) fn missing(name: &str) -> Self {
        Self::invalid(format!("Missing required param: {name}."))
            .code("parameter_missing")
            .param(name)
    }

    /// The `noun` with this id does not exist in this account.
    pub(crate) fn unknown(noun: &str, id: &str, param: &str) -> Self {
        let text = format!("No such {noun}: '{id}'");
        Self { status: 404, ..Self::refused(text).code("resource_missing").param(param) }
    }

    pub(crate) fn unrecognized_url(method: &str, path: &str) -> Self {
        let text = format!("Unrecognized request URL ({method}: {path}).");
        Self { status: 404, ..Self::invalid(text) }
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(401, "invalid_request_error", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "invalid_request_error", message)
    }

    /// The card's issuer said no.
    pub(crate) fn declined(message: impl Into<String>) -> Self {
        Self { begun: true, ..Self::new(402, "card_error", message) }
    }

    pub(crate) fn idempotency(message: impl Into<String>) -> Self {
        Self::new(400, "idempotency_error", message)
    }

    /// Another request with the same idempotency key has not been answered yet.
    pub(crate) fn key_in_use(key: &str) -> Self {
        let text = format!(
            "There is currently another in-progress request using this Idempotent Key: {key}. \
             Please try again later."
        );
        Self::new(409, "invalid_request_error", text).code("idempotency_key_in_use")
    }

    pub(crate) fn rate_limited() -> Self {
        Self::new(429, "invalid_request_error", "Request rate limit exceeded.").code("rate_limit")
    }

    /// An ordered 500.
    pub(crate) fn internal() -> Self {
        let text = "An unknown error occurred (ordered by a fault of the sandbox).";
        Self { begun: true, ..Self::new(500, "api_error", text) }
    }

    /// What went wrong, in Stripe's words.
    pub(crate) fn text(&self) -> &str {
        &self.message
    }

    pub(crate) fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn param(self, param: &str) -> Self {
        Self { param: Some(param.to_owned()), ..self }
    }

    /// Adds a field beside the usual ones.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.extra.push((name, value.into()));
        self
    }

    /// The body of the answer.
    pub(crate) fn body(&self, request_id: &str) -> Value {
        let mut error = Map::new();
        if let Some(code) = self.code {
            error.insert("code".to_owned(), json!(code));
            let page = code.replace('_', "-");
            let url = format!("https://stripe.com/docs/error-codes/{page}");
            error.insert("doc_url".to_owned(), json!(url));
        }
        error.insert("message".to_owned(), json!(self.message));
        if let Some(param) = &self.param {
            error.insert("param".to_owned(), json!(param));
        }
        let log = format!("https://dashboard.stripe.com/test/logs/{request_id}");
        error.insert("request_log_url".to_owned(), json!(log));
        error.insert("type".to_owned(), json!(self.kind));
        for (name, value) in &self.extra {
            error.insert((*name).to_owned(), value.clone());
        }
        json!({ "error": error })
    }
}
