//! The laws of money, over every currency and over amounts and rates of any size.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "tests unwrap and compute freely"
)]

use std::cmp::Ordering;

use gate_money::{
    Amount, Currency, Decimal, MicroUsd, MoneyError, NumberFault, Rate, RateFigures, RateTable,
};
use proptest::{prelude::*, sample::select};

/// Whole numbers of any length, in decimal digits, for checking the product's own arithmetic: slow,
/// and with nothing in common with it.
mod paper {
    /// Most significant digit first; no zeros in front.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub(crate) struct Paper(Vec<u32>);

    impl Paper {
        pub(crate) fn of(number: impl ToString) -> Self {
            let text = number.to_string();
            Self(text.chars().map(|digit| digit.to_digit(10).unwrap()).collect()).trimmed()
        }

        /// As in school: each digit of one with each of the other, then the carries.
        pub(crate) fn times(&self, other: &Self) -> Self {
            let mut sums = vec![0_u64; self.0.len() + other.0.len()];
            for (i, left) in self.0.iter().enumerate() {
                for (j, right) in other.0.iter().enumerate() {
                    sums[i + j + 1] += u64::from(left * right);
                }
            }
            for i in (1..sums.len()).rev() {
                sums[i - 1] += sums[i] / 10;
                sums[i] %= 10;
            }
            Self(sums.into_iter().map(|digit| u32::try_from(digit).unwrap()).collect()).trimmed()
        }

        pub(crate) fn with_zeros(&self, count: u32) -> Self {
            let zeros = std::iter::repeat_n(0, usize::try_from(count).unwrap());
            Self(self.0.iter().copied().chain(zeros).collect()).trimmed()
        }

        pub(crate) fn is_below(&self, other: &Self) -> bool {
            (self.0.len(), &self.0) < (other.0.len(), &other.0)
        }

        fn trimmed(self) -> Self {
            Self(self.0.into_iter().skip_while(|digit| *digit == 0).collect())
        }
    }
}
use paper::Paper;

/// The worth of `minor` units in millionths of a dollar, as a numerator and a denominator.
fn exact(minor: i64, rate: Rate) -> (Paper, Paper) {
    let (dollars, units) = match rate.figures() {
        RateFigures::Feed { units_per_eur, usd_per_eur } => (usd_per_eur, units_per_eur),
        RateFigures::Pinned { usd_per_unit } => (usd_per_unit, Decimal::ONE),
        RateFigures::Usd => (Decimal::ONE, Decimal::ONE),
    };
    let numerator = Paper::of(minor).times(&Paper::of(dollars.mantissa()));
    let decimals = u32::from(rate.currency().decimals());
    (
        numerator.with_zeros(6 + units.scale()),
        Paper::of(units.mantissa()).with_zeros(decimals + dollars.scale()),
    )
}

fn currencies() -> impl Strategy<Value = Currency> {
    select(Currency::all().collect::<Vec<_>>())
}

/// Whole numbers up to `max`, of every length alike.
fn up_to(max: i64) -> impl Strategy<Value = i64> {
    (0..63_u32).prop_flat_map(move |shift| 0..=(max >> shift))
}

/// Amounts that may be refunded.
fn refundable() -> impl Strategy<Value = Amount> {
    (currencies(), up_to(Amount::MINOR_MAX)).prop_map(|(currency, minor)| {
        let step = currency.granularity();
        Amount::new((minor - minor % step).max(step), currency).unwrap()
    })
}

/// Amounts that Stripe may report.
fn reported() -> impl Strategy<Value = Amount> {
    (currencies(), up_to(i64::MAX)).prop_map(|(c, minor)| Amount::from_stripe(minor, c).unwrap())
}

/// Figures such as are published, and any others.
fn figures() -> impl Strategy<Value = Decimal> {
    prop_oneof![
        (1..100_000_000_i128, 0..=6_u32).prop_map(|(m, s)| Decimal::from_i128_with_scale(m, s)),
        (1..1_i128 << 96, 0..=28_u32).prop_map(|(m, s)| Decimal::from_i128_with_scale(m, s)),
    ]
}

fn rates() -> impl Strategy<Value = Rate> {
    (currencies(), figures(), figures(), any::<bool>()).prop_map(|(currency, one, other, pin)| {
        match currency {
            Currency::USD => Rate::usd(),
            _ if pin => Rate::pinned(currency, one).unwrap(),
            Currency::EUR => Rate::from_feed(currency, Decimal::ONE, other).unwrap(),
            _ => Rate::from_feed(currency, one, other).unwrap(),
        }
    })
}

fn worth(rate: Rate, minor: i64) -> Result<i64, MoneyError> {
    let amount = Amount::from_stripe(minor, rate.currency()).unwrap();
    rate.to_micro_usd(amount).map(MicroUsd::micros)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_text_is_read_back_as_what_was_written(refundable in refundable(), reported in reported()) {
        for amount in [refundable, reported] {
            prop_assert_eq!(Amount::parse(&amount.to_string()), Ok(amount));
        }
        prop_assert_eq!(
            Amount::parse_major(&refundable.text_major(), refundable.currency()),
            Ok(refundable)
        );
    }

    #[test]
    fn a_text_shows_the_whole_amount(amount in reported()) {
        let text = amount.text_major();
        let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
        let missing = usize::from(amount.currency().decimals()) - decimals.len();
        let digits = format!("{whole}{decimals}{}", "0".repeat(missing));
        prop_assert_eq!(digits.parse::<i64>().unwrap(), amount.minor());
    }

    #[test]
    fn texts_of_different_amounts_differ(one in reported(), other in reported()) {
        prop_assert_eq!(one == other, one.to_string() == other.to_string());
    }

    #[test]
    fn any_text_is_read_or_refused_but_never_changed(text in "[0-9.eE+, -]{0,12}( [A-Za-z]{2,4})?") {
        if let Ok(amount) = Amount::parse(&text) {
            prop_assert_eq!(amount.to_string(), text);
        }
    }

    #[test]
    fn rounding_is_up_and_by_less_than_one_micro_dollar(
        rate in rates(),
        minor in up_to(i64::MAX),
    ) {
        let (numerator, denominator) = exact(minor, rate);
        let at_most = |micros: i64| !Paper::of(micros).times(&denominator).is_below(&numerator);
        match worth(rate, minor) {
            Ok(micros) => {
                prop_assert!(at_most(micros), "below the exact worth");
                prop_assert!(micros == 0 || !at_most(micros - 1), "a micro-dollar too much");
            }
            Err(error) => {
                prop_assert_eq!(error, MoneyError::Overflow);
                prop_assert!(!at_most(i64::MAX), "refused although it fits");
            }
        }
    }

    #[test]
    fn splitting_a_refund_in_two_is_never_cheaper(
        rate in rates(),
        one in up_to(i64::MAX / 2),
        other in up_to(i64::MAX / 2),
    ) {
        if let (Ok(first), Ok(second)) = (worth(rate, one), worth(rate, other)) {
            match worth(rate, one + other) {
                Ok(whole) => prop_assert!(i128::from(first) + i128::from(second) >= i128::from(whole)),
                Err(_) => prop_assert!(first.checked_add(second).is_none()),
            }
        } else {
            prop_assert_eq!(worth(rate, one + other), Err(MoneyError::Overflow));
        }
    }

    #[test]
    fn more_money_is_never_worth_less(rate in rates(), one in up_to(i64::MAX), other in up_to(i64::MAX)) {
        let (less, more) = (one.min(other), one.max(other));
        match (worth(rate, less), worth(rate, more)) {
            (Ok(less), Ok(more)) => prop_assert!(less <= more),
            (Ok(_), Err(_)) => {}
            (Err(_), more) => prop_assert_eq!(more, Err(MoneyError::Overflow)),
        }
        if more > 0 {
            prop_assert_ne!(worth(rate, more), Ok(0), "no money is worth nothing");
        }
    }

    #[test]
    fn dollars_are_exact(minor in up_to(i64::MAX)) {
        prop_assert_eq!(worth(Rate::usd(), minor), minor.checked_mul(10_000).ok_or(MoneyError::Overflow));
    }

    #[test]
    fn a_rate_built_again_is_the_same(rate in rates()) {
        prop_assert_eq!(Rate::from_figures(rate.currency(), rate.figures()), Ok(rate));
    }

    #[test]
    fn a_rate_takes_its_own_currency_only(rate in rates(), amount in reported()) {
        let mismatch = matches!(rate.to_micro_usd(amount), Err(MoneyError::CurrencyMismatch { .. }));
        prop_assert_eq!(mismatch, rate.currency() != amount.currency());
    }

    #[test]
    fn currencies_never_mix(one in reported(), other in reported()) {
        let same = one.currency() == other.currency();
        let mixed = [
            one.checked_add(other).is_err_and(|error| error.code() == "currency_mismatch"),
            one.checked_sub(other).is_err_and(|error| error.code() == "currency_mismatch"),
            one.compare(other).is_err_and(|error| error.code() == "currency_mismatch"),
        ];
        prop_assert_eq!(mixed, [!same; 3]);
    }

    #[test]
    fn sums_fit_or_are_refused(currency in currencies(), a in up_to(i64::MAX), b in up_to(i64::MAX)) {
        let (one, other) =
            (Amount::from_stripe(a, currency).unwrap(), Amount::from_stripe(b, currency).unwrap());
        let (sum, difference) = (i128::from(a) + i128::from(b), i128::from(a) - i128::from(b));
        match one.checked_add(other) {
            Ok(found) => prop_assert_eq!(i128::from(found.minor()), sum),
            Err(error) => {
                prop_assert_eq!(error, MoneyError::Overflow);
                prop_assert!(sum > i128::from(i64::MAX));
            }
        }
        match one.checked_sub(other) {
            Ok(found) => prop_assert_eq!(i128::from(found.minor()), difference),
            Err(error) => {
                prop_assert_eq!(error, MoneyError::Underflow);
                prop_assert!(difference < 0);
            }
        }
        prop_assert_eq!(one.compare(other), Ok(a.cmp(&b)));
        let (one, other) = (MicroUsd::new(a).unwrap(), MicroUsd::new(b).unwrap());
        prop_assert_eq!(one.checked_add(other).is_ok(), sum <= i128::from(i64::MAX));
        prop_assert_eq!(one.checked_sub(other).is_ok(), difference >= 0);
    }

    #[test]
    fn the_nearest_amounts_would_do_and_are_nearest(
        currency in currencies(),
        minor in prop_oneof![-2000..2000_i64, any::<i64>(), up_to(Amount::MINOR_MAX)],
    ) {
        let step = currency.granularity();
        let fits = |minor: i64| (1..=Amount::MINOR_MAX).contains(&minor) && minor % step == 0;
        match Amount::new(minor, currency) {
            Ok(amount) => {
                prop_assert!(fits(minor));
                prop_assert_eq!((amount.minor(), amount.currency()), (minor, currency));
            }
            Err(MoneyError::InvalidAmount { below, above, .. }) => {
                prop_assert!(!fits(minor));
                prop_assert!(below.is_some() || above.is_some());
                if let Some(below) = below {
                    prop_assert!(fits(below) && below < minor);
                    prop_assert!(minor - below < step || below + step > Amount::MINOR_MAX);
                }
                if let Some(above) = above {
                    prop_assert!(fits(above) && above > minor);
                    prop_assert!(above == step || above - minor < step);
                }
                prop_assert_eq!(below.is_none(), minor <= step);
                let last = Amount::MINOR_MAX - Amount::MINOR_MAX % step;
                prop_assert_eq!(above.is_none(), minor > last);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn major_units_agree_with_whole_numbers(
        currency in currencies(),
        whole in up_to(i64::MAX),
        decimals in proptest::option::of("[0-9]{1,6}"),
        exponent in proptest::option::of(-8..=8_i32),
    ) {
        let point = decimals.as_ref().map_or(String::new(), |decimals| format!(".{decimals}"));
        let power = exponent.map_or(String::new(), |exponent| format!("e{exponent}"));
        let result = Amount::parse_major(&format!("{whole}{point}{power}"), currency);

        // The digits without the point, and how many of the currency's decimals they leave unused.
        let digits = format!("{whole}{}", decimals.clone().unwrap_or_default());
        let written = i32::try_from(decimals.unwrap_or_default().len()).unwrap();
        let unused = i32::from(currency.decimals()) - written + exponent.unwrap_or(0);
        let Ok(zeros) = usize::try_from(unused) else {
            let fault = NumberFault::TooManyDecimals { decimals_max: currency.decimals() };
            prop_assert_eq!(result, Err(MoneyError::InvalidNumber(fault)));
            return Ok(());
        };
        match format!("{digits}{}", "0".repeat(zeros)).parse::<i64>() {
            Ok(minor) => prop_assert_eq!(result, Amount::new(minor, currency)),
            Err(_) => {
                prop_assert_eq!(result, Err(MoneyError::InvalidNumber(NumberFault::TooLarge)));
            }
        }
    }

    #[test]
    fn dollars_of_settings_are_read_back(micros in up_to(i64::MAX)) {
        let dollars = MicroUsd::new(micros).unwrap();
        let printed = dollars.to_string();
        let number = printed.strip_suffix(" USD").unwrap();
        prop_assert_eq!(MicroUsd::parse_dollars(number), Ok(dollars));
        let (_, decimals) = number.split_once('.').unwrap();
        prop_assert!((2..=6).contains(&decimals.len()), "{}", printed);
        prop_assert!(decimals.len() == 2 || !decimals.ends_with('0'), "{}", printed);
    }

    #[test]
    fn a_figure_follows_unless_it_is_more_than_a_fifth_off(now in figures(), before in figures()) {
        let table = |figure| {
            let rows = [(Currency::USD, Decimal::ONE), (Currency::JPY, figure)];
            RateTable::new("2026-10-30", rows).unwrap()
        };
        let fifths = |figure: Decimal, other: Decimal, factor: i32| {
            Paper::of(figure.mantissa()).with_zeros(other.scale()).times(&Paper::of(factor))
        };
        let five = fifths(now, before, 5);
        let off = fifths(before, now, 6).is_below(&five) || five.is_below(&fifths(before, now, 4));
        prop_assert_eq!(table(now).follows(&table(before)).is_err(), off);
        prop_assert_eq!(table(now).follows(&table(now)), Ok(()));
    }
}

#[test]
fn every_currency_reads_back_its_first_amounts_and_its_last() {
    for currency in Currency::all() {
        let step = currency.granularity();
        let last = Amount::MINOR_MAX / step;
        for multiple in (1..=1100).chain(last - 10..=last) {
            let amount = Amount::new(multiple * step, currency).unwrap();
            assert_eq!(Amount::parse(&amount.to_string()), Ok(amount));
            assert_eq!(amount.compare(amount), Ok(Ordering::Equal));
        }
        assert!(Amount::new((last + 1) * step, currency).is_err(), "{currency}");
    }
}
