//! Identifiers: each kind its own type with one checked way in, so that none stands for another.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use crate::time::{Ids, Timestamp};

/// Longest identifier that is taken from outside, in bytes (Stripe's own limit).
const ID_BYTES_MAX: usize = 255;
/// Longest link that is taken from outside, in bytes.
const URL_BYTES_MAX: usize = 500;
/// Longest name of an agent or a person, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// A text that is not an identifier of the kind it was given as.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidId {
    kind: &'static str,
    form: &'static str,
}

impl InvalidId {
    /// What a right one looks like, as one phrase for a message.
    #[must_use]
    pub const fn form(&self) -> &'static str {
        self.form
    }
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not {}: expected {}", self.kind, self.form)
    }
}

impl std::error::Error for InvalidId {}

fn word_after(text: &str, prefixes: &[&str]) -> bool {
    text.len() <= ID_BYTES_MAX
        && prefixes.iter().any(|prefix| {
            text.strip_prefix(prefix).is_some_and(|rest| {
                !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            })
        })
}

fn name_like(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b))
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $form:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(String);

        impl $name {
            /// Takes `text` when it has this identifier's form.
            ///
            /// # Errors
            ///
            /// [`InvalidId`] with the form that would do.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId { kind: $kind, form: $form })
                }
            }

            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! made_here {
    ($name:ident, $prefix:literal) => {
        impl $name {
            /// Makes a new one: sortable by `now`, with 74 random bits.
            #[must_use]
            pub fn make(now: Timestamp, ids: &dyn Ids) -> Self {
                Self(format!(concat!($prefix, "{}"), time_ordered(now, ids)))
            }
        }
    };
}

fn time_ordered(now: Timestamp, ids: &dyn Ids) -> String {
    let mut random = [0_u8; 10];
    ids.fill(&mut random);
    let millis = u64::try_from(now.millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().simple().to_string()
}

id!(
    /// A charge at Stripe: `ch_…` or, for some payment methods, `py_…`.
    ChargeId, "a charge id", "ch_ or py_ followed by letters, digits and _",
    |text| word_after(text, &["ch_", "py_"])
);
id!(
    /// A payment intent at Stripe: `pi_…`.
    PaymentIntentId, "a payment intent id", "pi_ followed by letters, digits and _",
    |text| word_after(text, &["pi_"])
);
id!(
    /// A customer at Stripe: `cus_…`.
    CustomerId, "a customer id", "cus_ followed by letters, digits and _",
    |text| word_after(text, &["cus_"])
);
id!(
    /// A refund at Stripe: `re_…` or, for some payment methods, `pyr_…`.
    RefundId, "a refund id", "re_ or pyr_ followed by letters, digits and _",
    |text| word_after(text, &["re_", "pyr_"])
);
id!(
    /// A connected account at Stripe: `acct_…`.
    AccountId, "an account id", "acct_ followed by letters, digits and _",
    |text| word_after(text, &["acct_"])
);
id!(
    /// An approval request of Stripe's own: `apreq_…`, `areq_…`, or whatever they are called next.
    HoldId, "an approval request id", "letters, digits and _, such as apreq_1",
    |text| word_after(text, &[""])
);
id!(
    /// Where people find an approval request in Stripe's dashboard: shown as it is, so only what can
    /// be shown as a link.
    HoldUrl, "a link", "https:// and at most 500 visible ASCII characters without quotes, < and >",
    |text| {
        text.len() <= URL_BYTES_MAX
            && text.starts_with("https://")
            && text.bytes().all(|b| b.is_ascii_graphic() && !b"\"'<>\\`".contains(&b))
    }
);
id!(
    /// What tells one Stripe key from another without being of use to anybody: `key_…`.
    KeyMark, "a key's mark", "key_ followed by letters and digits",
    |text| word_after(text, &["key_"])
);
id!(
    /// An intent of ours: `int_…`.
    IntentId, "an intent id", "int_ followed by letters and digits",
    |text| word_after(text, &["int_"])
);
id!(
    /// An approval of ours: `apr_…`.
    ApprovalId, "an approval id", "apr_ followed by letters and digits",
    |text| word_after(text, &["apr_"])
);
id!(
    /// A gateway of a remote authority: `gw_…`.
    GatewayId, "a gateway id", "gw_ followed by letters and digits",
    |text| word_after(text, &["gw_"])
);
id!(
    /// An agent of ours: `agt_…`.
    AgentId, "an agent id", "agt_ followed by letters and digits",
    |text| word_after(text, &["agt_"])
);
id!(
    /// One call to decide, so that the same call asked again gets the same answer: `att_…`.
    AttemptId, "an attempt id", "att_ followed by letters and digits",
    |text| word_after(text, &["att_"])
);
id!(
    /// An agent's name, as it stands in the policy: 1 to 64 lower-case letters, digits, `-`, `_`
    /// and `.`, starting with a letter or digit.
    AgentName, "an agent's name", "1 to 64 of a-z, 0-9, - _ and ., starting with a letter or digit",
    name_like
);
id!(
    /// A team's name, as it stands in the policy, of the same form as an agent's.
    TeamName, "a team's name", "1 to 64 of a-z, 0-9, - _ and ., starting with a letter or digit",
    name_like
);
id!(
    /// A person's name on the command line and in the console, of the same form as an agent's.
    UserName, "a user's name", "1 to 64 of a-z, 0-9, - _ and ., starting with a letter or digit",
    name_like
);
id!(
    /// What makes a request the same request: 1 to 255 visible ASCII characters, per agent.
    IdempotencyKey, "an idempotency key", "1 to 255 visible ASCII characters",
    |text| (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
);

made_here!(IntentId, "int_");
made_here!(ApprovalId, "apr_");
made_here!(AgentId, "agt_");
made_here!(GatewayId, "gw_");
made_here!(AttemptId, "att_");
made_here!(IdempotencyKey, "auto_");

/// An agent's secret, `bb_agent_…`. Never printed, logged or stored as it is.
#[derive(Clone)]
pub struct AgentKey(SecretString);

impl AgentKey {
    /// What every agent key starts with.
    pub const PREFIX: &'static str = "bb_agent_";

    /// Wraps what a caller sent; whether it is anybody's key, the authority says.
    #[must_use]
    pub fn new(secret: String) -> Self {
        Self(SecretString::from(secret))
    }

    /// The secret itself, for hashing and for showing it once.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentKey([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_of_the_right_form_become_ids() {
        let table: [(&str, bool, bool); 12] = [
            // text               charge  payment intent
            ("ch_1Pgc72B7WZ01", true, false),
            ("py_3Nabc", true, false),
            ("pi_3Q_test", false, true),
            ("ch_", false, false),
            ("", false, false),
            (" ", false, false),
            ("ch_../x", false, false),
            ("ch_1/../../x", false, false),
            ("ch_1?expand=1", false, false),
            ("ch_1 ", false, false),
            ("CH_1", false, false),
            ("re_1", false, false),
        ];
        for (text, charge, payment_intent) in table {
            assert_eq!(ChargeId::parse(text).is_ok(), charge, "charge {text:?}");
            assert_eq!(PaymentIntentId::parse(text).is_ok(), payment_intent, "intent {text:?}");
        }
        assert!(ChargeId::parse(&format!("ch_{}", "x".repeat(253))).is_err(), "256 bytes");
    }

    #[test]
    fn keys_are_visible_ascii() {
        for (text, good) in
            [("ticket-4821", true), ("", false), ("a b", false), ("schlüssel", false), ("~!", true)]
        {
            assert_eq!(IdempotencyKey::parse(text).is_ok(), good, "{text:?}");
        }
        assert!(IdempotencyKey::parse(&"k".repeat(256)).is_err());
    }

    #[test]
    fn an_agent_key_does_not_print_itself() {
        let key = AgentKey::new("bb_agent_secret".to_owned());
        assert_eq!(format!("{key:?}"), "AgentKey([redacted])");
    }
}
