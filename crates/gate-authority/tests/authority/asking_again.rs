//! "Asking again", row by row: what the same agent is told that asks for what it asked before.

use std::time::Duration;

use futures_util::future::join_all;
use gate_core::{AccountId, ActionError, Actions, Authority, Charge, RefundStatus, State};

use crate::till::Step;
use crate::world::{ASKS, ASKS_AND_GOES_ON, HOUR, PLAIN, World, ask, run, told};

/// Every state that an intent can be met in, and who denied it.
const STATES: [&str; 12] = [
    "pending_approval",
    "approved",
    "submitted",
    "awaiting_stripe",
    "not_executed",
    "settled",
    "failed",
    "reversed",
    "denied by policy",
    "denied by a person",
    "expired",
    "canceled",
];

/// A world in which `bot` asked `key ch_1 3000 duplicate`, and where that stands in `state`.
fn standing(state: &str, key: &str) -> World {
    let person = ["pending_approval", "approved", "denied by a person", "expired", "canceled"];
    let world = World::new(if person.contains(&state) { ASKS } else { PLAIN });
    world.till.script(match state {
        "submitted" => &[Step::Stored],
        "awaiting_stripe" => &[Step::Held],
        "not_executed" => &[Step::Forbidden],
        "failed" => &[Step::Refused],
        _ => &[],
    });
    if state == "denied by policy" {
        world.policy("daily_cap = \"1.00\"");
    }
    let intent = world.intent(&format!("{key} ch_1 3000 duplicate"));
    match state {
        "approved" => drop(world.approve(&intent)),
        "denied by policy" => world.policy(PLAIN),
        "denied by a person" => drop(world.deny(&intent)),
        "expired" => {
            world.clock.advance(24 * HOUR);
            assert_eq!(world.sweep(), 1);
        }
        "canceled" => drop(world.cancel(&intent.id).unwrap()),
        "reversed" => {
            let mut refund = intent.refund.unwrap();
            refund.status = RefundStatus::Failed;
            world.till.fail(&intent.id);
            crate::outcomes::seen(&world, &intent.id, &refund);
        }
        _ => {}
    }
    let [stored] = &world.intents()[..] else { panic!("one intent") };
    assert_eq!(Some(stored.state.as_str()), state.split(' ').next(), "{state}");
    world
}

#[test]
fn the_same_key_and_arguments() {
    #[rustfmt::skip]
    let table = [
        // state                 answer                         refunds made, intents, attempts sent
        ("pending_approval",     "pending_approval again",               0, 1, 0),
        ("approved",             "settled again",                        1, 1, 1),
        ("submitted",            "submitted again",                      0, 1, 1),
        ("awaiting_stripe",      "awaiting_stripe again",                0, 1, 1),
        ("not_executed",         "settled",                              1, 1, 2),
        ("settled",              "settled again",                        1, 1, 1),
        ("failed",               "failed charge_not_refundable again",   0, 1, 1),
        ("reversed",             "reversed refund_failed again",         1, 1, 1),
        ("denied by policy",     "settled",                              1, 2, 1),
        ("denied by a person",   "denied approval_denied again",         0, 1, 0),
        ("expired",              "expired again",                        0, 1, 0),
        ("canceled",             "canceled again",                       0, 1, 0),
    ];
    assert_eq!(table.map(|row| row.0), STATES);
    let same = [
        "k ch_1 3000 duplicate",
        // A payment intent and its charge are the same target; what is believed is only compared;
        // free text never counts.
        "k pi_1 3000 duplicate",
        "k ch_1 3000 duplicate usd",
        "k ch_1 3000 duplicate [please]",
    ];
    for (state, answer, made, intents, sent) in table {
        for text in same {
            let world = standing(state, "k");
            assert_eq!(world.ask(text), answer, "{state}: {text}");
            assert_eq!(world.till.made().len(), made, "{state}: {text}: refunds");
            assert_eq!(world.intents().len(), intents, "{state}: {text}: intents");
            assert_eq!(world.till.sent().len(), sent, "{state}: {text}: attempts");
        }
    }
}

#[test]
fn the_same_key_and_other_arguments_change_nothing() {
    let table = [
        ("k ch_2 3000 duplicate", "reused: target"),
        ("k pi_2 3000 duplicate", "reused: target"),
        ("k ch_1 3001 duplicate", "reused: amountMinor"),
        ("k ch_1 full duplicate", "reused: amountMinor"),
        ("k ch_1 3000", "reused: reason"),
        ("k ch_1 3000 requested_by_customer", "reused: reason"),
        ("k ch_1 3000 duplicate eur", "currency_mismatch"),
    ];
    for state in STATES {
        let world = standing(state, "k");
        let before = (world.audit().len(), world.till.sent().len());
        for (text, answer) in table {
            assert_eq!(world.ask(text), answer, "{state}: {text}");
        }
        assert_eq!((world.audit().len(), world.till.sent().len()), before, "{state}");
    }
}

/// What exists is answered although the processor cannot be reached, and nothing of the charge is
/// left.
#[test]
fn what_exists_is_answered_while_the_processor_is_down() {
    for state in STATES {
        let world = standing(state, "k");
        world.till.set_down(true);
        let answer = world.ask("k ch_1 3000 duplicate");
        let decides = ["approved", "not_executed", "denied by policy"].contains(&state);
        assert_eq!(answer == "stripe_unavailable", decides, "{state}: {answer}");
    }
    let world = World::new(PLAIN);
    assert_eq!(world.ask("k ch_1 full"), "settled");
    assert_eq!(world.ask("k ch_1 full"), "settled again");
    assert_eq!(world.ask("new ch_1 full"), "charge_already_refunded");
}

/// Without a key: the newest of the same payment and amount, while it is not final.
#[test]
fn no_key() {
    #[rustfmt::skip]
    let table = [
        // state                 answer                        refunds made, intents
        ("pending_approval",     "pending_approval again",              0, 1),
        ("approved",             "settled again",                       1, 1),
        ("submitted",            "submitted again",                     0, 1),
        ("awaiting_stripe",      "awaiting_stripe again",               0, 1),
        ("not_executed",         "settled",                             1, 1),
        ("settled",              "settled again",                       1, 1),
        // final, and nobody said no: decided anew
        ("failed",               "settled",                             1, 2),
        ("reversed",             "settled",                             2, 2),
        ("denied by policy",     "settled",                             1, 2),
        ("expired",              "pending_approval",                    0, 2),
        ("canceled",             "pending_approval",                    0, 2),
        ("denied by a person",   "denied approval_denied again",        0, 1),
    ];
    for (state, answer, made, intents) in table {
        // A model that tries again may give another reason.
        for text in ["- ch_1 3000 duplicate", "- pi_1 3000", "- ch_1 3000 requested_by_customer"] {
            let world = standing(state, "-");
            assert_eq!(world.ask(text), answer, "{state}: {text}");
            assert_eq!(world.till.made().len(), made, "{state}: {text}: refunds");
            assert_eq!(world.intents().len(), intents, "{state}: {text}: intents");
        }
        let world = standing(state, "-");
        if state != "denied by a person" {
            for (text, what) in [("- ch_2 3000", "payment"), ("- ch_1 3001", "amount")] {
                let answer = world.ask(text);
                assert!(!answer.ends_with("again"), "{state}: another {what}: {answer}");
            }
        }
        let keyed = standing(state, "k");
        let answer = keyed.ask("- ch_1 3000 duplicate");
        let denied = state == "denied by a person";
        assert_eq!(answer.ends_with("again"), denied, "{state}: made with a key: {answer}");
    }
}

/// Full and full are alike, and equal and equal; full and what it comes to are not.
#[test]
fn no_key_compares_amounts_as_asked() {
    let table = [
        ("- ch_1 full", "- ch_1 full", "settled again"),
        ("- ch_1 10000", "- ch_1 10000", "settled again"),
        ("- ch_1 full", "- ch_1 10000", "charge_already_refunded"),
        ("- ch_1 10000", "- ch_1 full", "charge_already_refunded"),
    ];
    for (first, second, answer) in table {
        let world = World::new(PLAIN);
        assert_eq!(world.ask(first), "settled");
        assert_eq!(world.ask(second), answer, "{first}, then {second}");
    }
}

/// Settled, a key-less request answers for its like for 24 hours to the millisecond.
#[test]
fn no_key_24_hours_after() {
    let day = 24 * HOUR;
    let ms = Duration::from_millis(1);
    for (later, answer) in [(day, "settled again"), (day + ms, "settled")] {
        let world = World::new(PLAIN);
        assert_eq!(world.ask("- ch_1 3000"), "settled");
        world.clock.advance(later);
        assert_eq!(world.ask("- ch_1 3000"), answer, "{later:?}");
    }
    // A key answers for ever.
    let world = World::new(PLAIN);
    assert_eq!(world.ask("k ch_1 3000"), "settled");
    world.clock.advance(400 * day);
    assert_eq!(world.ask("k ch_1 3000"), "settled again");
}

/// A person's denial answers for its like for 24 hours: under any key or none, by the amount as
/// asked and by what it comes to, whatever the reason.
#[test]
fn a_persons_denial_is_remembered() {
    let denied = "denied approval_denied again";
    let table = [
        // denied       asked                           answer
        ("k ch_1 full", "other ch_1 full", denied),
        ("k ch_1 full", "- ch_1 full", denied),
        ("k ch_1 full", "other pi_1 full requested_by_customer", denied),
        ("k ch_1 full", "other ch_1 10000", denied),
        ("k ch_1 10000", "- ch_1 full", denied),
        ("- ch_1 10000", "other ch_1 10000 [please]", denied),
        ("k ch_1 full", "other ch_1 9999", "pending_approval"),
        ("k ch_1 full", "other ch_2 full", "pending_approval"),
    ];
    for (first, second, answer) in table {
        let world = World::new(ASKS);
        let intent = world.intent(first);
        world.deny(&intent);
        assert_eq!(world.ask(second), answer, "{first}, then {second}");
        assert_eq!(world.till.sent().len(), 0);
        // Another agent was told nothing.
        assert_eq!(world.ask_as(&world.other, second), "pending_approval", "the other agent");
    }
    // The amount as asked is enough to find it while the charge cannot be read.
    let world = World::new(ASKS);
    world.deny(&world.intent("k ch_1 full"));
    world.till.set_down(true);
    assert_eq!(world.ask("other ch_1 full"), denied);
    assert_eq!(world.ask("other ch_1 10000"), denied);
}

#[test]
fn a_persons_denial_is_forgotten_after_24_hours_but_not_under_its_key() {
    let ms = Duration::from_millis(1);
    let denied = "denied approval_denied again";
    for (later, answer) in [(24 * HOUR, denied), (24 * HOUR + ms, "pending_approval")] {
        let world = World::new(ASKS);
        world.deny(&world.intent("k ch_1 full"));
        world.clock.advance(later);
        assert_eq!(world.ask("k ch_1 full"), denied, "its own key, {later:?}");
        assert_eq!(world.ask("other ch_1 full"), answer, "another key, {later:?}");
    }
}

/// A denial by the policy, an expiry, a withdrawal: no other end is remembered under other keys.
/// And what the policy once denied under a key does not lead round a person's denial.
#[test]
fn only_a_persons_denial_is_remembered() {
    for state in ["denied by policy", "expired", "canceled", "failed", "reversed"] {
        let world = standing(state, "k");
        let answer = world.ask("other ch_1 3000 duplicate");
        assert!(!answer.ends_with("again"), "{state}: {answer}");
    }
    let world = World::new("daily_cap = \"1.00\"");
    assert_eq!(world.ask("old ch_1 3000"), "denied daily_cap");
    world.policy(ASKS);
    world.deny(&world.intent("k ch_1 3000"));
    assert_eq!(world.ask("old ch_1 3000"), "denied approval_denied again");
    // Under its key it answered with somebody else's denial; the key is still its own.
    assert_eq!(world.ask("old ch_1 4000"), "reused: amountMinor");
}

/// The key belongs to its agent.
#[test]
fn another_agent_is_unaffected() {
    let world = World::new(PLAIN);
    assert_eq!(world.ask("k ch_1 3000"), "settled");
    assert_eq!(world.ask_as(&world.other, "k ch_1 3000"), "settled");
    assert_eq!(world.ask("- ch_2 1000"), "settled");
    assert_eq!(world.ask_as(&world.other, "- ch_2 1000"), "settled");
    assert_eq!(world.till.made().len(), 4);
}

/// Two different keys are two refunds; the second may be less than was asked first.
#[test]
fn two_keys_are_two_refunds() {
    let world = World::new(PLAIN);
    assert_eq!(world.ask("k1 ch_1 3000"), "settled");
    assert_eq!(world.ask("k2 ch_1 3000"), "settled");
    assert_eq!(world.ask("k3 ch_1 full"), "settled");
    let minors: Vec<i64> = world.till.made().iter().map(|made| made.minor).collect();
    assert_eq!(minors, [3000, 3000, 4000]);
}

/// Not executed, the same intent goes out again: the same key, the same bytes, the same amount.
#[test]
fn not_executed_is_decided_again_with_the_same_bytes() {
    let world = World::new(PLAIN);
    world.till.script(&[Step::Forbidden]);
    let first = world.intent("k ch_1 full");
    assert_eq!((first.state, world.spent()), (State::NotExecuted, "0.00 USD".to_owned()));
    world.clock.advance(3 * 24 * HOUR);
    let second = world.intent("k ch_1 full");
    assert_eq!((&second.id, second.state), (&first.id, State::Settled));
    assert_eq!(second.request, first.request);
    let sent = world.till.sent();
    assert_eq!(sent[0], sent[1], "key and bytes");
    assert_eq!(world.history(&first.id), "submitted not_executed submitted settled");
    assert_eq!(world.spent(), "100.00 USD");
}

/// "In full" was fixed when it was first decided: it never shrinks, nor grows, silently.
#[test]
fn not_executed_keeps_its_amount() {
    let table = [
        // refunded before the first, and before the second      the second answer
        (0, 1, "amount_over_refundable"),
        (0, 10_000, "charge_already_refunded"),
        (6_000, 6_000, "settled"),
        (6_000, 0, "settled"),
    ];
    for (before, after, answer) in table {
        let world = World::new(PLAIN);
        let refunded = |minor| {
            world.till.change("ch_1", |charge| {
                let now = charge.amount_refunded.minor();
                crate::till::book(charge, minor - now);
            });
        };
        refunded(before);
        world.till.script(&[Step::Forbidden]);
        assert_eq!(world.ask("k ch_1 full"), "not_executed");
        refunded(after);
        assert_eq!(world.ask("k ch_1 full"), answer, "{before} then {after}");
        let minors: Vec<i64> = world.till.made().iter().map(|made| made.minor).collect();
        assert!(minors.iter().all(|minor| *minor == 10_000 - before), "{minors:?}");
    }
}

/// F29: nor is it decided again with another account's charge, or one of the other mode.
#[test]
fn not_executed_keeps_its_account_and_mode() {
    type Change = fn(&mut Charge);
    let table: [(&str, Change, &str); 3] = [
        ("the same", |_| {}, "submitted"),
        ("mode", |charge| charge.channel.livemode = true, "livemode_mismatch"),
        (
            "account",
            |charge| charge.channel.account = AccountId::parse("acct_2").ok(),
            "livemode_mismatch",
        ),
    ];
    for (name, change, expected) in table {
        let world = World::new(PLAIN);
        world.till.script(&[Step::Forbidden]);
        let first = world.intent("k ch_1 full");
        assert_eq!(first.state, State::NotExecuted);
        let mut charge = world.charge("ch_1");
        change(&mut charge);
        let (ask, attempt) = (ask("k ch_1 full"), world.attempt());
        let told = match run(world.authority.decide(&world.key, &ask, &charge, &attempt)) {
            Ok(decided) => decided.intent.state.as_str(),
            Err(error) => ActionError::from(error).code(),
        };
        assert_eq!(told, expected, "{name}");
        let spent = if expected == "submitted" { "100.00 USD" } else { "0.00 USD" };
        assert_eq!(world.spent(), spent, "{name}");
    }
}

/// Decided again, it may be denied or held; denied, a new intent takes the key over.
#[test]
fn not_executed_is_judged_like_everything_else() {
    let world = standing("not_executed", "k");
    world.policy("daily_cap = \"1.00\"");
    assert_eq!(world.ask("k ch_1 3000 duplicate"), "denied daily_cap");
    world.clock.advance(Duration::from_millis(1));
    world.policy(ASKS);
    assert_eq!(world.ask("k ch_1 3000 duplicate"), "pending_approval");
    assert_eq!(world.ask("k ch_1 3000 duplicate"), "pending_approval again");
    let states: Vec<State> = world.intents().iter().map(|intent| intent.state).collect();
    assert_eq!(states, [State::Denied, State::PendingApproval]);

    let world = standing("not_executed", "k");
    world.policy(ASKS);
    assert_eq!(world.ask("k ch_1 3000 duplicate"), "pending_approval");
    let [intent] = &world.intents()[..] else { panic!("one intent") };
    world.approve(intent);
    assert_eq!(world.ask("k ch_1 3000 duplicate"), "settled again");
    assert_eq!(
        world.history(&intent.id),
        "submitted not_executed pending_approval approved submitted settled"
    );
}

/// An approval is used up by a refund, not by an attempt; until it expires no person is asked
/// again.
#[test]
fn an_approval_survives_an_attempt_that_was_not_executed() {
    let ms = Duration::from_millis(1);
    for (later, answer) in [(24 * HOUR - ms, "settled"), (24 * HOUR, "pending_approval")] {
        let world = standing("approved", "k");
        world.till.script(&[Step::Forbidden]);
        assert_eq!(world.ask("k ch_1 3000 duplicate"), "not_executed again");
        world.clock.advance(later);
        assert_eq!(world.ask("k ch_1 3000 duplicate"), answer, "{later:?}");
    }
}

/// Many at once: one is made, and all hear of it.
#[test]
fn many_at_once_make_one() {
    let many = |world: &World, text: &str| -> Vec<String> {
        let asks = (0..40).map(|_| world.refunds.refund(&world.key, ask(text)));
        run(join_all(asks)).iter().map(told).collect()
    };
    for text in ["k ch_1 3000", "- ch_1 3000", "k pi_1 full"] {
        let world = World::new(PLAIN);
        let answers = many(&world, text);
        assert_eq!(world.till.made().len(), 1, "{text}");
        assert_eq!(world.intents().len(), 1, "{text}");
        for answer in &answers {
            let good = ["settled", "settled again", "submitted again"].contains(&answer.as_str());
            assert!(good, "{text}: {answer}");
        }
        assert_eq!(answers.iter().filter(|answer| *answer == "settled").count(), 1, "{text}");
    }
    let world = standing("approved", "k");
    many(&world, "k ch_1 3000 duplicate");
    assert_eq!(world.till.made().len(), 1, "approved");
    let world = standing("denied by policy", "k");
    many(&world, "k ch_1 3000 duplicate");
    assert_eq!((world.till.made().len(), world.intents().len()), (1, 2), "denied by policy");
    let world = standing("not_executed", "k");
    many(&world, "k ch_1 3000 duplicate");
    assert_eq!((world.till.made().len(), world.intents().len()), (1, 1), "not executed");
}

/// An approved intent that the gateway executes by itself is executed once, whoever is first.
#[test]
fn the_reconciler_and_the_agent_execute_once() {
    let world = World::new(ASKS_AND_GOES_ON);
    let intent = world.intent("k ch_1 3000");
    world.approve(&intent);
    let (reconciler, asked) = (world.reconciler(), ask("k ch_1 3000"));
    let (_, answer) =
        run(futures_util::future::join(reconciler.step(), world.refunds.refund(&world.key, asked)));
    assert!(told(&answer).ends_with("again"), "{}", told(&answer));
    assert_eq!(world.state(&intent.id), State::Settled);
    assert_eq!((world.till.made().len(), world.till.sent().len()), (1, 1));
}

/// A dry run says what would be decided, a person's denial included, and leaves no trace.
#[test]
fn a_dry_run_changes_nothing() {
    let world = World::new(ASKS);
    world.deny(&world.intent("k ch_2 3000"));
    let entries = world.audit().len();
    let table = [
        ("- ch_1 1000 dry", "Allow"),
        ("k1 ch_1 2000 dry", "RequireApproval"),
        ("k1 ch_1 full fraudulent dry", "Deny"),
        ("- ch_2 3000 dry", "Deny"),
        ("- ch_2 3001 dry", "RequireApproval"),
        ("- ch_1 10001 dry", "amount_over_refundable"),
        ("- ch_1 1000 eur dry", "currency_mismatch"),
    ];
    for (text, answer) in table {
        assert_eq!(world.ask(text), answer, "{text}");
    }
    assert_eq!((world.audit().len(), world.intents().len()), (entries, 1));
    let nobody = gate_core::AgentKey::new("bb_agent_nobody".to_owned());
    assert_eq!(world.ask_as(&nobody, "- ch_1 1000 dry"), "unauthenticated");
}

/// The twin was made, and nothing was left, while this request read the charge.
#[test]
fn a_twin_that_was_paid_meanwhile_is_the_answer() {
    use std::pin::pin;
    use std::task::Context;
    let world = World::new(PLAIN);
    let mut slow = pin!(world.refunds.refund(&world.key, ask("k ch_1 full")));
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(slow.as_mut().poll(&mut context).is_pending());
    assert_eq!(world.ask("k ch_1 full"), "settled");
    assert_eq!(told(&run(slow)), "settled again");
}
