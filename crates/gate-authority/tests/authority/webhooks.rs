//! The audit log as an outbox: what an agent's webhook is told, in which order, and what becomes of it
//! when nobody listens.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gate_authority::{AdminError, AuthorityConfig, LocalAuthority, Notices};
use gate_core::{
    AgentName, Authority, Clock, Fate, Ids, IntentId, Notice, Outbox, Outcome, Refund, Timestamp,
    Waiting,
};
use gate_store::{Changes, Judge, MemStore, Reads, Snapshot, Store, StoreError, WebhookRow};
use proptest::prelude::*;

use crate::till::Step;
use crate::world::{ASKS_AND_GOES_ON, FakeClock, HOUR, World, run};

const HOOK: &str = "webhook = \"https://bot.example.com/\"";
const LEASE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(60);

fn name(text: &str) -> AgentName {
    AgentName::parse(text).unwrap()
}

/// A world in which both agents ask for people from 20 dollars on, and both have a webhook.
fn world() -> (World, Notices) {
    let world = World::new(&format!("{ASKS_AND_GOES_ON}\n{HOOK}"));
    let notices = Notices::new(Arc::clone(&world.authority));
    (world, notices)
}

fn take(notices: &Notices, agent: &str) -> Option<Notice> {
    run(notices.take(&name(agent), LEASE)).unwrap()
}

fn seen(world: &World, id: &IntentId, refund: &Refund) {
    run(world.authority.record(id, 0, &Outcome::Seen(refund.clone()))).unwrap();
}

fn record(notices: &Notices, notice: &Notice, fate: Fate) {
    assert!(run(notices.record(notice, fate, "503", None)).unwrap().is_none());
}

/// Takes everything that waits for an agent, and delivers it: each event, and whose intent it is of.
fn told(notices: &Notices, agent: &str) -> Vec<(&'static str, String)> {
    let one = || {
        let notice = take(notices, agent)?;
        record(notices, &notice, Fate::Delivered);
        Some((notice.event, notice.intent.agent_name.to_string()))
    };
    std::iter::from_fn(one).collect()
}

fn events(notices: &Notices, agent: &str) -> String {
    let events: Vec<&str> = told(notices, agent).into_iter().map(|(event, _)| event).collect();
    events.join(" ")
}

fn row(world: &World, agent: &str) -> WebhookRow {
    let rows = world.read(Reads { webhooks: true, ..Reads::default() }).webhooks;
    rows.into_iter().find(|row| row.agent.as_str() == agent).unwrap()
}

/// Each life of a request, and what the agent's webhook is told of it, in order.
#[test]
fn what_each_life_is_told_as() {
    type Life = fn(&World);
    let lives: [(&str, Life); 13] = [
        ("refund.settled", |world| drop(world.ask("k ch_1 1000"))),
        ("refund.denied", |world| {
            world.policy(&format!("daily_cap = \"1.00\"\n{HOOK}"));
            assert_eq!(world.ask("k ch_1 1000"), "denied daily_cap");
        }),
        ("approval.requested approval.approved refund.settled", |world| {
            world.approve(&world.intent("k ch_1 3000"));
            world.reconcile();
        }),
        ("approval.requested approval.denied", |world| {
            world.deny(&world.intent("k ch_1 3000"));
        }),
        ("approval.requested approval.expired", |world| {
            world.intent("k ch_1 3000");
            world.clock.advance(24 * HOUR);
            world.sweep();
        }),
        ("approval.requested approval.canceled", |world| {
            world.cancel(&world.intent("k ch_1 3000").id).unwrap();
        }),
        // What the policy says when an approved refund is made is no person's no.
        ("approval.requested approval.approved refund.denied", |world| {
            world.approve(&world.intent("k ch_1 3000"));
            world.policy(&format!("daily_cap = \"1.00\"\n{HOOK}"));
            world.reconcile();
        }),
        ("refund.failed", |world| {
            world.till.script(&[Step::Refused]);
            world.ask("k ch_1 1000");
        }),
        ("refund.settled refund.reversed", |world| {
            world.till.fail(&world.intent("k ch_1 1000").id);
            world.clock.advance(HOUR);
            world.reconcile();
        }),
        // Nothing came of it, and the agent may ask again: nothing to tell.
        ("", |world| {
            world.till.script(&[Step::Forbidden]);
            assert_eq!(world.ask("k ch_1 1000"), "not_executed");
        }),
        ("refund.needs_person", |world| {
            world.till.script(&[Step::Stored]);
            world.ask("k ch_1 1000");
        }),
        // Stripe's own approval is one too.
        ("approval.requested refund.settled", |world| {
            world.till.script(&[Step::Held]);
            let intent = world.intent("k ch_1 1000");
            world.till.approve_held();
            seen(world, &intent.id, &world.till.refund_of(&intent.id).unwrap());
        }),
        ("", |world| drop(world.ask("k ch_1 1000 dry"))),
    ];
    for (expected, life) in lives {
        let (world, notices) = world();
        life(&world);
        assert_eq!(events(&notices, "bot"), expected);
        assert_eq!(events(&notices, "bot"), "", "{expected}: everything was told once");
        assert_eq!(events(&notices, "other"), "", "{expected}: and to nobody else");
    }
}

#[test]
fn everything_is_told_in_order_and_only_to_its_own_agent() {
    let (world, notices) = world();
    let key = |n: usize| format!("k{n} ch_{} 100", n % 3 + 1);
    for n in 0..40 {
        let asking = if n % 3 == 0 { &world.other } else { &world.key };
        assert_eq!(world.ask_as(asking, &key(n)), "settled");
    }
    for (agent, count) in [("bot", 26), ("other", 14)] {
        let mut last = 0;
        for n in 0..count {
            let notice = take(&notices, agent).unwrap();
            assert!(notice.n > last, "{agent}: {} after {last}", notice.n);
            assert_eq!(notice.intent.agent_name.as_str(), agent);
            last = notice.n;
            // What is not recorded is handed out again, before anything later.
            if n % 5 == 0 {
                world.clock.advance(LEASE);
                let again = take(&notices, agent).unwrap();
                assert_eq!(again.n, last);
                record(&notices, &again, Fate::Delivered);
            } else {
                record(&notices, &notice, Fate::Delivered);
            }
        }
        assert!(take(&notices, agent).is_none(), "{agent}");
    }
    let expected = Waiting::default();
    assert_eq!(run(notices.waiting()).unwrap(), expected, "nobody has anything left");
    // Another process knows as much.
    let fresh = Notices::new(Arc::clone(&world.authority));
    assert_eq!((events(&fresh, "bot"), events(&fresh, "other")), (String::new(), String::new()));
}

#[test]
fn one_is_sent_by_one_at_a_time() {
    let (world, first) = world();
    let second = Notices::new(Arc::clone(&world.authority));
    world.ask("k1 ch_1 1000");
    world.ask("k2 ch_2 1000");
    let lost = take(&first, "bot").unwrap();
    assert!(take(&second, "bot").is_none(), "nor the one after it");
    let waiting = Waiting { due: vec![name("other")], next_in: Some(LEASE) };
    assert_eq!(run(second.waiting()).unwrap(), waiting);
    world.clock.advance(LEASE);
    let again = take(&second, "bot").unwrap();
    assert_eq!((again.n, &again.intent.id), (lost.n, &lost.intent.id));
    // Whoever was too slow changes nothing any more.
    record(&first, &lost, Fate::Gone);
    assert_eq!(row(&world, "bot").disabled_at, None);
    record(&second, &again, Fate::Delivered);
    assert_eq!(take(&first, "bot").unwrap().n, again.n + 2, "after its submission");
}

#[test]
fn a_pause_holds_only_its_own_agent() {
    let (world, notices) = world();
    world.ask("k1 ch_1 1000");
    world.ask_as(&world.other, "k2 ch_2 1000");
    let notice = take(&notices, "bot").unwrap();
    record(&notices, &notice, Fate::Failed(PAUSE));
    let began = row(&world, "bot").failing_since;
    assert!(began.is_some());
    let waiting = Waiting { due: vec![name("other")], next_in: Some(PAUSE) };
    assert_eq!(run(notices.waiting()).unwrap(), waiting);
    assert_eq!(events(&notices, "other"), "refund.settled");
    assert!(take(&notices, "bot").is_none());
    world.clock.advance(PAUSE);
    let again = take(&notices, "bot").unwrap();
    assert_eq!((again.n, again.attempts), (notice.n, 1));
    record(&notices, &again, Fate::Failed(PAUSE));
    let failing = row(&world, "bot");
    assert_eq!((failing.attempts, failing.failing_since), (2, began));
    assert_eq!(failing.last_result.as_deref(), Some("503"));
    world.clock.advance(PAUSE);
    record(&notices, &take(&notices, "bot").unwrap(), Fate::Delivered);
    let well = row(&world, "bot");
    assert_eq!((well.attempts, well.failing_since, well.next_try_at), (0, None, None));
}

/// What a receiver says is kept, but not what it would do to a terminal.
#[test]
fn results_are_short_and_printable() {
    let (world, notices) = world();
    world.ask("k1 ch_1 1000");
    let notice = take(&notices, "bot").unwrap();
    let said = format!("bad\u{1b}[2J\n{}", "é".repeat(300));
    run(notices.record(&notice, Fate::Failed(PAUSE), &said, Some(LEASE))).unwrap();
    let kept = row(&world, "bot").last_result.unwrap();
    assert_eq!(kept, format!("bad [2J {}", "é".repeat(192)));
}

#[test]
fn one_that_is_given_up_lets_the_next_go_on() {
    let (world, notices) = world();
    world.ask("k1 ch_1 1000");
    world.ask("k2 ch_2 1000");
    let first = take(&notices, "bot").unwrap();
    record(&notices, &first, Fate::GivenUp(PAUSE));
    assert!(take(&notices, "bot").is_none(), "the target is no better for it");
    world.clock.advance(PAUSE);
    let second = take(&notices, "bot").unwrap();
    assert!(second.n > first.n);
    assert_eq!((second.attempts, row(&world, "bot").given_up), (1, 1));
}

#[test]
fn one_that_is_gone_is_told_nothing_until_somebody_acts() {
    type Act = fn(&World);
    let acts: [(&str, Act, &str); 5] = [
        ("nothing", |_| {}, ""),
        ("the same policy", |world| world.policy(&format!("{ASKS_AND_GOES_ON}\n{HOOK}")), ""),
        (
            "resumed",
            |world| drop(run(world.admin().resume_webhook(&name("bot"))).unwrap()),
            "refund.settled refund.settled",
        ),
        (
            "another line",
            |world| world.policy(&format!("{ASKS_AND_GOES_ON}\nwebhook = \"https://b.example/\"")),
            "refund.settled refund.settled",
        ),
        (
            "no line, and then one: as if it were new",
            |world| {
                world.policy(ASKS_AND_GOES_ON);
                world.policy(&format!("{ASKS_AND_GOES_ON}\n{HOOK}"));
            },
            "",
        ),
    ];
    for (act, do_it, expected) in acts {
        let (world, notices) = world();
        world.ask("k1 ch_1 1000");
        record(&notices, &take(&notices, "bot").unwrap(), Fate::Gone);
        world.ask("k2 ch_2 1000");
        let waiting = run(notices.waiting()).unwrap();
        assert_eq!(waiting, Waiting { due: vec![name("other")], next_in: None }, "{act}");
        assert!(take(&notices, "bot").is_none(), "{act}");
        do_it(&world);
        assert_eq!(events(&notices, "bot"), expected, "{act}");
    }
}

#[test]
fn a_webhook_follows_its_line() {
    let (plain, hook) = (ASKS_AND_GOES_ON.to_owned(), format!("{ASKS_AND_GOES_ON}\n{HOOK}"));
    let elsewhere = format!("{ASKS_AND_GOES_ON}\nwebhook = \"https://b.example/\"");
    let world = World::new(&plain);
    let notices = Notices::new(Arc::clone(&world.authority));
    #[rustfmt::skip]
    let table = [
        // policy       what is told, of the refund before it and the one after
        (&plain,        ""),
        (&hook,         "https://bot.example.com/"),
        (&elsewhere,    "https://b.example/ https://b.example/"),
        (&elsewhere,    "https://b.example/ https://b.example/"),
        (&plain,        ""),
        (&hook,         "https://bot.example.com/"),
    ];
    for (step, (policy, expected)) in table.into_iter().enumerate() {
        assert_eq!(world.ask(&format!("before{step} ch_1 100")), "settled");
        world.policy(policy);
        assert_eq!(world.ask(&format!("after{step} ch_2 100")), "settled");
        let mut urls = Vec::new();
        while let Some(notice) = take(&notices, "bot") {
            record(&notices, &notice, Fate::Delivered);
            urls.push(notice.url);
        }
        assert_eq!(urls.join(" "), expected, "step {step}");
    }
    // What is under way when the line changes is not recorded for the new one.
    world.ask("last ch_3 100");
    let old = take(&notices, "bot").unwrap();
    world.policy(&elsewhere);
    record(&notices, &old, Fate::Delivered);
    assert_eq!(take(&notices, "bot").map(|notice| notice.n), Some(old.n));
}

/// Without the agent there is nothing to tell, and its first request is told.
#[test]
fn an_agent_may_come_after_its_line() {
    let world = World::new(ASKS_AND_GOES_ON);
    let notices = Notices::new(Arc::clone(&world.authority));
    let entry = "methods = [\"stripe_refund\"]\nallowed_hosts = [\"stripe-refund.action\"]";
    world.apply(&format!("[agents.late]\n{entry}\ndaily_cap = \"9\"\n{HOOK}"));
    assert_eq!(events(&notices, "late"), "");
    let (_, key) = run(world.admin().create_agent(&name("late"), None, false)).unwrap();
    assert_eq!(world.ask_as(&key, "k ch_1 100"), "settled");
    assert_eq!(events(&notices, "late"), "refund.settled");
}

#[test]
fn secrets_are_two_for_a_day() {
    let (world, notices) = world();
    let generations = |key: &str| {
        world.ask(key);
        let notice = take(&notices, "bot").unwrap();
        record(&notices, &notice, Fate::Delivered);
        notice.generations
    };
    let rotate = || run(world.admin().rotate_webhook(&name("bot"))).unwrap().generations;
    assert_eq!(generations("k1 ch_1 100"), [1]);
    assert_eq!((rotate(), generations("k2 ch_1 100")), (vec![2, 1], vec![2, 1]));
    // Never more than two: the one before the last is no longer valid.
    assert_eq!((rotate(), generations("k3 ch_1 100")), (vec![3, 2], vec![3, 2]));
    world.clock.advance(24 * HOUR - Duration::from_millis(1));
    assert_eq!(generations("k4 ch_1 100"), [3, 2]);
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(generations("k5 ch_1 100"), [3]);
    // A line that went away and came back does not bring an old secret back.
    world.policy(ASKS_AND_GOES_ON);
    world.policy(&format!("{ASKS_AND_GOES_ON}\n{HOOK}"));
    assert_eq!(generations("k6 ch_1 100"), [3]);
    let actions = world.audit().into_iter().filter(|row| row.entry.action == "webhook.rotated");
    assert_eq!(actions.count(), 2, "each rotation is in the audit log");
}

#[test]
fn what_was_sent_can_be_sent_again() {
    let (world, notices) = world();
    for key in ["k1 ch_1 100", "k2 ch_1 100", "k3 ch_1 100"] {
        world.ask(key);
    }
    let mut sent = Vec::new();
    while let Some(notice) = take(&notices, "bot") {
        record(&notices, &notice, Fate::Delivered);
        sent.push(notice.n);
    }
    let resend = |n: u64| run(world.admin().resend_webhook(&name("bot"), n));
    let newest = sent[2];
    for wrong in [0, newest + 1, u64::MAX] {
        assert!(matches!(resend(wrong), Err(AdminError::Invalid(_))), "{wrong}");
    }
    resend(sent[1]).unwrap();
    let mut again = Vec::new();
    while let Some(notice) = take(&notices, "bot") {
        record(&notices, &notice, Fate::Delivered);
        again.push(notice.n);
    }
    assert_eq!(again, sent[1..]);
    let nobody = run(world.admin().webhook(&name("nobody")));
    assert!(matches!(nobody, Err(AdminError::NotFound(_))), "{nobody:?}");
}

/// A long stretch of others' entries is read once, and then passed over: from memory, and from the
/// store by the next process.
#[test]
fn what_is_not_for_an_agent_is_passed_over() {
    let (world, notices) = world();
    let before = row(&world, "other").done_to;
    for n in 0..700 {
        world.ask(&format!("k{n} ch_{} 1", n % 3 + 1));
        if n == 100 {
            assert!(take(&notices, "other").is_none());
            assert_eq!(row(&world, "other").done_to, before, "a short one is kept in mind only");
        }
    }
    while world.read(Reads::default()).head.n < 2200 {
        run(world.admin().stop(gate_authority::Whom::Everybody, None)).unwrap();
        run(world.admin().resume(gate_authority::Whom::Everybody, None)).unwrap();
    }
    assert!(take(&notices, "other").is_none());
    assert!(row(&world, "other").done_to > 2000);
    world.ask_as(&world.other, "last ch_1 1");
    assert_eq!(events(&notices, "other"), "refund.settled");
}

/// What telling somebody costs on the disk: two commits for what is told, none for looking.
#[test]
fn looking_commits_nothing() {
    let (world, notices) = world();
    world.ask("k1 ch_1 1000");
    let before = world.store.commits();
    run(notices.waiting()).unwrap();
    assert!(take(&notices, "other").is_none());
    assert_eq!(world.store.commits(), before);
    let notice = take(&notices, "bot").unwrap();
    assert!(take(&notices, "bot").is_none());
    record(&notices, &notice, Fate::Delivered);
    assert_eq!(world.store.commits(), before + 2);
    assert!(take(&notices, "bot").is_none());
    record(&notices, &notice, Fate::Delivered);
    assert_eq!(world.store.commits(), before + 2, "told once more, it changes nothing");
    // When more waits, the next is taken with what became of the one before.
    for n in 0..10 {
        world.ask(&format!("more{n} ch_1 100"));
    }
    let before = world.store.commits();
    let (mut next, mut sent) = (take(&notices, "bot"), 0);
    while let Some(notice) = next {
        assert!(take(&notices, "bot").is_none(), "nobody else is handed it");
        next = run(notices.record(&notice, Fate::Delivered, "200", Some(LEASE))).unwrap();
        sent += 1;
    }
    assert_eq!((sent, world.store.commits() - before), (10, 11));
    assert_eq!(row(&world, "bot").next_try_at, None);
}

/// A store in which something happens just before the next transaction.
struct Meddled {
    inner: Arc<MemStore>,
    meddle: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

#[async_trait]
impl Store for Meddled {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.inner.now().await
    }
    async fn transact(&self, reads: Reads, judge: Arc<dyn Judge>) -> Result<(), StoreError> {
        let meddle = self.meddle.lock().unwrap().take();
        meddle.into_iter().for_each(|meddle| meddle());
        self.inner.transact(reads, judge).await
    }
    async fn read(&self, reads: Reads) -> Result<Snapshot, StoreError> {
        self.inner.read(reads).await
    }
    fn changes(&self) -> Changes {
        self.inner.changes()
    }
    fn commits(&self) -> u64 {
        self.inner.commits()
    }
}

struct NoIds;

impl Ids for NoIds {
    fn fill(&self, _: &mut [u8]) {}
}

/// Whoever looks, and is then overtaken, does not send what the other has sent.
#[test]
fn what_was_dealt_with_meanwhile_is_not_taken_again() {
    let (world, fast) = world();
    world.ask("k1 ch_1 1000");
    world.ask("k2 ch_2 1000");
    let overtaken = move || assert_eq!(events(&fast, "bot"), "refund.settled refund.settled");
    let meddle: Box<dyn FnOnce() + Send> = Box::new(overtaken);
    let store = Meddled { inner: Arc::clone(&world.store), meddle: Mutex::new(Some(meddle)) };
    let clock: Arc<dyn Clock> = Arc::<FakeClock>::clone(&world.clock);
    let config = AuthorityConfig::default();
    let authority = LocalAuthority::new(Arc::new(store), clock, Arc::new(NoIds), config);
    let slow = Notices::new(Arc::new(authority));
    assert!(take(&slow, "bot").is_none());
    assert!(take(&slow, "bot").is_none(), "nor when it looks again");
}

/// What happens to two deliverers of one store.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Ask,
    AskAsOther,
    Take(usize),
    Record(usize, Fate, bool),
    /// The deliverer's process ends, whatever it had taken.
    Dies(usize),
    Passes(Duration),
    Resumes,
    Rotates,
}

fn happens() -> impl Strategy<Value = Happens> {
    let which = 0_usize..2;
    prop_oneof![
        3 => Just(Happens::Ask),
        1 => Just(Happens::AskAsOther),
        6 => which.clone().prop_map(Happens::Take),
        5 => (which.clone(), 0_usize..4, any::<bool>()).prop_map(|(which, fate, goes_on)| {
            let fates = [Fate::Delivered, Fate::Delivered, Fate::Failed(PAUSE), Fate::GivenUp(PAUSE)];
            Happens::Record(which, fates[fate], goes_on)
        }),
        1 => which.prop_map(Happens::Dies),
        2 => prop_oneof![Just(LEASE), Just(PAUSE)].prop_map(Happens::Passes),
        1 => Just(Happens::Resumes),
        1 => Just(Happens::Rotates),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// Whatever happens to whom: every event is sent, none before an earlier one was dealt with, and
    /// none of another agent.
    #[test]
    fn nothing_is_left_out_or_overtaken(story in proptest::collection::vec(happens(), 1..60)) {
        let (world, first) = world();
        let mut outboxes = [first, Notices::new(Arc::clone(&world.authority))];
        let mut held: [Option<Notice>; 2] = [None, None];
        let mut sent: Vec<u64> = Vec::new();
        let mut keys = 0;
        let mut ask = |key| {
            keys += 1;
            world.ask_as(key, &format!("k{keys} ch_{} 10", keys % 3 + 1));
        };
        for step in story {
            match step {
                Happens::Ask => ask(&world.key),
                Happens::AskAsOther => ask(&world.other),
                Happens::Take(which) => if let Some(notice) = take(&outboxes[which], "bot") {
                    prop_assert_eq!(notice.intent.agent_name.as_str(), "bot");
                    sent.push(notice.n);
                    held[which] = Some(notice);
                },
                Happens::Record(which, fate, goes_on) => if let Some(notice) = held[which].take() {
                    let lease = goes_on.then_some(LEASE);
                    let next = run(outboxes[which].record(&notice, fate, "503", lease)).unwrap();
                    prop_assert!(next.is_none() || (goes_on && fate == Fate::Delivered));
                    sent.extend(next.iter().map(|next| next.n));
                    held[which] = next;
                },
                Happens::Dies(which) => {
                    held[which] = None;
                    outboxes[which] = Notices::new(Arc::clone(&world.authority));
                }
                Happens::Passes(span) => world.clock.advance(span),
                Happens::Resumes => {
                    run(world.admin().resume_webhook(&name("bot"))).unwrap();
                }
                Happens::Rotates => {
                    run(world.admin().rotate_webhook(&name("bot"))).unwrap();
                }
            }
        }
        world.clock.advance(PAUSE);
        while let Some(notice) = take(&outboxes[0], "bot") {
            sent.push(notice.n);
            record(&outboxes[0], &notice, Fate::Delivered);
        }
        let agent = world.read(Reads {
            agent: Some(gate_store::AgentBy::Name("bot".to_owned())), ..Reads::default()
        }).agent.unwrap().id;
        let own = |row: &gate_store::AuditRow| {
            row.entry.action == "intent.settled" && row.entry.details.contains(agent.as_str())
        };
        let expected: Vec<u64> = world.audit().iter().filter(|row| own(row)).map(|row| row.n).collect();
        let mut firsts = sent.clone();
        let mut newest = 0;
        firsts.retain(|n| { let is_new = *n > newest; newest = newest.max(*n); is_new });
        prop_assert_eq!(&firsts, &expected, "every event, the first time in order");
        // Nothing older than what is next comes again: at most the one in hand.
        for pair in sent.windows(2) {
            prop_assert!(pair[1] >= pair[0], "{:?}", sent);
        }
    }
}
