//! What the answer to a read comes to. The one place where a read's faults get their class.

use gate_core::{Channel, ReadError};
use gate_http::{Response, TransportError};
use serde::de::DeserializeOwned;

use crate::permissions::Resource;
use crate::problem::{Problem, request_id};

/// The object that was asked for, or what kept Stripe from giving it.
pub(crate) fn read<T: DeserializeOwned>(
    answer: Result<Response, TransportError>,
    resource: Resource,
    channel: &Channel,
) -> Result<T, ReadError> {
    let response = match answer {
        Ok(response) => response,
        Err(TransportError::TooLarge { .. }) => return Err(ReadError::Unreadable),
        Err(
            TransportError::Broken { .. }
            | TransportError::NotSent { .. }
            | TransportError::TimedOut,
        ) => return Err(ReadError::Unavailable { after: None }),
    };
    if response.status != 200 {
        return Err(read_error(&Problem::of(&response), resource, channel));
    }
    serde_json::from_slice(&response.body).map_err(|error| {
        // Where it stopped making sense, and not what stood there: that may be anybody's name.
        tracing::warn!(
            resource = resource.name(),
            stripe.request_id = request_id(&response),
            line = error.line(),
            column = error.column(),
            "an answer of Stripe's could not be read"
        );
        ReadError::Unreadable
    })
}

fn read_error(problem: &Problem, resource: Resource, channel: &Channel) -> ReadError {
    let unavailable = ReadError::Unavailable { after: problem.after };
    match problem.status {
        401 => ReadError::KeyRefused,
        403 => ReadError::Permission {
            permission: missing_permission(problem, resource.read(), channel),
        },
        404 if problem.readable => ReadError::NotFound {
            livemode: channel.livemode,
            account: channel.account.as_ref().map(ToString::to_string),
        },
        409 | 429 | 500..=599 => unavailable,
        400 if problem.is_about_load() => unavailable,
        _ => ReadError::Unreadable,
    }
}

/// The permission that a 403 asks for. Named from our own table, for Stripe's text may carry a
/// masked key; only whether the connected account is the trouble is taken from it.
pub(crate) fn missing_permission(problem: &Problem, usual: String, channel: &Channel) -> String {
    match &channel.account {
        Some(account)
            if problem.code == "account_invalid" || problem.says("connect permissions") =>
        {
            format!("Connect: access to the account {account}")
        }
        Some(_) | None => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    proptest! {
        #[test]
        fn only_a_200_of_json_is_an_object(status in 0_u16..700, body: Vec<u8>) {
            let channel = Channel { account: None, livemode: false, version: String::new(), key: None, agent_tagged: false };
            let valid = status == 200 && serde_json::from_slice::<Value>(&body).is_ok();
            let response = Response { status, headers: Vec::new(), body };
            let found = read::<Value>(Ok(response), Resource::Charges, &channel);
            prop_assert_eq!(found.is_ok(), valid);
        }
    }
}
