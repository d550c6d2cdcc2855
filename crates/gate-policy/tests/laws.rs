//! What holds of every document, request and day.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests compute freely and fail by panicking"
)]

use gate_core::{
    AgentName, Channel, Charge, ChargeId, Decision, ReasonCode, RefundReason, Timestamp, Tool,
    UserName, Valuation, Vote,
};
use gate_money::{Amount, Currency, MicroUsd, Rate};
use gate_policy::{
    CustomerHistory, Facts, NewAgent, NoRate, Policy, Stops, Verdict, decide, windows, with_agent,
};
use jiff::tz::TimeZoneDatabase;
use proptest::prelude::*;

/// Small figures in dollars, so that limits are often met exactly.
fn dollars() -> impl Strategy<Value = u8> {
    0..12_u8
}

fn micros(dollars: u8) -> MicroUsd {
    MicroUsd::new(i64::from(dollars) * 1_000_000).unwrap()
}

/// An entry for `bot`, any key of which may be missing.
fn document() -> impl Strategy<Value = String> {
    let limit = || prop::option::weighted(0.8, dollars());
    let present = || prop::bool::weighted(0.9);
    (present(), present(), present(), limit(), limit(), limit()).prop_map(
        |(entry, method, host, most, cap, threshold)| {
            let mut text = "[agents.other]\n".to_owned();
            if !entry {
                return text;
            }
            text.push_str("[agents.bot]\n");
            if method {
                text.push_str("methods = ['stripe_refund']\n");
            }
            if host {
                text.push_str("allowed_hosts = ['stripe-refund.action']\n");
            }
            for (key, value) in
                [("max_per_payment", most), ("daily_cap", cap), ("approval_threshold", threshold)]
            {
                if let Some(value) = value {
                    text.push_str(&format!("{key} = '{value}'\n"));
                }
            }
            text
        },
    )
}

#[derive(Clone, Debug)]
struct Request {
    worth: Result<u8, NoRate>,
    spent: u8,
    fraudulent: bool,
    stops: Stops,
    approved: bool,
}

fn request() -> impl Strategy<Value = Request> {
    let worth = prop_oneof![
        8 => dollars().prop_map(Ok),
        1 => Just(Err(NoRate::NotSupported)),
        1 => Just(Err(NoRate::Stale)),
    ];
    let rarely = || prop::bool::weighted(0.1);
    (worth, dollars(), rarely(), rarely(), rarely(), any::<bool>()).prop_map(
        |(worth, spent, fraudulent, organization, agent, approved)| Request {
            worth,
            spent,
            fraudulent,
            stops: Stops { organization, team: false, agent },
            approved,
        },
    )
}

fn bot() -> AgentName {
    AgentName::parse("bot").unwrap()
}

fn verdict(policy: &Policy, request: &Request) -> Verdict {
    let valuation =
        request.worth.map(|worth| Valuation { usd: micros(worth), rate: Rate::usd(), date: None });
    let amount = Amount::new(1, Currency::USD).unwrap();
    let channel = Channel {
        account: None,
        livemode: true,
        version: "2026-09-30".to_owned(),
        key: None,
        agent_tagged: false,
    };
    let charge = Charge::paid(ChargeId::parse("ch_1").unwrap(), amount, channel).unwrap();
    let (by, at) = (UserName::parse("rosa").unwrap(), Timestamp::default());
    let votes = [Vote { by, roles: vec![], at, note: None }];
    decide(
        policy,
        &Facts {
            agent: &bot(),
            reason: request.fraudulent.then_some(RefundReason::Fraudulent),
            amount,
            charge: &charge,
            tool: Tool::StripeRefund,
            worth: valuation.as_ref().map_err(|no_rate| *no_rate),
            now: Timestamp::from_millis(1_793_534_400_000),
            stops: request.stops,
            spent: &|_| micros(request.spent),
            recent_refunds: 0,
            customer: CustomerHistory::default(),
            votes: request.approved.then_some(&votes),
            agent_tagged: false,
        },
    )
}

fn codes(verdict: &Verdict) -> Vec<ReasonCode> {
    verdict.reasons.iter().map(|reason| reason.code).collect()
}

proptest! {
    #[test]
    fn what_is_allowed_is_within_every_limit(text in document(), request in request()) {
        let policy = Policy::parse(&text).unwrap();
        let verdict = verdict(&policy, &request);
        if verdict.decision == Decision::Allow {
            let limits = policy.agent(&bot()).unwrap();
            let worth = micros(request.worth.unwrap());
            let sum = micros(request.spent).checked_add(worth).unwrap();
            prop_assert!(sum <= limits.daily_cap.unwrap());
            prop_assert!(limits.max_per_payment.is_none_or(|most| worth <= most));
            prop_assert!(request.approved || limits.approval_threshold.is_none_or(|from| worth < from));
            prop_assert!(!request.fraudulent && request.stops == Stops::default());
        }
    }

    #[test]
    fn the_decision_and_the_order_follow_from_the_reasons(text in document(), request in request()) {
        let verdict = verdict(&Policy::parse(&text).unwrap(), &request);
        let denials = verdict.reasons.iter().filter(|reason| !reason.asks()).count();
        let expected = match (denials, verdict.reasons.len()) {
            (0, 0) => Decision::Allow,
            (0, _) => Decision::RequireApproval,
            _ => Decision::Deny,
        };
        prop_assert_eq!(verdict.decision, expected);
        let rank = |code| ReasonCode::ALL.iter().position(|known| *known == code).unwrap();
        let ranks: Vec<_> = codes(&verdict).into_iter().map(rank).collect();
        let stale = codes(&verdict).first() == Some(&ReasonCode::ApprovalStale);
        let ranks = &ranks[usize::from(stale)..];
        prop_assert!(ranks.is_sorted_by(|hard, soft| hard < soft), "{:?}", ranks);
        prop_assert!(verdict.reasons.iter().all(|reason| reason.message.ends_with('.')));
    }

    #[test]
    fn another_denial_never_turns_a_no_into_a_yes(text in document(), request in request()) {
        let policy = Policy::parse(&text).unwrap();
        let before = verdict(&policy, &request);
        let harder = [
            Request { stops: Stops { agent: true, ..request.stops }, ..request.clone() },
            Request { stops: Stops { organization: true, ..request.stops }, ..request.clone() },
            Request { fraudulent: true, ..request.clone() },
            Request { spent: request.spent.saturating_add(20), ..request.clone() },
        ];
        for request in harder {
            let after = verdict(&policy, &request);
            prop_assert!(codes(&before).iter().all(|code| codes(&after).contains(code)));
            prop_assert!(before.decision != Decision::Deny || after.decision == Decision::Deny);
            prop_assert!(before.decision == Decision::Allow || after.decision != Decision::Allow);
        }
    }

    #[test]
    fn a_yes_skips_only_what_asks(text in document(), request in request()) {
        let policy = Policy::parse(&text).unwrap();
        let without = verdict(&policy, &Request { approved: false, ..request.clone() });
        let with = verdict(&policy, &Request { approved: true, ..request });
        let mut hard = codes(&without);
        hard.retain(|code| !code.asks());
        if !hard.is_empty() {
            hard.insert(0, ReasonCode::ApprovalStale);
        }
        prop_assert_eq!(codes(&with), hard);
    }

    #[test]
    fn days_tile_time(zone in any::<prop::sample::Index>(), now in -5_000_000_000_000..9_000_000_000_000_i64) {
        let zones: Vec<_> = TimeZoneDatabase::bundled().available().map(|zone| zone.to_string()).collect();
        let zone = &zones[zone.index(zones.len())];
        let Ok(policy) = Policy::parse(&format!("organization.timezone = '{zone}'")) else {
            prop_assert_eq!(zone, "Etc/Unknown");
            return Ok(());
        };
        let day = |now| windows(&policy, &bot(), None, now)[0].0.clone();
        let mut today = day(Timestamp::from_millis(now));
        prop_assert!(today.starts_at.millis() <= now && now < today.ends_at.millis());
        for _ in 0..400 {
            let tomorrow = day(today.ends_at);
            prop_assert_eq!(tomorrow.starts_at, today.ends_at, "{}", zone);
            prop_assert!(tomorrow.ends_at > tomorrow.starts_at);
            let last = Timestamp::from_millis(tomorrow.ends_at.millis() - 1);
            prop_assert_eq!(&day(last), &tomorrow, "{}", zone);
            today = tomorrow;
        }
    }

    #[test]
    fn any_text_is_a_policy_or_faults_within_it(text in any_text()) {
        if let Err(faults) = Policy::parse(&text) {
            prop_assert!(!faults.is_empty());
            prop_assert!(faults.is_sorted());
            let lines: Vec<&str> = text.split('\n').collect();
            for fault in faults {
                let line = lines.get(fault.line - 1);
                prop_assert!(line.is_some_and(|line| fault.column <= line.chars().count() + 1), "{}", fault);
            }
        }
    }

    #[test]
    fn an_appended_entry_changes_nothing_else(
        text in document(),
        tail in "( |#[a-z]{0,3})?\n{0,2}",
        name in "[a-z0-9][a-z0-9._-]{0,8}",
        owner in prop::option::of("[a-z0-9][a-z0-9._-]{0,8}"),
        starter in any::<bool>(),
    ) {
        let text = text + &tail;
        let name = AgentName::parse(&name).unwrap();
        let owner = owner.map(|owner| UserName::parse(&owner).unwrap());
        let old = Policy::parse(&text).unwrap();
        let entry = NewAgent { team: None, owner: owner.clone(), starter };
        match with_agent(&text, &name, &entry) {
            Err(_) => prop_assert!(old.agent(&name).is_some()),
            Ok(after) => {
                prop_assert!(after.starts_with(&text));
                let new = Policy::parse(&after).unwrap();
                prop_assert_eq!(new.agents().count(), old.agents().count() + 1);
                prop_assert_eq!(&new.agent(&name).unwrap().owner, &owner);
                prop_assert_eq!(new.agent(&name).unwrap().daily_cap.is_some(), starter);
                for (other, limits) in old.agents() {
                    prop_assert_eq!(new.agent(other), Some(limits));
                }
            }
        }
    }
}

/// Any characters, and pieces of documents in any order, which get further.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "[agents",
        "[organization]\n",
        "[[",
        "]",
        "]\n",
        ".bot",
        "timezone",
        "daily_cap",
        "methods",
        "allowed_hosts",
        "owner",
        "approval_timeout",
        " = ",
        "'",
        "\"",
        "\"\"\"",
        "[",
        ",",
        "{",
        "}",
        "1",
        "-1e9",
        "0x",
        "nan",
        "1979-05-27",
        "'UTC'",
        "'24h'",
        "\n",
        "\r\n",
        "\r",
        "#",
        "ä",
        "\u{feff}",
        "\0",
        "\\u",
        "= ['stripe_refund']\n",
        "= '5'\n",
        "= 5\n",
        "[agents.bot]\n",
    ]);
    prop_oneof![
        any::<String>(),
        prop::collection::vec(pieces, 0..30).prop_map(|pieces| pieces.concat()),
    ]
}
