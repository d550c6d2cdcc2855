//! What the answers look like, and that they stay short whatever Stripe says.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn chars(view: &impl Serialize) -> usize {
    serde_json::to_string(view).unwrap().chars().count()
}

fn payment(id: &str, status: &str, received: i64, description: &str) -> PaymentView {
    PaymentView::new(&PaymentRow {
        id,
        amount: 1250,
        received,
        currency: "eur",
        status,
        customer: Some("cus_1"),
        description: Some(description),
        created_secs: 1_793_404_799,
    })
}

fn dispute(id: &str) -> DisputeView {
    DisputeView::new(&DisputeRow {
        id,
        amount: 5000,
        currency: "jpy",
        reason: "fraudulent",
        status: "needs_response",
        charge: "ch_1",
        due_secs: Some(1_793_404_800),
        created_secs: 1_793_404_799,
    })
}

fn customer(place: usize, name: &str) -> CustomerView {
    let id = format!("cus_{place}");
    let row = CustomerRow { id: &id, name: Some(name), email: None, created_secs: 0 };
    CustomerView::new(&row)
}

fn more(next: &str, stopped: Option<Stopped>) -> Option<More> {
    Some(More { next: next.to_owned(), stopped })
}

fn after(id: &str) -> String {
    format!("after {id}")
}

#[test]
fn amounts() {
    let table = [
        // minor, code   decimals  text
        (1250, "eur", Some(2), "12.50 EUR"),
        (-1250, "EUR", Some(2), "-12.50 EUR"),
        (0, "usd", Some(2), "0.00 USD"),
        (5800, "jpy", Some(0), "5800 JPY"),
        (-1500, "kwd", Some(3), "-1.500 KWD"),
        (1505, "kwd", Some(3), "1.505 KWD"),
        (500, "isk", Some(2), "5 ISK"),
        (500, "ugx", Some(2), "5 UGX"),
        (12, "zzz", None, "12 minor units of ZZZ"),
        (i64::MIN, "eur", None, "-9223372036854775808 minor units of EUR"),
        (1, "x\n\u{202e}", None, "1 minor units of X  "),
    ];
    for (minor, code, decimals, text) in table {
        let view = MoneyView::new(minor, code);
        assert_eq!((view.minor, view.decimals, view.text.as_str()), (minor, decimals, text));
    }
}

#[test]
fn payments_say_what_was_never_paid() {
    let rows = vec![
        payment("pi_3", "succeeded", 1250, "Lamp"),
        payment("pi_2", "succeeded", 700, ""),
        payment("pi_1", "requires_payment_method", 0, "card 4242424242424242"),
    ];
    let view = PaymentsView::new(rows, false, None, after);
    let amount = json!({"minor": 1250, "currency": "eur", "decimals": 2, "text": "12.50 EUR"});
    let expected = json!({
        "data": [
            {"id": "pi_3", "amount": amount, "status": "succeeded", "customer": "cus_1",
             "description": "Lamp", "created": "2026-10-30"},
            {"id": "pi_2", "amount": amount,
             "received": {"minor": 700, "currency": "eur", "decimals": 2, "text": "7.00 EUR"},
             "status": "succeeded", "customer": "cus_1", "created": "2026-10-30"},
            {"id": "pi_1", "amount": amount, "status": "requires_payment_method",
             "customer": "cus_1", "description": "card [card number]", "created": "2026-10-30"},
        ],
        "notSucceeded": 1,
        "livemode": false,
        "advice": "1 of these 3 payments are not `succeeded`: leave them out when you add up, and \
                   add up each currency by itself.",
    });
    assert_eq!(serde_json::to_value(view).unwrap(), expected);
    let paid = PaymentsView::new(vec![payment("pi_3", "succeeded", 1250, "x")], true, None, after);
    assert_eq!((paid.not_succeeded, paid.advice, paid.next_cursor), (0, None, None));
}

#[test]
fn a_dispute_has_its_day() {
    let view = serde_json::to_value(dispute("dp_1")).unwrap();
    let expected = json!({
        "id": "dp_1", "reason": "fraudulent", "status": "needs_response", "charge": "ch_1",
        "amount": {"minor": 5000, "currency": "jpy", "decimals": 0, "text": "5000 JPY"},
        "evidenceDue": "2026-10-31", "created": "2026-10-30",
    });
    assert_eq!(view, expected);
}

#[test]
fn what_follows_is_said() {
    let failed = Stopped::Failed(ConnectorError::Busy { after: Duration::from_secs(7) });
    let many = 100;
    let table = [
        // rows, what follows                         cursor           advice begins with
        (1, None, None, ""),
        (0, None, None, ""),
        (1, more("end", None), Some("end"), "There is more: call again"),
        (0, more("end", Some(Stopped::PagesRead)), Some("end"), "10 pages were read"),
        (1, more("end", Some(failed)), Some("end"), "This is not all, for a later page"),
        (many, None, Some("after dp_51"), "The answer was cut at 12000 characters"),
        (many, more("end", None), Some("after dp_51"), "The answer was cut"),
        (many, more("end", Some(Stopped::PagesRead)), Some("after dp_51"), "The answer was cut"),
    ];
    for (rows, more, cursor, advice) in table {
        let data: Vec<_> = (0..rows).map(|place| dispute(&format!("dp_{place}"))).collect();
        let told = format!("{rows} rows, {more:?}");
        let view = DisputesView::new(data, true, more, after);
        assert_eq!(view.next_cursor.as_deref(), cursor, "{told}");
        assert!(view.advice.as_deref().unwrap_or_default().starts_with(advice), "{told}: {view:?}");
        assert_eq!(view.advice.is_some(), cursor.is_some(), "{told}");
    }
}

#[test]
fn customers_say_when_there_are_more() {
    let table = [
        // rows, more at Stripe   more,  advice begins with
        (0, false, false, "Nobody was found."),
        (2, false, false, ""),
        (2, true, true, "More customers match"),
        (100, false, true, "More customers match"),
    ];
    for (rows, at_stripe, more, advice) in table {
        let data = (0..rows).map(|place| customer(place, &"n".repeat(150))).collect();
        let view = CustomersView::new(data, true, at_stripe);
        assert_eq!(view.more, more, "{rows}");
        assert!(view.advice.unwrap_or_default().starts_with(advice), "{rows}");
        assert!(view.data.len() == rows || view.data.len() < 100, "{rows}");
    }
}

#[test]
fn a_balance_in_every_currency_is_cut() {
    let all: Vec<_> = Currency::all().map(|code| MoneyView::new(-1, code.lower())).collect();
    let few = all.iter().take(5).cloned().collect::<Vec<_>>();
    let view = BalanceView::new(few.clone(), few.clone(), true);
    assert_eq!((view.available.len(), view.pending.len(), view.advice), (5, 5, None));
    let view = BalanceView::new(all.clone(), all, true);
    assert!(view.available.len() > 50 && view.advice.is_some(), "{}", view.available.len());
    assert!(chars(&view) <= RESULT_CHARS_MAX, "{}", chars(&view));
    assert_eq!(BalanceView::new(vec![], few, true).available, []);
}

#[test]
fn rows_are_counted_by_their_characters() {
    let rows = ["ab", "ä", "\"", "", "abcdef"];
    // Each with its quotes and a comma: 5, 4, 5, 3, 9.
    for (chars_max, fit) in [(0, 1), (4, 1), (5, 1), (8, 1), (9, 2), (14, 3), (25, 4), (26, 5)] {
        assert_eq!(fitting(&rows, chars_max), fit, "{chars_max}");
    }
    assert_eq!(fitting::<Value>(&[], 10), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever people wrote, an answer is at most 12,000 characters, is the beginning of what was
    /// read, and its cursor stands after its last row.
    #[test]
    fn answers_are_short_and_go_on(
        texts in proptest::collection::vec("(\\PC|[\"\\\\\u{1}]){0,300}", 0..=100),
        long_ids: bool,
    ) {
        let pad = if long_ids { "x".repeat(240) } else { String::new() };
        let rows: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(place, text)| payment(&format!("pi_{place}{pad}"), text, 0, text))
            .collect();
        let failed = Stopped::Failed(ConnectorError::CursorRefused);
        let view =
            PaymentsView::new(rows.clone(), true, more(&"c".repeat(400), Some(failed)), after);
        prop_assert!(chars(&view) <= RESULT_CHARS_MAX, "{}", chars(&view));
        prop_assert!(rows.starts_with(&view.data));
        prop_assert!(rows.is_empty() || !view.data.is_empty());
        if view.data.len() < rows.len() {
            let last = view.data.last().map(|last| after(&last.id));
            prop_assert_eq!(view.next_cursor, last);
        }
        let found = texts.iter().enumerate().map(|(place, text)| customer(place, text)).collect();
        prop_assert!(chars(&CustomersView::new(found, true, true)) <= RESULT_CHARS_MAX);
    }
}
