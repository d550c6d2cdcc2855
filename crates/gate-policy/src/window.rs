//! The spans of time in which spend is counted.
//!
//! Windows of a time zone follow each other without gap or overlap, whatever its clocks do: a day
//! of 23 or 25 hours is one day, and a day whose midnight is skipped begins at its first instant.
//! A week begins on Monday. A week or month begins when its first day does.

use std::iter::successors;

use gate_core::bugs::{self, Bug};
use gate_core::{CustomerId, TeamName, Timestamp};
use jiff::ToSpan as _;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// The kind of a window.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Period {
    /// A calendar day.
    Day,
    /// A calendar week; it begins on Monday.
    Week,
    /// A calendar month.
    Month,
}

impl Period {
    /// Every period.
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// The name on the wire and in the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// The period of that name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|period| period.as_str() == text)
    }
}

/// Whose spend a window counts.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Whose {
    /// The agent's.
    Agent,
    /// The agent's with this customer.
    Customer(CustomerId),
    /// The whole team's.
    Team(TeamName),
}

/// A span of time in which spend is counted, in the time zone of the moment it was made for.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Window {
    /// Whose spend.
    pub whose: Whose,
    /// Its kind.
    pub period: Period,
    /// Its first millisecond.
    pub starts_at: Timestamp,
    /// The first millisecond after it.
    pub ends_at: Timestamp,
}

/// How many days are looked at to find the one that an instant belongs to. Clocks that are set
/// back over midnight show yesterday's date after today has begun; no zone ever went back further
/// than a day.
const DAYS_LOOKED_AT: usize = 3;

/// The window of that kind in `zone` that the day `today` belongs to. Before the year −9999 and
/// after the year 9999 there are no calendar days; what lies there belongs to the first and the
/// last.
pub(crate) fn of(whose: Whose, period: Period, zone: &TimeZone, today: Date) -> Window {
    let first = match period {
        Period::Day => Ok(today),
        Period::Week => {
            let since_monday = if bugs::on(Bug::WeekBeginsToday) {
                0
            } else {
                today.weekday().to_monday_zero_offset()
            };
            today.checked_sub(i64::from(since_monday).days())
        }
        Period::Month => Ok(today.first_of_month()),
    };
    let first = first.unwrap_or(Date::MIN);
    let next = match period {
        Period::Day => first.tomorrow(),
        Period::Week => first.checked_add(1.week()),
        Period::Month => first.checked_add(1.month()),
    };
    let starts_at = first_instant(zone, first).unwrap_or(Timestamp::from_millis(i64::MIN));
    let ends_at = next.ok().and_then(|next| first_instant(zone, next));
    Window {
        whose,
        period,
        starts_at,
        ends_at: ends_at.unwrap_or(Timestamp::from_millis(i64::MAX)),
    }
}

/// The calendar day in `zone` that `now` belongs to: the last that has begun.
pub(crate) fn date(zone: &TimeZone, now: Timestamp) -> Date {
    let shown = clock(zone, now).date();
    successors(Some(shown), |date| date.tomorrow().ok())
        .take(DAYS_LOOKED_AT)
        .take_while(|date| first_instant(zone, *date).is_some_and(|start| start <= now))
        .last()
        .unwrap_or(shown)
}

/// What a clock in `zone` shows at `now`.
pub(crate) fn clock(zone: &TimeZone, now: Timestamp) -> DateTime {
    let instant = jiff::Timestamp::from_millisecond(now.millis()).unwrap_or(if now.millis() < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    });
    zone.to_datetime(instant)
}

/// When `date` begins in `zone`: its midnight, the first of two, or the moment at which clocks
/// jump over it. A date that was skipped whole begins with the one after it, and holds nothing.
fn first_instant(zone: &TimeZone, date: Date) -> Option<Timestamp> {
    let midnight = zone.to_ambiguous_timestamp(date.to_datetime(Time::midnight()));
    let instant = match midnight.offset() {
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
            midnight.earlier().ok()?
        }
        // In a gap, "earlier" is the time that the clocks after it would have shown: before it.
        AmbiguousOffset::Gap { after, .. } => zone
            .following(midnight.earlier().ok()?)
            .find(|transition| transition.offset() == after)?
            .timestamp(),
    };
    Some(Timestamp::from_millis(instant.as_millisecond()))
}
