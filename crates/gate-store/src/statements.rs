//! The statements that every database runs, and the rules that they keep.

use std::collections::BTreeSet;
use std::fs;

const SQL_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql");

/// Statements that read a whole table because that is what they are for. None is part of a decision
/// but the stops, of which there are as many as a person made.
pub(crate) const WHOLE_TABLES: [&str; 11] = [
    "agent_tagged_keys",
    "agents",
    "gateways",
    "key_holders",
    "migrations",
    "policies",
    "reservations",
    "stops",
    "users",
    "webhooks",
    "windows",
];

/// Each statement's name and text.
pub(crate) fn statements() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(SQL_DIR).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        all.push((name, fs::read_to_string(path).unwrap()));
    }
    all
}

#[test]
fn every_file_is_one_statement_with_its_parameters_in_order() {
    for (name, sql) in statements() {
        assert_eq!(sql.find(';'), Some(sql.len() - 2), "{name} is one statement");
        let mut seen = BTreeSet::new();
        for rest in sql.split('$').skip(1) {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let number: usize = digits.parse().unwrap();
            // SQLite counts by first appearance, PostgreSQL by the number: both must agree.
            assert!(seen.contains(&number) || number == seen.len() + 1, "{name}: ${number}");
            seen.insert(number);
        }
    }
}
