//! Stripe's secret keys: what they tell by their form, and how they are kept from being seen.

use std::fmt;

use gate_core::KeyMark;
use gate_http::HeaderText;
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret, SecretString};

/// How much of a key's digest tells it from others, in bytes.
const MARK_BYTES: usize = 12;
/// Longest key that is taken, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// The kinds of key that a server uses: prefix, live money, restricted.
const SERVER_KEYS: [(&str, bool, bool); 4] = [
    ("rk_test_", false, true),
    ("rk_live_", true, true),
    ("sk_test_", false, false),
    ("sk_live_", true, false),
];

/// What people paste instead. The first prefix that fits names it.
const MISTAKEN: [(&str, &str); 13] = [
    ("pk_", "a publishable key, which is for browsers"),
    ("whsec_", "a webhook signing secret"),
    ("acct_", "an account id"),
    ("ca_", "a Connect client id"),
    ("ek_", "an ephemeral key, which is for apps"),
    ("bb_agent_", "an agent's key of this gateway"),
    ("rk_", "a restricted key that is cut off or mistyped"),
    ("sk_", "a secret key that is cut off or mistyped"),
    ("ch_", "a charge id"),
    ("py_", "a charge id"),
    ("pi_", "a payment intent id"),
    ("re_", "a refund id"),
    ("cus_", "a customer id"),
];

/// Where the client gets the key from, each time it needs it: so a rotated key is taken up
/// without a restart. Reading files, and how often, is the source's matter.
pub trait KeySource: Send + Sync {
    /// The key as it is now; none when none is configured, or it cannot be read.
    fn key(&self) -> Option<StripeKey>;
}

/// A text that Stripe would not take as a server's key. Never shows the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyUnusable {
    what: &'static str,
}

impl fmt::Display for KeyUnusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this is {}; needed is a restricted key, rk_test_… or rk_live_…, from Stripe's \
             dashboard under Developers, API keys",
            self.what
        )
    }
}

impl std::error::Error for KeyUnusable {}

/// A secret or restricted key. Never printed.
#[derive(Clone)]
pub struct StripeKey {
    secret: SecretString,
    livemode: bool,
    restricted: bool,
}

impl StripeKey {
    /// Takes `rk_test_…`, `rk_live_…`, `sk_test_…` and `sk_live_…`. White space around the key,
    /// such as the line break at the end of a file, is left away.
    ///
    /// # Errors
    ///
    /// [`KeyUnusable`], which names what was given instead.
    pub fn parse(text: &str) -> Result<Self, KeyUnusable> {
        let text = text.trim();
        for (prefix, livemode, restricted) in SERVER_KEYS {
            let Some(rest) = text.strip_prefix(prefix) else {
                continue;
            };
            if rest.is_empty() || text.len() > KEY_BYTES_MAX || !rest.bytes().all(is_key_byte) {
                break;
            }
            return Ok(Self { secret: SecretString::from(text), livemode, restricted });
        }
        let mistaken = MISTAKEN.into_iter().find(|(prefix, _)| text.starts_with(prefix));
        Err(KeyUnusable { what: mistaken.map_or("not a key of Stripe's", |(_, what)| what) })
    }

    /// Whether the key moves live money.
    #[must_use]
    pub const fn livemode(&self) -> bool {
        self.livemode
    }

    /// Whether the key is restricted to some resources; one that is not may do everything.
    #[must_use]
    pub const fn restricted(&self) -> bool {
        self.restricted
    }

    /// The last four characters, by which people tell keys apart, as the dashboard does.
    #[must_use]
    pub fn last4(&self) -> &str {
        let secret = self.secret.expose_secret();
        secret.get(secret.len().saturating_sub(4)..).unwrap_or_default()
    }

    /// What tells it from other keys, and is of no use to anybody: a part of a digest.
    pub(crate) fn mark(&self) -> Option<KeyMark> {
        let text = format!("agent-tagged?{}", self.secret.expose_secret());
        let digest = digest(&SHA256, text.as_bytes());
        let hex = digest.as_ref().iter().take(MARK_BYTES).map(|byte| format!("{byte:02x}"));
        KeyMark::parse(&format!("key_{}", hex.collect::<String>())).ok()
    }

    /// The `Authorization` header.
    pub(crate) fn authorization(&self) -> HeaderText {
        HeaderText::Secret(format!("Bearer {}", self.secret.expose_secret()).into())
    }

    /// Whether it is the same key.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.secret.expose_secret() == other.secret.expose_secret()
    }
}

const fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl fmt::Debug for StripeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StripeKey([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_what_is_pasted_instead() {
        type Facts = (bool, bool, &'static str);
        #[rustfmt::skip]
        let table: [(&str, Result<Facts, &str>); 20] = [
            // text                       live   restricted last4, or what it is
            ("rk_test_51abcWXYZ",         Ok((false, true, "WXYZ"))),
            ("rk_live_51abcWXYZ\n",       Ok((true, true, "WXYZ"))),
            ("sk_test_51abcWXYZ",         Ok((false, false, "WXYZ"))),
            ("  sk_live_51abcWXYZ\r\n",   Ok((true, false, "WXYZ"))),
            ("pk_test_51abc",             Err("a publishable key")),
            ("pk_live_51abc",             Err("a publishable key")),
            ("whsec_51abc",               Err("a webhook signing secret")),
            ("acct_1abc",                 Err("an account id")),
            ("ca_1abc",                   Err("a Connect client id")),
            ("ek_test_1abc",              Err("an ephemeral key")),
            ("bb_agent_1abc",             Err("an agent's key of this gateway")),
            ("pi_1abc",                   Err("a payment intent id")),
            ("sk_1abc",                   Err("a secret key that is cut off")),
            ("rk_test_",                  Err("a restricted key that is cut off")),
            ("rk_test_a b",               Err("a restricted key that is cut off")),
            ("rk_test_a\nb",              Err("a restricted key that is cut off")),
            ("rk_test_ä",                 Err("a restricted key that is cut off")),
            ("RK_TEST_51abc",             Err("not a key of Stripe's")),
            ("hunter2",                   Err("not a key of Stripe's")),
            ("",                          Err("not a key of Stripe's")),
        ];
        for (text, expected) in table {
            match (StripeKey::parse(text), expected) {
                (Ok(key), Ok(expected)) => {
                    let told = (key.livemode(), key.restricted(), key.last4());
                    assert_eq!(told, expected, "{text:?}");
                    assert_eq!(format!("{key:?}"), "StripeKey([redacted])");
                }
                (Err(error), Err(expected)) => {
                    let told = error.to_string();
                    assert!(told.starts_with(&format!("this is {expected}")), "{told}");
                    assert!(text.len() <= 8 || !told.contains(text.trim()), "{told}");
                }
                (found, _) => panic!("{text:?}: {found:?}"),
            }
        }
        assert!(StripeKey::parse(&format!("rk_test_{}", "x".repeat(248))).is_err());
    }
}
