//! Every window that bounds a refund, decided and reserved in one step: the agent's day, week and
//! month, its team's, the customer's; counts of an hour; and where spend goes back to.

use std::time::Duration;

use gate_authority::{Whom, invariants};
use gate_core::{CustomerFact, CustomerId, Refund, RefundStatus, State, TeamName};
use gate_money::MicroUsd;
use gate_store::{Reads, Scope};

use crate::outcomes::{refund, seen};
use crate::till::Step;
use crate::world::{HOUR, PLAIN, World, codes, run};

const MS: Duration = Duration::from_millis(1);

/// `bot` and `other` are the team `support`; `bot` has every cap there is.
pub(crate) fn policy(bot: &str, team: &str) -> String {
    let base = "methods = [\"stripe_refund\"]\nallowed_hosts = [\"stripe-refund.action\"]\n";
    format!(
        "[teams.support]\n{base}{team}\n\n[agents.bot]\nteam = \"support\"\n{bot}\n\n\
         [agents.other]\nteam = \"support\"\ndaily_cap = \"1000.00\"\n"
    )
}

/// A world in which charges 1 and 2 are one customer's, and 3 another's.
pub(crate) fn world(bot: &str, team: &str) -> World {
    let world = World::new(PLAIN);
    for (charge, customer) in [("ch_1", "cus_1"), ("ch_2", "cus_1"), ("ch_3", "cus_2")] {
        let id = CustomerId::parse(customer).unwrap();
        world.till.change(charge, |charge| charge.customer = CustomerFact::Unreadable { id });
    }
    world.apply(&policy(bot, team));
    world
}

fn sound(world: &World) {
    assert_eq!(run(invariants(&world.authority)).unwrap(), vec![]);
}

/// Each cap alone, met to the cent and missed by one.
#[test]
fn each_window_bounds() {
    let key = |name: &str| format!("{name} = \"50.00\"");
    #[rustfmt::skip]
    let table = [
        // bot's                           team's                    asked      answer
        (key("daily_cap"),                 String::new(),            "ch_1 5000", "settled"),
        (key("daily_cap"),                 String::new(),            "ch_1 5001", "denied daily_cap"),
        (key("weekly_cap"),                String::new(),            "ch_1 5001", "denied weekly_cap"),
        (key("monthly_cap"),               String::new(),            "ch_1 5001", "denied monthly_cap"),
        (String::new(),                    key("daily_budget"),      "ch_1 5000", "settled"),
        (String::new(),                    key("daily_budget"),      "ch_1 5001", "denied team_budget"),
        (String::new(),                    key("monthly_budget"),    "ch_1 5001", "denied team_budget"),
        ("daily_cap = \"90.00\"\nper_customer_daily_cap = \"50.00\"".to_owned(), String::new(), "ch_1 5000", "settled"),
        ("daily_cap = \"90.00\"\nper_customer_daily_cap = \"50.00\"".to_owned(), String::new(), "ch_1 5001", "denied customer_cap"),
    ];
    for (bot, team, asked, answer) in table {
        let world = world(&bot, &team);
        assert_eq!(world.ask(&format!("k {asked}")), answer, "{bot} {team}");
        sound(&world);
    }
}

/// What one spends, or gives back, the others of its team see; a customer is seen by each agent for
/// itself.
#[test]
fn whose_spend_counts_for_whom() {
    let world = world(
        "daily_cap = \"80.00\"\nper_customer_daily_cap = \"50.00\"",
        "daily_budget = \"100.00\"",
    );
    #[rustfmt::skip]
    let table = [
        // who  asked                 answer
        ("bot",   "a ch_1 3000",      "settled"),
        ("bot",   "b ch_2 2100",      "denied customer_cap"),
        ("bot",   "c ch_3 5100",      "denied daily_cap"),
        ("other", "d ch_1 7000",      "settled"),
        ("other", "e ch_3 1",         "denied team_budget"),
        ("bot",   "f ch_2 1",         "denied team_budget"),
    ];
    for (who, asked, answer) in table {
        let key = if who == "bot" { &world.key } else { &world.other };
        assert_eq!(world.ask_as(key, asked), answer, "{who} {asked}");
        sound(&world);
    }
    // 70 come back: to other, to the team, to the customer with other.
    let made = world.intents().into_iter().find(|intent| intent.key.as_str() == "d").unwrap();
    world.till.fail(&made.id);
    seen(&world, &made.id, &world.till.refund_of(&made.id).unwrap());
    assert_eq!(world.state(&made.id), State::Reversed);
    sound(&world);
    for (asked, answer) in [("g ch_2 2000", "settled"), ("h ch_2 1", "denied customer_cap")] {
        assert_eq!(world.ask(asked), answer, "{asked}");
    }
    assert_eq!(world.ask_as(&world.other, "i ch_1 5000"), "settled", "50 were left");
    assert_eq!(world.ask_as(&world.other, "j ch_1 1"), "denied team_budget");
    sound(&world);
    let books = world.read(Reads { books: true, ..Reads::default() }).books;
    let told: Vec<String> = books
        .windows
        .iter()
        .map(|spent| {
            let scope = match &spent.window.scope {
                Scope::Agent(id) if *id == made.agent => "other".to_owned(),
                Scope::Agent(_) => "bot".to_owned(),
                Scope::Customer { agent, customer } if *agent == made.agent => {
                    format!("other with {customer}")
                }
                Scope::Customer { customer, .. } => format!("bot with {customer}"),
                Scope::Organization => "all".to_owned(),
                Scope::Team(team) => team.to_string(),
            };
            format!("{scope} {}: {}", spent.window.period, spent.usd)
        })
        .collect();
    let mut told = told;
    told.sort();
    assert_eq!(
        told,
        [
            "bot day: 50.00 USD",
            "bot with cus_1 day: 50.00 USD",
            "other day: 50.00 USD",
            "support day: 100.00 USD"
        ]
    );
}

/// Weeks and months of the organization's zone; spend belongs to the window, the team and the zone
/// of the moment, and goes back to them whatever was changed since.
#[test]
fn windows_begin_anew_and_remember() {
    let caps = "daily_cap = \"40.00\"\nweekly_cap = \"60.00\"\nmonthly_cap = \"100.00\"";
    let world = world(caps, "daily_budget = \"70.00\"");
    #[rustfmt::skip]
    let table = [
        // at (a Friday first)        asked          answer
        ("2026-10-30T12:00:00Z",      "a ch_1 4000", "settled"),
        ("2026-10-30T23:59:59Z",      "b ch_1 1",    "denied daily_cap"),
        ("2026-10-31T00:00:00Z",      "c ch_1 2000", "settled"),
        ("2026-11-01T23:59:59Z",      "d ch_1 1",    "denied weekly_cap"),
        ("2026-11-02T00:00:00Z",      "e ch_1 4000", "settled"),
        ("2026-11-09T00:00:00Z",      "f ch_2 4000", "settled"),
        ("2026-11-16T00:00:00Z",      "g ch_2 2001", "denied monthly_cap"),
        ("2026-11-16T00:00:00Z",      "h ch_2 2000", "settled"),
        ("2026-12-01T00:00:00Z",      "i ch_3 4000", "settled"),
    ];
    for (at, asked, answer) in table {
        world.clock.show(at);
        assert_eq!(world.ask(asked), answer, "{at} {asked}");
        sound(&world);
    }
    // bot leaves the team, days begin elsewhere, and then 40 of 2 November come back.
    let early = world.intents().into_iter().find(|intent| intent.key.as_str() == "e").unwrap();
    let moved = policy(caps, "daily_budget = \"70.00\"").replacen(
        "team = \"support\"",
        "methods = [\"stripe_refund\"]\nallowed_hosts = [\"stripe-refund.action\"]",
        1,
    );
    world.apply(&format!("[organization]\ntimezone = \"Asia/Tokyo\"\n{moved}"));
    world.till.fail(&early.id);
    seen(&world, &early.id, &world.till.refund_of(&early.id).unwrap());
    sound(&world);
    assert_eq!(early.team, TeamName::parse("support").ok());
    let books = world.read(Reads { books: true, ..Reads::default() }).books;
    let day = "2026-11-02T00:00:00Z";
    let begun =
        books.windows.iter().filter(|spent| spent.window.starts_at == crate::world::at(day));
    let usd: Vec<MicroUsd> = begun.map(|spent| spent.usd).collect();
    assert_eq!(usd, [MicroUsd::ZERO; 3], "day, week and the team's day");
    assert_eq!(world.ask("j ch_3 1"), "settled");
    assert_eq!(world.intents().last().unwrap().team, None);
    sound(&world);
}

/// An hour to the millisecond, whatever the outcome was, as long as money left or may have.
#[test]
fn refunds_of_an_hour_are_counted() {
    let world = world("daily_cap = \"1000.00\"\nrefunds_per_hour = 3", "");
    #[rustfmt::skip]
    let table = [
        // later             step                       asked         answer
        (Duration::ZERO,     Step::Made("succeeded"),   "a ch_1 100", "settled"),
        (HOUR / 4,           Step::Refused,             "b ch_1 100", "failed charge_not_refundable"),
        (HOUR / 4,           Step::Made("pending"),     "c ch_1 100", "settled"),
        (MS,                 Step::Stored,              "d ch_1 100", "submitted"),
        (Duration::ZERO,     Step::Made("succeeded"),   "e ch_2 100", "denied rate_count"),
        (HOUR / 2 - 2 * MS,  Step::Made("succeeded"),   "f ch_2 100", "denied rate_count"),
        (MS,                 Step::Made("succeeded"),   "g ch_2 100", "settled"),
        (Duration::ZERO,     Step::Made("succeeded"),   "h ch_2 100", "denied rate_count"),
    ];
    for (later, step, asked, answer) in table {
        world.clock.advance(later);
        world.till.script(&[step]);
        assert_eq!(world.ask(asked), answer, "{asked}");
    }
    assert_eq!(world.ask_as(&world.other, "k ch_3 100"), "settled", "each agent for itself");
}

/// The customer's refunds of 30 days are a fact for rules, whoever of ours made them.
#[test]
fn a_customers_month_is_known() {
    let world = world("daily_cap = \"1000.00\"", "");
    let rule = |when: &str| {
        let text = policy("daily_cap = \"1000.00\"", "");
        format!(
            "{text}\n[[rules]]\nid = \"often\"\nagents = [\"*\"]\nwhen = \"{when}\"\ncontrol = \"block\"\n"
        )
    };
    assert_eq!(world.ask_as(&world.other, "a ch_1 1500"), "settled");
    assert_eq!(world.ask("b ch_2 500"), "settled");
    #[rustfmt::skip]
    let table = [
        // the rule blocks when                                    of customer 1    of customer 2
        ("context.customerRefunds30d >= 2",                        "denied rule",   "settled"),
        ("context.customerRefunds30d >= 3",                        "settled",       "settled"),
        ("context.customerRefundedUsdMicros30d >= 20010000",       "denied rule",   "settled"),
    ];
    for (n, (when, first, second)) in table.into_iter().enumerate() {
        world.apply(&rule(when));
        assert_eq!(world.ask(&format!("x{n} ch_1 1")), first, "{when}");
        assert_eq!(world.ask(&format!("y{n} ch_3 1")), second, "{when}");
    }
    world.clock.advance(31 * 24 * HOUR);
    world.apply(&rule("context.customerRefunds30d >= 1"));
    assert_eq!(world.ask("z ch_1 1"), "settled", "long ago");
}

/// A stop of a team holds its agents, those of today, and what they have pending.
#[test]
fn a_team_is_stopped() {
    let caps = "daily_cap = \"100.00\"\napproval_threshold = \"30.00\"";
    let world = world(caps, "daily_budget = \"500.00\"");
    let pending = world.intent("a ch_1 3000");
    world.approve(&pending);
    let team = TeamName::parse("support").unwrap();
    let stopped = run(world.admin().stop(Whom::Team(&team), Some("odd refunds"))).unwrap();
    assert_eq!(stopped, "team support");
    assert_eq!(world.ask("b ch_2 100"), "denied team_stopped");
    assert_eq!(world.ask_as(&world.other, "b ch_2 100"), "denied team_stopped");
    let budget = run(gate_core::Records::budget(&*world.authority, &world.key)).unwrap();
    assert_eq!(budget.stopped.unwrap().as_str(), "team_stopped");
    world.reconcile();
    assert_eq!(world.state(&pending.id), State::Approved, "held, not ended");
    // Who leaves the team is free; who comes in is not. What was decided in it stays held.
    let own = "methods = [\"stripe_refund\"]\nallowed_hosts = [\"stripe-refund.action\"]";
    let without = policy(caps, "").replacen("team = \"support\"", own, 1);
    world.apply(&without);
    assert_eq!(world.ask("c ch_2 100"), "settled");
    assert_eq!(world.ask_as(&world.other, "c ch_2 100"), "denied team_stopped");
    world.reconcile();
    assert_eq!(world.state(&pending.id), State::Approved);
    run(world.admin().resume(Whom::Team(&team), None)).unwrap();
    world.reconcile();
    assert_eq!(world.state(&pending.id), State::Settled);
    assert_eq!(world.ask_as(&world.other, "c ch_2 100"), "settled");
    let nobody = TeamName::parse("sales").unwrap();
    let error = run(world.admin().stop(Whom::Team(&nobody), None)).unwrap_err();
    assert!(error.to_string().contains("no agent of the policy is in a team sales"), "{error}");
}

/// The budget shows every window that bounds the agent, its team's too.
#[test]
fn the_budget_shows_every_window() {
    let world = world(
        "daily_cap = \"80.00\"\nweekly_cap = \"90.00\"\nmonthly_cap = \"95.00\"",
        "daily_budget = \"100.00\"\nmonthly_budget = \"300.00\"",
    );
    world.ask("a ch_1 1000");
    world.ask_as(&world.other, "a ch_2 2000");
    let told: Vec<String> = world
        .budget()
        .iter()
        .map(|window| format!("{} {} of {}", window.code.as_str(), window.spent, window.limit))
        .collect();
    assert_eq!(
        told,
        [
            "daily_cap 10.00 USD of 80.00 USD",
            "weekly_cap 10.00 USD of 90.00 USD",
            "monthly_cap 10.00 USD of 95.00 USD",
            "team_budget 30.00 USD of 100.00 USD",
            "team_budget 30.00 USD of 300.00 USD",
        ]
    );
}

/// A pending approval holds nothing, and every cap is checked again when it is executed.
#[test]
fn an_approval_lifts_no_cap() {
    let caps = "daily_cap = \"200.00\"\napproval_threshold = \"40.00\"\non_approval = \"agent\"\n\
                per_customer_daily_cap = \"60.00\"";
    #[rustfmt::skip]
    let table = [
        // meanwhile, by whom and what     the approved answers
        ("bot",   "m ch_2 1500",           "settled"),
        ("bot",   "m ch_2 2100",           "denied approval_stale"),
        ("bot",   "m ch_3 3000",           "settled"),
        ("other", "m ch_2 6000",           "settled"),
        ("other", "m ch_2 6001",           "denied approval_stale"),
    ];
    for (who, meanwhile, answer) in table {
        let world = world(caps, "daily_budget = \"100.00\"");
        let pending = world.intent("k ch_1 4000");
        world.approve(&pending);
        let key = if who == "bot" { &world.key } else { &world.other };
        assert_eq!(world.ask_as(key, meanwhile), "settled", "{who} {meanwhile}");
        let told = world.ask("k ch_1 4000");
        assert!(told.starts_with(answer), "{who} {meanwhile}: {told}");
        sound(&world);
    }
    // After the day's end the new day's caps count.
    let world = world(caps, "daily_budget = \"100.00\"");
    let pending = world.intent("k ch_1 4000");
    world.approve(&pending);
    world.ask_as(&world.other, "m ch_2 9000");
    world.clock.advance(12 * HOUR);
    assert_eq!(world.ask("k ch_1 4000"), "settled again");
    assert_eq!(codes(&world.stored(&pending.id)), ["approval_threshold"], "what people saw");
    sound(&world);
}

/// A refund found late is booked for the team and the windows of now, over every cap.
#[test]
fn a_late_refund_is_booked_everywhere() {
    let world = world("daily_cap = \"50.00\"", "daily_budget = \"60.00\"");
    world.till.script(&[Step::Forbidden]);
    let intent = world.intent("k ch_1 4000");
    assert_eq!(intent.state, State::NotExecuted);
    assert_eq!(world.ask("l ch_2 5000"), "settled");
    let id = gate_core::RefundId::parse("re_9").unwrap();
    let late = Refund { id, ..refund(&intent.id, RefundStatus::Succeeded) };
    seen(&world, &intent.id, &late);
    let windows = world.budget();
    let spent: Vec<String> = windows.iter().map(|window| window.spent.to_string()).collect();
    assert_eq!(spent, ["90.00 USD", "90.00 USD"], "the agent's and the team's");
    sound(&world);
}
