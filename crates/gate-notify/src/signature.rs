//! Signatures as Standard Webhooks describe them (<https://www.standardwebhooks.com>).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};

/// What an agent's notices are signed with. Never printed.
#[derive(Clone)]
pub struct Secret {
    key: hmac::Key,
    text: SecretString,
}

impl Secret {
    /// The secret that these bytes are.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Self {
        let text = format!("whsec_{}", STANDARD.encode(bytes)).into();
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, bytes), text }
    }

    /// As receivers are given it: `whsec_` and base64.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }

    /// `v1,` and the base64 of HMAC-SHA256 over id, timestamp (whole seconds) and body, with dots
    /// between them.
    fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            context.update(part);
        }
        format!("v1,{}", STANDARD.encode(context.sign()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([redacted])")
    }
}

/// The value of `webhook-signature`: one signature for each secret that is valid.
pub(crate) fn signatures(secrets: &[Secret], id: &str, timestamp: &str, body: &[u8]) -> String {
    let each = secrets.iter().map(|secret| secret.sign(id, timestamp, body));
    each.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own test vectors.
    #[test]
    fn a_signature_that_others_computed() {
        let bytes = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        // That secret is shorter than ours always are.
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        let secret = Secret { key, text: String::new().into() };
        let (id, at) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330");
        let signed = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(secret.sign(id, at, br#"{"test": 2432232314}"#), signed);
        let both = signatures(&[secret.clone(), secret], id, at, br#"{"test": 2432232314}"#);
        assert_eq!(both, format!("{signed} {signed}"));
    }

    #[test]
    fn a_secret_shows_itself_only_when_it_is_asked_to() {
        let secret = Secret::new(&[255; 32]);
        assert_eq!(secret.expose(), "whsec_//////////////////////////////////////////8=");
        assert_eq!(format!("{secret:?}"), "Secret([redacted])");
    }
}
