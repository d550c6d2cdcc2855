//! What others gave out: Stripe its key and webhook secrets, a remote authority the gateway's
//! secret; where they come from, and whether this gateway may use them.
//!
//! A key that is read again from its file is held against the same rules as the first, so a live
//! key never slips in later.

use gate_burnbound::GatewaySecret;
use gate_stripe::{StripeKey, WebhookSecrets};
use secrecy::ExposeSecret;

use super::{fault::ConfigFault, lookup::Lookup, secret::Secret};

/// Where the key comes from, and what it must be.
#[derive(Debug)]
pub struct KeyOrigin {
    pub(super) rules: KeyRules,
    pub(super) secret: Secret,
}

impl KeyOrigin {
    /// The key as it is now: a file that changed since is read again.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds something that this gateway may not use.
    pub fn current(&self, lookup: &dyn Lookup) -> Result<StripeKey, ConfigFault> {
        let secret = self.secret.current(lookup)?;
        let key = StripeKey::parse(secret.expose_secret())
            .map_err(|unusable| self.secret.fault(format!("cannot be used: {unusable}")))?;
        match self.rules.refusal(key.livemode()) {
            None => Ok(key),
            Some(problem) => Err(self.secret.fault(problem)),
        }
    }
}

/// Where the webhook secrets come from.
#[derive(Debug)]
pub struct WebhookOrigin {
    pub(super) secret: Secret,
}

impl WebhookOrigin {
    /// The secrets as they are now: a file that changed since is read again.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds something that is no webhook secret.
    pub fn current(&self, lookup: &dyn Lookup) -> Result<WebhookSecrets, ConfigFault> {
        let secret = self.secret.current(lookup)?;
        WebhookSecrets::parse(secret.expose_secret())
            .map_err(|unusable| self.secret.fault(format!("cannot be used: {unusable}")))
    }
}

/// Where the gateway's secret for a remote authority comes from.
#[derive(Debug)]
pub struct GatewaySecretOrigin {
    pub(super) secret: Secret,
}

impl GatewaySecretOrigin {
    /// The secret as it is now: a file that changed since is read again.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds something that is no gateway's secret.
    pub fn current(&self, lookup: &dyn Lookup) -> Result<GatewaySecret, ConfigFault> {
        let secret = self.secret.current(lookup)?;
        GatewaySecret::parse(secret.expose_secret())
            .map_err(|unusable| self.secret.fault(format!("cannot be used: it {unusable}")))
    }
}

/// What must hold for a live key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct KeyRules {
    /// `GATEWAY_ALLOW_LIVE`.
    pub(super) allow_live: bool,
    /// The calls go to Stripe and nowhere else.
    pub(super) calls_stripe: bool,
    /// What is recorded outlasts a container.
    pub(super) data_last: bool,
}

impl KeyRules {
    fn refusal(self, live: bool) -> Option<String> {
        let remedies: Vec<&str> = [
            (self.allow_live, "set GATEWAY_ALLOW_LIVE=1 if real money is to move"),
            (self.calls_stripe, "unset STRIPE_API_BASE, for a live key goes to Stripe only"),
            (self.data_last, "mount a volume, for GATEWAY_EPHEMERAL is for test keys only"),
        ]
        .into_iter()
        .filter_map(|(holds, remedy)| (!holds).then_some(remedy))
        .collect();
        (live && !remedies.is_empty()).then(|| {
            format!(
                "gives a live key, which is refused: {}, or use a test key (rk_test_…)",
                remedies.join("; ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::lookup::map::Map, *};

    #[test]
    fn what_is_no_key_is_named_after_its_place() {
        let table = [
            // given          a part of the fault
            ("pk_test_a1", "STRIPE_SECRET_KEY cannot be used: this is a publishable key"),
            ("whsec_a1", "a webhook signing secret"),
            ("acct_1", "an account id"),
            ("bb_agent_a1", "an agent's key of this gateway"),
            ("rk_test_", "cut off or mistyped"),
            ("rk_test_***9", "cut off or mistyped"),
            ("rk_test_a b", "cut off or mistyped"),
            ("\"rk_test_a\"", "not a key of Stripe's"),
            ("hunter2", "needed is a restricted key, rk_test_…"),
        ];
        let rules = KeyRules { allow_live: true, calls_stripe: true, data_last: true };
        for (text, part) in table {
            let secret = Secret::value("STRIPE_SECRET_KEY", "STRIPE_SECRET_KEY".into(), text);
            let origin = KeyOrigin { rules, secret: secret.unwrap() };
            let fault = origin.current(&Map::of([])).unwrap_err().to_string();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }

    #[test]
    fn a_live_key_needs_all_three() {
        let table = [
            // live allowed, calls Stripe, data last: what the fault names
            (true, true, true, &[][..]),
            (false, true, true, &["GATEWAY_ALLOW_LIVE"]),
            (true, false, true, &["STRIPE_API_BASE"]),
            (true, true, false, &["GATEWAY_EPHEMERAL"]),
            (false, false, false, &["GATEWAY_ALLOW_LIVE", "STRIPE_API_BASE", "GATEWAY_EPHEMERAL"]),
        ];
        for (allow_live, calls_stripe, data_last, named) in table {
            let rules = KeyRules { allow_live, calls_stripe, data_last };
            assert_eq!(rules.refusal(false), None);
            let refusal = rules.refusal(true).unwrap_or_default();
            assert_eq!(refusal.is_empty(), named.is_empty(), "{rules:?}");
            for name in named {
                assert!(refusal.contains(name), "{rules:?}: {refusal}");
            }
        }
    }

    #[test]
    fn webhook_secrets_are_read_again_and_checked_each_time() {
        let map = Map::of([]).file("/hook", "whsec_a1,whsec_b2\n");
        let variable = "STRIPE_WEBHOOK_SECRET_FILE";
        let secret = Secret::file(variable, variable.into(), "/hook".into());
        let origin = WebhookOrigin { secret };
        assert_eq!(format!("{:?}", origin.current(&map).unwrap()), "WebhookSecrets([redacted]; 2)");
        let table = [
            // content           a part of the fault; empty when it is taken
            ("whsec_b2", ""),
            ("whsec_b2,rk_canary", "webhook secret 2 of 2 is not one of Stripe's"),
            ("canary", "webhook secret 1 of 1"),
            ("whsec_", "webhook secret 1 of 1"),
            ("whsec_c3 , whsec_d4", ""),
        ];
        for (written, (content, part)) in (2..).zip(table) {
            map.write("/hook", content, written);
            let fault = origin.current(&map).map_err(|fault| fault.to_string()).err();
            let fault = fault.unwrap_or_default();
            assert_eq!(fault.is_empty(), part.is_empty(), "{content}: {fault}");
            assert!(fault.contains(part) && !fault.contains("canary"), "{content}: {fault}");
        }
    }

    #[test]
    fn a_live_key_does_not_slip_in_later() {
        let map = Map::of([]).file("/key", "rk_test_a1");
        let origin = KeyOrigin {
            rules: KeyRules { allow_live: false, calls_stripe: true, data_last: true },
            secret: Secret::file("STRIPE_SECRET_KEY_FILE", "the flag".into(), "/key".into()),
        };
        assert_eq!(origin.current(&map).unwrap().last4(), "t_a1");
        map.write("/key", "rk_live_canary", 2);
        let fault = origin.current(&map).unwrap_err().to_string();
        assert!(fault.contains("GATEWAY_ALLOW_LIVE"), "{fault}");
        assert!(!fault.contains("canary"), "{fault}");
        map.write("/key", "rk_test_bc", 3);
        assert!(origin.current(&map).is_ok());
    }
}
