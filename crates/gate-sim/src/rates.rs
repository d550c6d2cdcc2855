//! Exchange rates of worlds in which they move, grow old, or are nonsense.

use std::time::Duration;

use gate_money::{Currency, Decimal, Rate};
use jiff::ToSpan as _;

use crate::draw::Draw;

/// How old rates may be in such a world: so little that a feed that stands still is felt.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(30 * 3600);

/// The currencies of charges, and what a euro is worth in each, in thousandths.
const FIGURES: [(&str, i64); 3] = [("USD", 1_117), ("GBP", 861), ("JPY", 175_680)];

/// The pins of a world, where it has any.
pub(crate) fn pins(seed: u64) -> Vec<Rate> {
    let pinned = Draw::of(seed, 35, 0).permille(300);
    let pound = || Rate::pinned(Currency::GBP, Decimal::new(131, 2)).expect("a rate");
    pinned.then(pound).into_iter().collect()
}

/// What the feed answers when the world, which began at `base_ms`, is `at_ms` old.
pub(crate) fn feed(seed: u64, base_ms: i64, at_ms: u64) -> Result<Vec<u8>, String> {
    let mut draw = Draw::of(seed, 33, at_ms);
    let stands_still = Draw::of(seed, 36, 0).permille(400);
    let day = |ms: i64| {
        let at = jiff::Timestamp::from_millisecond(ms).expect("a time");
        at.in_tz("UTC").expect("a zone").date()
    };
    let (first, today) = (day(base_ms), day(base_ms + at_ms as i64));
    match draw.below(100) {
        // The world begins with good rates.
        _ if at_ms < 1000 => Ok(table(seed, first, None)),
        0..45 => Ok(table(seed, if stands_still { first } else { today }, None)),
        45..60 => Ok(table(seed, first, None)),
        60..80 => Ok(table(seed, today, Some(&mut draw))),
        80..90 => {
            let mut cut = table(seed, today, None);
            cut.truncate(cut.len() - 1 - draw.below(60) as usize);
            Ok(cut)
        }
        90..95 => Ok(table(seed, today.saturating_add(3.days()), None)),
        _ => Err("simulated".to_owned()),
    }
}

/// The table of a day, a few percent off the day before; with `mad`, one figure is far off.
fn table(seed: u64, day: jiff::civil::Date, mad: Option<&mut Draw>) -> Vec<u8> {
    let number = u64::from(day.day_of_year().unsigned_abs());
    let mut draw = Draw::of(seed, 34, number);
    let mad = mad.map(|mad| (mad.below(3) as usize, *mad.pick(&[5, 100])));
    let rows: Vec<String> = FIGURES
        .iter()
        .enumerate()
        .map(|(n, (currency, figure))| {
            let off = draw.between(96, 104) as i64;
            let times = mad.filter(|(which, _)| *which == n).map_or(1, |(_, times)| times);
            let figure = Decimal::new(figure * off * times, 5);
            format!("<Cube currency='{currency}' rate='{figure}'/>")
        })
        .collect();
    format!("<Envelope><Cube><Cube time='{day}'>{}</Cube></Cube></Envelope>", rows.concat())
        .into_bytes()
}
