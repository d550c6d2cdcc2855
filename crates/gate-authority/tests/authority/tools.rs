//! The connector's tools: whom they are granted to, and what is kept of their use.

use gate_core::{AgentKey, Grants, ToolUse};

use crate::world::{World, run};

fn used(tool: &str) -> ToolUse {
    let (from, to) = (Some("2026-10-01".to_owned()), None);
    ToolUse { tool: tool.to_owned(), from, to, rows: 7 }
}

/// Whether it was recorded; `nobody` when the key is nobody's.
fn use_balance(world: &World, key: &AgentKey) -> String {
    let found = run(world.authority.use_tool(key, &used("finance_balance")));
    found.map_or_else(|_| "nobody".to_owned(), |recorded| recorded.to_string())
}

#[test]
fn a_grant_is_the_agents_or_its_teams() {
    let world = World::new("");
    world.apply(
        "[teams.finance]\ntools = [\"finance_balance\", \"finance_disputes\"]\n\
         [agents.bot]\nteam = \"finance\"\n\
         [agents.other]\nteam = \"finance\"\ntools = [\"customers_search\"]\n",
    );
    let nobody = AgentKey::new("bb_agent_nobody".to_owned());
    let admin = world.admin();
    let stranger = gate_core::AgentName::parse("stranger").unwrap();
    let stranger = run(admin.create_agent(&stranger, None, false)).unwrap().1;
    #[rustfmt::skip]
    let table = [
        // key              granted                             using the balance
        (&world.key,   "finance_balance finance_disputes", "true"),
        (&world.other, "customers_search",                 "false"),
        (&stranger,    "",                                 "false"),
        (&nobody,      "nobody",                           "nobody"),
    ];
    for (key, granted, using) in table {
        let found = run(world.authority.granted(key)).map(|names| names.join(" "));
        assert_eq!(found.unwrap_or_else(|_| "nobody".to_owned()), granted);
        let before = world.audit().len();
        assert_eq!(use_balance(&world, key), using, "{granted}");
        let entries = world.audit().split_off(before);
        assert_eq!(entries.len(), usize::from(using == "true"), "{granted}");
    }
    run(admin.revoke_agent("bot")).unwrap();
    assert_eq!(use_balance(&world, &world.key), "nobody");
}

#[test]
fn an_entry_says_who_what_when_and_how_much() {
    let world = World::new("tools = [\"finance_payments\"]");
    run(world.authority.use_tool(&world.key, &used("finance_payments"))).unwrap();
    let entry = world.audit().pop().unwrap().entry;
    let agent = run(gate_core::Authority::agent(&*world.authority, &world.key)).unwrap().id;
    assert_eq!(entry.actor, format!("agent:{agent}"));
    assert_eq!((entry.action.as_str(), entry.subject.as_str()), ("tool.used", "finance_payments"));
    let details: serde_json::Value = serde_json::from_str(&entry.details).unwrap();
    let agent = agent.as_str();
    let expected =
        serde_json::json!({ "agent": agent, "from": "2026-10-01", "to": null, "rows": 7 });
    assert_eq!(details, expected);
    assert_eq!(entry.at, gate_core::Clock::now(&*world.clock));
}
