//! Schemas of names, taken from the enums that own them. Nothing here is `["…", "null"]`, which
//! some readers of schemas refuse.

use gate_core::{ApprovalState, Approver, FailureCode, ReasonCode, RefundReason, Retry, State};
use gate_money::Amount;
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::intent::Status;
use crate::problem_code::ProblemCode;
use crate::query::LIMIT_MAX;

fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> Schema {
    let names: Vec<&str> = names.into_iter().collect();
    json_schema!({ "type": "string", "enum": names })
}

pub(crate) fn state(_: &mut SchemaGenerator) -> Schema {
    one_of(State::STORED.map(State::as_str))
}

pub(crate) fn status(_: &mut SchemaGenerator) -> Schema {
    one_of(Status::OF_INTENTS.map(Status::as_str))
}

pub(crate) fn dry_run(_: &mut SchemaGenerator) -> Schema {
    one_of([Status::DryRun.as_str()])
}

pub(crate) fn ok(_: &mut SchemaGenerator) -> Schema {
    one_of(["ok"])
}

pub(crate) fn decision(_: &mut SchemaGenerator) -> Schema {
    one_of(["allow", "pending_approval", "denied"])
}

pub(crate) fn retry(_: &mut SchemaGenerator) -> Schema {
    one_of([Retry::Never, Retry::SameKey, Retry::Later].map(Retry::as_str))
}

pub(crate) fn approval_state(_: &mut SchemaGenerator) -> Schema {
    one_of(ApprovalState::ALL.map(ApprovalState::as_str))
}

pub(crate) fn approver(_: &mut SchemaGenerator) -> Schema {
    one_of([Approver::Authority, Approver::Stripe].map(Approver::as_str))
}

pub(crate) fn reason_code(_: &mut SchemaGenerator) -> Schema {
    one_of(ReasonCode::ALL.iter().map(|code| code.as_str()))
}

pub(crate) fn failure_code(_: &mut SchemaGenerator) -> Schema {
    one_of(FailureCode::ALL.iter().map(|code| code.as_str()))
}

pub(crate) fn problem_code(_: &mut SchemaGenerator) -> Schema {
    one_of(ProblemCode::ALL.iter().map(|code| code.as_str()))
}

pub(crate) fn refund_reason(_: &mut SchemaGenerator) -> Schema {
    one_of(RefundReason::ALL.map(RefundReason::as_str))
}

pub(crate) fn amount_minor(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 1, "maximum": Amount::MINOR_MAX })
}

pub(crate) fn limit(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 1, "maximum": LIMIT_MAX })
}

pub(crate) fn nullable_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string" }, { "type": "null" }] })
}

pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

pub(crate) fn nullable_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string", "format": "date-time" }, { "type": "null" }] })
}
