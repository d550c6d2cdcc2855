//! Many at once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{NOON_MS, Rig, text};

/// All pages of a list, joined.
fn all(rig: &mut Rig, path: &str) -> Vec<Value> {
    let mut rows: Vec<Value> = Vec::new();
    loop {
        let after = rows.last().map(|row| format!("&starting_after={}", text(row, "id")));
        let page = rig.ok(&format!("GET {path}?limit=100{}", after.unwrap_or_default()));
        rows.extend(page["data"].as_array().unwrap().iter().cloned());
        if page["has_more"] == false {
            return rows;
        }
    }
}

fn tally(rows: &[Value], field: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(text(row, field).to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn a_seeded_account_has_everything_in_order() {
    let mut rig = Rig::new();
    let order = r#"{"payments":1000,"disputes":350,"customers":20}"#;
    let made = rig.order("seed", order).body;
    assert_eq!(made, json!({"customers": 20, "disputes": 350, "payments": 1000}));
    for (path, many) in
        [("/v1/payment_intents", 1000), ("/v1/disputes", 350), ("/v1/customers", 20)]
    {
        let rows = all(&mut rig, path);
        let ids: BTreeSet<&str> = rows.iter().map(|row| text(row, "id")).collect();
        assert_eq!((rows.len(), ids.len()), (many, many), "{path}");
        assert!(rows.is_sorted_by_key(|row| -row["created"].as_i64().unwrap()), "{path}");
        assert_eq!(rows[0]["created"], NOON_MS / 1000, "{path}");
        assert_eq!(rows[1]["created"], NOON_MS / 1000 - 60, "{path}");
    }
    let disputes = all(&mut rig, "/v1/disputes");
    let statuses = tally(&disputes, "status");
    assert_eq!(statuses.len(), 10);
    assert!(statuses.values().all(|many| *many == 35), "{statuses:?}");
    for dispute in &disputes {
        let charge = rig.ok(&format!("GET /v1/charges/{}", text(dispute, "charge")));
        assert_eq!((&charge["disputed"], &charge["captured"]), (&json!(true), &json!(true)));
    }
    let intents = all(&mut rig, "/v1/payment_intents");
    let expected = [
        ("processing", 100),
        ("requires_capture", 100),
        ("requires_payment_method", 100),
        ("succeeded", 700),
    ];
    let expected = expected.map(|(status, many)| (status.to_owned(), many));
    assert_eq!(tally(&intents, "status"), BTreeMap::from(expected));
    assert_eq!(rig.sandbox.events().len(), 0);
}

#[test]
fn seeding_refuses() {
    let mut rig = Rig::new();
    for (order, said) in [
        (r#"{"disputes":1}"#, "ask for `payments` as well"),
        (r#"{"payments":10001}"#, "at most 10000"),
        (r#"{"payment":1}"#, "unknown field"),
    ] {
        let answered = rig.order("seed", order);
        assert_eq!(answered.status, 400, "{order}");
        assert!(answered.body.to_string().contains(said), "{order}: {}", answered.body);
    }
    assert_eq!(all(&mut rig, "/v1/payment_intents").len(), 0);
}

#[test]
fn payments_are_listed_by_day_and_customer() {
    let mut rig = Rig::new();
    rig.order("seed", r#"{"payments":10,"customers":2,"spacingSeconds":86400}"#);
    let day = |days_back: i64| NOON_MS / 1000 - days_back * 86_400;
    let intents = all(&mut rig, "/v1/payment_intents");
    let customer = text(&intents[0], "customer").to_owned();
    let table = [
        (format!("created[gte]={}", day(3)), 4),
        (format!("created[gte]={}&created[lte]={}", day(5), day(3)), 3),
        (format!("created[lte]={}", day(9)), 1),
        (format!("customer={customer}"), 5),
        (format!("customer={customer}&created[gte]={}&limit=1", day(3)), 1),
    ];
    for (query, many) in table {
        let page = rig.ok(&format!("GET /v1/payment_intents?{query}"));
        assert_eq!(page["data"].as_array().unwrap().len(), many, "{query}");
    }
}
