//! What staff read, against the sandbox: whole lists from pages, names as they are spelt, and
//! nothing that nobody asked for.

use form_urlencoded::Serializer;
use gate_api::connector::{Connector, ConnectorError, RESULT_CHARS_MAX, parse_disputes};
use gate_core::AccountId;
use gate_stripe::{Resource, StripeConfig};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::sandboxed::{Bench, NOON, ask, ids, order};

const OPEN: [&str; 6] = [
    "needs_response",
    "warning_needs_response",
    "under_review",
    "warning_under_review",
    "appeal_needs_response",
    "appeal_under_review",
];

fn open(rows: &[Value]) -> Vec<String> {
    let open = |row: &&Value| OPEN.contains(&row["status"].as_str().unwrap());
    rows.iter().filter(open).map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_thousand_payments_and_their_days() {
    let bench = Bench::new();
    bench.order("seed", &json!({"payments": 1000, "customers": 7, "spacingSeconds": 3600}));
    let all = bench.listed("/v1/payment_intents");
    for limit in [1, 20, 37, 100, 500] {
        let (seen, pages) = bench.all_payments(json!({ "limit": limit })).await;
        assert_eq!(seen, ids(&all), "{limit}");
        assert!(pages >= 1000 / limit.min(100), "{limit}: {pages} pages");
    }
    let table = [
        // from,       to,           hours before noon: first, last
        ("2026-10-30", "2026-10-30", 0, 12),
        ("2026-10-29", "2026-10-29", 13, 36),
        ("2026-10-28", "2026-10-29", 13, 60),
        ("2026-10-31", "2026-11-30", 0, -1),
    ];
    for (from, to, first, last) in table {
        let within = |row: &&Value| {
            let hours = (NOON - row["created"].as_i64().unwrap()) / 3600;
            (first..=last).contains(&hours)
        };
        let wanted: Vec<Value> = all.iter().filter(within).cloned().collect();
        let ask = json!({"date_from": from, "date_to": to, "limit": 7});
        assert_eq!(bench.all_payments(ask).await.0, ids(&wanted), "{from} to {to}");
    }
}

#[tokio::test]
async fn a_payment_as_it_is_shown() {
    let bench = Bench::new();
    bench.order("seed", &json!({"payments": 10, "customers": 1}));
    let view = bench.payments(&json!({"limit": 10})).await.unwrap();
    assert_eq!((view.data.len(), view.not_succeeded, view.livemode), (10, 3, false));
    assert!(view.advice.unwrap().starts_with("3 of these 10 payments are not `succeeded`"));
    let first = serde_json::to_value(&view.data[9]).unwrap();
    let stripes = &bench.listed("/v1/payment_intents")[9];
    let expected = json!({
        "id": stripes["id"], "status": "succeeded", "customer": stripes["customer"],
        "amount": {"minor": 1000, "currency": "usd", "decimals": 2, "text": "10.00 USD"},
        "description": "Order 00000", "created": "2026-10-30",
    });
    assert_eq!(first, expected);
}

#[tokio::test]
async fn every_dispute_and_every_open_one() {
    let bench = Bench::new();
    bench.order("seed", &json!({"payments": 100, "disputes": 350}));
    let all = bench.listed("/v1/disputes");
    assert_eq!(open(&all).len(), 210);
    for limit in [1, 7, 20, 100] {
        let (seen, _) = bench.all_disputes(json!({"status": "all", "limit": limit})).await;
        assert_eq!(seen, ids(&all), "all by {limit}");
        let (seen, _) = bench.all_disputes(json!({ "limit": limit })).await;
        assert_eq!(seen, open(&all), "open by {limit}");
    }
    // A status that nobody knows may need somebody.
    let newest = all[0]["id"].as_str().unwrap();
    bench.order(&format!("disputes/{newest}"), &json!({"status": "review_by_the_moon"}));
    let view = bench.disputes(&json!({"limit": 1})).await.unwrap();
    assert_eq!((&*view.data[0].id, &*view.data[0].status), (newest, "review_by_the_moon"));
    assert_eq!(view.data[0].evidence_due.as_deref(), Some("2026-11-08"));
}

/// Before every call that reaches Stripe one more is made: none is repeated or left out.
#[tokio::test]
async fn what_comes_in_between_pages_disturbs_nothing() {
    let bench = Bench::new();
    bench.order("seed", &json!({"payments": 300, "disputes": 350}));
    let (payments, disputes) = (bench.listed("/v1/payment_intents"), bench.listed("/v1/disputes"));
    bench.before_each(|sandbox| {
        let charge = json!({
            "payment_intent": format!("pi_{}", sandbox.charges().len()),
            "dispute": {"status": "needs_response"},
        });
        order(sandbox, "charges", &charge);
    });
    // One is made right before the first page is read, and is on it.
    let (seen, pages) = bench.all_payments(json!({"limit": 17})).await;
    assert_eq!(seen[1..], ids(&payments));
    assert!(pages > 17 && bench.listed("/v1/payment_intents").len() >= 300 + pages);
    let before = bench.listed("/v1/disputes");
    let (seen, _) = bench.all_disputes(json!({"limit": 17})).await;
    assert_eq!(seen[1..], open(&before));
    let before = bench.listed("/v1/disputes");
    let (seen, _) = bench.all_disputes(json!({"status": "all", "limit": 17})).await;
    assert_eq!(seen[1..], ids(&before));
    assert!(seen.ends_with(&ids(&disputes)));
}

#[tokio::test]
async fn one_call_reads_ten_pages_and_says_how_far_it_is() {
    let bench = Bench::new();
    bench.order("charges", &json!({"id": "ch_1"}));
    let dispute = |status: &str, created: i64| {
        bench.order("disputes", &json!({"charge": "ch_1", "status": status, "created": created}))
    };
    let old = dispute("needs_response", NOON - 9999);
    for back in (0..1050).rev() {
        dispute("won", NOON - back);
    }
    let told = std::sync::Mutex::new(Vec::new());
    let ask = parse_disputes(b"{}").unwrap();
    let progress = |pages| told.lock().unwrap().push(pages);
    let view = bench.reads.disputes(&ask, bench.by(), &progress).await.unwrap();
    assert_eq!((view.data.len(), bench.received("/v1/disputes")), (0, 10));
    assert_eq!(*told.lock().unwrap(), (1..=10).collect::<Vec<u32>>());
    assert!(view.advice.unwrap().starts_with("10 pages were read"));
    let next = json!({"cursor": view.next_cursor.unwrap()});
    let view = bench.disputes(&next).await.unwrap();
    assert_eq!(view.data[0].id, old["id"].as_str().unwrap());
    assert_eq!((view.data.len(), view.next_cursor), (1, None));
    assert_eq!(bench.received("/v1/disputes"), 11);
}

#[tokio::test]
async fn what_was_read_before_a_failure_is_kept() {
    let bench = Bench::new();
    bench.order("charges", &json!({"id": "ch_1"}));
    for place in 0..1000 {
        let status = if place % 3 == 0 { "needs_response" } else { "lost" };
        bench.order("disputes", &json!({"charge": "ch_1", "status": status}));
    }
    let all = open(&bench.listed("/v1/disputes"));
    let mut calls = 0;
    bench.before_each(move |sandbox| {
        calls += 1;
        if calls % 2 == 0 {
            let fault = json!({"path": "/v1/disputes", "kind": "reset"});
            order(sandbox, "faults", &fault);
        }
    });
    let view = bench.disputes(&json!({"limit": 100})).await.unwrap();
    assert!((33..=34).contains(&view.data.len()), "the open ones of the first page");
    let advice = view.advice.unwrap_or_default();
    assert!(advice.contains("a later page could not be read (Stripe could not be reached)"));
    let cursor = json!({"limit": 100, "cursor": view.next_cursor.unwrap()});
    // The next call is the third, which is let be.
    let (rest, _) = bench.all_disputes(cursor).await;
    let first: Vec<String> = view.data.into_iter().map(|dispute| dispute.id).collect();
    assert_eq!([first, rest].concat(), all);
}

#[tokio::test]
async fn a_page_that_is_cut_goes_on_where_it_was_cut() {
    let bench = Bench::new();
    for place in 0..250 {
        let long = format!("{place} {}", "long words ".repeat(40));
        let charge = json!({
            "payment_intent": format!("pi_{place}"), "description": long, "created": NOON - place,
            "dispute": {"reason": "x".repeat(50), "status": "needs_response"},
        });
        bench.order("charges", &charge);
    }
    let view = bench.payments(&json!({"limit": 100})).await.unwrap();
    assert!((20..60).contains(&view.data.len()), "{}", view.data.len());
    let advice = view.advice.clone().unwrap();
    assert!(advice.starts_with("The answer was cut at 12000 characters"), "{advice}");
    assert!(serde_json::to_string(&view).unwrap().chars().count() <= RESULT_CHARS_MAX);
    let (seen, pages) = bench.all_payments(json!({"limit": 100})).await;
    assert_eq!(seen, ids(&bench.listed("/v1/payment_intents")));
    assert!(pages > 4, "{pages}");
    for status in ["open", "all"] {
        let (seen, pages) = bench.all_disputes(json!({"status": status, "limit": 100})).await;
        assert_eq!(seen, ids(&bench.listed("/v1/disputes")), "{status}");
        assert!(pages > 4, "{pages}");
    }
}

#[tokio::test]
async fn a_cursor_is_for_one_question() {
    let bench = Bench::new();
    let seed = json!({"payments": 60, "disputes": 60});
    bench.order("seed", &seed);
    let days = json!({"date_from": "2026-10-01", "limit": 2});
    let payments = bench.payments(&days).await.unwrap().next_cursor.unwrap();
    let disputes = bench.disputes(&json!({"limit": 2})).await.unwrap().next_cursor.unwrap();
    let refused = Err(ConnectorError::CursorRefused);
    for ask in [
        json!({"cursor": payments}),
        json!({"cursor": payments, "date_from": "2026-10-02"}),
        json!({"cursor": payments, "date_from": "2026-10-01", "date_to": "2026-10-30"}),
        json!({"cursor": payments, "date_to": "2026-10-01"}),
        json!({"cursor": disputes, "date_from": "2026-10-01"}),
        json!({"cursor": "pi_1"}),
        json!({"cursor": payments.replace('A', "B"), "date_from": "2026-10-01"}),
    ] {
        assert_eq!(bench.payments(&ask).await, refused, "{ask}");
    }
    for ask in [json!({"cursor": disputes, "status": "all"}), json!({"cursor": payments})] {
        assert_eq!(bench.disputes(&ask).await, Err(ConnectorError::CursorRefused), "{ask}");
    }
    // Another limit is another page of the same list.
    let mut ask = days.clone();
    ask["cursor"] = json!(payments);
    ask["limit"] = json!(5);
    assert_eq!(bench.payments(&ask).await.unwrap().data.len(), 5);
    let account = AccountId::parse("acct_1").unwrap();
    let others = [("rk_test_bench", Some(account)), ("rk_live_bench", None)];
    for (key, account) in others {
        let config = StripeConfig { account, ..StripeConfig::default() };
        let other = Bench::on(std::sync::Arc::clone(&bench.stripe), key, config);
        assert_eq!(other.payments(&ask).await, refused, "{key}");
    }
    // A row that is gone, or was never there, is a cursor that no longer goes.
    let elsewhere = Bench::new();
    assert_eq!(elsewhere.payments(&ask).await, refused);
}

#[tokio::test]
async fn the_balance_is_told_by_currency() {
    let bench = Bench::new();
    for (amount, currency, refunded) in [(1250, "eur", 0), (500, "jpy", 100), (1500, "kwd", 0)] {
        let charge = json!({"amount": amount, "currency": currency, "amount_refunded": refunded});
        bench.order("charges", &charge);
    }
    let view = bench.reads.balance(bench.by()).await.unwrap();
    let texts = |entries: &[gate_api::connector::MoneyView]| {
        entries.iter().map(|entry| entry.text.clone()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(texts(&view.available), "12.50 EUR, 400 JPY, 1.500 KWD, 0.00 USD");
    assert_eq!(texts(&view.pending), "0.00 EUR, 0 JPY, 0.000 KWD, 0.00 USD");
    assert_eq!((view.livemode, view.advice), (false, None));
}

#[tokio::test]
async fn a_permission_that_is_missing_is_named() {
    let resources = [
        ("balance", Resource::Balance),
        ("payment_intents", Resource::PaymentIntents),
        ("customers", Resource::Customers),
        ("disputes", Resource::Disputes),
    ];
    for (missing, resource) in resources {
        let bench = Bench::new();
        let held = resources.iter().filter(|(name, _)| *name != missing);
        let held: serde_json::Map<_, _> =
            held.map(|(name, _)| ((*name).to_owned(), json!("read"))).collect();
        bench.order("keys", &json!({"key": "rk_test_bench", "permissions": held}));
        let outcomes = [
            bench.reads.balance(bench.by()).await.map(|_| ()),
            bench.payments(&json!({})).await.map(|_| ()),
            bench.customers(&json!({"keyword": "ann"})).await.map(|_| ()),
            bench.disputes(&json!({})).await.map(|_| ()),
        ];
        for ((name, _), outcome) in resources.iter().zip(outcomes) {
            let permission = resource.read();
            let expected = if *name == missing {
                Err(ConnectorError::Permission { permission })
            } else {
                Ok(())
            };
            assert_eq!(outcome, expected, "{name} without {missing}");
        }
    }
}

/// Everything about a customer and a payment that is nobody's business here.
#[tokio::test]
async fn nothing_else_is_told() {
    let bench = Bench::new();
    let charge = json!({
        "payment_intent": "pi_1", "source": "tok_visa", "metadata": {"note": "canary"},
        "customer": {"name": "Ann Lee", "email": "ann@example.com", "phone": "+49canary",
            "address": {"line1": "canary street"}, "shipping": {"name": "canary"},
            "metadata": {"note": "canary"}},
        "dispute": {"evidence": {"customer_name": "canary"}},
        "description": "paid with 4242 4242 4242 4242",
        "billing_details": {"address": {"line1": "canary"}},
    });
    bench.order("charges", &charge);
    let told = [
        serde_json::to_string(&bench.payments(&json!({})).await.unwrap()).unwrap(),
        serde_json::to_string(&bench.disputes(&json!({})).await.unwrap()).unwrap(),
        serde_json::to_string(&bench.customers(&json!({"keyword": "ann"})).await.unwrap()).unwrap(),
    ];
    assert!(told[2].contains("ann@example.com"), "{told:?}");
    for answer in told {
        for secret in ["canary", "4242", "visa", "pm_", "client_secret", "_secret_"] {
            assert!(!answer.contains(secret), "{secret} in {answer}");
        }
    }
}

/// A Stripe with these customers, made by the first call.
fn with_customers(names: &[(&str, &str)]) -> Bench {
    let bench = Bench::new();
    let forms: Vec<String> = names
        .iter()
        .map(|(name, email)| {
            Serializer::new(String::new())
                .extend_pairs([("name", *name), ("email", *email)])
                .finish()
        })
        .collect();
    let mut forms = Some(forms);
    bench.before_each(move |sandbox| {
        for form in forms.take().into_iter().flatten() {
            ask(sandbox, "POST", "/v1/customers", "", &form);
        }
    });
    bench
}

async fn found(bench: &Bench, keyword: &str) -> Vec<String> {
    let view = bench.customers(&json!({"keyword": keyword, "limit": 100})).await.unwrap();
    view.data.into_iter().map(|customer| customer.name.unwrap_or_default()).collect()
}

#[tokio::test]
async fn customers_are_found_as_they_are_spelt() {
    let names = [
        ("Ann \"Annie\" O'Neil", "ann@example.com"),
        ("Joann Smith", "jo.ann@example.com"),
        (r"back\slash", "b@example.com"),
        ("name:\"x\" OR email~\"example\"", "x@example.com"),
        ("Li Wei", "li@example.com"),
        ("Lisa", "lisa@example.com"),
    ];
    let table = [
        // keyword                         those found, newest first
        ("ann", "Joann Smith|Ann \"Annie\" O'Neil"),
        ("\"Annie\"", "Ann \"Annie\" O'Neil"),
        ("O'Neil", "Ann \"Annie\" O'Neil"),
        (r"k\s", r"back\slash"),
        ("\" OR email~\"example", "name:\"x\" OR email~\"example\""),
        ("x\" OR email~\"ann", ""),
        ("example", "name:\"x\" OR email~\"example\""),
        ("Li", "Li Wei"),
        ("ann@example.com", "Ann \"Annie\" O'Neil"),
        ("ANN@EXAMPLE.COM", "Ann \"Annie\" O'Neil"),
        ("nn@example.com", ""),
        ("@example.com", ""),
        ("a@b\" OR email~\"example", ""),
    ];
    let bench = with_customers(&names);
    for (keyword, expected) in table {
        assert_eq!(found(&bench, keyword).await.join("|"), expected, "{keyword}");
    }
    let nobody = bench.customers(&json!({"keyword": "nobody"})).await.unwrap();
    assert!(nobody.advice.unwrap().starts_with("Nobody was found."));
    let one = bench.customers(&json!({"keyword": "ann", "limit": 1})).await.unwrap();
    assert!(one.more && one.advice.unwrap().starts_with("More customers match"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A part of a name finds exactly the customers that have it in theirs, whatever it means in
    /// the language that Stripe is asked in.
    #[test]
    fn any_part_of_any_name_finds_whom_it_should(
        names in proptest::collection::vec(
            r#"([a-cA-C]|["'\\:~<>=()\[\]-]| OR | AND |name:|null|metadata|ü|日){1,12}"#, 1..8),
        whose: prop::sample::Index,
        from: prop::sample::Index,
        length in 3_usize..8,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let name: Vec<char> = names[whose.index(names.len())].chars().collect();
        let from = from.index(name.len());
        let part: String = name.iter().skip(from).take(length).collect();
        let part = part.trim();
        prop_assume!(part.chars().count() >= 3);
        let rows: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "x@example.com")).collect();
        let bench = with_customers(&rows);
        let low = part.to_lowercase();
        let expected: Vec<&String> =
            names.iter().rev().filter(|name| name.to_lowercase().contains(&low)).collect();
        let found = runtime.block_on(found(&bench, part));
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{}", part);
    }
}
