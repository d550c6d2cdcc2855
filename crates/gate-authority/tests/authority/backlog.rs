//! Much work at once: nothing waits behind what cannot be done, and no kind starves another.

use std::sync::{Arc, Mutex};

use gate_authority::Whom;
use gate_core::{AttemptId, Authority, IntentId, State, TeamName};

use crate::world::{PLAIN, World, approval, ask, run, user};

/// More than several steps take.
const MANY: usize = 40;

/// As many intents as charges, each submitted by somebody who is gone.
fn left_behind(world: &World) -> Vec<IntentId> {
    let charges = (0..MANY).map(|n| format!("ch_many{n}"));
    charges
        .map(|charge| {
            world.till.add_charge(&charge, 100, "usd");
            world.decide(&format!("key-{charge} {charge} 100")).intent.id
        })
        .collect()
}

#[test]
fn a_backlog_is_done_in_steps_that_say_whether_there_is_more() {
    let world = World::new(PLAIN);
    let intents = left_behind(&world);
    let mut steps = vec![world.reconcile()];
    while steps.last().unwrap().more {
        steps.push(run(world.reconciler().step()).unwrap());
    }
    let done: Vec<usize> = steps.iter().map(|step| step.driven.len()).collect();
    assert_eq!(done, [16, 16, 8], "no lease had to end in between");
    assert!(intents.iter().all(|id| world.state(id) == State::Settled));
}

/// What is taken together is sent together: a slow answer holds up nobody else.
#[test]
fn what_is_taken_together_is_driven_at_once() {
    let world = World::new(PLAIN);
    left_behind(&world);
    let made_when_sent = Arc::new(Mutex::new(Vec::new()));
    let (till, noted) = (Arc::clone(&world.till), Arc::clone(&made_when_sent));
    world.till.watch(move |_| noted.lock().unwrap().push(till.made().len()));
    world.reconcile();
    assert_eq!(
        *made_when_sent.lock().unwrap(),
        [0; 16],
        "the last is sent before the first is made"
    );
}

/// A stopped agent's approved requests wait, however many; the other's are made.
#[test]
fn what_a_stop_holds_stands_in_nobodys_way() {
    let world = World::new("daily_cap = \"5000\"\napproval_threshold = \"1\"");
    let approved = |key, n: usize| {
        let charge = format!("ch_many{n}");
        world.till.add_charge(&charge, 100, "usd");
        let asked = ask(&format!("k{n} {charge} 100"));
        let seen = world.charge(&charge);
        let attempt = AttemptId::parse(&format!("att_many{n}")).unwrap();
        let intent = run(world.authority.decide(key, &asked, &seen, &attempt)).unwrap().intent;
        run(world.admin().approve(approval(&intent), &user("rita"), None)).unwrap().id
    };
    let held: Vec<IntentId> = (0..MANY).map(|n| approved(&world.key, n)).collect();
    let free = approved(&world.other, MANY);
    run(world.admin().stop(Whom::Agent("bot"), None)).unwrap();

    let step = world.reconcile();
    assert_eq!((step.driven.len(), step.more), (1, false));
    assert_eq!(world.state(&free), State::Settled);
    assert!(held.iter().all(|id| world.state(id) == State::Approved));

    run(world.admin().resume(Whom::Agent("bot"), None)).unwrap();
    while run(world.reconciler().step()).unwrap().more {}
    assert!(held.iter().all(|id| world.state(id) == State::Settled));
}

/// Who is put into a stopped team has what was approved before held: no reason to look again at once.
#[test]
fn held_work_alone_is_no_reason_to_go_on() {
    let world = World::new("");
    let team = TeamName::parse("support").unwrap();
    let policy = |teams: [&str; 2]| {
        let agents = ["bot", "other"].into_iter().zip(teams).map(|(name, team)| {
            format!(
                "[agents.{name}]\nmethods = [\"stripe_refund\"]\n\
                 allowed_hosts = [\"stripe-refund.action\"]\ndaily_cap = \"5000\"\n\
                 approval_threshold = \"1\"\nteam = \"{team}\"\n"
            )
        });
        let text = format!("[teams.sales]\n[teams.support]\n{}", agents.collect::<String>());
        run(world.admin().apply_policy(&text)).unwrap();
    };
    policy(["sales", "support"]);
    for n in 0..MANY {
        let charge = format!("ch_many{n}");
        world.till.add_charge(&charge, 100, "usd");
        world.approve(&world.decide(&format!("k{n} {charge} 100")).intent);
    }
    run(world.admin().stop(Whom::Team(&team), None)).unwrap();
    policy(["support", "support"]);
    let step = world.reconcile();
    assert_eq!((step.driven.len(), step.more), (0, false));
    run(world.admin().resume(Whom::Team(&team), None)).unwrap();
    while run(world.reconciler().step()).unwrap().more {}
    assert!(world.intents().iter().all(|intent| intent.state == State::Settled));
}
