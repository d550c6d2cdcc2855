//! What the manual and the starter policy say is so: each snippet of the guide is run.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests fail by panicking")]

use gate_policy::{Cases, Policy};

const GUIDE: &str = include_str!("../../../docs/policy.md");

/// The TOML snippets of the guide.
fn snippets() -> Vec<&'static str> {
    let blocks = GUIDE.split("```toml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect()
}

fn run(policy: &Policy, cases: &str) {
    let cases = Cases::parse(cases).unwrap_or_else(|faults| panic!("{faults:?}"));
    for outcome in cases.run(policy) {
        assert_eq!(outcome.wrong, None, "{}", outcome.name);
    }
}

#[test]
fn the_guide_is_a_policy_and_its_cases() {
    let (tables, pieces): (Vec<&str>, Vec<&str>) =
        snippets().into_iter().partition(|text| text.contains("[[case]]"));
    // The first piece is the whole policy of the quick start.
    let quick = Policy::parse(pieces.first().unwrap()).unwrap_or_else(|f| panic!("{f:?}"));
    assert_eq!(quick.warnings(), [""; 0]);
    let text = pieces.iter().skip(1).copied().collect::<String>();
    let policy = Policy::parse(&text).unwrap_or_else(|faults| panic!("{faults:?} in {text}"));
    assert_eq!(policy.warnings(), [""; 0]);
    assert_eq!((tables.len(), pieces.len()), (1, 5));
    run(&policy, tables.first().unwrap());
}

/// Whoever follows the guide to its end has met every key that its table has.
#[test]
fn the_guide_grows_a_policy_with_every_key() {
    let (_, table) = GUIDE.split_once("\n## The keys\n").unwrap();
    let (table, _) = table.split_once("\n### ").unwrap();
    let cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let names = |cell: &'static str| cell.split(", ").map(|name| name.trim_matches('`'));
    let keys: Vec<&str> =
        cells.flat_map(names).chain(["id", "agents", "control", "when", "enabled"]).collect();
    let grown: String = snippets().into_iter().skip(1).collect();
    for key in &keys {
        assert!(grown.lines().any(|line| line.starts_with(&format!("{key} = "))), "{key}");
    }
    assert_eq!(keys.len(), 27);
}

#[test]
fn every_rule_field_of_the_guide_is_one() {
    let rows = GUIDE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let fields: Vec<_> = rows
        .map(|(field, _)| field)
        .filter(|field| field.contains(" = ") && !field.contains('…'))
        .collect();
    for field in &fields {
        let text = format!("[[rules]]\nid = \"x\"\ncontrol = \"block\"\n{field}\n");
        assert!(Policy::parse(&text).is_ok(), "{field}: {:?}", Policy::parse(&text));
    }
    assert_eq!(fields.len(), 12);
}

#[test]
fn the_starter_policy_decides_as_its_table_says() {
    let text = include_str!("../../../deploy/starter-policy.toml");
    let policy = Policy::parse(text).unwrap_or_else(|faults| panic!("{faults:?}"));
    assert_eq!(policy.warnings(), [""; 0]);
    run(&policy, include_str!("../../../deploy/starter-policy.cases.toml"));
}
