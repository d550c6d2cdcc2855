//! Text that somebody else wrote, made fit to stand in an answer: one line, not too long, and
//! without a card's number.

/// Fewest and most digits of a card's number.
const CARD_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;
/// What stands in its place.
const CARD: &str = "[card number]";

/// `text` as plain data: control characters and what turns the direction of writing become spaces,
/// card numbers are taken out, and what is longer than `chars_max` ends with `…`.
pub(super) fn plain(text: &str, chars_max: usize) -> String {
    let text = without_cards(text);
    let mut short: String = text.chars().take(chars_max).map(visible).collect();
    if text.chars().nth(chars_max).is_some() {
        short.push('…');
    }
    short
}

fn visible(letter: char) -> char {
    match letter {
        '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => ' ',
        letter if letter.is_control() => ' ',
        letter => letter,
    }
}

/// Takes out every run of digits, with spaces or hyphens between them, that could be a card's
/// number by its length and its check digit.
fn without_cards(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !(c.is_ascii_digit() || c == ' ' || c == '-'));
        let (run, after) = from.split_at(end.unwrap_or(from.len()));
        let number = run.trim_end_matches([' ', '-']);
        let digits: Vec<u32> = number.chars().filter_map(|letter| letter.to_digit(10)).collect();
        shown.push_str(before);
        if CARD_DIGITS.contains(&digits.len()) && checks(&digits) {
            shown.push_str(CARD);
            shown.push_str(run.split_at(number.len()).1);
        } else {
            shown.push_str(run);
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// The check that card numbers pass (Luhn): each second digit from the right doubled, the digits
/// of everything added up, a multiple of ten.
fn checks(digits: &[u32]) -> bool {
    let sum = digits.iter().rev().enumerate().fold(0_u32, |sum, (place, digit)| {
        let doubled = if place % 2 == 1 { digit.saturating_mul(2) } else { *digit };
        let part = if doubled > 9 { doubled.saturating_sub(9) } else { doubled };
        sum.saturating_add(part)
    });
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn foreign_text() {
        let table = [
            // text                                        at most 30 characters
            ("", ""),
            ("Order 4821: Lampe „Zoë“ 日本語", "Order 4821: Lampe „Zoë“ 日本語"),
            ("a\nb\tc\u{7}d", "a b c d"),
            ("abc\u{202e}cba\u{2066}x\u{2028}y", "abc cba x y"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("1234567890123456789012345678901", "123456789012345678901234567890…"),
            ("card 4242424242424242!", "card [card number]!"),
            ("4242 4242 4242 4242 ok", "[card number] ok"),
            ("4242-4242-4242-4242", "[card number]"),
            ("378282246310005", "[card number]"),
            ("4242 4242 4242 4241", "4242 4242 4242 4241"),
            ("tracking 123456789012", "tracking 123456789012"),
        ];
        for (text, expected) in table {
            assert_eq!(plain(text, 30), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn always_short_and_on_one_line(text in "(\\PC|[\u{0}-\u{1f}\u{202e}0-9 -]){0,60}") {
            let shown = plain(&text, 20);
            prop_assert!(shown.chars().count() <= 21);
            let bad = shown.contains(|c: char| visible(c) != c);
            prop_assert!(!bad, "{shown:?}");
        }

        #[test]
        fn card_numbers_are_taken_out(
            digits in proptest::collection::vec(0_u32..10, 12..=18),
            dashes: bool,
            around in "[a-z:,.]{0,10}",
        ) {
            let check = (0..10).find(|last| checks(&[&digits[..], &[*last]].concat())).unwrap();
            let parts: Vec<String> =
                digits.iter().chain([&check]).map(ToString::to_string).collect();
            let number = parts.join(if dashes { "-" } else { "" });
            let shown = plain(&format!("{around}{number}{around}"), 200);
            prop_assert_eq!(shown, format!("{around}{CARD}{around}"));
        }
    }
}
