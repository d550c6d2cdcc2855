//! Reads cases, and facts to try, line by line.

use std::collections::{BTreeMap, BTreeSet};

use gate_core::{
    AgentName, Channel, Charge, ChargeFacts, ChargeId, CustomerFact, CustomerId, Decision, Dispute,
    RefundReason, Timestamp, Tool, UserName, Valuation, Vote,
};
use gate_money::{Amount, Currency, MicroUsd, Rate};
use toml::de::DeTable;

use super::{Case, Lines, Scenario, Spender, merged};
use crate::decide::{CustomerHistory, NoRate, Stops};
use crate::fault::echo;
use crate::parse::TEXT_BYTES_MAX;
use crate::reader::{Key, Keys, Reader, Value, choice, dollars, word};
use crate::window::Period;

/// Most cases of a table.
const CASES_MAX: usize = 2000;
/// When a case happens that does not say: a Wednesday noon.
const AT: &str = "2026-01-14T12:00:00Z";
/// How old a case's charge and customer are when it does not say, in days.
const CHARGE_AGE: u32 = 1;
const CUSTOMER_AGE: u32 = 365;
const DAYS_RANGE: [u32; 2] = [0, 36_500];
const ANY: [u32; 2] = [0, u32::MAX];

const DECISIONS: [(&str, Decision); 3] = [
    ("allow", Decision::Allow),
    ("deny", Decision::Deny),
    ("require_approval", Decision::RequireApproval),
];
/// What spend a case can set, by the window that counts it.
const SPENT: [(&str, (Spender, Period)); 6] = [
    ("customer_day", (Spender::Customer, Period::Day)),
    ("day", (Spender::Agent, Period::Day)),
    ("month", (Spender::Agent, Period::Month)),
    ("team_day", (Spender::Team, Period::Day)),
    ("team_month", (Spender::Team, Period::Month)),
    ("week", (Spender::Agent, Period::Week)),
];
const CASE_KEYS: Keys = Keys {
    kept: &[
        "agent",
        "agent_tagged",
        "amount",
        "approved_by",
        "at",
        "card_country",
        "charge_age_days",
        "charge_amount",
        "codes",
        "customer",
        "customer_age_days",
        "customer_refunded_30d",
        "customer_refunds_30d",
        "decision",
        "disputed",
        "livemode",
        "metadata",
        "name",
        "payment_method",
        "reason",
        "refund_count",
        "refunded",
        "refunds_last_hour",
        "risk_level",
        "risk_score",
        "spent",
        "stopped",
        "tool",
        "unknown",
        "worth",
    ],
};

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Unknown {
    CardCountry,
    PaymentMethod,
    RefundCount,
    RiskLevel,
    RiskScore,
}

/// What a case says besides its facts.
#[derive(Default)]
pub(super) struct Expected {
    name: Option<String>,
    decision: Option<Decision>,
    codes: Option<Vec<String>>,
}

/// A case while its lines are read; it begins as one that says nothing.
struct Draft {
    agent: Option<AgentName>,
    amount: Option<Amount>,
    charged: Option<Amount>,
    refunded: Option<Amount>,
    worth: Option<Result<Valuation, NoRate>>,
    now: Option<Timestamp>,
    charge_age: u32,
    customer_age: u32,
    customer: Option<CustomerId>,
    readable: bool,
    tool: Tool,
    reason: Option<RefundReason>,
    disputed: bool,
    livemode: bool,
    known: ChargeFacts,
    unknown: BTreeSet<Unknown>,
    spent: BTreeMap<(Spender, Period), MicroUsd>,
    stops: Stops,
    recent_refunds: u32,
    history: CustomerHistory,
    votes: Option<Vec<Vote>>,
    agent_tagged: bool,
    expected: Expected,
}

impl Draft {
    fn new() -> Self {
        Self {
            agent: None,
            amount: None,
            charged: None,
            refunded: None,
            worth: None,
            now: instant(AT).ok(),
            charge_age: CHARGE_AGE,
            customer_age: CUSTOMER_AGE,
            customer: CustomerId::parse("cus_case").ok(),
            readable: true,
            tool: Tool::StripeRefund,
            reason: None,
            disputed: false,
            livemode: true,
            known: ChargeFacts {
                payment_method_type: Some("card".to_owned()),
                card_country: Some("US".to_owned()),
                risk_level: Some("normal".to_owned()),
                risk_score: Some(10),
                refund_count: Some(0),
                metadata: BTreeMap::new(),
            },
            unknown: BTreeSet::new(),
            spent: BTreeMap::new(),
            stops: Stops::default(),
            recent_refunds: 0,
            history: CustomerHistory::default(),
            votes: None,
            agent_tagged: false,
            expected: Expected::default(),
        }
    }

    /// None where a line is missing or at fault.
    fn done(self) -> Option<(Scenario, Expected)> {
        let mut known = self.known;
        for fact in self.unknown {
            match fact {
                Unknown::CardCountry => known.card_country = None,
                Unknown::PaymentMethod => known.payment_method_type = None,
                Unknown::RefundCount => known.refund_count = None,
                Unknown::RiskLevel => known.risk_level = None,
                Unknown::RiskScore => known.risk_score = None,
            }
        }
        let (agent, amount, now) = (self.agent?, self.amount?, self.now?);
        let worth = self.worth.unwrap_or_else(|| own_worth(amount));
        let zero = Amount::from_stripe(0, amount.currency()).ok()?;
        let created_at = days_before(now, self.customer_age);
        let charge = Charge {
            amount_refunded: self.refunded.unwrap_or(zero),
            dispute: if self.disputed { Dispute::Refundable } else { Dispute::None },
            customer: match self.customer {
                None => CustomerFact::None,
                Some(id) if self.readable => CustomerFact::Known { id, created_at },
                Some(id) => CustomerFact::Unreadable { id },
            },
            created_at: days_before(now, self.charge_age),
            facts: known,
            ..Charge::paid(
                ChargeId::parse("ch_case").ok()?,
                self.charged.unwrap_or(amount),
                Channel {
                    account: None,
                    livemode: self.livemode,
                    version: String::new(),
                    key: None,
                    agent_tagged: false,
                },
            )
            .ok()?
        };
        let scenario = Scenario {
            agent,
            tool: self.tool,
            reason: self.reason,
            charge,
            amount,
            worth,
            at: now,
            stops: self.stops,
            spent: self.spent,
            recent_refunds: self.recent_refunds,
            customer: self.history,
            votes: self.votes,
            agent_tagged: self.agent_tagged,
        };
        Some((scenario, self.expected))
    }
}

impl Reader<'_> {
    pub(super) fn cases(&mut self) -> Vec<Case> {
        let Some(table) = self.toml(TEXT_BYTES_MAX) else {
            return Vec::new();
        };
        let keys = Keys { kept: &["case", "defaults"] };
        let empty = DeTable::new();
        let (mut defaults, mut cases) = (&empty, None);
        for (key, value) in table.get_ref() {
            match key.get_ref().as_ref() {
                "case" => cases = Some(value),
                "defaults" => defaults = self.table(value, "[defaults]").unwrap_or(&empty),
                _ => self.unknown(key, "a table of cases", &keys),
            }
        }
        let Some(list) = cases.and_then(|value| value.get_ref().as_array()) else {
            self.fault(0, "there is no case: write each as a [[case]] table".to_owned());
            return Vec::new();
        };
        let mut read = Vec::new();
        for (place, value) in list.iter().enumerate() {
            let at = value.span().start;
            if place >= CASES_MAX {
                self.fault(at, format!("there are more than {CASES_MAX} cases: take some out"));
                break;
            }
            let Some(own) = self.table(value, "[[case]]") else {
                continue;
            };
            let Some((scenario, expected)) = self.scenario(&merged(defaults, own), at) else {
                continue;
            };
            let Some(decision) = expected.decision else {
                let message = "this case expects nothing: add decision = \"allow\", \
                               \"require_approval\" or \"deny\"";
                self.fault(at, message.to_owned());
                continue;
            };
            let name = expected.name.unwrap_or_else(|| format!("case {}", place.saturating_add(1)));
            read.push(Case { name, scenario, decision, codes: expected.codes });
        }
        read
    }

    pub(super) fn scenario(
        &mut self,
        lines: &Lines<'_, '_>,
        at: usize,
    ) -> Option<(Scenario, Expected)> {
        let before = self.faults.len();
        let mut case = Draft::new();
        for (name, (key, value)) in lines {
            self.case_line(&mut case, name, key, value);
        }
        for (given, name) in
            [(lines.contains_key("agent"), "agent"), (lines.contains_key("amount"), "amount")]
        {
            if !given {
                let example = if name == "agent" { "support-bot" } else { "20.00 USD" };
                self.fault(at, format!("{name} is missing: add {name} = \"{example}\""));
            }
        }
        let (scenario, expected) = case.done()?;
        let Scenario { charge, amount, .. } = &scenario;
        let amount = *amount;
        if charge.amount.compare(amount).is_err() || charge.amount_refunded.compare(amount).is_err()
        {
            self.fault(
                at,
                "amount, charge_amount and refunded have to be in one currency".to_owned(),
            );
        } else if charge.left().is_ok_and(|left| left.minor() < amount.minor()) {
            self.fault(
                at,
                "amount is more than is left of the charge: raise charge_amount".to_owned(),
            );
        }
        (self.faults.len() == before).then_some((scenario, expected))
    }

    /// One line of a case.
    fn case_line(&mut self, case: &mut Draft, name: &str, key: &Key<'_>, value: &Value<'_>) {
        let text = |text: &str| Ok(text.to_owned());
        match name {
            "agent" => case.agent = self.parsed(key, value, agent_name),
            "agent_tagged" => case.agent_tagged = self.boolean(key, value),
            "amount" => case.amount = self.parsed(key, value, money),
            "approved_by" => case.votes = Some(self.voters(key, value)),
            "at" => case.now = self.parsed(key, value, instant),
            "card_country" => case.known.card_country = self.parsed(key, value, text),
            "charge_age_days" => case.charge_age = self.number(key, value, DAYS_RANGE),
            "charge_amount" => case.charged = self.parsed(key, value, money),
            "codes" => {
                let list = value.get_ref().as_array().into_iter().flat_map(|list| list.iter());
                let codes = list.filter_map(|item| item.get_ref().as_str().map(str::to_owned));
                case.expected.codes = Some(codes.collect());
                self.list(key, value, "each a code", text);
            }
            "customer" => match value.get_ref().as_str() {
                Some("none") => case.customer = None,
                Some("unreadable") => case.readable = false,
                _ => case.customer = self.parsed(key, value, customer_id),
            },
            "customer_age_days" => case.customer_age = self.number(key, value, DAYS_RANGE),
            "customer_refunded_30d" => {
                case.history.usd_30d = self.dollars(key, value).unwrap_or_default();
            }
            "customer_refunds_30d" => case.history.refunds_30d = self.number(key, value, ANY),
            "decision" => {
                case.expected.decision = self.parsed(key, value, |text| choice(text, &DECISIONS));
            }
            "disputed" => case.disputed = self.boolean(key, value),
            "livemode" => case.livemode = self.boolean(key, value),
            "metadata" => {
                for (name, value) in self.table(value, "metadata").into_iter().flatten() {
                    let text = self.parsed(name, value, text).unwrap_or_default();
                    case.known.metadata.insert(name.get_ref().to_string(), text);
                }
            }
            "name" => case.expected.name = self.parsed(key, value, text),
            "payment_method" => case.known.payment_method_type = self.parsed(key, value, text),
            "reason" => case.reason = self.parsed(key, value, refund_reason).flatten(),
            "refund_count" => case.known.refund_count = Some(self.number(key, value, ANY)),
            "refunded" => case.refunded = self.parsed(key, value, money),
            "refunds_last_hour" => case.recent_refunds = self.number(key, value, ANY),
            "risk_level" => case.known.risk_level = self.parsed(key, value, text),
            "risk_score" => case.known.risk_score = Some(self.number(key, value, [0, 100])),
            "spent" => {
                for (name, value) in self.table(value, "spent").into_iter().flatten() {
                    match choice(name.get_ref(), &SPENT) {
                        Ok(window) => {
                            case.spent.extend(self.dollars(name, value).map(|usd| (window, usd)));
                        }
                        Err(message) => {
                            self.fault(name.span().start, format!("spent: {message}"));
                        }
                    }
                }
            }
            "stopped" => {
                let whom = ["agent", "organization", "team"].map(|whom| (whom, whom));
                let list = self.choices(key, value, &whom);
                case.stops = Stops {
                    organization: list.contains("organization"),
                    team: list.contains("team"),
                    agent: list.contains("agent"),
                };
            }
            "tool" => {
                let tools = [Tool::StripeRefund, Tool::FinanceRefund].map(|t| (t.as_str(), t));
                case.tool =
                    self.parsed(key, value, |text| choice(text, &tools)).unwrap_or(case.tool);
            }
            "unknown" => case.unknown = self.choices(key, value, &UNKNOWN),
            "worth" => case.worth = self.parsed(key, value, worth_of),
            _ => self.unknown(key, "a case", &CASE_KEYS),
        }
    }

    /// One person for each item; an item lists the person's roles.
    fn voters(&mut self, key: &Key<'_>, value: &Value<'_>) -> Vec<Vote> {
        self.list(key, value, "each the roles of one person", |text| {
            text.split_whitespace().try_for_each(|role| word(role).map(drop))
        });
        let list = value.get_ref().as_array().into_iter().flat_map(|list| list.iter());
        let people = list.filter_map(|item| item.get_ref().as_str());
        let vote = |(number, roles): (usize, &str)| {
            let by = UserName::parse(&format!("person-{number}")).ok()?;
            let roles = roles.split_whitespace().map(str::to_owned).collect();
            Some(Vote { by, roles, at: Timestamp::default(), note: None })
        };
        people.enumerate().filter_map(vote).collect()
    }

    /// A number that may also stand in quotes, as on a command line.
    fn number(&mut self, key: &Key<'_>, value: &Value<'_>, range: [u32; 2]) -> u32 {
        let [least, most] = range;
        let text = value.get_ref().as_str().and_then(|text| text.parse().ok());
        if let Some(number) = text.filter(|number| (least..=most).contains(number)) {
            return number;
        }
        self.count(key, value, range).unwrap_or_default()
    }

    /// A switch that may also stand in quotes, as on a command line.
    fn boolean(&mut self, key: &Key<'_>, value: &Value<'_>) -> bool {
        match value.get_ref().as_str() {
            Some("true") => true,
            Some("false") => false,
            _ => self.switch(key, value).unwrap_or_default(),
        }
    }
}

const UNKNOWN: [(&str, Unknown); 5] = [
    ("card_country", Unknown::CardCountry),
    ("payment_method", Unknown::PaymentMethod),
    ("refund_count", Unknown::RefundCount),
    ("risk_level", Unknown::RiskLevel),
    ("risk_score", Unknown::RiskScore),
];

fn agent_name(text: &str) -> Result<AgentName, String> {
    AgentName::parse(text).map_err(|error| error.to_string())
}

fn customer_id(text: &str) -> Result<CustomerId, String> {
    CustomerId::parse(text).map_err(|invalid| {
        format!("{} will not do: write \"none\", \"unreadable\" or {}", echo(text), invalid.form())
    })
}

fn money(text: &str) -> Result<Amount, String> {
    Amount::parse(text).map_err(|error| format!("{error}; write an amount such as \"20.00 USD\""))
}

fn refund_reason(text: &str) -> Result<Option<RefundReason>, String> {
    let mut reasons: Vec<_> = RefundReason::ALL.map(|it| (it.as_str(), Some(it))).to_vec();
    reasons.push(("none", None));
    choice(text, &reasons)
}

fn instant(text: &str) -> Result<Timestamp, String> {
    let at: Result<jiff::Timestamp, _> = text.parse();
    at.map(|at| Timestamp::from_millis(at.as_millisecond()))
        .map_err(|_| format!("{} will not do: write a time such as \"{AT}\"", echo(text)))
}

fn worth_of(text: &str) -> Result<Result<Valuation, NoRate>, String> {
    Ok(match text {
        "no rate" => Err(NoRate::NotSupported),
        "stale" => Err(NoRate::Stale),
        text => Ok(valued(dollars(text)?)),
    })
}

/// Dollars are worth themselves; of others nobody knows.
fn own_worth(amount: Amount) -> Result<Valuation, NoRate> {
    if amount.currency() != Currency::USD {
        return Err(NoRate::NotSupported);
    }
    Rate::usd().to_micro_usd(amount).map(valued).map_err(|_| NoRate::NotSupported)
}

const fn valued(usd: MicroUsd) -> Valuation {
    Valuation { usd, rate: Rate::usd(), date: None }
}

fn days_before(now: Timestamp, days: u32) -> Timestamp {
    now.before(std::time::Duration::from_secs(u64::from(days).saturating_mul(86_400)))
}
