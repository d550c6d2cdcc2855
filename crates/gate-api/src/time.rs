//! Times as they stand on the wire: RFC 3339 in UTC, with milliseconds and `Z`.

use gate_core::Timestamp;

/// 0001-01-01T00:00:00Z: RFC 3339 has no years below, and the calendar no year 0.
const FIRST_MILLIS: i64 = -62_135_596_800_000;

/// `at` as RFC 3339, such as `2026-10-30T14:05:00.000Z`. What lies outside of the years 1 to 9999,
/// which only a saturated sum does, prints as their first or last moment.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    let millis = at.millis().max(FIRST_MILLIS);
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// The moment that a text names: RFC 3339 with any offset, or a day, which begins at midnight in
/// UTC.
#[must_use]
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let whole = if text.len() == "2026-10-30".len() {
        format!("{text}T00:00:00Z")
    } else {
        text.to_owned()
    };
    let time: jiff::Timestamp = whole.parse().ok()?;
    Some(Timestamp::from_millis(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_dates() {
        let table = [
            // milliseconds         text
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_793_369_100_007, "2026-10-30T14:05:00.007Z"),
            (i64::MIN, "0001-01-01T00:00:00.000Z"),
            (i64::MAX, "9999-12-30T22:00:00.999Z"),
        ];
        for (millis, text) in table {
            assert_eq!(rfc3339(Timestamp::from_millis(millis)), text);
            let back = parse_time(text).unwrap();
            assert_eq!(rfc3339(back), text, "and back");
        }
    }

    #[test]
    fn moments_and_days() {
        let table = [
            ("2026-10-30T14:05:00.007Z", Some(1_793_369_100_007)),
            ("2026-10-30T16:05:00+02:00", Some(1_793_369_100_000)),
            ("2024-03-01", Some(1_709_251_200_000)),
            ("2024-02-30", None),
            ("yesterday", None),
            ("2024-03-01T00:00:00", None),
            ("", None),
        ];
        for (text, millis) in table {
            assert_eq!(parse_time(text).map(Timestamp::millis), millis, "{text}");
        }
    }

    proptest! {
        /// Texts are of one form and sort like the times they stand for.
        #[test]
        fn later_times_sort_later(a: i64, b: i64) {
            let [a_text, b_text] = [a, b].map(|millis| rfc3339(Timestamp::from_millis(millis)));
            prop_assert_eq!(a_text.len(), "1970-01-01T00:00:00.000Z".len());
            prop_assert!(a_text.ends_with('Z'));
            if a <= b {
                prop_assert!(a_text <= b_text);
            }
        }
    }
}
