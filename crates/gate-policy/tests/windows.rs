//! Days through the changes of clocks, to be checked by eye against the time zone database.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests compute freely and fail by panicking"
)]

use gate_core::{AgentName, Timestamp};
use gate_policy::{Period, Policy, Whose, Window, windows};

fn at(text: &str) -> Timestamp {
    let at: jiff::Timestamp = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Timestamp::from_millis(at.as_millisecond())
}

fn day(zone: &str, now: Timestamp) -> Window {
    let text = format!("organization.timezone = '{zone}'");
    let policy = Policy::parse(&text).unwrap();
    let agent = AgentName::parse("bot").unwrap();
    windows(&policy, &agent, None, now)[0].0.clone()
}

#[test]
fn days_and_what_their_clocks_do() {
    #[rustfmt::skip]
    let table = [
        // zone                 starts at                 ends at                   minutes
        ("UTC",                 "2024-02-28T00:00:00Z",   "2024-02-29T00:00:00Z",   1440),
        ("America/New_York",    "2024-07-01T04:00:00Z",   "2024-07-02T04:00:00Z",   1440),
        ("America/New_York",    "2024-03-10T05:00:00Z",   "2024-03-11T04:00:00Z",   1380),
        ("America/New_York",    "2024-11-03T04:00:00Z",   "2024-11-04T05:00:00Z",   1500),
        // Half an hour, there and back.
        ("Australia/Lord_Howe", "2024-10-05T13:30:00Z",   "2024-10-06T13:00:00Z",   1410),
        ("Australia/Lord_Howe", "2024-04-06T13:00:00Z",   "2024-04-07T13:30:00Z",   1470),
        // Midnight does not exist: the day begins at one o'clock.
        ("Asia/Beirut",         "2024-03-30T22:00:00Z",   "2024-03-31T21:00:00Z",   1380),
        ("Africa/Cairo",        "2024-04-25T22:00:00Z",   "2024-04-26T21:00:00Z",   1380),
        ("America/Sao_Paulo",   "2018-11-04T03:00:00Z",   "2018-11-05T02:00:00Z",   1380),
        // Clocks go back from midnight to eleven: the old day goes on.
        ("Asia/Beirut",         "2024-10-25T21:00:00Z",   "2024-10-26T22:00:00Z",   1500),
        ("Africa/Cairo",        "2024-10-30T21:00:00Z",   "2024-10-31T22:00:00Z",   1500),
        // Midnight comes twice: the first one counts.
        ("America/Havana",      "2024-11-03T04:00:00Z",   "2024-11-04T05:00:00Z",   1500),
        // Clocks jump from half past eleven to half past midnight.
        ("America/Toronto",     "1919-03-30T05:00:00Z",   "1919-03-31T04:30:00Z",   1410),
        ("America/Toronto",     "1919-03-31T04:30:00Z",   "1919-04-01T04:00:00Z",   1410),
        // Clocks go back from one minute past midnight: the new day has begun, and goes on.
        ("America/St_Johns",    "2010-11-06T02:30:00Z",   "2010-11-07T02:30:00Z",   1440),
        ("America/St_Johns",    "2010-11-07T02:30:00Z",   "2010-11-08T03:30:00Z",   1500),
        // The 30th is skipped whole.
        ("Pacific/Apia",        "2011-12-29T10:00:00Z",   "2011-12-30T10:00:00Z",   1440),
        ("Pacific/Apia",        "2011-12-30T10:00:00Z",   "2011-12-31T10:00:00Z",   1440),
    ];
    for (zone, starts_at, ends_at, minutes) in table {
        let (starts_at, ends_at) = (at(starts_at), at(ends_at));
        let expected = Window { whose: Whose::Agent, period: Period::Day, starts_at, ends_at };
        let (first, last) = (starts_at.millis(), ends_at.millis() - 1);
        assert_eq!(last + 1 - first, minutes * 60_000, "{zone} {starts_at:?}");
        for now in [first, first + 1, first.midpoint(last), last] {
            let day = day(zone, Timestamp::from_millis(now));
            assert_eq!(day, expected, "{zone} at {now}");
        }
        let before = day(zone, Timestamp::from_millis(first - 1));
        let after = day(zone, ends_at);
        assert_eq!((before.ends_at, after.starts_at), (starts_at, ends_at), "{zone}");
    }
}

#[test]
fn the_ends_of_the_calendar_are_days_too() {
    for zone in ["UTC", "Pacific/Apia", "America/New_York"] {
        for now in [i64::MIN, -400_000_000_000_000, 0, 400_000_000_000_000, i64::MAX - 1] {
            let day = day(zone, Timestamp::from_millis(now));
            assert!(day.starts_at.millis() <= now, "{zone} {now}: {day:?}");
            assert!(day.ends_at.millis() > now, "{zone} {now}: {day:?}");
        }
    }
}

#[test]
fn periods_have_names() {
    for period in Period::ALL {
        assert_eq!(Period::parse(period.as_str()), Some(period));
    }
    assert_eq!(Period::parse("fortnight"), None);
}

#[test]
fn weeks_begin_on_monday_and_months_on_the_first() {
    #[rustfmt::skip]
    let table = [
        // zone               now                      week                                              month
        ("UTC",               "2026-01-14T12:00:00Z",  "2026-01-12T00:00:00Z", "2026-01-19T00:00:00Z",   "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("UTC",               "2026-01-12T00:00:00Z",  "2026-01-12T00:00:00Z", "2026-01-19T00:00:00Z",   "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("UTC",               "2026-01-11T23:59:59Z",  "2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z",   "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        // Clocks go back on Sunday, 1 November: 169 hours, and a month of 721.
        ("America/New_York",  "2026-10-28T12:00:00Z",  "2026-10-26T04:00:00Z", "2026-11-02T05:00:00Z",   "2026-10-01T04:00:00Z", "2026-11-01T04:00:00Z"),
        ("America/New_York",  "2026-11-15T12:00:00Z",  "2026-11-09T05:00:00Z", "2026-11-16T05:00:00Z",   "2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z"),
        ("Europe/Berlin",     "2024-02-29T22:59:59Z",  "2024-02-25T23:00:00Z", "2024-03-03T23:00:00Z",   "2024-01-31T23:00:00Z", "2024-02-29T23:00:00Z"),
    ];
    for (zone, now, week_start, week_end, month_start, month_end) in table {
        let text = format!(
            "organization.timezone = '{zone}'\n[agents.bot]\nweekly_cap = '1'\nmonthly_cap = '1'"
        );
        let policy = Policy::parse(&text).unwrap();
        let bot = AgentName::parse("bot").unwrap();
        let found: Vec<_> = windows(&policy, &bot, None, at(now))
            .into_iter()
            .map(|(window, ..)| (window.period, window.starts_at, window.ends_at))
            .collect();
        let expected = [
            (Period::Week, at(week_start), at(week_end)),
            (Period::Month, at(month_start), at(month_end)),
        ];
        assert_eq!(found, expected, "{zone} {now}");
    }
}
