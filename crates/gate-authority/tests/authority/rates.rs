//! Exchange rates: what they are taken from, what is refused, and what is recorded of them.

use gate_authority::{AuthorityConfig, FeedError, parse_feed};
use gate_core::RefundStatus;
use gate_money::{Rate, RateFigures, parse_figure, parse_pins};
use proptest::prelude::*;

use crate::outcomes::{refund, seen};
use crate::world::{ASKS_AND_GOES_ON, PLAIN, World, codes};

/// A day's rates in the form of the European Central Bank's file.
fn xml(day: &str, rows: &str) -> String {
    let rows: String = rows
        .split_whitespace()
        .filter_map(|row| row.split_once('='))
        .map(|(code, figure)| format!("\t\t\t<Cube currency='{code}' rate='{figure}'/>\n"))
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <gesmes:Envelope xmlns:gesmes=\"http://www.gesmes.org/xml/2002-08-01\">\n\
         \t<gesmes:subject>Rates</gesmes:subject>\n\
         \t<Cube>\n\t\t<Cube time='{day}'>\n{rows}\t\t</Cube>\n\t</Cube>\n\
         </gesmes:Envelope>"
    )
}

const ROWS: &str = "USD=1.1172 JPY=175.68 GBP=0.8";

/// The rates of the day on which worlds begin, a Friday.
fn friday() -> String {
    xml("2026-10-30", ROWS)
}

fn world_with_pins(entry: &str, pins: &str) -> World {
    let pins = parse_pins(pins).unwrap();
    let world = World::with_config(entry, AuthorityConfig { pins, ..AuthorityConfig::default() });
    for currency in ["eur", "jpy", "bgn", "kwd", "usd"] {
        world.till.add_charge(&format!("ch_{currency}"), 100_000, currency);
    }
    world
}

fn world(entry: &str) -> World {
    world_with_pins(entry, "")
}

#[test]
fn every_intent_records_what_it_was_counted_with() {
    #[rustfmt::skip]
    let table = [
        // asked                  micro-dollars  day                 what the audit log has of it
        ("a ch_eur 1250",         13_965_000,    Some("2026-10-30"), r#"{"date":"2026-10-30","source":"feed","unitsPerEur":"1","usdPerEur":"1.1172"}"#),
        ("b ch_jpy 500",           3_179_645,    Some("2026-10-30"), r#"{"date":"2026-10-30","source":"feed","unitsPerEur":"175.68","usdPerEur":"1.1172"}"#),
        ("c ch_kwd 1000",          3_260_000,    None,               r#"{"source":"pinned","usdPerUnit":"3.26"}"#),
        ("d ch_usd 1250",         12_500_000,    None,               r#"{"source":"usd"}"#),
    ];
    let world = world_with_pins(PLAIN, "KWD=3.26");
    assert_eq!(world.feed(&friday()).unwrap(), "2026-10-30");
    for (asked, micros, date, audited) in table {
        let intent = world.intent(asked);
        for row in world.audit().iter().filter(|row| row.entry.subject == intent.id.as_str()) {
            let details: serde_json::Value = serde_json::from_str(&row.entry.details).unwrap();
            assert_eq!(details["usdMicros"], micros, "{asked}");
            let rate: serde_json::Value = serde_json::from_str(audited).unwrap();
            assert_eq!(details["rate"], rate, "{asked}: {}", row.entry.action);
        }
        let worth = intent.worth.unwrap();
        assert_eq!((worth.usd.micros(), worth.date.as_deref()), (micros, date), "{asked}");
        // The figures are enough to compute it again.
        let rate = Rate::from_figures(intent.amount.currency(), worth.rate.figures()).unwrap();
        assert_eq!(rate.to_micro_usd(intent.amount), Ok(worth.usd), "{asked}");
    }
    let euro = world.intent("a ch_eur 1250").worth.unwrap().rate.figures();
    let (usd_per_eur, units_per_eur) =
        (parse_figure("1.1172").unwrap(), parse_figure("1").unwrap());
    assert_eq!(euro, RateFigures::Feed { units_per_eur, usd_per_eur });
    assert_eq!(world.spent(), "32.904645 USD");
}

#[test]
fn what_nothing_counts_is_denied() {
    let none = world(PLAIN);
    assert_eq!(none.ask("k ch_eur 1250"), "denied currency_not_supported", "no rates yet");
    assert_eq!(none.ask("k2 ch_usd 1250"), "settled");
    none.feed(&friday()).unwrap();
    assert_eq!(none.ask("k ch_eur 1250"), "settled", "denied by the policy, decided anew");
    // A currency that was withdrawn: old charges exist, and the feed has no rate any more.
    let denied = none.intent("k3 ch_bgn 1250");
    assert_eq!(codes(&denied), ["currency_not_supported"]);
    assert_eq!((denied.worth, denied.request), (None, None));
    assert_eq!(none.till.sent().len(), 2);
    let pinned = world_with_pins(PLAIN, "BGN=0.57");
    assert_eq!(pinned.ask("k ch_bgn 1250"), "settled");
}

/// A table serves for seven days from the start of its day.
#[test]
fn rates_grow_stale_and_dollars_go_on() {
    for (now, euro) in
        [("2026-11-06T00:00:00Z", "settled"), ("2026-11-06T00:00:00.001Z", "denied rates_stale")]
    {
        let world = world_with_pins(PLAIN, "JPY=0.0064");
        world.feed(&friday()).unwrap();
        world.clock.show(now);
        assert_eq!(world.ask("a ch_eur 1250"), euro, "{now}");
        assert_eq!(world.ask("b ch_usd 1250"), "settled", "{now}");
        assert_eq!(world.ask("c ch_jpy 500"), "settled", "a pin, {now}");
        assert_eq!(world.ask("d ch_bgn 500"), "denied currency_not_supported", "{now}");
    }
}

#[test]
fn a_pin_wins_over_the_feed() {
    let world = world_with_pins(PLAIN, "EUR=2");
    world.feed(&friday()).unwrap();
    let worth = world.intent("k ch_eur 1250").worth.unwrap();
    assert_eq!((worth.usd.micros(), worth.date), (25_000_000, None));
}

/// What is approved is counted anew; what is given back is what was counted.
#[test]
fn other_rates_on_another_day() {
    let world = world(ASKS_AND_GOES_ON);
    world.feed(&friday()).unwrap();
    let intent = world.intent("k ch_eur 5000");
    assert_eq!(intent.worth.as_ref().unwrap().usd.micros(), 55_860_000);
    world.approve(&intent);
    world.feed(&xml("2026-10-31", "USD=1.2")).unwrap();
    world.reconcile();
    let settled = world.stored(&intent.id);
    assert_eq!(settled.worth.unwrap().usd.micros(), 60_000_000);
    assert!(settled.request.unwrap().form.contains("burnbound_usd_micros%5D=60000000&"));
    assert_eq!(world.spent(), "60.00 USD");
    world.feed(&xml("2026-10-31", "USD=1.3")).unwrap();
    seen(&world, &intent.id, &refund(&intent.id, RefundStatus::Failed));
    assert_eq!(world.spent(), "0.00 USD");
}

/// Stale rates keep an approved refund from being made, too.
#[test]
fn stale_rates_after_an_approval() {
    let world = world(ASKS_AND_GOES_ON);
    world.feed(&friday()).unwrap();
    world.clock.show("2026-11-05T23:30:00Z");
    let intent = world.intent("k ch_eur 5000");
    world.approve(&intent);
    world.clock.show("2026-11-06T00:30:00Z");
    world.reconcile();
    let denied = world.stored(&intent.id);
    assert_eq!(codes(&denied), ["approval_stale", "rates_stale"]);
    assert_eq!(world.till.sent().len(), 0);
}

/// A feed that answers nonsense is refused whole, and the old rates stay.
#[test]
fn nonsense_is_refused_whole() {
    let monday = |rows: &str| xml("2026-10-31", rows);
    let good = monday(ROWS);
    let truncated = good.split_at(good.len() - 1).0.to_owned();
    let two_days = good.replace("</Cube>\n\t</Cube>", "</Cube><Cube time='2026-10-30'/></Cube>");
    #[rustfmt::skip]
    let table = [
        ("nothing",             String::new(),                          "malformed"),
        ("not XML",             "503 Service Unavailable".to_owned(),   "malformed"),
        ("a page",              "<html><body>Sorry</body></html>".to_owned(), "malformed"),
        ("cut short",           truncated,                              "malformed"),
        ("two days",            two_days,                               "malformed"),
        ("no day",              good.replace("time=", "day="),          "malformed"),
        ("no figure",           monday("USD=abc"),                      "malformed"),
        ("no exponents",        monday("USD=1e3"),                      "malformed"),
        ("not a day",           good.replace("10-31", "02-30"),         "refused"),
        ("no dollars",          monday("JPY=175.68"),                   "refused"),
        ("no rows",             monday(""),                             "refused"),
        ("zero",                monday("USD=1.1172 JPY=0"),             "refused"),
        ("below zero",          monday("USD=1.1172 JPY=-175"),          "malformed"),
        ("twice",               monday("USD=1.1172 USD=1.1172"),        "refused"),
        ("a jump up",           monday("USD=1.1172 JPY=210.82"),        "refused"),
        ("a jump down",         monday("USD=1.1172 JPY=140.54"),        "refused"),
        ("the dollar jumps",    monday("USD=1.35 JPY=175.68"),          "refused"),
        ("a comma lost",        monday("USD=11172 JPY=17568"),          "refused"),
        ("an earlier day",      xml("2026-10-29", ROWS),                "refused"),
        ("a day to come",       xml("2026-11-01", ROWS),                "to come"),
        ("a year to come",      xml("2027-10-30", ROWS),                "to come"),
    ];
    let world = world(PLAIN);
    world.feed(&friday()).unwrap();
    let entries = world.audit().len();
    for (n, (what, xml, part)) in table.into_iter().enumerate() {
        let error = world.feed(&xml).unwrap_err();
        assert!(error.to_string().contains(part), "{what}: {error}");
        let worth = world.intent(&format!("k{n} ch_jpy 500")).worth.unwrap();
        assert_eq!(worth.usd.micros(), 3_179_645, "{what}: the old rates stay");
        assert_eq!(worth.date.as_deref(), Some("2026-10-30"), "{what}");
    }
    assert!(world.audit().len() > entries);
    // A fifth is not a jump, and unknown currencies are passed over.
    assert_eq!(world.feed(&monday("USD=1.1172 JPY=210.81 XXX=5")).unwrap(), "2026-10-31");
    // The same table again is no news.
    let commits = gate_store::Store::commits(&*world.store);
    world.feed(&monday("USD=1.1172 JPY=210.81 XXX=5")).unwrap();
    assert_eq!(gate_store::Store::commits(&*world.store), commits);
}

/// A move that really happened is taken once the table it is compared with counts nothing any more.
#[test]
fn a_jump_is_taken_when_the_old_rates_have_run_out() {
    let world = world(PLAIN);
    world.feed(&friday()).unwrap();
    let jump = |day| xml(day, "USD=1.1172 JPY=400");
    world.clock.show("2026-11-05T12:00:00Z");
    assert!(matches!(world.feed(&jump("2026-11-05")), Err(FeedError::Untrusted(_))));
    world.clock.show("2026-11-06T12:00:00Z");
    assert_eq!(world.ask("k ch_jpy 500"), "denied rates_stale");
    assert!(world.feed(&jump("2026-10-30")).is_err(), "not for a day that ran out too");
    world.feed(&jump("2026-11-06")).unwrap();
    assert_eq!(world.ask("k ch_jpy 500"), "settled");
}

#[test]
fn every_beginning_of_a_feed_is_refused() {
    let xml = friday();
    for end in 0..xml.len() {
        assert!(parse_feed(&xml.as_bytes()[..end]).is_err(), "{end} bytes");
    }
    assert!(parse_feed(xml.as_bytes()).is_ok());
    assert!(parse_feed(&[0xFF, 0xFE]).is_err(), "not UTF-8");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse_feed(&bytes);
    }

    /// A feed in which some bytes were changed is read or refused; and what is read has dollars.
    #[test]
    fn no_change_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = friday().into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(table) = parse_feed(&bytes) {
            prop_assert!(table.rate(gate_money::Currency::USD).is_some());
        }
    }
}
