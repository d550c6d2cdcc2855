//! Facts and the verdicts on them, to be checked by eye. Amounts are US dollars.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests compute freely and fail by panicking"
)]

use std::time::Duration;

use gate_core::{
    AgentName, Channel, Charge, ChargeId, Decision, OnApproval, RefundReason, Timestamp, Tool,
    UserName, Valuation, Vote,
};
use gate_money::{Amount, Currency, MicroUsd, Rate};
use gate_policy::{
    ApprovalTerms, CustomerHistory, Facts, NoRate, Period, Policy, Stops, Verdict, Whose, Window,
    decide, windows,
};

const FULL: &str = r#"
[agents.bot]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
max_per_payment = "100.00"
daily_cap = "500.00"
approval_threshold = "50.00"
"#;

/// 2026-11-01T12:00:00Z, on New York's day of 25 hours.
const NOW: Timestamp = Timestamp::from_millis(1_793_534_400_000);

fn dollars(text: &str) -> MicroUsd {
    MicroUsd::parse_dollars(text).unwrap()
}

fn policy(text: &str) -> Policy {
    Policy::parse(text).unwrap_or_else(|faults| panic!("{faults:?} in {text}"))
}

fn charge() -> Charge {
    let channel = Channel {
        account: None,
        livemode: true,
        version: "2026-09-30".to_owned(),
        key: None,
        agent_tagged: false,
    };
    let amount = Amount::new(12_34, Currency::EUR).unwrap();
    Charge::paid(ChargeId::parse("ch_1").unwrap(), amount, channel).unwrap()
}

/// The verdict on a request of `bot` for euros worth `worth`, when `spent` is spent. The words of
/// `with` change the facts.
fn verdict(policy: &Policy, worth: &str, spent: &str, with: &str) -> Verdict {
    let has = |word| with.split(' ').any(|given| given == word);
    let agent = AgentName::parse("bot").unwrap();
    let valuation = Valuation { usd: dollars(worth), rate: Rate::usd(), date: None };
    let spent = dollars(spent);
    let votes = [Vote { by: UserName::parse("rosa").unwrap(), roles: vec![], at: NOW, note: None }];
    decide(
        policy,
        &Facts {
            agent: &agent,
            reason: RefundReason::ALL.into_iter().find(|reason| has(reason.as_str())),
            amount: Amount::new(12_34, Currency::EUR).unwrap(),
            charge: &charge(),
            tool: Tool::StripeRefund,
            worth: match (has("no_rate"), has("stale")) {
                (true, _) => Err(NoRate::NotSupported),
                (_, true) => Err(NoRate::Stale),
                _ => Ok(&valuation),
            },
            now: NOW,
            stops: Stops {
                organization: has("stop_all"),
                team: has("stop_team"),
                agent: has("stop_bot"),
            },
            spent: &|_| spent,
            recent_refunds: 0,
            customer: CustomerHistory::default(),
            votes: has("approved").then_some(&votes),
            agent_tagged: has("tagged"),
        },
    )
}

/// `deny: daily_cap 500.00/80.00, approval_threshold 50.00/-`: each code with limit and left.
fn told(verdict: &Verdict) -> String {
    let figure = |dollars: Option<MicroUsd>| {
        dollars.map_or("-".to_owned(), |dollars| dollars.to_string().replace(" USD", ""))
    };
    let reasons: Vec<String> = verdict
        .reasons
        .iter()
        .map(|reason| match (reason.limit, reason.left) {
            (None, None) => reason.code.as_str().to_owned(),
            (limit, left) => {
                format!("{} {}/{}", reason.code.as_str(), figure(limit), figure(left))
            }
        })
        .collect();
    let decision = match verdict.decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
        Decision::RequireApproval => "ask",
    };
    format!("{decision}: {}", reasons.join(", ")).trim_end_matches(": ").to_owned()
}

#[test]
fn facts_and_verdicts() {
    #[rustfmt::skip]
    let table = [
        // worth       | spent      | facts                  | verdict
        "10.00         | 0.00       |                        | allow",
        "10.00         | 0.00       | duplicate              | allow",
        "10.00         | 0.00       | requested_by_customer  | allow",
        "10.00         | 0.00       | fraudulent             | deny: method_not_allowed",
        "10.00         | 0.00       | stop_all               | deny: organization_stopped",
        "10.00         | 0.00       | stop_bot               | deny: agent_stopped",
        "10.00         | 0.00       | stop_all stop_bot      | deny: organization_stopped, agent_stopped",
        "10.00         | 0.00       | no_rate                | deny: currency_not_supported",
        "10.00         | 0.00       | stale                  | deny: rates_stale",
        // From the threshold on, a person.
        "49.999999     | 0.00       |                        | allow",
        "50.00         | 0.00       |                        | ask: approval_threshold 50.00/-",
        "50.00         | 0.00       | approved               | allow",
        "100.00        | 0.00       |                        | ask: approval_threshold 50.00/-",
        "100.00        | 0.00       | approved               | allow",
        // Over what one refund may be.
        "100.000001    | 0.00       |                        | deny: max_per_payment 100.00/-, approval_threshold 50.00/-",
        "100.000001    | 0.00       | approved               | deny: approval_stale, max_per_payment 100.00/-",
        // Over what is left of the day.
        "20.00         | 480.00     |                        | allow",
        "20.000001     | 480.00     |                        | deny: daily_cap 500.00/20.00",
        "20.00         | 480.000001 |                        | deny: daily_cap 500.00/19.999999",
        "0.000001      | 500.00     |                        | deny: daily_cap 500.00/0.00",
        "0.000001      | 700.00     |                        | deny: daily_cap 500.00/0.00",
        "60.00         | 450.00     |                        | deny: daily_cap 500.00/50.00, approval_threshold 50.00/-",
        "60.00         | 450.00     | approved               | deny: approval_stale, daily_cap 500.00/50.00",
        // A yes skips the person and nothing else.
        "60.00         | 0.00       | approved stop_all      | deny: approval_stale, organization_stopped",
        "60.00         | 0.00       | approved stop_bot      | deny: approval_stale, agent_stopped",
        "60.00         | 0.00       | approved fraudulent    | deny: approval_stale, method_not_allowed",
        "60.00         | 0.00       | approved stale         | deny: approval_stale, rates_stale",
        // What cannot be counted is not counted; nor is it allowed.
        "999.00        | 999.00     | no_rate                | deny: currency_not_supported",
        // Everything at once, hardest first.
        "501.00        | 1.00       | stop_all stop_bot fraudulent | deny: organization_stopped, agent_stopped, method_not_allowed, max_per_payment 100.00/-, daily_cap 500.00/499.00, approval_threshold 50.00/-",
        // A sum that does not fit is over every cap.
        "9223372036854.775807 | 9223372036854.775807 | approved | deny: approval_stale, max_per_payment 100.00/-, daily_cap 500.00/0.00",
    ];
    let policy = policy(FULL);
    for row in table {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [worth, spent, with, expected] = cells[..] else { panic!("{row}") };
        assert_eq!(told(&verdict(&policy, worth, spent, with)), expected, "{row}");
    }
}

/// With an agent-tagged key Stripe asks for an approval of its own. Whether ours is asked for too is
/// the policy's to say; what denies denies.
#[test]
fn whose_approval_is_asked_for() {
    let stripe = format!("organization.when_stripe_asks = 'stripe'\n{FULL}");
    let both = format!("organization.when_stripe_asks = 'both'\n{FULL}");
    let denied = "deny: daily_cap 500.00/50.00, approval_threshold 50.00/-";
    #[rustfmt::skip]
    let table = [
        // policy, worth, spent, facts, verdict
        (FULL,    "60.00",  "0",   "tagged",          "ask: approval_threshold 50.00/-"),
        (&both,   "60.00",  "0",   "tagged",          "ask: approval_threshold 50.00/-"),
        (&both,   "60.00",  "0",   "tagged approved", "allow"),
        (&stripe, "60.00",  "0",   "",                "ask: approval_threshold 50.00/-"),
        (&stripe, "60.00",  "0",   "approved",        "allow"),
        (&stripe, "60.00",  "0",   "tagged",          "allow: approval_threshold 50.00/-"),
        (&stripe, "60.00",  "0",   "tagged approved", "allow"),
        (&stripe, "10.00",  "0",   "tagged",          "allow"),
        (&stripe, "60.00",  "450", "tagged",          denied),
        (&stripe, "60.00",  "450", "tagged approved", "deny: approval_stale, daily_cap 500.00/50.00"),
        (&stripe, "101.00", "0",   "tagged",          "deny: max_per_payment 100.00/-, approval_threshold 50.00/-"),
        (&stripe, "60.00",  "0",   "tagged stop_bot", "deny: agent_stopped, approval_threshold 50.00/-"),
    ];
    for (text, worth, spent, with, expected) in table {
        let verdict = verdict(&policy(text), worth, spent, with);
        assert_eq!(told(&verdict), expected, "{worth} {with}");
        let left = expected.starts_with("allow: ");
        let says = |it: &gate_core::DecisionReason| it.message.ends_with("nobody is asked here.");
        assert_eq!(verdict.reasons.iter().any(says), left, "{worth} {with}");
    }
}

#[test]
fn every_key_of_the_document_changes_a_decision() {
    #[rustfmt::skip]
    let table = [
        // from                       | to                               | facts              | verdict before    | after
        ("[agents.bot]",                "[agents.other]",                  "10.00 0",           "allow",            "deny: method_not_allowed"),
        ("methods = [\"stripe_refund\"]", "",                              "10.00 0",           "allow",            "deny: method_not_allowed"),
        ("methods = [\"stripe_refund\"]", "methods = []",                  "10.00 0",           "allow",            "deny: method_not_allowed"),
        ("\"stripe_refund\"",           "\"stripe_refund_fraudulent\"",    "10.00 0",           "allow",            "deny: method_not_allowed"),
        ("\"stripe_refund\"",           "\"stripe_refund_fraudulent\"",    "10.00 0 fraudulent", "deny: method_not_allowed", "allow"),
        ("\"stripe-refund.action\"",    "",                                "10.00 0",           "allow",            "deny: host_not_allowed"),
        ("allowed_hosts",               "# allowed_hosts",                 "10.00 0",           "allow",            "deny: host_not_allowed"),
        ("max_per_payment = \"100",     "max_per_payment = \"9",           "10.00 0",           "allow",            "deny: max_per_payment 9.00/-"),
        ("max_per_payment",             "# max_per_payment",               "200.00 0 approved", "deny: approval_stale, max_per_payment 100.00/-", "allow"),
        ("daily_cap = \"500",           "daily_cap = \"9",                 "10.00 0",           "allow",            "deny: daily_cap 9.00/9.00"),
        ("daily_cap",                   "# daily_cap",                     "10.00 0",           "allow",            "deny: daily_cap 0.00/0.00"),
        ("approval_threshold = \"50",   "approval_threshold = \"9",        "10.00 0",           "allow",            "ask: approval_threshold 9.00/-"),
        ("approval_threshold",          "# approval_threshold",            "60.00 0",           "ask: approval_threshold 50.00/-", "allow"),
    ];
    for (from, to, facts, before, after) in table {
        let cells: Vec<&str> = facts.split(' ').collect();
        let tell = |text: &str| told(&verdict(&policy(text), cells[0], cells[1], facts));
        assert!(FULL.contains(from), "{from}");
        assert_eq!(tell(FULL), before, "before {from} -> {to}");
        assert_eq!(tell(&FULL.replacen(from, to, 1)), after, "after {from} -> {to}");
    }
}

#[test]
fn what_asks_a_person_carries_the_terms() {
    let terms = |lines: &str, entry: &str| {
        let text = format!("{lines}{FULL}{entry}");
        verdict(&policy(&text), "60.00", "0", "").approval
    };
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let table = [
        // organization's line, agent's line, timeout in hours, who goes on
        ("", "", 24, OnApproval::Execute),
        ("", "on_approval = 'execute'", 24, OnApproval::Execute),
        ("", "on_approval = 'agent'", 24, OnApproval::Agent),
        ("organization.approval_timeout = '2h'", "", 2, OnApproval::Execute),
        ("organization.approval_timeout = '14d'", "", 336, OnApproval::Execute),
    ];
    for (organization, entry, timeout, on_approval) in table {
        let expected = ApprovalTerms { timeout: hours(timeout), on_approval };
        assert_eq!(terms(organization, entry), Some(expected), "{organization} {entry}");
    }
}

#[test]
fn only_an_allowed_refund_reserves_and_only_an_asked_person_has_terms() {
    let policy = policy(FULL);
    for (worth, with, windows, approval) in [
        ("10.00", "", 1, false),
        ("60.00", "", 0, true),
        ("60.00", "approved", 1, false),
        ("600.00", "", 0, false),
        ("60.00", "stop_all", 0, false),
    ] {
        let verdict = verdict(&policy, worth, "0", with);
        assert_eq!(verdict.windows.len(), windows, "{worth} {with}");
        assert_eq!(verdict.approval.is_some(), approval, "{worth} {with}");
    }
}

#[test]
fn spend_is_looked_up_in_the_day_of_the_organization() {
    let zoned = format!("organization.timezone = 'America/New_York'\n{FULL}");
    let table = [
        // document, day's start and end in milliseconds
        (FULL, 1_793_491_200_000, 1_793_577_600_000),
        (zoned.as_str(), 1_793_505_600_000, 1_793_595_600_000),
    ];
    for (text, starts_at, ends_at) in table {
        let expected = Window {
            whose: Whose::Agent,
            period: Period::Day,
            starts_at: Timestamp::from_millis(starts_at),
            ends_at: Timestamp::from_millis(ends_at),
        };
        let policy = policy(text);
        let reserved = verdict(&policy, "10.00", "0", "").windows;
        assert_eq!(reserved, std::slice::from_ref(&expected));
        let denied = verdict(&policy, "10.00", "500.00", "");
        assert_eq!(denied.reasons[0].resets_at, Some(expected.ends_at));
        let bot = AgentName::parse("bot").unwrap();
        let told: Vec<_> = windows(&policy, &bot, None, NOW)
            .into_iter()
            .map(|(window, code, limit)| (window, code.as_str(), limit.to_string()))
            .collect();
        assert_eq!(told, [(expected, "daily_cap", "500.00 USD".to_owned())]);
    }
}

#[test]
fn who_has_no_cap_has_a_budget_of_nothing() {
    let policy = policy("[agents.bot]\nmethods = ['stripe_refund']");
    for name in ["bot", "stranger"] {
        let name = AgentName::parse(name).unwrap();
        let limits: Vec<_> = windows(&policy, &name, None, NOW).iter().map(|row| row.2).collect();
        assert_eq!(limits, [MicroUsd::ZERO], "{name}");
    }
}

#[test]
fn messages_say_what_happened_and_what_to_do() {
    let table = [
        // entry, facts, message of the first reason
        (
            "full",
            "60.00 0 stop_all",
            "Refunds are stopped for the whole organization: wait until a policy owner resumes \
             them.",
        ),
        ("full", "60.00 0 stop_bot", "bot is stopped: wait until a policy owner resumes it."),
        (
            "none",
            "60.00 0",
            "The policy has no entry for bot, so it may do nothing: ask a policy owner to add one.",
        ),
        (
            "empty",
            "60.00 0",
            "The policy does not turn stripe_refund on for bot: ask a policy owner to add it to \
             its methods.",
        ),
        (
            "full",
            "60.00 0 fraudulent",
            "A refund with the reason fraudulent blocks the customer at Stripe, and the policy \
             does not turn stripe_refund_fraudulent on for bot: give another reason if one is \
             true, or ask a policy owner to add it to its methods.",
        ),
        (
            "no host",
            "60.00 0",
            "The policy does not list stripe-refund.action for bot: ask a policy owner to add it \
             to its allowed_hosts.",
        ),
        (
            "full",
            "60.00 0 no_rate",
            "There is no exchange rate for EUR, so no limit can count this refund: ask the \
             gateway's operator to pin one.",
        ),
        (
            "full",
            "60.00 0 stale",
            "The exchange rate for EUR is too old to count this refund with: try again later, or \
             ask the gateway's operator to look after the rates.",
        ),
        (
            "full",
            "100.01 0",
            "This refund of 12.34 EUR, worth 100.01 USD, is more than the 100.00 USD that bot may \
             refund at once: ask a policy owner to make it, or to raise max_per_payment.",
        ),
        (
            "full",
            "60.00 480",
            "This refund of 12.34 EUR, worth 60.00 USD, is more than the 20.00 USD that are left \
             of bot's 500.00 USD for the day: wait until 2026-11-02T00:00:00Z, or ask a policy \
             owner to raise daily_cap.",
        ),
        (
            "no max",
            "600.00 0",
            "This refund of 12.34 EUR, worth 600.00 USD, is more than bot's 500.00 USD for a \
             whole day: ask a policy owner to make it, or to raise daily_cap.",
        ),
        (
            "no cap",
            "60.00 0",
            "The policy sets no daily_cap for bot, and nothing else bounds it, so it may refund \
             nothing: ask a policy owner to add one.",
        ),
        (
            "full",
            "60.00 0",
            "This refund of 12.34 EUR, worth 60.00 USD, needs a person's approval, as every \
             refund of bot from 50.00 USD on does. Wait for a reviewer to decide.",
        ),
    ];
    for (entry, facts, expected) in table {
        let text = match entry {
            "full" => FULL.to_owned(),
            "none" => String::new(),
            "empty" => "[agents.bot]".to_owned(),
            "no host" => FULL.replace("allowed_hosts", "#"),
            "no max" => FULL.replace("max_per_payment", "#"),
            "no cap" => FULL.replace("daily_cap", "#"),
            other => panic!("{other}"),
        };
        let cells: Vec<&str> = facts.split(' ').collect();
        let verdict = verdict(&policy(&text), cells[0], cells[1], facts);
        assert_eq!(verdict.reasons[0].message, expected, "{entry} {facts}");
    }
}

/// Where nobody is asked, nothing says that there is somebody to wait for.
#[test]
fn only_who_is_asked_about_is_told_to_wait() {
    let stripe = format!("organization.when_stripe_asks = 'stripe'\n{FULL}");
    #[rustfmt::skip]
    let table = [
        // policy  worth     spent   facts     what there is, and how many reasons tell to wait
        (FULL,     "60.00",  "0",    "",       "ask: approval_threshold 50.00/-", 1),
        (FULL,     "60.00",  "480",  "",       "deny: daily_cap 500.00/20.00, approval_threshold 50.00/-", 0),
        (&stripe,  "60.00",  "0",    "tagged", "allow: approval_threshold 50.00/-", 0),
    ];
    for (text, worth, spent, facts, expected, waiting) in table {
        let verdict = verdict(&policy(text), worth, spent, facts);
        assert_eq!(told(&verdict), expected);
        let found = verdict.reasons.iter().filter(|it| it.message.contains("reviewer")).count();
        assert_eq!(found, waiting, "{expected}: {verdict:?}");
    }
}

#[test]
fn the_widest_stop_names_itself() {
    for (organization, team, agent, expected) in [
        (false, false, false, None),
        (false, false, true, Some("agent_stopped")),
        (false, true, true, Some("team_stopped")),
        (true, true, true, Some("organization_stopped")),
    ] {
        let stops = Stops { organization, team, agent };
        assert_eq!(stops.code().map(|code| code.as_str()), expected);
    }
}
