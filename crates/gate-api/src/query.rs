//! Query parameters: which intents to list, how long to wait. What is not known, or given twice, is
//! refused by name; what is empty counts as left out.

use std::time::Duration;

use gate_core::{IdempotencyKey, IntentFilter, State};

use crate::page::parse_cursor;
use crate::surface::{SurfaceError, shown};

/// Most intents of one page.
pub(crate) const LIMIT_MAX: u16 = 100;
/// Intents of a page when nothing is said.
pub(crate) const LIMIT_DEFAULT: u16 = 20;
/// Longest wait for a change, in seconds.
const WAIT_SECS_MAX: u64 = 60;

/// Reads `idempotencyKey`, `state`, `limit` and `cursor` from decoded query parameters.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming the parameter.
pub fn parse_intent_filter<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<IntentFilter, SurfaceError> {
    let [key, state, limit, cursor] =
        parameters(["idempotencyKey", "state", "limit", "cursor"], pairs)?;
    Ok(IntentFilter {
        idempotency_key: key.map(parse_key).transpose()?,
        state: state.map(parse_state).transpose()?,
        limit: limit.map_or(Ok(LIMIT_DEFAULT), parse_limit)?,
        before: cursor.map(parse_cursor).transpose()?,
    })
}

/// Reads `wait`, in whole seconds, from decoded query parameters: how long a read may wait for a
/// change. Without it a read answers at once.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming the parameter.
pub fn parse_wait<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Duration, SurfaceError> {
    let [wait] = parameters(["wait"], pairs)?;
    wait.map_or(Ok(Duration::ZERO), |text| parse_secs("wait", text, WAIT_SECS_MAX))
}

/// Whole seconds from 0 to `secs_max`, in digits.
pub(crate) fn parse_secs(
    field: &'static str,
    text: &str,
    secs_max: u64,
) -> Result<Duration, SurfaceError> {
    digits(text).filter(|secs| *secs <= secs_max).map(Duration::from_secs).ok_or_else(|| {
        let detail = format!(
            "must be a whole number of seconds from 0 to {secs_max}, and is {}",
            shown(text)
        );
        SurfaceError::invalid(field, &detail)
    })
}

pub(crate) fn parse_key(text: &str) -> Result<IdempotencyKey, SurfaceError> {
    IdempotencyKey::parse(text).map_err(|error| {
        SurfaceError::invalid("idempotencyKey", &format!("must be {}", error.form()))
    })
}

pub(crate) fn parse_state(text: &str) -> Result<State, SurfaceError> {
    State::parse(text).ok_or_else(|| {
        let names = State::STORED.map(State::as_str).join(", ");
        SurfaceError::invalid("state", &format!("must be one of {names}, and is {}", shown(text)))
    })
}

pub(crate) fn parse_limit(text: &str) -> Result<u16, SurfaceError> {
    digits(text)
        .and_then(|limit| u16::try_from(limit).ok())
        .filter(|limit| (1..=LIMIT_MAX).contains(limit))
        .ok_or_else(|| {
            SurfaceError::invalid(
                "limit",
                &format!("must be a whole number from 1 to {LIMIT_MAX}, and is {}", shown(text)),
            )
        })
}

/// A whole number written in digits alone; `parse` would take a sign as well.
fn digits(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// The values of the parameters `known`, in that order.
fn parameters<'a, const COUNT: usize>(
    known: [&'static str; COUNT],
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<[Option<&'a str>; COUNT], SurfaceError> {
    let mut seen = [None; COUNT];
    for (name, value) in pairs {
        let slot = known.iter().zip(seen.iter_mut()).find(|(known, _)| **known == name);
        let Some((known, slot)) = slot else {
            return Err(SurfaceError::unknown(name, &known));
        };
        if slot.replace(value).is_some() {
            return Err(SurfaceError::invalid(known, "is given twice; give it once"));
        }
    }
    Ok(seen.map(|value| value.filter(|value| !value.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::cursor_of;
    use gate_core::IntentId;

    fn field<T: std::fmt::Debug>(result: Result<T, SurfaceError>) -> String {
        match result {
            Err(SurfaceError::InvalidRequest { field, .. }) => field.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn filters() {
        let id = IntentId::parse("int_7").unwrap();
        let cursor = cursor_of(&id);
        let all = [
            ("idempotencyKey", "k"),
            ("state", "settled"),
            ("limit", "100"),
            ("cursor", cursor.as_str()),
        ];
        let expected = IntentFilter {
            idempotency_key: Some(IdempotencyKey::parse("k").unwrap()),
            state: Some(State::Settled),
            limit: 100,
            before: Some(id),
        };
        assert_eq!(parse_intent_filter(all).unwrap(), expected);
        let none = IntentFilter { limit: 20, ..IntentFilter::default() };
        assert_eq!(parse_intent_filter([]).unwrap(), none);
        assert_eq!(parse_intent_filter(all.map(|(name, _)| (name, ""))).unwrap(), none);
    }

    #[test]
    fn what_will_not_do_is_named() {
        for (name, value) in [
            ("idempotencyKey", "a b"),
            ("state", "refunded"),
            ("state", "asked"),
            ("limit", "0"),
            ("limit", "101"),
            ("limit", "+5"),
            ("limit", "1e1"),
            ("limit", "99999999999999999999"),
            ("cursor", "x"),
            ("agent", "me"),
        ] {
            assert_eq!(field(parse_intent_filter([(name, value)])), name, "{value}");
        }
        let twice = [("limit", "1"), ("limit", "1")];
        assert_eq!(field(parse_intent_filter(twice)), "limit");
    }

    #[test]
    fn waits() {
        for (text, secs) in [("0", 0), ("60", 60), ("", 0)] {
            assert_eq!(parse_wait([("wait", text)]).unwrap(), Duration::from_secs(secs));
        }
        assert_eq!(parse_wait([]).unwrap(), Duration::ZERO);
        for text in ["61", "-1", "1.5", "+1", "soon"] {
            assert_eq!(field(parse_wait([("wait", text)])), "wait", "{text}");
        }
        assert_eq!(field(parse_wait([("Wait", "1")])), "Wait");
    }
}
