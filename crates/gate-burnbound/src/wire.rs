//! What stands in the bodies: JSON of every call of the protocol, and its mapping to and from the
//! core's types, one place a type. A type is taken apart by naming all its fields, so that one which
//! gains a field does not compile here until the wire carries it.

mod ask;
mod bodies;
mod charge;
mod intent;
mod outcome;
mod problem;
#[cfg(test)]
mod tests;

use gate_core::Timestamp;
use gate_money::{Amount, Currency, MicroUsd};
use serde::{Deserialize, Serialize};

pub use ask::AskBody;
pub use bodies::{
    AgentBody, BudgetBody, ClaimAsk, ClaimBody, ClaimsBody, DecideAsk, DecidedBody, ExecuteAsk,
    JustifyAsk, NotedBody, ObservationsAsk, PageBody, PreviewBody, StatusBody, ToolAsk, ToolBody,
    WorkBody, filter_from, filter_query, wait_from,
};
pub use charge::{ChannelBody, ChargeBody};
pub use intent::IntentBody;
pub use outcome::OutcomeAsk;
pub use problem::ProblemBody;

/// The version of the protocol.
pub const VERSION: u32 = 1;
/// What every path of the protocol starts with.
pub const PREFIX: &str = "/authority/v1";
/// Largest body that is taken, in bytes: a decision with everything in it fits many times over.
pub const BODY_BYTES_MAX: usize = 256 * 1024;
/// Most milliseconds that a read waits for a change.
pub const WAIT_MILLIS_MAX: u64 = 60_000;

/// A body that is not what it should be; names the member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not what it should be", self.0)
    }
}

impl std::error::Error for Malformed {}

/// An amount as Stripe counts it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AmountBody {
    minor: i64,
    currency: String,
}

impl From<Amount> for AmountBody {
    fn from(amount: Amount) -> Self {
        Self { minor: amount.minor(), currency: amount.currency().lower().to_owned() }
    }
}

impl AmountBody {
    fn amount(&self, member: &'static str) -> Result<Amount, Malformed> {
        let currency = read(member, Currency::parse(&self.currency))?;
        read(member, Amount::from_stripe(self.minor, currency))
    }
}

/// What a parser answered, or the member that it was for.
fn read<T, E>(member: &'static str, parsed: Result<T, E>) -> Result<T, Malformed> {
    parsed.map_err(|_| Malformed(member))
}

/// The same where there may be nothing.
fn read_if<T, E>(
    member: &'static str,
    text: Option<&String>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Malformed> {
    text.map(|text| read(member, parse(text))).transpose()
}

fn known<T>(member: &'static str, found: Option<T>) -> Result<T, Malformed> {
    found.ok_or(Malformed(member))
}

fn time(at: Timestamp) -> String {
    gate_api::rfc3339(at)
}

fn time_of(member: &'static str, text: &str) -> Result<Timestamp, Malformed> {
    known(member, gate_api::parse_time(text))
}

fn time_if(member: &'static str, text: Option<&String>) -> Result<Option<Timestamp>, Malformed> {
    text.map(|text| time_of(member, text)).transpose()
}

fn dollars(member: &'static str, micros: Option<i64>) -> Result<Option<MicroUsd>, Malformed> {
    micros.map(|micros| read(member, MicroUsd::new(micros))).transpose()
}

fn text_of(id: &impl ToString) -> String {
    id.to_string()
}
