//! What the authority decides with: the policy document, and the verdicts that follow from it.
//!
//! A verdict is a function of facts. This crate reads no clock, no network and no store, and the
//! time zones it counts days in are compiled in. What the document does not allow is denied, and a
//! key that this version does not keep is refused, so that nobody believes in a limit that is not
//! there.
//!
//! ```
//! use gate_core::{
//!     AgentName, Channel, Charge, ChargeId, Decision, ReasonCode, Timestamp, Tool, Valuation,
//! };
//! use gate_money::{Amount, Currency, MicroUsd, Rate};
//! use gate_policy::{CustomerHistory, Facts, Policy, Stops, decide};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"
//! [agents.support-bot]
//! methods = ["stripe_refund"]
//! allowed_hosts = ["stripe-refund.action"]
//! daily_cap = "500.00"
//! "#;
//! let policy = Policy::parse(text).map_err(|faults| format!("{faults:?}"))?;
//!
//! let agent = AgentName::parse("support-bot")?;
//! let amount = Amount::new(60_00, Currency::USD)?;
//! let usd = Rate::usd().to_micro_usd(amount)?;
//! let worth = Valuation { usd, rate: Rate::usd(), date: None };
//! let channel = Channel { account: None, livemode: true, version: "2026-09-30".to_owned(), key: None, agent_tagged: false };
//! let charge = Charge::paid(ChargeId::parse("ch_1")?, amount, channel)?;
//! let spent = MicroUsd::parse_dollars("450")?;
//!
//! let verdict = decide(&policy, &Facts {
//!     agent: &agent,
//!     tool: Tool::StripeRefund,
//!     reason: None,
//!     charge: &charge,
//!     amount,
//!     worth: Ok(&worth),
//!     now: Timestamp::from_millis(1_793_610_000_000),
//!     stops: Stops::default(),
//!     spent: &|_window| spent,
//!     recent_refunds: 0,
//!     customer: CustomerHistory::default(),
//!     votes: None,
//!     agent_tagged: false,
//! });
//! assert_eq!(verdict.decision, Decision::Deny);
//! assert_eq!(verdict.reasons[0].code, ReasonCode::DailyCap);
//! assert_eq!(verdict.reasons[0].left, Some(MicroUsd::parse_dollars("50")?));
//! assert_eq!(
//!     verdict.reasons[0].message,
//!     "This refund of 60.00 USD is more than the 50.00 USD that are left of support-bot's \
//!      500.00 USD for the day: wait until 2026-11-03T00:00:00Z, or ask a policy owner to raise \
//!      daily_cap.",
//! );
//! # Ok(()) }
//! ```

mod cases;
mod decide;
mod diff;
mod document;
mod doubts;
mod edit;
mod fault;
mod parse;
mod reader;
mod rules;
mod webhook;
mod window;
mod words;

pub use cases::{Cases, Outcome, Scenario};
pub use decide::{ApprovalTerms, CustomerHistory, Facts, NoRate, Stops, Verdict, decide, windows};
pub use diff::diff;
pub use document::{AgentLimits, Budgets, Method, Policy, REFUND_HOST, TOOLS};
pub use edit::{NEW_STORE_TEXT, NewAgent, with_agent};
pub use fault::Fault;
pub use webhook::WebhookUrl;
pub use window::{Period, Whose, Window};
