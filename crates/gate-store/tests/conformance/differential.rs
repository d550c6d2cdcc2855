//! The stores against each other: any plans, in any order, leave all in the same state.

use gate_core::{
    Approval, ApprovalState, Denier, HoldId, KeyMark, OnApproval, State, Target, UserName, Wanted,
};
use gate_money::{Currency, Decimal, RateTable};
use gate_store::{
    AgentRow, AuditField, Due, GatewayRow, Money, PolicyRow, Prior, Reads, Refused, Scope,
    SpendWindow, StopRow, UserRow, WebhookRow, Write,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::world::{
    DAY, HOUR, World, agent, agent_id, approval, at, audit, charge_of, customer, day, gateway,
    gateway_id, gateway_key, idempotency_key, insert, intent_id, intent_with, key, nonce, of_agent,
    release, reserve, run, team, update, webhook, with_customer, worth,
};

/// A number for an intent: it says who asked, under which key, of which charge.
fn number() -> impl Strategy<Value = u8> {
    1_u8..7
}

fn id(n: u8) -> String {
    format!("int_{n}")
}

fn state() -> impl Strategy<Value = State> {
    select(vec![
        State::PendingApproval,
        State::Approved,
        State::Submitted,
        State::Settled,
        State::Denied,
    ])
}

fn any_intent() -> impl Strategy<Value = gate_core::Intent> {
    let approvals = proptest::option::of((1_u8..4, 0_i64..4, any::<bool>(), any::<bool>()));
    let facts =
        (any::<bool>(), proptest::option::of(1_i64..3), prop_oneof![9 => Just(0), 1 => Just(1)]);
    let times = (0_i64..4, proptest::option::of(0_i64..4), proptest::option::of(0_i64..4));
    (number(), state(), facts, approvals, times).prop_map(|(n, state, facts, approvals, times)| {
        let (keyless, wanted, other) = facts;
        let (updated, lease, settled) = times;
        let half_days = |n: i64| at(n * DAY / 2);
        intent_with(&id(n), state, |intent| {
            intent.agent = agent_id(n % 2 + 1 + other);
            intent.key = idempotency_key(&format!("k{}", n / 4));
            intent.charge = gate_core::ChargeId::parse(&format!("ch_{}", n / 3)).unwrap();
            intent.keyless = keyless;
            intent.wanted = wanted.map_or(Wanted::Full, Wanted::Minor);
            intent.seen = charge_of(n % 3);
            intent.worth = Some(worth(i64::from(n)));
            intent.submitted_at = lease.map(|n| at(n * HOUR / 2));
            intent.denied_by = (state == State::Denied).then_some(Denier::Person);
            intent.updated_at = half_days(updated);
            intent.lease_until = lease.map(half_days);
            intent.follow_at = settled.map(half_days);
            intent.settled_at = settled.map(half_days);
            intent.approval = approvals.map(|(n, expires, decided, executes)| Approval {
                state: if decided { ApprovalState::Approved } else { ApprovalState::Pending },
                expires_at: half_days(expires),
                decided_at: decided.then_some(at(HOUR)),
                on_approval: if executes { OnApproval::Execute } else { OnApproval::Agent },
                hold_id: executes.then(|| HoldId::parse(&format!("apreq_{}", n % 2)).unwrap()),
                ..approval(&format!("apr_{n}"))
            });
        })
    })
}

fn scope() -> impl Strategy<Value = Scope> {
    select(vec![
        Scope::Organization,
        Scope::Agent(agent_id(1)),
        Scope::Agent(agent_id(2)),
        Scope::Team(team("sales")),
    ])
}

fn any_write() -> impl Strategy<Value = Write> {
    let of = |scope| SpendWindow { scope, ..day(1, 0) };
    let windows = select(vec![
        vec![],
        vec![day(1, 0)],
        vec![day(1, 0), day(1, 1), day(2, 0)],
        vec![day(1, 0), of(Scope::Team(team("sales"))), of(with_customer(1, 1))],
        vec![day(1, 0), of(Scope::Team(team("night"))), of(with_customer(1, 2))],
    ]);
    let micros = prop_oneof![4 => 0_i64..100, 1 => Just(i64::MAX)];
    prop_oneof![
        2 => (0_u8..9).prop_map(audit),
        1 => (1_u64..4, select(AuditField::ALL.to_vec()))
            .prop_map(|(n, field)| Write::EmptyAudit { n, fields: vec![field] }),
        6 => any_intent().prop_map(insert),
        6 => (state(), any_intent()).prop_map(|(was, intent)| update(was, intent)),
        2 => number().prop_map(|n| Write::SurrenderKey(intent_id(&id(n)))),
        3 => (number(), micros, windows).prop_map(|(n, micros, windows)| reserve(&id(n), micros, windows)),
        3 => number().prop_map(|n| release(&id(n))),
        1 => (1_u64..4).prop_map(|version| Write::InsertPolicy(PolicyRow {
            version,
            text: "{}".to_owned(),
            author: "user:ada".to_owned(),
            created_at: at(0),
        })),
        1 => scope().prop_map(|scope| Write::PutStop(StopRow {
            scope,
            by: "user:ada".to_owned(),
            note: None,
            at: at(0),
        })),
        1 => scope().prop_map(Write::LiftStop),
        1 => (1_u8..4, 0_i64..4).prop_map(|(n, noted)| Write::TagKey {
            key: KeyMark::parse(&format!("key_{n}")).unwrap(),
            at: at(noted),
        }),
        2 => (number(), 0_i64..4, 0_i64..4).prop_map(|(n, noted, since)| Write::NoteEvent {
            id: format!("evt_{n}"),
            at: at(noted),
            keep_since: at(since),
        }),
        1 => (1_u8..4, 1_u8..4, 1_u8..5).prop_map(|(n, name, hash)| Write::PutAgent(AgentRow {
            name: agent(name).name,
            keys: vec![key(hash)],
            ..agent(n)
        })),
        1 => (1_u8..4, 1_u8..4, 1_u8..5).prop_map(|(n, name, key)| Write::PutGateway(GatewayRow {
            name: gateway(name).name,
            keys: vec![gateway_key(key, 1)],
            ..gateway(n)
        })),
        1 => (1_u8..4, 1_u32..3).prop_map(|(n, version)| Write::GatewayUsed {
            gateway: gateway_id(n),
            version,
            at: at(7),
        }),
        2 => (number(), 0_i64..4, 0_i64..4).prop_map(|(n, used, since)| Write::UseNonce {
            nonce: nonce("gw_1.0", &n.to_string()),
            at: at(used),
            keep_since: at(since),
        }),
        1 => (1_u8..4).prop_map(|n| Write::PutRates(
            RateTable::new(&format!("2026-10-0{n}"), [(Currency::USD, Decimal::from(n))]).unwrap()
        )),
        1 => (1_u8..4, 0_u64..3, prop::bool::ANY).prop_map(|(n, done_to, known)| {
            Write::PutWebhook(WebhookRow {
                done_to,
                url: known.then(|| "https://a.example/".to_owned()),
                ..webhook(n)
            })
        }),
        1 => select(vec!["ada", "bob"]).prop_map(|name| Write::InsertUser(UserRow {
            name: UserName::parse(name).unwrap(),
            roles: vec!["owner".to_owned()],
            created_at: at(0),
        })),
        1 => select(vec!["ada", "bob"]).prop_map(|name| Write::SetRoles {
            user: UserName::parse(name).unwrap(),
            roles: vec!["viewer".to_owned()],
        }),
    ]
}

/// Reads that look intents up by what they are.
fn look_ups() -> Vec<Reads> {
    let mut all = Vec::new();
    let request = HoldId::parse("apreq_1").ok();
    for due in [
        Due::Approved,
        Due::Awaiting(None),
        Due::Awaiting(request),
        Due::Expired,
        Due::Followed,
        Due::Submitted,
        Due::One(intent_id("int_1")),
    ] {
        let due_of = Some(Money { account: None, livemode: false });
        all.push(Reads { due: Some((due.clone(), 3)), ..Reads::default() });
        all.push(Reads { due: Some((due, 3)), due_of, ..Reads::default() });
    }
    for (wanted, minor) in [(Wanted::Full, None), (Wanted::Minor(1), Some(1000))] {
        for target in ["ch_0", "ch_1", "pi_1"] {
            let (target, since) = (Target::parse(target).unwrap(), at(DAY));
            let refused = Refused { target: target.clone(), wanted, minor, since };
            let prior = Prior::Keyless { target, wanted, settled_since: since };
            all.push(Reads { prior: Some(prior), refused: Some(refused), ..of_agent(1) });
        }
    }
    for n in 0..4 {
        for agent in [1, 2] {
            let customer = Some(customer(n));
            all.push(Reads { customer, policy: true, ..of_agent(agent) });
        }
    }
    for n in 1..7 {
        all.push(Reads { event: Some(format!("evt_{n}")), ..Reads::default() });
        all.push(Reads { nonce: Some(nonce("gw_1.0", &n.to_string())), ..Reads::default() });
    }
    for key in ["k0", "k1", "k2"] {
        all.push(Reads { prior: Some(Prior::Key(idempotency_key(key))), ..of_agent(2) });
    }
    all
}

/// Has a world and the one in memory make the same plans, and compares them after each.
async fn compare(world: World, plans: &[Vec<Write>], now: i64) {
    let (memory, world) = (World::memory().with_agents().await, world.with_agents().await);
    for world in [&memory, &world] {
        world.clock.set(at(now * DAY / 2));
    }
    for plan in plans {
        let (found, expected) =
            (world.try_write(plan.clone()).await, memory.try_write(plan.clone()).await);
        assert_eq!(found.is_ok(), expected.is_ok(), "{plan:?}: {found:?}, {expected:?}");
        assert_eq!(world.everything().await, memory.everything().await, "{plan:?}");
    }
    assert_eq!(world.store.commits(), memory.store.commits());
    for reads in look_ups() {
        let (found, expected) = (world.read(reads.clone()).await, memory.read(reads.clone()).await);
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{reads:?}");
    }
}

/// What is done, transaction by transaction.
fn any_plans() -> impl Strategy<Value = Vec<Vec<Write>>> {
    proptest::collection::vec(proptest::collection::vec(any_write(), 0..5), 1..25)
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count) }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn memory_and_sqlite_do_the_same(plans in any_plans(), now in 0_i64..4) {
        run(compare(World::sqlite(), &plans, now));
    }
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn memory_and_postgres_do_the_same(plans in any_plans(), now in 0_i64..4) {
        run(async { compare(World::postgres().await, &plans, now).await });
    }
}
