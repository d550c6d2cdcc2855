//! The arguments of the tools that read and withdraw. (Those of a refund are the request for one,
//! [`parse_ask`](crate::parse_ask).) What a schema promised counts for nothing here; a doubt is
//! refused by name.

use std::time::Duration;

use gate_core::{ApprovalId, IdempotencyKey, IntentFilter, IntentId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::members::Members;
use crate::page::parse_cursor;
use crate::query::{LIMIT_DEFAULT, parse_key, parse_limit, parse_secs, parse_state};
use crate::schema;
use crate::surface::{SurfaceError, shown};

/// Longest wait of a tool for a decision, in seconds: many clients give a call up after 30.
const TOOL_WAIT_SECS_MAX: u64 = 25;

/// Which of its intents an agent means.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum IntentChoice {
    /// The one with this id.
    Id(IntentId),
    /// The one that holds this key.
    Key(IdempotencyKey),
}

/// Which refund to look at; one of the two.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = false))]
pub struct IntentArguments {
    /// The id from an answer, int_…
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub intent_id: Option<String>,
    /// The key that the refund was asked with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub idempotency_key: Option<String>,
}

/// Which refunds to list.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = false))]
pub struct ListArguments {
    /// Only in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::state")]
    pub state: Option<String>,
    /// At most so many; 20 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::limit")]
    pub limit: Option<u16>,
    /// nextCursor of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub cursor: Option<String>,
}

/// Which approval to look at, and whether to wait for it.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = false))]
pub struct ApprovalArguments {
    /// The id from an answer, apr_…
    pub approval_id: String,
    /// How long to wait for a decision; 0 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "wait_schema")]
    pub wait_seconds: Option<u64>,
}

/// Which request to withdraw.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = false))]
pub struct CancelArguments {
    /// The id from an answer, int_…
    pub intent_id: String,
}

/// Nothing at all.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("additionalProperties" = false))]
pub struct NoArguments {}

fn wait_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "integer", "minimum": 0, "maximum": TOOL_WAIT_SECS_MAX })
}

/// Reads [`IntentArguments`]: one of the two, and not both.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming the argument.
pub fn parse_intent_choice(arguments: &[u8]) -> Result<IntentChoice, SurfaceError> {
    let members = Members::parse(arguments, &["intentId", "idempotencyKey"])?;
    match (members.string("intentId")?, members.string("idempotencyKey")?) {
        (Some(id), None) => parse_intent_id(&id).map(IntentChoice::Id),
        (None, Some(key)) => parse_key(&key).map(IntentChoice::Key),
        (None, None) => Err(SurfaceError::invalid(
            "intentId",
            "is missing, and so is `idempotencyKey`; give the one that you know",
        )),
        (Some(_), Some(_)) => Err(SurfaceError::invalid(
            "intentId",
            "and `idempotencyKey` are both given; give one of them",
        )),
    }
}

/// Reads [`ListArguments`].
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming the argument.
pub fn parse_list(arguments: &[u8]) -> Result<IntentFilter, SurfaceError> {
    let members = Members::parse(arguments, &["state", "limit", "cursor"])?;
    Ok(IntentFilter {
        idempotency_key: None,
        state: members.string("state")?.as_deref().map(parse_state).transpose()?,
        limit: members.raw("limit").map_or(Ok(LIMIT_DEFAULT), parse_limit)?,
        before: members.string("cursor")?.as_deref().map(parse_cursor).transpose()?,
    })
}

/// Reads [`ApprovalArguments`].
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming the argument.
pub fn parse_approval(arguments: &[u8]) -> Result<(ApprovalId, Duration), SurfaceError> {
    let members = Members::parse(arguments, &["approvalId", "waitSeconds"])?;
    let id = members.string("approvalId")?.ok_or_else(|| {
        SurfaceError::invalid("approvalId", "is missing; give the id from the answer, apr_…")
    })?;
    let id = ApprovalId::parse(&id).map_err(|_| {
        let detail = format!("must be the id of an approval, apr_…, and is {}", shown(&id));
        SurfaceError::invalid("approvalId", &detail)
    })?;
    let wait = |text| parse_secs("waitSeconds", text, TOOL_WAIT_SECS_MAX);
    Ok((id, members.raw("waitSeconds").map_or(Ok(Duration::ZERO), wait)?))
}

/// Reads [`CancelArguments`].
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming the argument.
pub fn parse_cancel(arguments: &[u8]) -> Result<IntentId, SurfaceError> {
    let members = Members::parse(arguments, &["intentId"])?;
    let id = members.string("intentId")?.ok_or_else(|| {
        SurfaceError::invalid("intentId", "is missing; give the id from the answer, int_…")
    })?;
    parse_intent_id(&id)
}

/// Sees that there are no arguments.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming one that is there.
pub fn parse_nothing(arguments: &[u8]) -> Result<(), SurfaceError> {
    Members::parse(arguments, &[]).map(|_| ())
}

fn parse_intent_id(text: &str) -> Result<IntentId, SurfaceError> {
    IntentId::parse(text).map_err(|_| {
        let detail = format!("must be the id of an intent, int_…, and is {}", shown(text));
        SurfaceError::invalid("intentId", &detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The argument that is refused, or what was read.
    fn told<T: std::fmt::Debug>(result: Result<T, SurfaceError>) -> String {
        match result {
            Ok(read) => format!("{read:?}"),
            Err(SurfaceError::InvalidRequest { field, .. }) => {
                format!("refused {}", field.unwrap_or_default())
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_intent_is_meant_by_id_or_by_key() {
        #[rustfmt::skip]
        let table = [
            (r#"{"intentId":"int_1"}"#,                        r#"Id(IntentId("int_1"))"#),
            (r#"{"idempotencyKey":"ticket-1"}"#,               r#"Key(IdempotencyKey("ticket-1"))"#),
            (r"{}",                                            "refused intentId"),
            (r#"{"intentId":"int_1","idempotencyKey":"k"}"#,   "refused intentId"),
            (r#"{"intentId":"apr_1"}"#,                        "refused intentId"),
            (r#"{"intentId":1}"#,                              "refused intentId"),
            (r#"{"intentId":null}"#,                           "refused intentId"),
            (r#"{"idempotencyKey":"a b"}"#,                    "refused idempotencyKey"),
            (r#"{"id":"int_1"}"#,                              "refused id"),
            (r"[]",                                            "refused "),
        ];
        for (arguments, expected) in table {
            assert_eq!(told(parse_intent_choice(arguments.as_bytes())), expected, "{arguments}");
        }
    }

    #[test]
    fn what_is_listed() {
        let read = |arguments: &str| parse_list(arguments.as_bytes()).unwrap();
        assert_eq!(read("{}"), IntentFilter { limit: 20, ..IntentFilter::default() });
        let filter = read(r#"{"state":"settled","limit":100}"#);
        assert_eq!((filter.state, filter.limit), (Some(gate_core::State::Settled), 100));
        #[rustfmt::skip]
        let table = [
            (r#"{"limit":0}"#,       "refused limit"),
            (r#"{"limit":101}"#,     "refused limit"),
            (r#"{"limit":"5"}"#,     "refused limit"),
            (r#"{"limit":5.0}"#,     "refused limit"),
            (r#"{"limit":null}"#,    "refused limit"),
            (r#"{"state":"gone"}"#,  "refused state"),
            (r#"{"state":""}"#,      "refused state"),
            (r#"{"cursor":"int_1"}"#, "refused cursor"),
            (r#"{"page":2}"#,        "refused page"),
        ];
        for (arguments, expected) in table {
            assert_eq!(told(parse_list(arguments.as_bytes())), expected, "{arguments}");
        }
    }

    #[test]
    fn the_rest() {
        #[rustfmt::skip]
        let approvals = [
            (r#"{"approvalId":"apr_1"}"#,                    r#"(ApprovalId("apr_1"), 0ns)"#),
            (r#"{"approvalId":"apr_1","waitSeconds":25}"#,   r#"(ApprovalId("apr_1"), 25s)"#),
            (r#"{"approvalId":"apr_1","waitSeconds":26}"#,   "refused waitSeconds"),
            (r#"{"approvalId":"apr_1","waitSeconds":-1}"#,   "refused waitSeconds"),
            (r#"{"approvalId":"apr_1","waitSeconds":"5"}"#,  "refused waitSeconds"),
            (r#"{"approvalId":"int_1"}"#,                    "refused approvalId"),
            (r"{}",                                          "refused approvalId"),
        ];
        for (arguments, expected) in approvals {
            assert_eq!(told(parse_approval(arguments.as_bytes())), expected, "{arguments}");
        }
        let cancel = |arguments: &str| told(parse_cancel(arguments.as_bytes()));
        assert_eq!(cancel(r#"{"intentId":"int_1"}"#), r#"IntentId("int_1")"#);
        assert_eq!(cancel(r#"{"intentId":"ch_1"}"#), "refused intentId");
        assert_eq!(cancel("{}"), "refused intentId");
        let nothing = |arguments: &str| told(parse_nothing(arguments.as_bytes()));
        assert_eq!(nothing("{}"), "()");
        assert_eq!(nothing(r#"{"all":true}"#), "refused all");
    }
}
