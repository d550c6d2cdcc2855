//! Charges, disputes, refunds and permissions, as read.

use gate_core::{Charge, ChargeId, CustomerFact, Processor, ReadError, Target};
use gate_http::TransportError;
use gate_stripe::{Access, CheckState, PERMISSIONS, Resource};
use serde_json::{Value, json};

use crate::world::{
    Answer, BY, Key, LIVE_KEY, TEST_KEY, Told, account, charge, client, customer, forbidden, list,
    payment_intent, problem, raw, refund, says, with,
};

/// A charge in one line: amounts, what it may be refunded for, its customer.
fn told(found: Result<Charge, ReadError>) -> String {
    let charge = match found {
        Ok(charge) => charge,
        Err(error) => return format!("{error:?}"),
    };
    let customer = match &charge.customer {
        CustomerFact::None => "nobody".to_owned(),
        CustomerFact::Known { id, created_at } => format!("{id}@{}", created_at.millis()),
        CustomerFact::Unreadable { id } => format!("{id}@?"),
    };
    format!(
        "{} {}-{}/{} {} {:?} {:?} {customer}",
        charge.id,
        charge.amount,
        charge.amount_refunded.minor(),
        charge.amount_captured.minor(),
        if charge.captured { "captured" } else { "authorised" },
        charge.status,
        charge.dispute,
    )
}

const PLAIN: &str = "ch_1 10.00 EUR-0/1000 captured Succeeded None cus_1@1600000";

fn ok(changes: Value) -> Answer {
    says(200, &charge(with(json!({ "customer": customer() }), changes)))
}

/// A payment intent with its charge expanded.
fn paid(status: &str) -> Answer {
    let charge = charge(json!({ "customer": customer() }));
    says(200, &payment_intent(status, charge))
}

#[tokio::test]
async fn what_is_read_of_a_charge() {
    let missing = |field: &str| {
        let mut object = charge(json!({}));
        object.as_object_mut().unwrap().remove(field).unwrap();
        says(200, &object)
    };
    #[rustfmt::skip]
    let table: Vec<(&str, Answer, &str)> = vec![
        ("plain",            ok(json!({})),                              PLAIN),
        ("no customer",      ok(json!({"customer": null})),              "ch_1 10.00 EUR-0/1000 captured Succeeded None nobody"),
        ("not expanded",     ok(json!({"customer": "cus_1"})),           "ch_1 10.00 EUR-0/1000 captured Succeeded None cus_1@?"),
        ("deleted customer", ok(json!({"customer": {"id": "cus_1", "deleted": true}})), "ch_1 10.00 EUR-0/1000 captured Succeeded None cus_1@?"),
        ("partial capture",  ok(json!({"amount_captured": 700, "amount_refunded": 300})), "ch_1 10.00 EUR-300/700 captured Succeeded None cus_1@1600000"),
        ("uncaptured",       ok(json!({"captured": false, "amount_captured": 0})), "ch_1 10.00 EUR-0/0 authorised Succeeded None cus_1@1600000"),
        ("failed",           ok(json!({"status": "failed"})),            "ch_1 10.00 EUR-0/1000 captured Failed None cus_1@1600000"),
        ("unknown status",   ok(json!({"status": "elsewhere"})),         "ch_1 10.00 EUR-0/1000 captured Pending None cus_1@1600000"),
        ("yen",              ok(json!({"currency": "jpy"})),             "ch_1 1000 JPY-0/1000 captured Succeeded None cus_1@1600000"),
        ("refunds are null", ok(json!({"refunds": null})),               PLAIN),
        ("unknown currency", ok(json!({"currency": "xyz"})),             "Unreadable"),
        ("negative amount",  ok(json!({"amount_refunded": -1})),         "Unreadable"),
        ("fractions",        ok(json!({"amount": 10.5})),                "Unreadable"),
        ("an amount in text", ok(json!({"amount": "1000"})),             "Unreadable"),
        ("another charge",   ok(json!({"id": "ch_2"})),                  "Unreadable"),
        ("an odd customer",  ok(json!({"customer": "x"})),               "Unreadable"),
        ("live money",       ok(json!({"livemode": true})),              "LivemodeMismatch"),
        ("no currency",      missing("currency"),                        "Unreadable"),
        ("no capture",       missing("captured"),                        "Unreadable"),
        ("no mode",          missing("livemode"),                        "Unreadable"),
        ("no dispute flag",  missing("disputed"),                        "Unreadable"),
        ("not JSON",         raw(200, &[], b"<html>"),                   "Unreadable"),
        ("empty",            raw(200, &[], b""),                         "Unreadable"),
        ("404",              problem(404, json!({"code": "resource_missing"})), "NotFound { livemode: false, account: Some(\"acct_1\") }"),
        ("404, not Stripe's", raw(404, &[], b"<html>"),                  "Unreadable"),
        ("401",              problem(401, json!({})),                    "KeyRefused"),
        ("429",              raw(429, &[("retry-after", "7")], b""),     "Unavailable { after: Some(7s) }"),
        ("429, no header",   problem(429, json!({"code": "lock_timeout"})), "Unavailable { after: None }"),
        ("400, too many",    problem(400, json!({"code": "rate_limit"})), "Unavailable { after: None }"),
        ("400",              problem(400, json!({})),                    "Unreadable"),
        ("500",              raw(500, &[], b""),                         "Unavailable { after: None }"),
        ("503",              raw(503, &[("retry-after", "never")], b""), "Unavailable { after: None }"),
        ("302",              raw(302, &[("location", "https://x")], b""), "Unreadable"),
        ("not sent",         Err(TransportError::NotSent { detail: String::new() }), "Unavailable { after: None }"),
        ("timed out",        Err(TransportError::TimedOut),              "Unavailable { after: None }"),
        ("broken",           Err(TransportError::Broken { detail: String::new() }), "Unavailable { after: None }"),
        ("too large",        Err(TransportError::TooLarge { limit_bytes: 9 }), "Unreadable"),
    ];
    for (name, answer, expected) in table {
        // What was given back of a charge is listed, to be counted.
        let listed = (name == "partial capture").then(|| says(200, &list(vec![], false)));
        let is_listed = listed.is_some();
        let transport = Told::answering([answer].into_iter().chain(listed).collect());
        let client = client(transport.clone(), Key::of(Some(TEST_KEY)), Some(account()));
        let found = client.charge(&Target::parse("ch_1").unwrap(), BY).await;
        assert_eq!(told(found), expected, "{name}");
        let mut calls = vec!["GET /v1/charges/ch_1?expand[]=customer"];
        if is_listed {
            calls.push("GET /v1/refunds?charge=ch_1&limit=100");
        }
        assert_eq!(transport.lines(), calls, "{name}");
    }
}

#[tokio::test]
async fn what_a_policy_is_told_of_a_charge() {
    let given = |refunds: Vec<Value>| says(200, &list(refunds, false));
    let part = json!({ "amount_refunded": 300 });
    let failed = with(refund("re_3", None), json!({ "status": "failed" }));
    let card = json!({
        "payment_method_details": { "type": "card", "card": { "country": "DE" } },
        "outcome": { "risk_level": "elevated", "risk_score": 66 },
        "metadata": { "order": "17" },
    });
    let bare = json!({ "payment_method_details": null, "outcome": null, "metadata": {} });
    #[rustfmt::skip]
    let table: Vec<(&str, Vec<Answer>, &str)> = vec![
        // the charge, what is listed              | method, country, risk, refunds, metadata
        ("a card",          vec![ok(card)],                                       "card DE elevated 66 0 order=17"),
        ("nothing told",    vec![ok(bare.clone())],                               "- - - - 0 "),
        ("refunded twice",  vec![ok(with(bare.clone(), part.clone())), given(vec![refund("re_1", None), refund("re_2", None)])], "- - - - 2 "),
        ("one of them failed", vec![ok(with(bare.clone(), part.clone())), given(vec![refund("re_1", None), failed])], "- - - - 1 "),
        ("may not list",    vec![ok(with(bare.clone(), part)), forbidden()], "- - - - - "),
        ("nothing left",    vec![ok(with(bare, json!({ "amount_refunded": 1000 })))], "- - - - - "),
    ];
    for (name, answers, expected) in table {
        let transport = Told::answering(answers);
        let client = client(transport.clone(), Key::of(Some(TEST_KEY)), Some(account()));
        let facts = client.charge(&Target::parse("ch_1").unwrap(), BY).await.unwrap().facts;
        let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let metadata: Vec<_> = facts.metadata.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let found = [
            or(facts.payment_method_type),
            or(facts.card_country),
            or(facts.risk_level),
            or(facts.risk_score.map(|score| score.to_string())),
            or(facts.refund_count.map(|count| count.to_string())),
            metadata.join(","),
        ];
        assert_eq!(found.join(" "), expected, "{name}");
    }
}

#[tokio::test]
async fn what_is_read_of_a_payment_intent() {
    let intent = |status: &str, charge: Value| says(200, &payment_intent(status, charge));
    #[rustfmt::skip]
    let table: Vec<(&str, Vec<Answer>, &str)> = vec![
        ("paid",             vec![paid("succeeded")],                        PLAIN),
        ("authorised",       vec![paid("requires_capture")],                 PLAIN),
        ("unknown status",   vec![paid("elsewhere")],                        PLAIN),
        ("not expanded",     vec![intent("succeeded", json!("ch_1")), ok(json!({}))], PLAIN),
        ("in progress",      vec![paid("processing")],                       "NotReady"),
        ("waits",            vec![intent("requires_action", json!(null))],   "NotReady"),
        ("paid, no charge",  vec![intent("succeeded", json!(null))],         "NotReady"),
        ("new status, none", vec![intent("elsewhere", json!(null))],         "NotReady"),
        ("canceled",         vec![paid("canceled")],                         "NotPaid"),
        ("not begun",        vec![intent("requires_confirmation", json!(null))], "NotPaid"),
        ("declined",         vec![paid("requires_payment_method")],          "NotPaid"),
        ("another intent",   vec![intent("succeeded", charge(json!({"payment_intent": "pi_2"})))], "Unreadable"),
        ("intent not named", vec![intent("succeeded", charge(json!({"payment_intent": null, "customer": null})))], "ch_1 10.00 EUR-0/1000 captured Succeeded None nobody"),
        ("intent expanded",  vec![intent("succeeded", charge(json!({"payment_intent": {"id": "pi_1"}, "customer": null})))], "ch_1 10.00 EUR-0/1000 captured Succeeded None nobody"),
        ("wrong object",     vec![says(200, &with(payment_intent("succeeded", charge(json!({}))), json!({"id": "pi_9"})))], "Unreadable"),
        ("live money",       vec![intent("succeeded", charge(json!({"livemode": true})))], "LivemodeMismatch"),
        ("an odd charge id", vec![intent("succeeded", json!("ch_../x"))],    "Unreadable"),
    ];
    for (name, answers, expected) in table {
        let transport = Told::answering(answers);
        let client = client(transport.clone(), Key::of(Some(TEST_KEY)), None);
        let found = client.charge(&Target::parse("pi_1").unwrap(), BY).await;
        if let Ok(charge) = &found {
            let intent = charge.payment_intent.as_ref().map(ToString::to_string);
            assert_eq!(intent.as_deref(), Some("pi_1"), "{name}");
        }
        assert_eq!(told(found), expected, "{name}");
        let first =
            "GET /v1/payment_intents/pi_1?expand[]=latest_charge&expand[]=latest_charge.customer";
        assert_eq!(transport.lines()[0], first, "{name}");
    }
}

/// What a key may not do is found out once, and again when the key changes.
#[tokio::test]
async fn a_key_that_may_not_read_customers_or_expand() {
    const UNAGED: &str = "ch_1 10.00 EUR-0/1000 captured Succeeded None cus_1@?";
    let without = || says(200, &charge(json!({})));
    let plain_intent = || says(200, &payment_intent("succeeded", json!("ch_1")));
    let expanded = || says(200, &payment_intent("succeeded", charge(json!({}))));
    let customer_of = "GET /v1/charges/ch_1?expand[]=customer";
    let bare = "GET /v1/charges/ch_1";
    let both =
        "GET /v1/payment_intents/pi_1?expand[]=latest_charge&expand[]=latest_charge.customer";
    let one = "GET /v1/payment_intents/pi_1?expand[]=latest_charge";
    let none = "GET /v1/payment_intents/pi_1";
    let charges = "Permission { permission: \"Charges: Read\" }";
    let intents = "Permission { permission: \"PaymentIntents: Read\" }";
    type Row<'a> = (&'a str, &'a str, Vec<Answer>, &'a str, Vec<&'a str>);
    #[rustfmt::skip]
    let table: Vec<Row<'_>> = vec![
        // name                 target  answers                                     found    asked
        ("no customers",        "ch_1", vec![forbidden(), without()],               UNAGED,  vec![customer_of, bare]),
        ("remembered",          "ch_1", vec![without()],                            UNAGED,  vec![bare]),
        ("remembered for both", "pi_1", vec![expanded()],                           UNAGED,  vec![one]),
        ("no expanding",        "pi_1", vec![forbidden(), plain_intent(), without()], UNAGED, vec![one, none, bare]),
        ("remembered too",      "pi_1", vec![plain_intent(), without()],            UNAGED,  vec![none, bare]),
        ("new key",             "pi_1", vec![paid("succeeded")],                    PLAIN,   vec![both]),
        ("no charges",          "ch_1", vec![forbidden(), forbidden()],             charges, vec![customer_of, bare]),
        ("customers after all", "ch_1", vec![ok(json!({}))],                        PLAIN,   vec![customer_of]),
        ("no intents",          "pi_1", vec![forbidden(), forbidden(), forbidden()], intents, vec![both, one, none]),
        ("neither way",         "pi_1", vec![forbidden(), forbidden(), plain_intent(), forbidden(), forbidden()], charges, vec![both, one, none, customer_of, bare]),
    ];
    let transport = Told::answering(Vec::new());
    let key = Key::of(Some(TEST_KEY));
    let client = client(transport.clone(), key.clone(), None);
    for (name, target, answers, expected, asked) in table {
        if name == "new key" {
            key.change("sk_test_another");
        }
        transport.tell(answers);
        let found = client.charge(&Target::parse(target).unwrap(), BY).await;
        assert_eq!(told(found), expected, "{name}");
        assert_eq!(transport.lines(), asked, "{name}");
    }
}

#[tokio::test]
async fn where_a_dispute_stands() {
    let one = |status: &str, refundable: bool| json!({"id": "dp_1", "status": status, "is_charge_refundable": refundable});
    let all = |disputes: Vec<Value>| says(200, &list(disputes, false));
    #[rustfmt::skip]
    let table: Vec<(&str, Answer, &str)> = vec![
        ("inquiry",             all(vec![one("warning_needs_response", true)]),   "Refundable"),
        ("inquiry reviewed",    all(vec![one("warning_under_review", true)]),     "Refundable"),
        ("inquiry over",        all(vec![one("warning_closed", true)]),           "Refundable"),
        ("won",                 all(vec![one("won", true)]),                      "Refundable"),
        ("won, but not so",     all(vec![one("won", false)]),                     "Open"),
        ("inquiry, but not so", all(vec![one("warning_needs_response", false)]),  "Open"),
        ("real",                all(vec![one("needs_response", false)]),          "Open"),
        ("real, says it is",    all(vec![one("needs_response", true)]),           "Open"),
        ("under review",        all(vec![one("under_review", true)]),             "Open"),
        ("lost",                all(vec![one("lost", true)]),                     "Open"),
        ("prevented",           all(vec![one("prevented", true)]),                "Open"),
        ("appealed",            all(vec![one("appeal_under_review", true)]),      "Open"),
        ("new status",          all(vec![one("warning_unheard_of", true)]),       "Open"),
        ("won, and another",    all(vec![one("won", true), one("lost", false)]),  "Open"),
        ("none there",          all(vec![]),                                      "Open"),
        ("more of them",        says(200, &list(vec![one("won", true)], true)),   "Open"),
        ("may not read",        forbidden(),                                      "Open"),
        ("unreadable",          all(vec![json!({"status": "won"})]),              "Unreadable"),
        ("unavailable",         raw(500, &[], b""),                               "Unavailable { after: None }"),
    ];
    for (name, answer, expected) in table {
        let transport = Told::answering(vec![ok(json!({"disputed": true})), answer]);
        let client = client(transport.clone(), Key::of(Some(TEST_KEY)), None);
        let found = client.charge(&Target::parse("ch_1").unwrap(), BY).await;
        let dispute = found.map_or_else(|e| format!("{e:?}"), |c| format!("{:?}", c.dispute));
        assert_eq!(dispute, expected, "{name}");
        assert_eq!(transport.lines()[1], "GET /v1/disputes?charge=ch_1&limit=100", "{name}");
    }
}

#[tokio::test]
async fn refunds_are_listed_to_the_end_or_not_at_all() {
    let first = "GET /v1/refunds?charge=ch_1&limit=100";
    let second = "GET /v1/refunds?charge=ch_1&limit=100&starting_after=re_2";
    let page = |ids: &[&str], more| {
        let refunds = ids.iter().map(|id| refund(id, Some("int_1"))).collect();
        says(200, &list(refunds, more))
    };
    let changed =
        |changes: Value| says(200, &list(vec![with(refund("re_1", None), changes)], false));
    #[rustfmt::skip]
    let table: Vec<(&str, Vec<Answer>, &str, Vec<&str>)> = vec![
        ("none",            vec![page(&[], false)],                         "",                     vec![first]),
        ("one page",        vec![page(&["re_1", "pyr_2"], false)],          "re_1:int_1:succeeded pyr_2:int_1:succeeded", vec![first]),
        ("two pages",       vec![page(&["re_1", "re_2"], true), page(&["re_3"], false)], "re_1:int_1:succeeded re_2:int_1:succeeded re_3:int_1:succeeded", vec![first, second]),
        ("not ours",        vec![changed(json!({}))],                       "re_1:-:succeeded",     vec![first]),
        ("edited by hand",  vec![changed(json!({"metadata": {"burnbound_intent": "?"}}))], "re_1:-:succeeded", vec![first]),
        ("odd metadata",    vec![changed(json!({"metadata": {"burnbound_intent": 5}}))],   "re_1:-:succeeded", vec![first]),
        ("no metadata",     vec![changed(json!({"metadata": null}))],       "re_1:-:succeeded",     vec![first]),
        ("pending",         vec![changed(json!({"status": "pending"}))],    "re_1:-:pending",       vec![first]),
        ("new status",      vec![changed(json!({"status": "in_the_mail"}))], "re_1:-:in_the_mail",  vec![first]),
        ("no status",       vec![changed(json!({"status": null}))],         "re_1:-:pending",       vec![first]),
        ("charge expanded", vec![changed(json!({"charge": {"id": "ch_1"}}))], "re_1:-:succeeded",   vec![first]),
        ("another charge's", vec![changed(json!({"charge": "ch_2"}))],      "Unreadable",           vec![first]),
        ("an odd id",       vec![changed(json!({"id": "x"}))],              "Unreadable",           vec![first]),
        ("second page 500", vec![page(&["re_1", "re_2"], true), raw(500, &[], b"")], "Unavailable { after: None }", vec![first, second]),
        ("second page odd", vec![page(&["re_1", "re_2"], true), raw(200, &[], b"{}")], "Unreadable", vec![first, second]),
        ("empty, yet more", vec![page(&[], true)],                          "Unreadable",           vec![first]),
        ("not found",       vec![problem(404, json!({"code": "resource_missing"}))], "NotFound { livemode: false, account: None }", vec![first]),
        ("may not",         vec![forbidden()],                              "Permission { permission: \"Refunds: Read\" }", vec![first]),
    ];
    for (name, answers, expected, asked) in table {
        let transport = Told::answering(answers);
        let client = client(transport.clone(), Key::of(Some(TEST_KEY)), None);
        let found = client.refunds_of(&ChargeId::parse("ch_1").unwrap(), BY).await;
        let found = found.map_or_else(
            |error| format!("{error:?}"),
            |refunds| {
                let line = |listed: &gate_core::ListedRefund| {
                    let r = &listed.refund;
                    let intent = r.intent.as_ref().map_or("-", gate_core::IntentId::as_str);
                    format!("{}:{intent}:{}", r.id, r.status.as_str())
                };
                refunds.iter().map(line).collect::<Vec<_>>().join(" ")
            },
        );
        assert_eq!(found, expected, "{name}");
        assert_eq!(transport.lines(), asked, "{name}");
    }
    // More pages than are read: an error, and never a part.
    let endless = (0..50).map(|n| page(&[&format!("re_{n}")], true)).collect();
    let client = client(Told::answering(endless), Key::of(Some(TEST_KEY)), None);
    let found = client.refunds_of(&ChargeId::parse("ch_1").unwrap(), BY).await;
    assert_eq!(found, Err(ReadError::Unreadable));
}

#[tokio::test]
async fn keys_accounts_and_versions_are_told_and_sent() {
    for (text, livemode) in [(Some(TEST_KEY), false), (Some(LIVE_KEY), true), (None, false)] {
        let transport = Told::answering(vec![ok(json!({"livemode": livemode}))]);
        let client = client(transport.clone(), Key::of(text), Some(account()));
        let target = Target::parse("ch_1").unwrap();
        let Some(text) = text else {
            assert_eq!(client.channel().await, Err(ReadError::KeyMissing));
            let found = client.charge(&target, BY).await;
            assert_eq!(found.map(|_| ()), Err(ReadError::KeyMissing));
            continue;
        };
        let channel = client.channel().await.unwrap();
        let facts = (channel.livemode, channel.account.clone(), &*channel.version);
        assert_eq!(facts, (livemode, Some(account()), "2025-09-30.clover"));
        assert_eq!(client.charge(&target, BY).await.unwrap().channel, channel);
        let asked = transport.asked.lock().unwrap();
        let header = |name| asked[0].header(name).map(|value| value.expose().to_owned());
        assert_eq!(header("authorization"), Some(format!("Bearer {text}")));
        assert_eq!(header("stripe-version").as_deref(), Some("2025-09-30.clover"));
        assert_eq!(header("stripe-account").as_deref(), Some("acct_1"));
        assert_eq!(header("idempotency-key"), None);
        assert!(asked[0].body.is_empty());
    }
}

/// The connected account, and not a resource, is what is named when that is the trouble.
#[tokio::test]
async fn a_connected_account_that_may_not_be_read_is_named() {
    for error in [
        json!({"code": "account_invalid"}),
        json!({"message": "… the restricted API key does not have any Connect permissions."}),
    ] {
        let denied = || problem(403, error.clone());
        let transport = Told::answering(vec![denied(), denied()]);
        let client = client(transport, Key::of(Some(TEST_KEY)), Some(account()));
        let found = client.charge(&Target::parse("ch_1").unwrap(), BY).await;
        let permission = "Connect: access to the account acct_1".to_owned();
        assert_eq!(found.map(|_| ()), Err(ReadError::Permission { permission }));
    }
}

#[tokio::test]
async fn the_online_check_says_what_is_missing() {
    let transport = Told::answering(vec![
        says(200, &json!({"object": "balance"})),
        forbidden(),
        problem(401, json!({})),
        raw(500, &[], b""),
        raw(200, &[], b"nonsense"),
        says(200, &list(Vec::new(), false)),
    ]);
    let client = client(transport.clone(), Key::of(Some(TEST_KEY)), None);
    let found: Vec<_> = client
        .check(BY)
        .await
        .into_iter()
        .map(|line| (line.permission.resource.name(), line.state))
        .collect();
    let switches_off = "refunds asked by pi_… id, and finance_payments";
    #[rustfmt::skip]
    assert_eq!(found, [
        ("Balance",        CheckState::Ok),
        ("PaymentIntents", CheckState::Missing { switches_off }),
        ("Charges",        CheckState::KeyUnusable),
        ("Refunds",        CheckState::Unreachable),
        ("Customers",      CheckState::Unreachable),
        ("Disputes",       CheckState::Ok),
    ]);
    assert_eq!(
        transport.lines(),
        [
            "GET /v1/balance",
            "GET /v1/payment_intents?limit=1",
            "GET /v1/charges?limit=1",
            "GET /v1/refunds?limit=1",
            "GET /v1/customers?limit=1",
            "GET /v1/disputes?limit=1",
        ]
    );
}

#[test]
fn the_permissions_are_those_of_the_manual() {
    let rows: Vec<String> = PERMISSIONS
        .iter()
        .map(|row| {
            let optional = if row.refunds == Access::ReadOptional { ", optional" } else { "" };
            let (tools, refunds) = (row.read_tools.name(), row.refunds.name());
            format!("{}: {tools} | {refunds}{optional}", row.resource.name())
        })
        .collect();
    assert_eq!(
        rows,
        [
            "Balance: Read | Read",
            "PaymentIntents: Read | Read",
            "Charges: None | Read",
            "Refunds: None | Write",
            "Customers: Read | Read, optional",
            "Disputes: Read | Read, optional",
        ]
    );
    assert_eq!(Resource::Refunds.write(), "Refunds: Write");
    let page = include_str!("../../../../docs/stripe-setup.md");
    for (row, said) in PERMISSIONS.iter().zip(rows) {
        let (name, chosen) = said.split_once(": ").unwrap();
        let line = format!("| {name} | {chosen} | {} |\n", row.needed_for);
        assert!(page.contains(&line), "the manual's table lacks {line}");
    }
}
