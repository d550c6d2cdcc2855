//! The query language of searches, and their pages.

use form_urlencoded::Serializer;
use proptest::prelude::*;

use super::{Answered, Rig, text};

fn search(rig: &mut Rig, params: &[(&str, &str)]) -> Answered {
    let query = Serializer::new(String::new()).extend_pairs(params).finish();
    rig.send(&format!("GET /v1/customers/search?{query}"))
}

/// The names of those found, newest first.
fn found(rig: &mut Rig, query: &str) -> Vec<String> {
    let answered = search(rig, &[("query", query), ("limit", "100")]);
    assert_eq!(answered.status, 200, "{query}: {}", answered.body);
    let rows = answered.body["data"].as_array().unwrap();
    rows.iter().map(|row| text(row, "name").to_owned()).collect()
}

fn add(rig: &mut Rig, fields: &[(&str, &str)]) {
    let form = Serializer::new(String::new()).extend_pairs(fields).finish();
    rig.now_ms += 1000;
    rig.ok(&format!("POST /v1/customers {form}"));
}

fn stocked() -> Rig {
    let mut rig = Rig::new();
    add(&mut rig, &[("name", "Amy Stone"), ("email", "amy@rocketrides.io")]);
    add(&mut rig, &[("name", "Xamy Stone-Smith"), ("email", "xamy@rocketrides.io")]);
    add(&mut rig, &[("name", "Ann \"Annie\" O'Neil"), ("metadata[tier]", "gold")]);
    add(&mut rig, &[("name", "back\\slash"), ("phone", "+4912345"), ("metadata[tier]", "tin")]);
    add(&mut rig, &[("name", "Zoë OR AND -"), ("email", "ZOE@example.com")]);
    rig
}

#[test]
fn queries_find() {
    let mut rig = stocked();
    let table = [
        // query                                  found, newest first
        (r#"email:"amy@rocketrides.io""#, "Amy Stone"),
        (r#"email:"AMY@rocketrides.io""#, "Amy Stone"),
        (r#"email:"zoe@example.com""#, "Zoë OR AND -"),
        (r#"email~"amy""#, "Xamy Stone-Smith|Amy Stone"),
        (r#"email~"amy@""#, "Xamy Stone-Smith|Amy Stone"),
        (r#"name:"amy stone""#, "Amy Stone"),
        (r#"name:"stone""#, "Xamy Stone-Smith|Amy Stone"),
        (r#"name:"ston""#, ""),
        (r#"name~"ston""#, "Xamy Stone-Smith|Amy Stone"),
        (r#"name~"zoë""#, "Zoë OR AND -"),
        (r#"name~"OR AND -""#, "Zoë OR AND -"),
        (r#"name~"\"Annie\" O'""#, "Ann \"Annie\" O'Neil"),
        (r#"name~'"Annie" O\'N'"#, "Ann \"Annie\" O'Neil"),
        (r#"name~"back\\slash""#, "back\\slash"),
        (r#"name~"back\slash""#, ""),
        (r#"metadata["tier"]:"gold""#, "Ann \"Annie\" O'Neil"),
        ("metadata['tier']:'gold'", "Ann \"Annie\" O'Neil"),
        (r#"metadata["tier"]:"Gold""#, ""),
        (r#"-metadata["tier"]:null"#, "back\\slash|Ann \"Annie\" O'Neil"),
        (r#"-metadata["tier"]:null -metadata["tier"]:"tin""#, "Ann \"Annie\" O'Neil"),
        (r#"name~"stone" AND email:"amy@rocketrides.io""#, "Amy Stone"),
        (r#"name~"stone" and -email:"amy@rocketrides.io""#, "Xamy Stone-Smith"),
        (r#"phone:"+4912345" or name:"amy""#, "back\\slash|Amy Stone"),
        ("email:null", "back\\slash|Ann \"Annie\" O'Neil"),
        ("created>1793361604", "Zoë OR AND -"),
        (r#"created<="1793361601""#, "Amy Stone"),
        ("created:1793361602", "Xamy Stone-Smith"),
    ];
    for (query, names) in table {
        assert_eq!(found(&mut rig, query).join("|"), names, "{query}");
    }
}

#[test]
fn queries_are_refused() {
    let mut rig = stocked();
    let unsupported = "is an unsupported search field for resource `customers`";
    let mixed = "AND and OR cannot be combined";
    let clauses = [r#"name:"a""#; 11].join(" ");
    let table = [
        ("amy", "We were unable to parse your search query."),
        (r#""amy""#, "unable to parse"),
        (r#"name:"amy"#, "A quote is not closed"),
        (r#"name:"amy\""#, "A quote is not closed"),
        ("name:amy", "Texts must stand in quotes"),
        (r#"name="amy""#, "unable to parse"),
        (r#"name:"amy"email:"x""#, "followed by a space"),
        (r#"name:"amy" AND"#, "unable to parse"),
        (r#"AND name:"amy""#, "unable to parse"),
        (r#"(name:"amy")"#, "unable to parse"),
        (r#"name:"a" AND name:"b" OR name:"c""#, mixed),
        (r#"name:"a" name:"b" OR name:"c""#, mixed),
        (r#"name~"am""#, "at least 3 characters"),
        (r#"name>"amy""#, "does not take this operator"),
        (r#"metadata["tier"]~"gold""#, "does not take this operator"),
        (r#"address:"x""#, unsupported),
        (r#"metadata:"x""#, unsupported),
        (r#"name["x"]:"y""#, unsupported),
        (r#"metadata["tier":"y""#, "A ] is missing"),
        (" ", "It has no clause"),
        (&clauses, "more than 10 clauses"),
    ];
    for (query, said) in table {
        let answered = search(&mut rig, &[("query", query)]);
        assert_eq!(answered.status, 400, "{query}: {}", answered.body);
        let error = &answered.body["error"];
        assert_eq!(text(error, "type"), "invalid_request_error", "{query}");
        assert!(text(error, "message").contains(said), "{query}: {error}");
    }
    rig.check(&[
        ("GET /v1/customers/search", 400, "parameter_missing", "query"),
        ("GET /v1/customers/search?query=name:'x'&starting_after=y", 400, "parameter_unknown", ""),
        ("GET /v1/customers/search?query=name:'x'&page=y", 400, "-", "Invalid page"),
        ("GET /v1/customers/search?query=name:'x'&limit=101", 400, "parameter_invalid_integer", ""),
    ]);
    rig.order("keys", r#"{"key":"rk_test_no","permissions":{"disputes":"read"}}"#);
    let line = "GET /v1/customers/search?query=name:'x' Authorization:Bearer+rk_test_no";
    rig.check(&[(line, 403, "-", "rak_customer_read")]);
}

#[test]
fn pages_of_a_search_join_up() {
    let mut rig = Rig::new();
    rig.order("seed", r#"{"customers":25}"#);
    let (mut names, mut page) = (Vec::new(), None::<String>);
    loop {
        let mut params = vec![("query", r#"name~"customer""#), ("limit", "10")];
        params.extend(page.as_deref().map(|page| ("page", page)));
        let body = search(&mut rig, &params).body;
        assert_eq!(text(&body, "object"), "search_result");
        assert_eq!(text(&body, "url"), "/v1/customers/search");
        let rows = body["data"].as_array().unwrap();
        names.extend(rows.iter().map(|row| text(row, "name").to_owned()));
        assert_eq!(body["has_more"], body["next_page"].is_string());
        page = body["next_page"].as_str().map(str::to_owned);
        if page.is_none() {
            break;
        }
        // A newer one appears on no page that comes later.
        add(&mut rig, &[("name", "Customer late")]);
    }
    let expected: Vec<String> = (0..25).rev().map(|place| format!("Customer {place:05}")).collect();
    assert_eq!(names, expected);
}

proptest! {
    /// Nothing panics, and an answer is found or refused.
    #[test]
    fn any_query_is_answered(query in r#"([a-z]{1,5}|name|email|metadata|[-:~<>"'\\\[\] ]|AND|OR|null|\PC){0,30}"#) {
        let mut rig = stocked();
        let answered = search(&mut rig, &[("query", &query)]);
        prop_assert!([200, 400].contains(&answered.status), "{}", answered.body);
    }
}
