//! Pages.

use super::{NOON_MS, Rig, text};

/// Five refunds of one charge a second apart, amounts 1 to 5, and one of another charge.
fn stocked() -> (Rig, Vec<String>) {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","payment_intent":"pi_1"}"#);
    rig.charge(r#"{"id":"ch_2"}"#);
    let ids = (1..=5)
        .map(|amount| {
            rig.now_ms += 1000;
            let refund = rig.ok(&format!("POST /v1/refunds charge=ch_1&amount={amount}"));
            text(&refund, "id").to_owned()
        })
        .collect();
    rig.ok("POST /v1/refunds charge=ch_2&amount=6");
    (rig, ids)
}

#[test]
fn pages_are_newest_first() {
    let (mut rig, ids) = stocked();
    let third = NOON_MS / 1000 + 3;
    //   query, amounts on the page, has_more
    let table = [
        (String::new(), "6 5 4 3 2 1", false),
        ("charge=ch_1".to_owned(), "5 4 3 2 1", false),
        ("payment_intent=pi_1&limit=2".to_owned(), "5 4", true),
        ("charge=ch_1&limit=5".to_owned(), "5 4 3 2 1", false),
        (format!("charge=ch_1&limit=2&starting_after={}", ids[3]), "3 2", true),
        (format!("charge=ch_1&limit=2&starting_after={}", ids[2]), "2 1", false),
        (format!("charge=ch_1&starting_after={}", ids[0]), "", false),
        (format!("charge=ch_1&limit=2&ending_before={}", ids[0]), "3 2", true),
        (format!("charge=ch_1&limit=2&ending_before={}", ids[2]), "5 4", false),
        (format!("charge=ch_1&ending_before={}", ids[4]), "", false),
        (format!("charge=ch_1&created[gte]={third}"), "5 4 3", false),
        (format!("charge=ch_1&created[gt]={third}"), "5 4", false),
        (format!("charge=ch_1&created[lt]={third}"), "2 1", false),
        (format!("charge=ch_1&created[gt]={}&created[lte]={third}", third - 2), "3 2", false),
        (format!("charge=ch_1&created={third}"), "3", false),
        ("charge=ch_none".to_owned(), "", false),
    ];
    for (query, amounts, more) in table {
        let page = rig.ok(&format!("GET /v1/refunds?{query}"));
        let seen: Vec<String> =
            page["data"].as_array().unwrap().iter().map(|it| it["amount"].to_string()).collect();
        assert_eq!(seen.join(" "), amounts, "{query}");
        assert_eq!(page["has_more"], more, "{query}");
        assert_eq!(text(&page, "url"), "/v1/refunds", "{query}");
    }
}

#[test]
fn pages_refuse() {
    let (mut rig, ids) = stocked();
    let both = format!("GET /v1/refunds?starting_after={0}&ending_before={0}", ids[0]);
    rig.check(&[
        ("GET /v1/refunds?limit=0", 400, "parameter_invalid_integer", "equal to 1."),
        ("GET /v1/refunds?limit=101", 400, "parameter_invalid_integer", "equal to 100."),
        ("GET /v1/refunds?limit=x", 400, "parameter_invalid_integer", "Invalid integer: x"),
        ("GET /v1/refunds?created[gte]=x", 400, "parameter_invalid_integer", "Invalid integer: x"),
        ("GET /v1/refunds?created[foo]=1", 400, "parameter_unknown", "created[foo]"),
        ("GET /v1/refunds?reason=duplicate", 400, "parameter_unknown", "reason"),
        ("GET /v1/refunds?starting_after=re_x", 404, "resource_missing", "No such refund: 're_x'"),
        (&both, 400, "parameters_exclusive", "both"),
    ]);
}

#[test]
fn the_other_lists_filter() {
    let mut rig = Rig::new();
    rig.charge(
        r#"{"id":"ch_1","payment_intent":"pi_1","customer":{"id":"cus_1","email":"a@b.c"}}"#,
    );
    rig.charge(
        r#"{"id":"ch_2","created":5,"payment_intent":"pi_2","customer":"cus_2","disputed":true}"#,
    );
    let table = [
        ("/v1/charges", "ch_1 ch_2"),
        ("/v1/charges?customer=cus_1", "ch_1"),
        ("/v1/charges?payment_intent=pi_2", "ch_2"),
        ("/v1/charges?created[lt]=6", "ch_2"),
        ("/v1/payment_intents?customer=cus_2", "pi_2"),
        ("/v1/customers?email=a@b.c", "cus_1"),
        ("/v1/customers", "cus_1 cus_2"),
    ];
    for (target, ids) in table {
        let page = rig.ok(&format!("GET {target}"));
        let seen: Vec<&str> =
            page["data"].as_array().unwrap().iter().map(|it| text(it, "id")).collect();
        assert_eq!(seen.join(" "), ids, "{target}");
    }
    assert_eq!(rig.ok("GET /v1/disputes?payment_intent=pi_2")["data"][0]["charge"], "ch_2");
    assert_eq!(rig.ok("GET /v1/disputes?charge=ch_1")["data"].as_array().unwrap().len(), 0);
}
