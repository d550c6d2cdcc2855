//! Transactions as a whole: all or nothing, what the judge sees, and who hears of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gate_core::{State, UserName};
use gate_store::{Head, PolicyRow, Reads, Scope, StopRow, UserRow, Write, verify};

use crate::world::{
    Says, World, agent, approval, at, audit, cell, day, insert, intent_with, of_agent, of_intent,
    release, reserve, update,
};

pub(crate) async fn a_conflict_leaves_nothing_behind(world: World) {
    let world = world.with_agents().await;
    let pending = |id: &str, approvals: &str| {
        let approval = approval(approvals);
        intent_with(id, State::PendingApproval, |intent| intent.approval = Some(approval))
    };
    let user = Write::InsertUser(UserRow {
        name: UserName::parse("ada").unwrap(),
        roles: vec![],
        created_at: at(0),
    });
    let policy = |version| {
        Write::InsertPolicy(PolicyRow {
            version,
            text: "{}".to_owned(),
            author: "user:ada".to_owned(),
            created_at: at(0),
        })
    };
    let stop = Write::PutStop(StopRow {
        scope: Scope::Organization,
        by: "user:ada".to_owned(),
        note: None,
        at: at(0),
    });
    let submitted = intent_with("int_1", State::Submitted, |_| {});
    let kept = vec![
        insert(submitted.clone()),
        reserve("int_1", 5, vec![day(1, 0)]),
        insert(pending("int_2", "apr_2")),
        policy(1),
        user.clone(),
        audit(1),
    ];
    world.write(kept).await;
    let before = world.everything().await;
    let commits = world.store.commits();
    // One of each, and then something that cannot be.
    let fine = vec![
        audit(2),
        insert(pending("int_3", "apr_3")),
        update(State::PendingApproval, intent_with("int_2", State::Expired, |_| {})),
        release("int_1"),
        reserve("int_1", 9, vec![day(1, 0), day(1, 1)]),
        policy(2),
        stop,
        Write::LiftStop(Scope::Organization),
        Write::PutAgent(agent(3)),
        Write::SurrenderKey(submitted.id.clone()),
    ];
    let conflicts = [
        insert(submitted.clone()),
        insert(pending("int_4", "apr_2")),
        update(State::Settled, submitted),
        policy(2),
        policy(9),
        user,
        reserve("int_1", 1, vec![day(1, 0)]),
        Write::PutAgent(gate_store::AgentRow { name: agent(1).name, ..agent(4) }),
    ];
    for conflict in conflicts {
        let name = format!("{conflict:?}");
        let writes = fine.iter().cloned().chain([conflict, audit(3)]).collect();
        assert_eq!(cell(world.try_write(writes).await), "conflict", "{name}");
        assert_eq!(world.everything().await, before, "{name}");
    }
    assert_eq!(world.store.commits(), commits);
    world.write(fine).await;
    assert_ne!(world.everything().await, before, "what went before was fine");
}

pub(crate) async fn a_plan_without_writes_commits_nothing(world: World) {
    let mut changes = world.store.changes();
    changes.mark();
    world.write(vec![]).await;
    world.read(Reads::default()).await;
    assert_eq!(world.store.commits(), 0);
    let woken = tokio::time::timeout(Duration::from_millis(1), changes.changed()).await;
    assert!(woken.is_err(), "nothing happened");
}

pub(crate) async fn commits_are_counted_and_wake_whoever_waits(world: World) {
    let mut changes = world.store.changes();
    for n in 1..=3 {
        changes.mark();
        world.write(vec![audit(n)]).await;
        changes.changed().await;
        assert_eq!(world.store.commits(), u64::from(n));
    }
    // Whoever marks before reading misses nothing; a wait that began before hears of it, too.
    changes.mark();
    let (_, ()) = tokio::join!(changes.changed(), world.write(vec![audit(4)]));
}

pub(crate) async fn the_audit_chain_holds_and_its_head_is_read_inside(world: World) {
    let asked = Reads { audit: Some(gate_store::AuditRange::WHOLE), ..Reads::default() };
    let seen = world.read(asked.clone()).await;
    assert_eq!((seen.head, verify(&seen.audit)), (Head::default(), Ok(Head::default())));
    for n in 1..=3 {
        // The head that a judge sees is the one that its own entry follows.
        let heads = Arc::new(Mutex::new(Vec::new()));
        let noted = heads.clone();
        let judge = Says(move |_, seen: &gate_store::Snapshot| {
            noted.lock().unwrap().push(seen.head);
            vec![audit(n), audit(n + 100)]
        });
        world.store.transact(Reads::default(), Arc::new(judge)).await.unwrap();
        let head = *heads.lock().unwrap().last().unwrap();
        assert_eq!(head.n, u64::from(n - 1) * 2);
        let seen = world.read(asked.clone()).await;
        assert_eq!(verify(&seen.audit), Ok(seen.head));
        assert_eq!(seen.head.n, u64::from(n) * 2);
        let before = usize::try_from(head.n).unwrap();
        assert_eq!(verify(&seen.audit[..before]), Ok(head));
        assert_eq!(
            format!("{:?}", Write::Audit(seen.audit[before].entry.clone())),
            format!("{:?}", audit(n))
        );
    }
    assert!(world.read(Reads::default()).await.audit.is_empty(), "not asked for");
    assert_eq!(world.read(Reads::default()).await.head.n, 6, "always read");
}

pub(crate) async fn the_judge_is_told_the_time(world: World) {
    for now in [at(5), at(3)] {
        world.clock.set(now);
        let told = Arc::new(Mutex::new(None));
        let noted = told.clone();
        let judge = Says(move |now, _: &gate_store::Snapshot| {
            *noted.lock().unwrap() = Some(now);
            vec![]
        });
        world.store.transact(Reads::default(), Arc::new(judge)).await.unwrap();
        assert_eq!(*told.lock().unwrap(), Some(now));
        assert_eq!(world.store.now().await.unwrap(), now);
    }
}

pub(crate) async fn what_was_not_asked_for_is_not_read(world: World) {
    let world = world.with_agents().await;
    world.write(vec![insert(intent_with("int_1", State::Submitted, |_| {}))]).await;
    for (name, reads, agent, intent) in [
        ("nothing", Reads::default(), false, false),
        ("an agent", of_agent(1), true, false),
        ("an intent", of_intent("int_1"), false, true),
    ] {
        let seen = world.read(reads).await;
        assert_eq!((seen.agent.is_some(), seen.intent.is_some()), (agent, intent), "{name}");
        let lists = (seen.agents.len(), seen.intents.len(), seen.users.len(), seen.stops.len());
        assert_eq!(lists, (0, 0, 0, 0), "{name}");
        assert!(seen.policy.is_none() && seen.rates.is_none() && seen.prior.is_none(), "{name}");
    }
}
