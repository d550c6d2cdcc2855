//! What one decision costs: ten limits, twenty rules, all facts.
//!
//! `cargo bench -p gate-policy` times every decision by itself and prints the median, the 99th
//! percentile and the longest of each of a few runs. On an idle machine the 99th percentile stays
//! within 50 µs; where others compute too, the quietest run says most about the code.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, and may panic"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use gate_core::{
    AgentName, Channel, Charge, ChargeFacts, ChargeId, CustomerFact, CustomerId, Decision,
    RefundReason, Timestamp, Tool, Valuation,
};
use gate_money::{Amount, Currency, MicroUsd, Rate};
use gate_policy::{CustomerHistory, Facts, Policy, Stops, decide};

const RUNS: usize = 5;
/// Decisions in each run, and before the first, to warm up.
const ROUNDS: usize = 20_000;

const LIMITS: &str = r#"
[organization]
timezone = "America/New_York"
[teams.support]
daily_budget = "2000.00"
monthly_budget = "20000.00"
[agents.support-bot]
team = "support"
tags = ["chat"]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
max_per_payment = "100.00"
daily_cap = "500.00"
weekly_cap = "1500.00"
monthly_cap = "5000.00"
approval_threshold = "50.00"
refunds_per_hour = 20
per_customer_daily_cap = "150.00"
"#;

/// Twenty conditions, none of which holds, so that all of each is looked at.
const RULES: [&str; 20] = [
    "amount_over = \"90.00\"",
    "charge_older_than_days = 180",
    "customer_younger_than_days = 30",
    "refunded_before = true",
    "currency_in = [\"jpy\", \"krw\"]",
    "disputed = true",
    "livemode = false",
    "full_refund = true",
    "reason_in = [\"fraudulent\"]",
    "risk_level_in = [\"elevated\", \"highest\"]",
    "payment_method_in = [\"sepa_debit\"]",
    "charge_metadata = { tier = \"gold\" }",
    "when = 'context.hourOfDay < 6 && !context.isFullRefund'",
    "when = 'context.dayOfWeek > 5'",
    "when = 'context.refundCount > 2 || context.riskScore > 70'",
    "when = 'context.amountMinor * 2 > context.chargeAmountMinor && context.cardCountry != \"US\"'",
    "when = 'principal.tags.contains(\"chat\") && context.usdMicros > 80000000'",
    "when = 'principal.team == \"support\" && context.customerRefunds30d > 3'",
    "agents = [\"team:support\"]\nwhen = 'context has customerAgeDays && context.customerAgeDays < 2'",
    "agents = [\"tag:chat\"]\nwhen = 'context.customerRefundedUsdMicros30d > 500000000'",
];

fn main() {
    let mut text = LIMITS.to_owned();
    for (number, rule) in RULES.iter().enumerate() {
        text += &format!("[[rules]]\nid = \"r{number}\"\ncontrol = \"block\"\n{rule}\n");
    }
    let policy = Policy::parse(&text).unwrap();
    let agent = AgentName::parse("support-bot").unwrap();
    let amount = Amount::new(20_00, Currency::USD).unwrap();
    let worth =
        Valuation { usd: Rate::usd().to_micro_usd(amount).unwrap(), rate: Rate::usd(), date: None };
    let now = Timestamp::from_millis(1_793_620_800_000);
    let charge = charge(now);
    let facts = Facts {
        agent: &agent,
        tool: Tool::StripeRefund,
        reason: Some(RefundReason::RequestedByCustomer),
        charge: &charge,
        amount,
        worth: Ok(&worth),
        now,
        stops: Stops::default(),
        spent: &|_| MicroUsd::ZERO,
        recent_refunds: 3,
        customer: CustomerHistory { refunds_30d: 0, usd_30d: MicroUsd::ZERO },
        votes: None,
        agent_tagged: false,
    };
    let verdict = decide(&policy, &facts);
    assert_eq!(verdict.decision, Decision::Allow, "{:?}", verdict.reasons);
    let one = || {
        let start = Instant::now();
        black_box(decide(black_box(&policy), black_box(&facts)));
        start.elapsed()
    };
    for _ in 0..ROUNDS {
        one();
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_else(|_| "unknown\n".to_owned());
    print!("run this on an idle machine; load average and tasks: {load}");
    for run in 1..=RUNS {
        let mut taken: Vec<_> = (0..ROUNDS).map(|_| one()).collect();
        taken.sort();
        let at = |percent: usize| taken[(taken.len() - 1) * percent / 100];
        println!("run {run}: p50 {:?}, p99 {:?}, max {:?}", at(50), at(99), at(100));
    }
}

fn charge(now: Timestamp) -> Charge {
    let days = |days: u64| now.before(std::time::Duration::from_secs(days * 86_400));
    let channel = Channel {
        account: None,
        livemode: true,
        version: "2026-09-30".to_owned(),
        key: None,
        agent_tagged: false,
    };
    let amount = Amount::new(80_00, Currency::USD).unwrap();
    let pairs = [("order", "1234"), ("tier", "silver"), ("shop", "berlin")];
    let metadata: BTreeMap<_, _> =
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let id = CustomerId::parse("cus_1").unwrap();
    Charge {
        customer: CustomerFact::Known { id, created_at: days(400) },
        created_at: days(20),
        facts: ChargeFacts {
            payment_method_type: Some("card".to_owned()),
            card_country: Some("US".to_owned()),
            risk_level: Some("normal".to_owned()),
            risk_score: Some(12),
            refund_count: Some(0),
            metadata,
        },
        ..Charge::paid(ChargeId::parse("ch_1").unwrap(), amount, channel).unwrap()
    }
}
