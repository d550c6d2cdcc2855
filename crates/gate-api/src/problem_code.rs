//! Every code that a problem can have, with its HTTP status: the one place that says so. Codes are
//! forever; the manual lists this table.

use gate_core::{ActionError, Retry};

macro_rules! problem_codes {
    ($($status:literal $retry:ident $variant:ident = $code:literal, $title:literal, $meaning:literal;)*) => {
        /// The stable code of a problem.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum ProblemCode { $(#[doc = $meaning] $variant,)* }

        impl ProblemCode {
            /// Every code, in the order of the manual.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The code on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }

            /// The HTTP status.
            #[must_use]
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$variant => $status),* }
            }

            /// When asking again makes sense, for the manual; an error says so itself.
            #[must_use]
            pub const fn retry(self) -> Retry {
                match self { $(Self::$variant => Retry::$retry),* }
            }

            /// What happened, in a few words.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),* }
            }

            /// One line for the manual: what happened and what to do.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),* }
            }
        }
    };
}

problem_codes! {
    400 Never InvalidRequest = "invalid_request", "The request is not as it must be", "A member or parameter is missing, unknown, given twice or of another form, or the body is not JSON. The problem names it.";
    400 Never InvalidAmount = "invalid_amount", "The amount will not do", "The amount is not a whole number from 1 to 9007199254740991, or not one that Stripe would refund in this currency. The problem says what would do.";
    400 Never InvalidTarget = "invalid_target", "The target is not a payment's id", "The target is not the id of a charge or of a payment intent.";
    400 Never CurrencyMismatch = "currency_mismatch", "The currency is another one", "The request names another currency than Stripe has for the charge, so its amount is in doubt.";
    401 Never Unauthenticated = "unauthenticated", "The key is not valid", "The agent key is missing, unknown, revoked or expired. Send a valid one as a bearer token.";
    403 Never OriginRefused = "origin_refused", "The origin is refused", "The call comes from a web page of another origin.";
    403 Never HostRefused = "host_refused", "The host is refused", "The Host header names none of the gateway's hosts. GATEWAY_ALLOWED_HOSTS adds some.";
    403 Never ToolNotGranted = "tool_not_granted", "The tool is not granted", "The policy does not grant this tool to the agent.";
    404 Never ChargeNotFound = "charge_not_found", "There is no such payment", "Stripe knows no such payment in the gateway's account and mode, which the problem names.";
    404 Never IntentNotFound = "intent_not_found", "There is no such intent", "No intent of this agent has this id. Another agent's is not found either.";
    404 Never ApprovalNotFound = "approval_not_found", "There is no such approval", "No approval of this agent has this id. Another agent's is not found either.";
    404 Never NotFound = "not_found", "There is no such route", "There is nothing at this address. The document at /openapi.json lists what there is.";
    405 Never HttpMethodNotAllowed = "http_method_not_allowed", "The route takes other methods", "The route does not take this HTTP method. The Allow header lists those that it takes.";
    409 Never IdempotencyKeyReused = "idempotency_key_reused", "The key belongs to another request", "The idempotency key was used with another target, amount or reason. Use a new key for a new refund.";
    409 Later ChargeNotReady = "charge_not_ready", "The payment is not decided yet", "The payment is still being processed. Ask again later with the same key.";
    409 Never NotCancelable = "not_cancelable", "The refund can no longer be withdrawn", "Only what is pending or approved can be withdrawn.";
    413 Never BodyTooLarge = "body_too_large", "The body is too large", "The body is longer than the route takes: 16 KiB, or 256 KiB for a webhook of Stripe's.";
    415 Never UnsupportedMediaType = "unsupported_media_type", "The body is not JSON", "Bodies are sent as application/json.";
    422 Never AmountOverRefundable = "amount_over_refundable", "More was asked than is left", "Less is left on the charge than was asked. The problem says how much.";
    422 Never ChargeAlreadyRefunded = "charge_already_refunded", "Nothing is left of the charge", "The charge was refunded in full before. The problem names the intent where it was one of ours.";
    422 Never ChargeNotCaptured = "charge_not_captured", "The charge was never captured", "No money was taken. Cancel the payment instead of refunding it.";
    422 Never ChargeNotPaid = "charge_not_paid", "The payment did not succeed", "There is nothing to refund.";
    422 Never ChargeNotRefundable = "charge_not_refundable", "The payment cannot be refunded", "Stripe does not refund this payment, for its method or its age.";
    422 Never ChargeDisputed = "charge_disputed", "The charge is in dispute", "The customer's bank asks for the money back already; a refund would give it twice.";
    422 Never LivemodeMismatch = "livemode_mismatch", "The charge is of the other mode", "A test charge with a live key, or a live charge with a test key.";
    429 Later RateLimited = "rate_limited", "There were too many requests", "Too many requests of this agent, too many failed keys from this address, or too many reads of Stripe by everybody. The Retry-After header says how long to wait.";
    502 SameKey StripeError = "stripe_error", "Stripe gave no usable answer", "Stripe answered something that cannot be acted on. Ask again with the same key.";
    502 Never StripePermission = "stripe_permission", "The Stripe key lacks a permission", "The gateway's Stripe key may not do what is needed. The problem names the permission, which the operator adds in Stripe.";
    502 SameKey AuthorityError = "authority_error", "The policy authority gave no usable answer", "The authority answered something that cannot be acted on. Ask again with the same key; if it stays, the gateway's log says more.";
    503 SameKey StripeUnavailable = "stripe_unavailable", "Stripe could not be reached", "Stripe could not be reached, or asks for patience. Ask again with the same key.";
    503 Later StripeKeyMissing = "stripe_key_missing", "There is no Stripe key", "The gateway has no Stripe key. The operator sets one.";
    503 SameKey AuthorityUnavailable = "authority_unavailable", "The policy authority could not be asked", "The authority could not be asked, or its answer was lost. Nothing has been sent to Stripe; ask again with the same key before refunding in another way.";
    503 SameKey StoreUnavailable = "store_unavailable", "The store could not be used", "The gateway's records could not be read or written, so nothing is decided. Ask again with the same key.";
    503 Later Recovering = "recovering", "The records are being recovered", "The records were restored from a backup and are being completed from Stripe; nothing is decided before that.";
    503 Never GatewayNotConfigured = "gateway_not_configured", "No gateway is set up", "Of `action-gateway mcp`: it was started without a gateway's address or without a key, which the problem names.";
    503 SameKey GatewayUnavailable = "gateway_unavailable", "The gateway could not be reached", "Of `action-gateway mcp`: nothing reached the gateway. Ask again with the same key.";
    504 SameKey GatewayAnswerLost = "gateway_answer_lost", "The gateway's answer was lost", "Of `action-gateway mcp`: the gateway was asked, and its answer did not come. The refund may have been made; ask again with the same key, or read it with get_intent.";
    503 SameKey ShuttingDown = "shutting_down", "The gateway is stopping", "The gateway takes no new work while it stops. Ask again with the same key.";
}

impl ProblemCode {
    /// The code of an error of the core.
    #[must_use]
    pub const fn of(error: &ActionError) -> Self {
        match error {
            ActionError::AmountOverRefundable { .. } => Self::AmountOverRefundable,
            ActionError::ApprovalNotFound => Self::ApprovalNotFound,
            ActionError::AuthorityError { .. } => Self::AuthorityError,
            ActionError::AuthorityUnavailable => Self::AuthorityUnavailable,
            ActionError::ChargeAlreadyRefunded { .. } => Self::ChargeAlreadyRefunded,
            ActionError::ChargeDisputed => Self::ChargeDisputed,
            ActionError::ChargeNotCaptured => Self::ChargeNotCaptured,
            ActionError::ChargeNotFound { .. } => Self::ChargeNotFound,
            ActionError::ChargeNotPaid => Self::ChargeNotPaid,
            ActionError::ChargeNotReady => Self::ChargeNotReady,
            ActionError::ChargeNotRefundable => Self::ChargeNotRefundable,
            ActionError::CurrencyMismatch { .. } => Self::CurrencyMismatch,
            ActionError::IdempotencyKeyReused { .. } => Self::IdempotencyKeyReused,
            ActionError::IntentNotFound => Self::IntentNotFound,
            ActionError::InvalidAmount(_) => Self::InvalidAmount,
            ActionError::LivemodeMismatch => Self::LivemodeMismatch,
            ActionError::NotCancelable { .. } => Self::NotCancelable,
            ActionError::ShuttingDown => Self::ShuttingDown,
            ActionError::StoreUnavailable => Self::StoreUnavailable,
            ActionError::StripeError { .. } => Self::StripeError,
            ActionError::StripeKeyMissing => Self::StripeKeyMissing,
            ActionError::StripePermission { .. } => Self::StripePermission,
            ActionError::StripeUnavailable => Self::StripeUnavailable,
            ActionError::Unauthenticated => Self::Unauthenticated,
        }
    }
}
