//! Decisions to try, and tables of them with what is expected: `policy try`, and the `.cases.toml`
//! file that lies beside a policy.

mod read;

use std::collections::BTreeMap;

use gate_core::{
    AgentName, Charge, Decision, DecisionReason, RefundReason, Timestamp, Tool, Valuation, Vote,
};
use gate_money::{Amount, MicroUsd};
use toml::de::DeTable;

use crate::decide::{CustomerHistory, Facts, NoRate, Stops, Verdict, decide};
use crate::document::Policy;
use crate::fault::Fault;
use crate::parse::TEXT_BYTES_MAX;
use crate::reader::{Key, Reader, Value};
use crate::window::{Period, Whose, Window};

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Spender {
    Agent,
    Customer,
    Team,
}

/// The facts of one request that nobody made.
#[derive(Clone, Debug)]
pub struct Scenario {
    agent: AgentName,
    tool: Tool,
    reason: Option<RefundReason>,
    charge: Charge,
    amount: Amount,
    worth: Result<Valuation, NoRate>,
    at: Timestamp,
    stops: Stops,
    spent: BTreeMap<(Spender, Period), MicroUsd>,
    recent_refunds: u32,
    customer: CustomerHistory,
    votes: Option<Vec<Vote>>,
    agent_tagged: bool,
}

impl Scenario {
    /// Reads facts, one `key = value` a line, as a case has them. Only `agent` and `amount` have to
    /// be given.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let mut reader = Reader::new(text);
        let (table, none) = (reader.toml(TEXT_BYTES_MAX), DeTable::new());
        let read = table.and_then(|table| {
            let lines = merged(&none, table.get_ref());
            reader.scenario(&lines, 0).map(|(scenario, _)| scenario)
        });
        if read.is_none() && reader.faults.is_empty() {
            reader.fault(0, "there are no facts".to_owned());
        }
        reader.done(read).and_then(|read| read.ok_or_else(Vec::new))
    }

    /// What a policy says of it.
    #[must_use]
    pub fn decide(&self, policy: &Policy) -> Verdict {
        let spent = |window: &Window| {
            let spender = match window.whose {
                Whose::Agent => Spender::Agent,
                Whose::Customer(_) => Spender::Customer,
                Whose::Team(_) => Spender::Team,
            };
            self.spent.get(&(spender, window.period)).copied().unwrap_or_default()
        };
        decide(
            policy,
            &Facts {
                agent: &self.agent,
                tool: self.tool,
                reason: self.reason,
                charge: &self.charge,
                amount: self.amount,
                worth: self.worth.as_ref().map_err(|none| *none),
                now: self.at,
                stops: self.stops,
                spent: &spent,
                recent_refunds: self.recent_refunds,
                customer: self.customer,
                votes: self.votes.as_deref(),
                agent_tagged: self.agent_tagged,
            },
        )
    }
}

/// A table of cases, each with the decision that is expected.
#[derive(Clone, Debug)]
pub struct Cases(Vec<Case>);

#[derive(Clone, Debug)]
struct Case {
    name: String,
    scenario: Scenario,
    decision: Decision,
    codes: Option<Vec<String>>,
}

/// How a case came out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// The case's name.
    pub name: String,
    /// What the policy says.
    pub verdict: Verdict,
    /// What is not as expected, one sentence; none when all is.
    pub wrong: Option<String>,
}

impl Cases {
    /// Reads a table: `[[case]]` entries and, for what they have in common, `[defaults]`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, in the order of the text.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let mut reader = Reader::new(text);
        let cases = reader.cases();
        reader.done(Self(cases))
    }

    /// Decides each case by `policy`.
    #[must_use]
    pub fn run(&self, policy: &Policy) -> Vec<Outcome> {
        self.0.iter().map(|case| case.run(policy)).collect()
    }
}

impl Case {
    fn run(&self, policy: &Policy) -> Outcome {
        let verdict = self.scenario.decide(policy);
        let found: Vec<String> = verdict.reasons.iter().map(code).collect();
        let expected = self.codes.as_ref().unwrap_or(&found);
        let wrong = (verdict.decision != self.decision || *expected != found).then(|| {
            let wanted = match &self.codes {
                Some(codes) => told(self.decision, codes),
                None => word_of(self.decision).to_owned(),
            };
            format!("expected {wanted}, and the policy says {}", told(verdict.decision, &found))
        });
        Outcome { name: self.name.clone(), verdict, wrong }
    }
}

/// A reason as a table names it: its code, with the rule's id where it is a rule's.
fn code(reason: &DecisionReason) -> String {
    match &reason.rule {
        Some(rule) => format!("{}:{rule}", reason.code.as_str()),
        None => reason.code.as_str().to_owned(),
    }
}

fn word_of(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
        Decision::RequireApproval => "require_approval",
    }
}

fn told(decision: Decision, codes: &[String]) -> String {
    match codes {
        [] => word_of(decision).to_owned(),
        codes => format!("{} ({})", word_of(decision), codes.join(", ")),
    }
}

type Lines<'v, 't> = BTreeMap<&'v str, (&'v Key<'t>, &'v Value<'t>)>;

/// The lines of a case over those that all cases have.
fn merged<'v, 't>(defaults: &'v DeTable<'t>, own: &'v DeTable<'t>) -> Lines<'v, 't> {
    let lines = defaults.iter().chain(own.iter());
    lines.map(|(key, value)| (key.get_ref().as_ref(), (key, value))).collect()
}
