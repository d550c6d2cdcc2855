//! What Stripe's webhooks are answered with.

use schemars::JsonSchema;
use serde::Serialize;

/// That a webhook was genuine. What follows from it happens after the answer.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Received")]
pub struct ReceivedView {
    /// Always true.
    received: bool,
}

impl ReceivedView {
    /// The only one there is.
    pub const RECEIVED: Self = Self { received: true };
}
