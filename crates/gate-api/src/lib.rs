//! The JSON that every surface shares: HTTP, tools and the command line.
//!
//! Views turn what the core knows into wire objects; [`parse_ask`] turns bytes into what the core
//! is asked; [`Problem`] is what a request gets that came to no answer; [`openapi()`] and
//! [`errors_markdown`] describe all of it from the same tables. No I/O, no clock, and no float
//! ever: an amount is read from its digits and written as an integer.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        reason = "tests compute freely"
    )
)]

mod approval;
mod arguments;
mod ask;
mod budget;
mod catalog;
pub mod connector;
mod intent;
mod members;
mod money;
mod next;
mod openapi;
mod page;
mod problem;
mod problem_code;
mod query;
mod ready;
mod schema;
mod surface;
mod time;
mod webhook;

#[cfg(test)]
mod samples;

pub use approval::{ApprovalRow, ApprovalView};
pub use arguments::{
    ApprovalArguments, CancelArguments, IntentArguments, IntentChoice, ListArguments, NoArguments,
    parse_approval, parse_cancel, parse_intent_choice, parse_list, parse_nothing,
};
pub use ask::{FinanceRefundRequest, RefundRequest, parse_ask, parse_finance_refund};
pub use budget::{BudgetView, WindowView};
pub use catalog::errors_markdown;
pub use intent::{
    AnswerView, DryRunView, IntentView, ReasonView, RefundView, Standing, Status, standing,
};
pub use money::{AmountView, dollars};
pub use openapi::{ToolOperation, openapi};
pub use page::{PageView, cursor_of, parse_cursor};
pub use problem::{Concern, Problem, request_id};
pub use problem_code::ProblemCode;
pub use query::{parse_intent_filter, parse_wait};
pub use ready::{Check, CheckStatus, CheckView, HealthView, ReadyView};
pub use surface::{BODY_BYTES_MAX, SurfaceError, WEBHOOK_BYTES_MAX};
pub use time::{parse_time, rfc3339};
pub use webhook::ReceivedView;
