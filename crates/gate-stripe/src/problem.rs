//! What Stripe's error answers say, as far as they can be read; what follows from it is decided in
//! [`reads`](crate::reads) and [`sends`](crate::sends).
//!
//! Stripe's own text is kept for matching only. Nothing of it is passed on unless it went through
//! [`fit_to_show`].

use std::time::Duration;

use gate_core::Hold;
use gate_http::Response;
use serde_json::Value;

use crate::holds::held;

/// Longest text of Stripe's that is passed on, in characters.
const SHOWN_CHARS_MAX: usize = 300;
/// What keys and secrets start with, masked ones too.
const SECRET_PREFIXES: [&str; 5] = ["sk_", "rk_", "pk_", "ek_", "whsec_"];

/// An answer that is not the object that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// Whether there is an error object of Stripe's at all.
    pub(crate) readable: bool,
    pub(crate) kind: String,
    pub(crate) code: String,
    pub(crate) param: String,
    pub(crate) message: String,
    /// The hold for an approval of Stripe's own.
    pub(crate) hold: Option<Hold>,
    /// How long Stripe asks to wait.
    pub(crate) after: Option<Duration>,
    /// What Stripe says of another attempt.
    pub(crate) should_retry: Option<bool>,
    /// Whether this answer was stored with an earlier attempt under the same key.
    pub(crate) replayed: bool,
    /// Stripe's id of the request, for a person who looks it up in the dashboard.
    pub(crate) request_id: Option<String>,
}

impl Problem {
    pub(crate) fn of(response: &Response) -> Self {
        let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let error = body.get("error").and_then(Value::as_object);
        let text = |name| {
            let value = error.and_then(|error| error.get(name));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let is = |name, value: &str| {
            response.header(name).is_some_and(|text| text.eq_ignore_ascii_case(value))
        };
        Self {
            status: response.status,
            readable: error.is_some(),
            kind: text("type"),
            code: text("code"),
            param: text("param"),
            message: text("message"),
            hold: error.and_then(held),
            after: response.header("retry-after").and_then(seconds),
            should_retry: match (
                is("stripe-should-retry", "true"),
                is("stripe-should-retry", "false"),
            ) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            replayed: is("idempotent-replayed", "true"),
            request_id: request_id(response).map(str::to_owned),
        }
    }

    /// Whether Stripe's text says this, in any case.
    pub(crate) fn says(&self, words: &str) -> bool {
        self.message.to_ascii_lowercase().contains(words)
    }

    /// Whether this is about patience, whatever its status.
    pub(crate) fn is_about_load(&self) -> bool {
        ["rate_limit", "lock_timeout", "idempotency_key_in_use"].contains(&self.code.as_str())
    }

    /// The words for a person who looks the request up.
    pub(crate) fn named_request(&self) -> String {
        self.request_id.as_ref().map_or_else(String::new, |id| format!(" ({id})"))
    }
}

/// Stripe's id of the request, where it looks like one.
pub(crate) fn request_id(response: &Response) -> Option<&str> {
    response.header("request-id").filter(|id| {
        id.len() <= 64
            && id.starts_with("req_")
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// `Retry-After` in seconds; a date is not understood, and our own backoff is used.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: u32 = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

/// A text of Stripe's made fit for an agent: no keys, not even masked ones, no control characters,
/// and no more than 300 characters.
pub(crate) fn fit_to_show(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = SECRET_PREFIXES.iter().filter_map(|prefix| rest.find(prefix)).min() {
        let (before, secret) = rest.split_at(at);
        shown.push_str(before);
        shown.push_str("[key]");
        let ends = |c: char| c.is_whitespace() || "'\"`,;()<>".contains(c);
        rest = secret.find(ends).map_or("", |end| secret.split_at(end).1);
    }
    shown.push_str(rest);
    shown.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_do_not_get_through() {
        let table = [
            ("no secrets", "no secrets"),
            ("", ""),
            ("the key 'rk_test_***abc' may", "the key '[key]' may"),
            ("sk_live_1", "[key]"),
            ("(pk_live_…x) and sk_test_a, b", "([key]) and [key], b"),
            ("xsk_live_hidden.", "x[key]"),
            ("line\nbreak\u{7}", "line break "),
        ];
        for (text, expected) in table {
            assert_eq!(fit_to_show(text), expected);
        }
    }

    proptest! {
        #[test]
        fn whatever_it_says_it_is_short_and_without_keys(text in "(sk_|rk_|live_|[a-z_' ]|\\PC){0,400}") {
            let shown = fit_to_show(&text);
            prop_assert!(shown.chars().count() <= SHOWN_CHARS_MAX);
            for prefix in SECRET_PREFIXES {
                prop_assert!(!shown.contains(prefix));
            }
        }
    }
}
