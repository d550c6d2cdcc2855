//! What an operator gives and may change while the gateway runs: looked at before each use, so
//! that a changed file is taken up.

use std::sync::{Mutex, PoisonError};

use gate_burnbound::GatewaySecret;
use gate_stripe::{StripeKey, WebhookSecrets};

/// Where something comes from that is looked at before each use.
pub struct Reread<T> {
    current: Box<dyn Fn() -> Result<Option<T>, String> + Send + Sync>,
    last_fault: Mutex<Option<String>>,
}

/// Where the Stripe key comes from.
pub type StripeKeys = Reread<StripeKey>;
/// Where the secrets come from that webhooks are signed with.
pub type WebhookKeys = Reread<WebhookSecrets>;
/// Where the gateway's secret for a remote authority comes from.
pub(crate) type GatewaySecrets = Reread<GatewaySecret>;

impl<T> Reread<T> {
    /// Asks `current` each time. Its error is one line for the operator, without the secret.
    pub fn new(current: impl Fn() -> Result<Option<T>, String> + Send + Sync + 'static) -> Self {
        Self { current: Box::new(current), last_fault: Mutex::default() }
    }

    /// It as it is now, or why there is none.
    ///
    /// # Errors
    ///
    /// What is wrong with what is configured.
    pub fn state(&self) -> Result<Option<T>, String> {
        (self.current)()
    }

    /// It as it is now. What is wrong with it is said in the log once, not with every use.
    pub(crate) fn usable(&self, what: &str) -> Option<T> {
        let state = self.state();
        let mut last = self.last_fault.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = state.as_ref().err().cloned();
        if *last != fault {
            if let Some(fault) = &fault {
                tracing::error!(error.detail = %fault, "{what} cannot be used");
            }
            *last = fault;
        }
        state.ok().flatten()
    }
}

impl gate_stripe::KeySource for StripeKeys {
    fn key(&self) -> Option<StripeKey> {
        self.usable("the Stripe key")
    }
}
