//! The refund orchestration, for the gateway and for services that embed it.
//!
//! An agent asks for a refund; this crate looks up what was asked before, reads the real charge,
//! has an [`Authority`] decide and record, makes an allowed refund through a [`Processor`] exactly
//! once, and records what became of it. It knows no clock, no network, no database and no runtime:
//! all of them are ports, so that a service brings its own and a simulation replays exactly.
//!
//! Invariants that this crate keeps (ARCHITECTURE.md numbers them):
//!
//! - *submitted-first*: nothing is sent before the authority has durably recorded the whole
//!   request; [`Processor::refund`] takes nothing but a [`Ticket`], which only [`Permit`]s that
//!   agree with what was asked and read turn into.
//! - *doubt-is-not-failure*: an attempt without a clear answer leaves its intent `submitted`.
//! - *same-bytes*: whatever is sent again is the first request, byte for byte, under the same key.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::type_complexity,
        clippy::wildcard_enum_match_arm,
        reason = "tests compute freely, and their tables are wide"
    )
)]

mod ask;
#[doc(hidden)]
pub mod bugs;
mod charge;
mod codes;
mod drive;
mod error;
mod grants;
mod hold;
mod ids;
mod intent;
mod major;
mod outbox;
mod permit;
mod ports;
mod reconcile;
mod refund;
mod request;
mod source;
mod state;
mod time;

#[cfg(test)]
mod fakes;

pub use ask::{Ask, Justification, RefundReason, Target, Tool, Wanted};
pub use charge::{Channel, Charge, ChargeFacts, ChargeStatus, CustomerFact, Dispute, resolve};
pub use codes::{FailureCode, GatewayFault, ReasonCode};
pub use error::{ActionError, Retry};
pub use grants::{Grants, ToolUse};
pub use ids::{
    AccountId, AgentId, AgentKey, AgentName, ApprovalId, AttemptId, ChargeId, CustomerId,
    GatewayId, HoldId, HoldUrl, IdempotencyKey, IntentId, InvalidId, KeyMark, PaymentIntentId,
    RefundId, TeamName, UserName,
};
pub use intent::{
    Again, Approval, ApprovalState, Approver, DecisionReason, Denier, Failure, Intent,
    ListedRefund, OnApproval, Refund, RefundStatus, Requirement, Valuation, Vote,
};
pub use outbox::{Fate, Notice, Outbox, Waiting};
pub use permit::{Claim, Lease, Permit, Ticket};
pub use ports::{
    Actions, Agent, Answer, Authority, AuthorityError, Budget, BudgetWindow, Decided, Decision,
    Doubt, Hold, HoldSeen, HoldStanding, IntentFilter, Notes, Outcome, Page, Preview, Processor,
    ReadError, Records, Refusal, SendError, Work,
};
pub use reconcile::{Reconciled, Reconciler};
pub use refund::{Observed, Refunds, Settings};
pub use request::{FixedRequest, RequestParts};
pub use source::Source;
pub use state::{Event, IllegalEvent, State};
pub use time::{Clock, Deadline, Ids, Timestamp};
