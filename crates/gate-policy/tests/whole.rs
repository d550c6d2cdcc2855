//! What holds of the whole document: teams, limits and rules in any combination.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests compute freely and fail by panicking"
)]

use gate_core::{AgentName, Decision, Timestamp};
use gate_policy::{Policy, Scenario, Verdict, diff, windows};
use jiff::tz::TimeZoneDatabase;
use proptest::prelude::*;
use proptest::sample::subsequence;

const RULES: [&str; 12] = [
    "amount_over = '5'",
    "customer_younger_than_days = 30",
    "refunded_before = true",
    "full_refund = false",
    "risk_level_in = ['highest']",
    "agents = ['tag:chat']\ndisputed = true",
    "agents = ['team:crew']\nwhen = 'context.hourOfDay < 14'",
    "agents = ['bot']\nwhen = 'context has riskScore && context.riskScore > 50'",
    "when = 'context.riskScore > 50'",
    "when = 'context.amountMinor * 9223372036854775807 < 0'",
    "charge_metadata = { a = 'b' }",
    "reason_in = ['none']",
];
const LIMITS: [&str; 7] = [
    "max_per_payment",
    "daily_cap",
    "weekly_cap",
    "monthly_cap",
    "per_customer_daily_cap",
    "approval_threshold",
    "refunds_per_hour",
];
const FACTS: [&str; 10] = [
    "charge_amount = '12.00 USD'",
    "customer_age_days = 3",
    "customer_refunds_30d = 1",
    "risk_level = 'highest'",
    "unknown = ['risk_score']",
    "disputed = true",
    "reason = 'duplicate'",
    "metadata = { a = 'b' }",
    "refunds_last_hour = 4",
    "stopped = ['team']",
];

/// Fields, in the order in which they are looked at, and what each means in Cedar.
const FIELDS: [(&str, &str); 18] = [
    (
        "agents = ['tag:chat', 'other']",
        "principal.tags.contains('chat') || principal.name == 'other'",
    ),
    ("agents = ['team:crew', 'bot']", "principal.team == 'crew' || principal.name == 'bot'"),
    (
        "charge_metadata = { a = 'b' }",
        "context.chargeMetadata.hasTag('a') && context.chargeMetadata.getTag('a') == 'b'",
    ),
    ("charge_older_than_days = 1", "context.chargeAgeDays > 1"),
    ("currency_in = ['usd', 'eur']", "['usd', 'eur'].contains(context.currency)"),
    ("disputed = true", "context.disputed"),
    ("disputed = false", "!context.disputed"),
    ("full_refund = true", "context.isFullRefund"),
    ("full_refund = false", "!context.isFullRefund"),
    ("livemode = true", "context.livemode"),
    ("livemode = false", "!context.livemode"),
    ("reason_in = ['none', 'duplicate']", "['none', 'duplicate'].contains(context.reason)"),
    ("refunded_before = true", "context.refundedMinor > 0 || context.customerRefunds30d > 0"),
    ("refunded_before = false", "!(context.refundedMinor > 0 || context.customerRefunds30d > 0)"),
    ("amount_over = '5'", "context.usdMicros > 5000000"),
    ("payment_method_in = ['card']", "['card'].contains(context.paymentMethodType)"),
    ("risk_level_in = ['normal', 'highest']", "['normal', 'highest'].contains(context.riskLevel)"),
    ("customer_younger_than_days = 30", "context.customerAgeDays < 30"),
];
/// What each of the fields' facts can be.
const KNOWN: [&[&str]; 11] = [
    &[
        "amount = '5.00 USD'",
        "amount = '5.01 USD'",
        "amount = '5.00 USD'\ncharge_amount = '20.00 USD'",
        "amount = '5.00 USD'\nworth = 'stale'",
        "amount = '5.00 EUR'\nworth = '6'",
        "amount = '5.00 GBP'\ncharge_amount = '20.00 GBP'\nrefunded = '1.00 GBP'",
    ],
    &["", "metadata = { a = 'b' }", "metadata = { a = 'c', b = 'b' }"],
    &["", "charge_age_days = 2"],
    &["", "disputed = true"],
    &["", "livemode = false"],
    &["", "reason = 'duplicate'", "reason = 'fraudulent'"],
    &["", "customer_refunds_30d = 1"],
    &["", "risk_level = 'highest'", "risk_level = 'elevated'"],
    &["", "customer_age_days = 29", "customer_age_days = 30", "customer = 'none'"],
    &["", "payment_method = 'sepa_debit'", "risk_score = 51"],
    &["", "unknown = ['payment_method', 'risk_level']", "unknown = ['risk_score']"],
];

/// The pieces of a document, each of which can be changed by itself.
#[derive(Clone, Debug)]
struct Document {
    own: Vec<(&'static str, u8)>,
    team: Vec<(&'static str, u8)>,
    budgets: [Option<u8>; 2],
    rules: Vec<(usize, bool)>,
}

impl Document {
    fn text(&self) -> String {
        self.written(false)
    }

    fn written(&self, backwards: bool) -> String {
        let line = |(key, value): &(&str, u8)| match *key {
            "refunds_per_hour" => format!("{key} = {value}\n"),
            _ => format!("{key} = '{value}'\n"),
        };
        let mut own: Vec<String> = self.own.iter().map(line).collect();
        own.extend(["team = 'crew'\n".to_owned(), "tags = ['chat']\n".to_owned()]);
        let mut team: Vec<String> = self.team.iter().map(line).collect();
        team.push(
            "methods = ['stripe_refund']\nallowed_hosts = ['stripe-refund.action']\n".to_owned(),
        );
        for (key, value) in ["daily_budget", "monthly_budget"].iter().zip(self.budgets) {
            team.extend(value.map(|value| format!("{key} = '{value}'\n")));
        }
        let rule = |(number, block): &(usize, bool)| {
            let control = if *block { "block" } else { "require_approval" };
            format!("[[rules]]\nid = 'r{number}'\ncontrol = '{control}'\n{}\n", RULES[*number])
        };
        let mut tables: Vec<String> = self.rules.iter().map(rule).collect();
        if backwards {
            own.reverse();
            team.reverse();
            tables.reverse();
        }
        let mut heads = vec![
            format!("[agents.bot]\n{}", own.concat()),
            format!("[teams.crew]\n{}", team.concat()),
        ];
        if backwards {
            heads.reverse();
            heads.splice(0..0, tables);
        } else {
            heads.extend(tables);
        }
        heads.concat()
    }

    fn policy(&self) -> Policy {
        let text = self.text();
        Policy::parse(&text).unwrap_or_else(|faults| panic!("{faults:?} in {text}"))
    }
}

fn lines() -> impl Strategy<Value = Vec<(&'static str, u8)>> {
    (subsequence(LIMITS.to_vec(), 0..=5), prop::collection::vec(0..30_u8, 7))
        .prop_map(|(keys, values)| keys.into_iter().zip(values).collect())
}

fn document() -> impl Strategy<Value = Document> {
    let numbers: Vec<usize> = (0..RULES.len()).collect();
    let rules = (subsequence(numbers, 0..5), prop::collection::vec(any::<bool>(), 12))
        .prop_map(|(numbers, blocks)| numbers.into_iter().zip(blocks).collect());
    let budgets = [prop::option::of(0..30_u8), prop::option::of(0..30_u8)];
    (lines(), lines(), budgets, rules).prop_map(|(own, team, budgets, rules)| Document {
        own,
        team,
        budgets,
        rules,
    })
}

fn facts() -> impl Strategy<Value = String> {
    let spent = (0..20_u8, 0..20_u8).prop_map(|(day, team)| {
        format!("spent = {{ day = '{day}', week = '{day}', month = '{day}', customer_day = '{day}', team_day = '{team}', team_month = '{team}' }}\n")
    });
    (1..12_u8, subsequence(FACTS.to_vec(), 0..5), spent).prop_map(|(amount, facts, spent)| {
        format!("agent = 'bot'\namount = '{amount}.00 USD'\n{spent}{}\n", facts.join("\n"))
    })
}

fn verdict(policy: &Policy, facts: &str) -> Verdict {
    let scenario = Scenario::parse(facts).unwrap_or_else(|faults| panic!("{faults:?} in {facts}"));
    scenario.decide(policy)
}

const fn strictness(decision: Decision) -> u8 {
    match decision {
        Decision::Allow => 0,
        Decision::RequireApproval => 1,
        Decision::Deny => 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whom a rule looks at, and its fields, are looked at before Cedar is; a `when` is Cedar's alone.
    #[test]
    fn a_rule_decides_as_cedar_decides_what_it_means(
        chosen in subsequence(FIELDS.to_vec(), 1..=4),
        facts in prop::collection::vec(any::<prop::sample::Index>(), KNOWN.len()),
        when in prop::sample::select(vec!["true", "context.riskScore > 50"]),
        entry in prop::sample::select(vec!["team = 'crew'", "tags = ['chat']", ""]),
    ) {
        let key = |field: &(&'static str, &str)| field.0.split(' ').next();
        let mut chosen = chosen;
        chosen.dedup_by_key(|field| key(field));
        let lines: Vec<_> = KNOWN.iter().zip(facts).map(|(of, index)| *index.get(of)).collect();
        let facts = format!("agent = 'bot'\n{}", lines.join("\n"));
        let told = |rule: &str| {
            let text = format!(
                "[teams.crew]\n[agents.other]\n[agents.bot]\n{entry}\n[[rules]]\nid = 'r'\n\
                 control = 'block'\n{rule}"
            );
            let policy = Policy::parse(&text).unwrap_or_else(|faults| panic!("{faults:?} in {text}"));
            let reasons = verdict(&policy, &facts).reasons.into_iter();
            reasons.map(|reason| (reason.code, reason.unknown_fact)).collect::<Vec<_>>()
        };
        let fields: String = chosen.iter().map(|(field, _)| format!("{field}\n")).collect();
        let means: String = chosen.iter().map(|(_, means)| format!("({means}) && ")).collect();
        let means = means.replace('\'', "\"");
        let ours = told(&format!("{fields}when = '{when}'"));
        prop_assert_eq!(ours, told(&format!("when = '{means}{when}'")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn another_rule_never_allows_more(document in document(), facts in facts(), number in 0..RULES.len(), block in any::<bool>()) {
        let before = verdict(&document.policy(), &facts);
        let mut after = document;
        after.rules.retain(|(known, _)| *known != number);
        let without = verdict(&after.policy(), &facts);
        after.rules.push((number, block));
        let with = verdict(&after.policy(), &facts);
        prop_assert!(strictness(with.decision) >= strictness(without.decision));
        prop_assert!(strictness(before.decision) >= strictness(without.decision));
        // Whom to wait for is said where somebody is asked; a block takes that away.
        let plain = |verdict: Verdict| {
            verdict.reasons.into_iter().map(|mut reason| {
                let message = reason.message.trim_end_matches(" Wait for a reviewer to decide.");
                reason.message = message.to_owned();
                reason
            })
        };
        let with: Vec<_> = plain(with).collect();
        prop_assert!(plain(without).all(|reason| with.contains(&reason)));
    }

    #[test]
    fn a_lower_limit_never_allows_more(document in document(), facts in facts(), which in any::<prop::sample::Index>()) {
        let before = verdict(&document.policy(), &facts);
        let mut lower = document;
        if !lower.own.is_empty() {
            let line = which.index(lower.own.len());
            lower.own[line].1 /= 2;
        }
        lower.budgets = lower.budgets.map(|budget| budget.map(|budget| budget / 2));
        let after = verdict(&lower.policy(), &facts);
        prop_assert!(strictness(after.decision) >= strictness(before.decision));
    }

    #[test]
    fn the_order_of_keys_and_tables_does_not_matter(document in document(), facts in facts()) {
        let (one, other) = (document.policy(), Policy::parse(&document.written(true)).unwrap());
        prop_assert_eq!(&one, &other);
        prop_assert_eq!(verdict(&one, &facts), verdict(&other, &facts));
        prop_assert!(diff(&one, &other).is_empty());
    }

    #[test]
    fn what_differs_is_told(one in document(), other in document()) {
        let (one, other) = (one.policy(), other.policy());
        prop_assert_eq!(diff(&one, &other).is_empty(), one == other);
        prop_assert_eq!(diff(&one, &other).len(), diff(&other, &one).len());
        prop_assert!(!one.words().is_empty());
        prop_assert!(diff(&one, &other).iter().all(|told| told.ends_with('.')));
    }

    /// Whose approval is asked for changes nothing of what is denied or where spend is reserved, and
    /// nothing at all without an agent-tagged key.
    #[test]
    fn what_is_left_to_stripe_is_only_the_person(document in document(), facts in facts()) {
        let both = document.policy();
        let text = format!("organization.when_stripe_asks = 'stripe'\n{}", document.text());
        let stripe = Policy::parse(&text).unwrap();
        let tagged = format!("{facts}agent_tagged = true\n");
        let ours = verdict(&both, &facts);
        prop_assert_eq!(&verdict(&both, &tagged), &ours);
        prop_assert_eq!(&verdict(&stripe, &facts), &ours);
        let left = verdict(&stripe, &tagged);
        if ours.decision == Decision::Deny {
            prop_assert_eq!(left, ours);
            return Ok(());
        }
        prop_assert_eq!((left.decision, left.approval), (Decision::Allow, None));
        let codes = |verdict: &Verdict| -> Vec<_> { verdict.reasons.iter().map(|it| it.code).collect() };
        prop_assert_eq!(codes(&left), codes(&ours), "they are recorded");
        prop_assert!(left.reasons.iter().all(|reason| reason.requires.is_none()));
        prop_assert!(!left.windows.is_empty());
    }

    #[test]
    fn what_is_allowed_is_reserved_wherever_it_is_bounded(document in document(), facts in facts()) {
        let policy = document.policy();
        let verdict = verdict(&policy, &facts);
        if verdict.decision == Decision::Allow {
            let bot = AgentName::parse("bot").unwrap();
            prop_assert!(!verdict.windows.is_empty());
            let customer = gate_core::CustomerId::parse("cus_case").unwrap();
            let at = Timestamp::from_millis(1_768_392_000_000);
            let all: Vec<_> = windows(&policy, &bot, Some(&customer), at).into_iter().map(|row| row.0).collect();
            prop_assert_eq!(verdict.windows, all);
        }
    }

    #[test]
    fn any_condition_is_a_rule_or_faults_within_it(pieces in prop::collection::vec(piece(), 0..12), any in ".{0,40}") {
        for when in [pieces.join(" "), any] {
            let text = format!("[[rules]]\nid = 'r'\ncontrol = 'block'\nwhen = {}\n", serde_json::to_string(&when).unwrap());
            if let Err(faults) = Policy::parse(&text) {
                prop_assert!(!faults.is_empty());
                for fault in faults {
                    let line = text.split('\n').nth(fault.line - 1);
                    prop_assert!(line.is_some_and(|line| fault.column <= line.chars().count() + 1), "{} in {}", fault, text);
                }
            }
        }
    }
}

/// Pieces of Cedar, which get further than any text.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "context",
        ".",
        "amountMinor",
        "riskScore",
        "context.riskScore",
        "has",
        "principal",
        "tags",
        "==",
        "<",
        "&&",
        "||",
        "!",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "1",
        "\"a\"",
        "true",
        "if",
        "then",
        "else",
        "in",
        "like",
        "is",
        "contains",
        ";",
        "//",
        "when",
        "permit",
        "?principal",
        "9223372036854775808",
        "Agent::\"bot\"",
        "\\u{0}",
        "@",
        "ip(\"1\")",
        "\n",
    ])
}

#[test]
fn windows_of_every_zone_partition_the_years() {
    let bot = AgentName::parse("bot").unwrap();
    for zone in TimeZoneDatabase::bundled().available() {
        let text = format!(
            "organization.timezone = '{zone}'\n[agents.bot]\ndaily_cap = '1'\nweekly_cap = '1'\nmonthly_cap = '1'"
        );
        let Ok(policy) = Policy::parse(&text) else {
            assert_eq!(zone.to_string(), "Etc/Unknown");
            continue;
        };
        let at = |now| -> Vec<_> {
            windows(&policy, &bot, None, now).into_iter().map(|(window, ..)| window).collect()
        };
        // From 2024 to 2027, week by week and month by month.
        for kind in [1, 2] {
            let mut window = at(Timestamp::from_millis(1_704_067_200_000))[kind].clone();
            while window.ends_at.millis() < 1_830_297_600_000 {
                let next = at(window.ends_at);
                assert_eq!(next[kind].starts_at, window.ends_at, "{zone}");
                // A week and a month begin with a day.
                assert_eq!(next[0].starts_at, next[kind].starts_at, "{zone}");
                let last = at(Timestamp::from_millis(next[kind].ends_at.millis() - 1));
                assert_eq!(last[kind], next[kind], "{zone}");
                window = next[kind].clone();
            }
        }
    }
}
