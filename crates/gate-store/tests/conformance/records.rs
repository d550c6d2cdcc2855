//! Agents, policies, stops, rates and people.

use gate_core::{KeyMark, Source, State, UserName};
use gate_money::{Currency, RateTable, parse_figure};
use gate_store::{
    AgentBy, AgentRow, GatewayKeyRow, GatewayRow, IntentBy, KeyHash, KeyRow, PolicyRow, Reads,
    Scope, StopRow, UserRow, WebhookRow, Write,
};

use crate::world::{
    World, agent, agent_id, at, cell, gateway, gateway_id, gateway_key, insert, intent_id,
    intent_with, key, nonce, of_agent, team, webhook,
};

pub(crate) async fn agents_are_found_by_key_name_id_and_intent(world: World) {
    let world = world.with_agents().await;
    let changed = AgentRow {
        revoked_at: Some(at(5)),
        sources: ["10.1.0.0/16", "2001:db8::/32"].map(|text| Source::parse(text).unwrap()).to_vec(),
        // Key 1 is gone; the others keep their order.
        keys: vec![key(9), KeyRow { expires_at: Some(at(4)), ..key(8) }],
        ..agent(1)
    };
    let of_two = intent_with("int_1", State::Denied, |intent| intent.agent = agent_id(2));
    world.write(vec![Write::PutAgent(changed.clone()), insert(of_two)]).await;
    let (first, second) = (Some(&changed), Some(agent(2)));
    let name = |text: &str| AgentBy::Name(text.to_owned());
    let table = [
        (name("bot-1"), first),
        (name("agt_1"), first),
        (name("bot-2"), second.as_ref()),
        (name("BOT-1"), None),
        (name("' OR 1=1 --"), None),
        (AgentBy::Key(KeyHash([9; 32])), first),
        (AgentBy::Key(KeyHash([8; 32])), first),
        (AgentBy::Key(KeyHash([1; 32])), None),
        (AgentBy::Key(KeyHash([2; 32])), second.as_ref()),
        (AgentBy::OfIntent, second.as_ref()),
    ];
    for (by, expected) in table {
        let reads = Reads {
            agent: Some(by.clone()),
            intent: Some(IntentBy::Id(intent_id("int_1"))),
            ..Reads::default()
        };
        assert_eq!(world.read(reads).await.agent.as_ref(), expected, "{by:?}");
    }
    let alone = Reads { agent: Some(AgentBy::OfIntent), ..Reads::default() };
    assert!(world.read(alone).await.agent.is_none(), "no intent was read");
    let listed = world.read(Reads { agents: true, ..Reads::default() }).await.agents;
    assert_eq!(listed, [changed, agent(2)]);
}

pub(crate) async fn names_and_keys_belong_to_one_agent(world: World) {
    let world = world.with_agents().await;
    let named = |n: u8, name: &str| AgentRow {
        name: gate_core::AgentName::parse(name).unwrap(),
        ..agent(n)
    };
    let table = [
        ("a new name", named(1, "zoe"), "done"),
        ("the other's name", named(2, "zoe"), "conflict"),
        ("a third with it", named(3, "zoe"), "conflict"),
        ("a third with the other's key", AgentRow { keys: vec![key(2)], ..agent(3) }, "conflict"),
        ("a third without a key", AgentRow { keys: vec![], ..agent(3) }, "done"),
        ("it again", AgentRow { keys: vec![], ..agent(3) }, "done"),
    ];
    for (name, row, expected) in table {
        assert_eq!(cell(world.try_write(vec![Write::PutAgent(row)]).await), expected, "{name}");
    }
    let listed = world.read(Reads { agents: true, ..Reads::default() }).await.agents;
    let names: Vec<&str> = listed.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["bot-2", "bot-3", "zoe"], "by name");
}

pub(crate) async fn policies_count_up_one_by_one(world: World) {
    let policy = |version: u64| PolicyRow {
        version,
        text: format!("{{\"version\":{version}}}"),
        author: "user:ada".to_owned(),
        created_at: at(7),
    };
    let asked = Reads { policy: true, ..Reads::default() };
    assert_eq!(world.read(asked.clone()).await.policy, None);
    for (versions, expected, in_force) in [
        (vec![2], "conflict", None),
        (vec![0], "conflict", None),
        (vec![1], "done", Some(1)),
        (vec![1], "conflict", Some(1)),
        (vec![3], "conflict", Some(1)),
        (vec![2, 3], "done", Some(3)),
        (vec![4, 4], "conflict", Some(3)),
    ] {
        let writes = versions.iter().map(|n| Write::InsertPolicy(policy(*n))).collect();
        assert_eq!(cell(world.try_write(writes).await), expected, "{versions:?}");
        let found = world.read(asked.clone()).await.policy;
        assert_eq!(found, in_force.map(policy), "{versions:?}");
    }
    assert_eq!(world.read(of_agent(1)).await.policy, None, "not asked for");
}

pub(crate) async fn every_version_of_a_policy_is_kept(world: World) {
    let policy = |version: u64| PolicyRow {
        version,
        text: format!("# {version}"),
        author: "user:ada".to_owned(),
        created_at: at(7),
    };
    let asked = Reads { policies: true, ..Reads::default() };
    assert_eq!(world.read(asked.clone()).await.policies, []);
    world.write([1, 2, 3].map(|n| Write::InsertPolicy(policy(n))).to_vec()).await;
    assert_eq!(world.read(asked).await.policies, [1, 2, 3].map(policy));
    assert_eq!(world.read(Reads::default()).await.policies, [], "not asked for");
}

pub(crate) async fn stops_are_put_replaced_and_lifted(world: World) {
    let stop = |scope: Scope, note: Option<&str>| StopRow {
        scope,
        by: "user:ada".to_owned(),
        note: note.map(str::to_owned),
        at: at(3),
    };
    let (one, all) = (Scope::Agent(agent_id(1)), Scope::Organization);
    let team = Scope::Team(team("sales"));
    let asked = Reads { policy: true, ..Reads::default() };
    let both = [stop(one.clone(), None), stop(all.clone(), Some("storm"))];
    world.write(vec![Write::PutStop(both[1].clone()), Write::PutStop(both[0].clone())]).await;
    assert_eq!(world.read(asked.clone()).await.stops, both);
    let calm = stop(all.clone(), Some("calm"));
    world.write(vec![Write::PutStop(calm.clone()), Write::LiftStop(one.clone())]).await;
    assert_eq!(world.read(asked.clone()).await.stops, std::slice::from_ref(&calm));
    let both = [calm, stop(team.clone(), None)];
    world.write(vec![Write::PutStop(both[1].clone())]).await;
    assert_eq!(world.read(asked.clone()).await.stops, both);
    world.write(vec![Write::LiftStop(one), Write::LiftStop(all), Write::LiftStop(team)]).await;
    assert_eq!(world.read(asked).await.stops, []);
}

pub(crate) async fn rates_are_those_of_the_newest_day(world: World) {
    let rates = |date: &str, dollars: &str| {
        let row = |code: &str, text| (Currency::parse(code).unwrap(), parse_figure(text).unwrap());
        RateTable::new(date, [row("USD", dollars), row("JPY", "175.680")]).unwrap()
    };
    let asked = Reads { rates: true, ..Reads::default() };
    assert_eq!(world.read(asked.clone()).await.rates, None);
    for (date, dollars, in_use) in [
        ("2026-10-29", "1.10", ("2026-10-29", "1.10")),
        ("2026-10-30", "1.1172", ("2026-10-30", "1.1172")),
        ("2026-10-28", "1.09", ("2026-10-30", "1.1172")),
        ("2026-10-30", "1.20", ("2026-10-30", "1.20")),
    ] {
        world.write(vec![Write::PutRates(rates(date, dollars))]).await;
        let found = world.read(asked.clone()).await.rates;
        let expected = Some(rates(in_use.0, in_use.1));
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{date}");
    }
}

pub(crate) async fn events_are_noted_once_and_forgotten_when_old(world: World) {
    let noted = |id: &str, at_millis: i64, keep_since: i64| Write::NoteEvent {
        id: id.to_owned(),
        at: at(at_millis),
        keep_since: at(keep_since),
    };
    let table = [
        // note, what comes of it, when evt_1 and evt_2 were noted then
        (noted("evt_1", 10, 0), "done", [Some(10), None]),
        (noted("evt_1", 11, 0), "conflict", [Some(10), None]),
        (noted("evt_2", 20, 10), "done", [Some(10), Some(20)]),
        (noted("evt_2", 30, 30), "conflict", [Some(10), Some(20)]),
        (noted("evt_3", 30, 11), "done", [None, Some(20)]),
        (noted("evt_1", 40, 11), "done", [Some(40), Some(20)]),
    ];
    for (write, expected, kept) in table {
        let name = format!("{write:?}");
        assert_eq!(cell(world.try_write(vec![write]).await), expected, "{name}");
        for (id, kept) in ["evt_1", "evt_2"].into_iter().zip(kept) {
            let asked = Reads { event: Some(id.to_owned()), ..Reads::default() };
            assert_eq!(world.read(asked).await.event_noted_at, kept.map(at), "{name}: {id}");
        }
    }
    assert_eq!(world.read(Reads::default()).await.event_noted_at, None, "not asked for");
}

/// They are read with the policy, sorted; found out again, nothing changes.
pub(crate) async fn tagged_keys_are_remembered_once(world: World) {
    let key = |n: u8| KeyMark::parse(&format!("key_{n}")).unwrap();
    let asked = Reads { policy: true, ..Reads::default() };
    assert_eq!(world.read(asked.clone()).await.agent_tagged_keys, []);
    for (n, expected) in [(2, vec![key(2)]), (1, vec![key(1), key(2)]), (2, vec![key(1), key(2)])] {
        world.write(vec![Write::TagKey { key: key(n), at: at(n.into()) }]).await;
        assert_eq!(world.read(asked.clone()).await.agent_tagged_keys, expected, "{n}");
    }
    assert_eq!(world.read(Reads::default()).await.agent_tagged_keys, [], "not asked for");
}

pub(crate) async fn gateways_are_kept_with_their_keys(world: World) {
    let two_keys = GatewayRow {
        revoked_at: Some(at(5)),
        keys: vec![
            GatewayKeyRow { expires_at: Some(at(9)), ..gateway_key(1, 1) },
            GatewayKeyRow { last_used_at: Some(at(8)), ..gateway_key(7, 2) },
        ],
        ..gateway(1)
    };
    let named = |n: u8, name: u8| GatewayRow { name: gateway(name).name, ..gateway(n) };
    let table = [
        ("the first", gateway(1), "done"),
        ("the second", gateway(2), "done"),
        ("the first with more", two_keys.clone(), "done"),
        ("another's name", named(3, 1), "conflict"),
        ("another's key", GatewayRow { keys: vec![gateway_key(7, 1)], ..gateway(3) }, "conflict"),
        (
            "another's older key",
            GatewayRow { keys: vec![gateway_key(1, 1)], ..gateway(3) },
            "conflict",
        ),
        ("it again", two_keys.clone(), "done"),
    ];
    for (name, row, expected) in table {
        assert_eq!(cell(world.try_write(vec![Write::PutGateway(row)]).await), expected, "{name}");
    }
    let one = |n: u8| Reads { gateway: Some(gateway_id(n)), ..Reads::default() };
    assert_eq!(world.read(one(1)).await.gateway, Some(two_keys.clone()));
    assert_eq!(world.read(one(3)).await.gateway, None);
    let used = |version: u32| Write::GatewayUsed { gateway: gateway_id(1), version, at: at(60) };
    world.write(vec![used(1), used(3)]).await;
    let mut expected = two_keys;
    expected.keys[0].last_used_at = Some(at(60));
    let all = world.read(Reads { gateways: true, ..Reads::default() }).await;
    assert_eq!(all.gateways, [expected, gateway(2)], "by name");
    assert!(all.gateway.is_none(), "not asked for");
}

pub(crate) async fn nonces_are_used_once_and_forgotten_when_old(world: World) {
    let used = |keyid: &str, text: &str, at_millis: i64, keep_since: i64| Write::UseNonce {
        nonce: nonce(keyid, text),
        at: at(at_millis),
        keep_since: at(keep_since),
    };
    let table = [
        // use, what comes of it, whether a 1 and a 2 are used up then
        (used("a", "1", 10, 0), "done", [true, false]),
        (used("a", "1", 11, 0), "conflict", [true, false]),
        (used("b", "1", 11, 0), "done", [true, false]),
        (used("a", "2", 20, 10), "done", [true, true]),
        (used("a", "2", 30, 30), "conflict", [true, true]),
        (used("a", "3", 30, 11), "done", [false, true]),
        (used("a", "1", 40, 11), "done", [true, true]),
    ];
    for (write, expected, spent) in table {
        let name = format!("{write:?}");
        assert_eq!(cell(world.try_write(vec![write]).await), expected, "{name}");
        for (text, spent) in ["1", "2"].into_iter().zip(spent) {
            let asked = Reads { nonce: Some(nonce("a", text)), ..Reads::default() };
            assert_eq!(world.read(asked).await.nonce_used, spent, "{name}: {text}");
        }
    }
    assert!(!world.read(Reads::default()).await.nonce_used, "not asked for");
}

pub(crate) async fn users_are_listed_by_name_and_added_once(world: World) {
    let user = |name: &str, roles: &[&str]| UserRow {
        name: UserName::parse(name).unwrap(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        created_at: at(2),
    };
    let (ada, bob) = (user("ada", &["owner", "kassenwart \"1\""]), user("bob", &[]));
    world.write(vec![Write::InsertUser(bob.clone()), Write::InsertUser(ada.clone())]).await;
    let again = world.try_write(vec![Write::InsertUser(user("ada", &["viewer"]))]).await;
    assert_eq!(cell(again), "conflict");
    let listed = world.read(Reads { users: true, ..Reads::default() }).await.users;
    assert_eq!(listed, [ada.clone(), bob]);
    let roles = |name: &str, roles: &[&str]| Write::SetRoles {
        user: UserName::parse(name).unwrap(),
        roles: user(name, roles).roles,
    };
    for (name, expected) in [("bob", "done"), ("eve", "conflict")] {
        assert_eq!(cell(world.try_write(vec![roles(name, &["risk"])]).await), expected, "{name}");
    }
    let listed = world.read(Reads { users: true, ..Reads::default() }).await.users;
    assert_eq!(listed, [ada, user("bob", &["risk"])]);
}

pub(crate) async fn webhooks_are_put_replaced_and_listed_by_name(world: World) {
    let listed = async || world.read(Reads { webhooks: true, ..Reads::default() }).await.webhooks;
    assert_eq!(listed().await, []);
    world.write(vec![Write::PutWebhook(webhook(2)), Write::PutWebhook(webhook(1))]).await;
    assert_eq!(listed().await, [webhook(1), webhook(2)]);
    let whole = WebhookRow {
        url: Some("https://bot.example.com/?a='b".to_owned()),
        generation: 7,
        rotated_at: Some(at(1)),
        done_to: 41,
        attempts: 3,
        next_try_at: Some(at(2)),
        failing_since: Some(at(3)),
        disabled_at: Some(at(4)),
        last_try_at: Some(at(5)),
        last_result: Some("503".to_owned()),
        given_up: 6,
        ..webhook(1)
    };
    world.write(vec![Write::PutWebhook(whole.clone())]).await;
    assert_eq!(listed().await, [whole, webhook(2)], "one agent's is another's not");
    world.write(vec![Write::PutWebhook(webhook(1))]).await;
    assert_eq!(listed().await, [webhook(1), webhook(2)], "and can be emptied again");
    assert_eq!(world.read(Reads::default()).await.webhooks, [], "not asked for");
}
