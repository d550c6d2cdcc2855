//! The two clocks: the real one, which only the socket layer's delays follow, and the sandbox's
//! own, which everything in the API follows and which the control API moves forward.

use jiff::{SignedDuration, Timestamp, civil::Weekday, tz::TimeZone};

/// The instant at which a request came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Real time, milliseconds since 1970.
    pub(crate) real_ms: i64,
    /// The sandbox's time, milliseconds since 1970.
    pub(crate) ms: i64,
    /// The sandbox's time, seconds since 1970.
    pub(crate) secs: i64,
}

impl Moment {
    pub(crate) const fn new(real_ms: i64, advanced_secs: i64) -> Self {
        let ms = real_ms.saturating_add(advanced_secs.saturating_mul(1000));
        Self { real_ms, ms, secs: real_ms.div_euclid(1000).saturating_add(advanced_secs) }
    }
}

/// `secs` in the form of an HTTP `Date` header.
pub(crate) fn http_date(secs: i64) -> String {
    timestamp(secs).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// `secs` in the form of RFC 3339, UTC.
pub(crate) fn rfc3339(secs: i64) -> String {
    timestamp(secs).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The day of `secs`, or the Friday before when that is a weekend, as `YYYY-MM-DD`.
pub(crate) fn last_working_day(secs: i64) -> String {
    let instant = timestamp(secs);
    let days_back = match TimeZone::UTC.to_datetime(instant).weekday() {
        Weekday::Saturday => 1,
        Weekday::Sunday => 2,
        Weekday::Monday
        | Weekday::Tuesday
        | Weekday::Wednesday
        | Weekday::Thursday
        | Weekday::Friday => 0,
    };
    let back = SignedDuration::from_hours(24_i64.saturating_mul(days_back));
    let day = instant.checked_sub(back).unwrap_or(instant);
    day.strftime("%Y-%m-%d").to_string()
}

/// Instants past the calendar's end are shown as its end.
fn timestamp(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).unwrap_or(if secs < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        // 1793361600 is Friday 30 October 2026, noon.
        let table = [
            (1_793_361_600, "Fri, 30 Oct 2026 12:00:00 GMT", "2026-10-30"),
            (1_793_361_600 + 86_400, "Sat, 31 Oct 2026 12:00:00 GMT", "2026-10-30"),
            (1_793_361_600 + 2 * 86_400, "Sun, 01 Nov 2026 12:00:00 GMT", "2026-10-30"),
            (1_793_361_600 + 3 * 86_400, "Mon, 02 Nov 2026 12:00:00 GMT", "2026-11-02"),
        ];
        for (secs, date, working_day) in table {
            assert_eq!(http_date(secs), date);
            assert_eq!(last_working_day(secs), working_day, "{date}");
        }
        assert_eq!(rfc3339(1_793_361_600), "2026-10-30T12:00:00Z");
    }
}
