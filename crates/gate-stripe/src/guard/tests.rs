//! The guard against a clock that is handed in.

use proptest::prelude::*;

use super::*;

fn key(text: &str) -> StripeKey {
    StripeKey::parse(text).unwrap()
}

/// What comes of one call at `at`, in whole seconds: `go`, or why not and for how long.
fn told(refused: Refused) -> String {
    let (name, after) = match refused {
        Refused::Busy { after } => ("busy", after),
        Refused::Paused { after } => ("paused", after),
        Refused::Soon { after } => ("soon", after),
    };
    format!("{name} {}", after.as_secs())
}

/// Plays calls, written `SECOND HOW RESULT`: how a call ends that is let through (`ok`, `fail`,
/// `wait`, `wait:7`, `drop` for one that is given up, `hold` for one that goes on until `then:ok`
/// and the like end it), or `key` for the first call with another key.
fn play(calls_per_minute: u32, script: &[&str]) {
    let guard = Guard::new(calls_per_minute);
    let (mut current, mut held) = (key("rk_test_1"), Vec::new());
    for (place, line) in script.iter().enumerate() {
        let mut words = line.split_whitespace();
        let at = Duration::from_secs(words.next().unwrap().parse().unwrap());
        let how = words.next().unwrap();
        let expected = words.collect::<Vec<_>>().join(" ");
        let ended = |how: &str| match how.split_once(':') {
            None if how == "ok" => Ended::Answered,
            None if how == "fail" => Ended::Failed,
            None if how == "wait" => Ended::Patience { after: patience(None) },
            Some(("wait", secs)) => {
                let asked = Duration::from_secs(secs.parse().unwrap());
                Ended::Patience { after: patience(Some(asked)) }
            }
            _ => panic!("{how}"),
        };
        if let Some(how) = how.strip_prefix("then:") {
            let pass: Pass<'_> = held.remove(0);
            pass.end(ended(how), at);
            continue;
        }
        if how == "key" {
            current = key("rk_test_2");
        }
        let found = match guard.admit(&current, at) {
            Err(refused) => told(refused),
            Ok(pass) => {
                match how {
                    "hold" => held.push(pass),
                    "drop" | "key" => drop(pass),
                    how => pass.end(ended(how), at),
                }
                "go".to_owned()
            }
        };
        assert_eq!(found, expected, "line {place} of {script:?}");
    }
}

#[test]
fn three_failures_in_a_row_pause_reads() {
    let table: [&[&str]; 9] = [
        // Two are not three, and what is in between starts anew.
        &["0 fail go", "1 fail go", "2 ok go", "3 fail go", "4 fail go", "5 ok go"],
        // The pause, the one trial, and what it decides.
        &[
            "0 fail go",
            "1 fail go",
            "2 fail go",
            "3 ok paused 59",
            "61 ok paused 1",
            "62 ok go",
            "62 ok go",
        ],
        &[
            "0 fail go",
            "0 fail go",
            "0 fail go",
            "60 fail go",
            "61 ok paused 59",
            "120 ok go",
            "120 fail go",
            "120 fail go",
            "120 ok go",
        ],
        // While the trial is under way nobody else goes, also if it is given up.
        &[
            "0 fail go",
            "0 fail go",
            "0 fail go",
            "60 hold go",
            "61 ok paused 1",
            "62 then:ok",
            "62 hold go",
            "62 hold go",
        ],
        &["0 fail go", "0 fail go", "0 fail go", "60 hold go", "61 then:fail", "62 ok paused 59"],
        &[
            "0 fail go",
            "0 fail go",
            "0 fail go",
            "60 drop go",
            "60 drop go",
            "60 ok go",
            "60 ok go",
        ],
        // Calls that were under way when the pause began end in it.
        &[
            "0 hold go",
            "0 hold go",
            "0 fail go",
            "0 fail go",
            "0 fail go",
            "10 then:fail",
            "11 ok paused 59",
            "20 then:ok",
            "21 ok paused 49",
            "70 ok go",
        ],
        // Another key starts anew, and what the one before comes to no longer counts.
        &[
            "0 hold go",
            "0 fail go",
            "0 fail go",
            "0 fail go",
            "1 ok paused 59",
            "2 key go",
            "3 then:fail",
            "3 fail go",
            "3 fail go",
            "3 ok go",
        ],
        &["0 drop go", "0 fail go", "0 fail go", "1 drop go", "1 fail go", "2 ok paused 59"],
    ];
    for script in table {
        play(1000, script);
    }
}

#[test]
fn a_plea_for_patience_is_obeyed() {
    let table: [&[&str]; 5] = [
        &["0 wait go", "1 ok paused 59", "59 ok paused 1", "60 ok go"],
        &["0 wait:7 go", "1 ok paused 6", "7 ok go"],
        &["0 wait:99999 go", "1 ok paused 3599", "3600 ok go"],
        // The longer pause holds, and patience is no failure.
        &["0 hold go", "0 wait:90 go", "1 then:wait:5", "2 ok paused 88", "90 ok go"],
        &["0 fail go", "0 fail go", "0 wait:1 go", "1 ok go", "1 fail go", "1 fail go", "1 ok go"],
    ];
    for script in table {
        play(1000, script);
    }
}

#[test]
fn a_minute_holds_so_many_and_a_second_ten() {
    play(
        3,
        &[
            "0 ok go",
            "10 ok go",
            "20 ok go",
            "20 ok busy 40",
            "59 ok busy 1",
            "60 ok go",
            "60 ok busy 10",
            "70 ok go",
            "79 ok busy 1",
            "80 ok go",
        ],
    );
    let mut second = vec!["5 ok go"; 10];
    second.extend(["5 ok soon 1", "6 ok go"]);
    play(1000, &second);
    // What is paused uses up nothing.
    play(
        3,
        &["0 wait:1 go", "0 ok paused 1", "0 ok paused 1", "1 ok go", "1 ok go", "1 ok busy 59"],
    );
    // Another key does not give back what was used.
    play(2, &["0 ok go", "0 ok go", "1 key busy 59"]);
}

/// 500 calls at once, each asking again when it is told to: ten a second at first, then nobody
/// before the minute is over.
#[test]
fn five_hundred_calls_take_five_minutes() {
    let (guard, key) = (Guard::new(CALLS_PER_MINUTE), key("rk_test_1"));
    let mut waiting = vec![Duration::ZERO; 500];
    let mut let_through = Vec::new();
    while !waiting.is_empty() {
        waiting.sort();
        let now = waiting.remove(0);
        match guard.admit(&key, now) {
            Ok(pass) => {
                pass.end(Ended::Answered, now);
                let_through.push(now);
            }
            Err(Refused::Busy { after } | Refused::Soon { after }) => waiting.push(now + after),
            Err(refused) => panic!("{refused:?}"),
        }
    }
    let in_first = |secs| let_through.iter().filter(|at| at.as_secs() < secs).count();
    let counts = [1, 2, 11, 12, 60, 61, 72, 120, 180, 240].map(in_first);
    assert_eq!(counts, [10, 20, 110, 120, 120, 130, 240, 240, 360, 480]);
    assert_eq!(let_through.len(), 500);
}

proptest! {
    /// However calls arrive and end, no 60 s hold more than were set and no second more than ten.
    #[test]
    fn no_window_ever_holds_more(
        calls_per_minute in 1_u32..40,
        calls in proptest::collection::vec((0_u64..4000, 0_u8..12, any::<bool>()), 1..400),
    ) {
        let guard = Guard::new(calls_per_minute);
        let (mut now, mut let_through) = (Duration::ZERO, Vec::new());
        for (pause_ms, how, patient) in calls {
            now += Duration::from_millis(if how == 11 { pause_ms * 20 } else { pause_ms / 20 });
            match guard.admit(&key(if how == 10 { "rk_test_2" } else { "rk_test_1" }), now) {
                Ok(pass) => {
                    let_through.push(now);
                    match how {
                        0 => pass.end(Ended::Failed, now),
                        1 => pass.end(Ended::Patience { after: SECOND }, now),
                        2 => drop(pass),
                        _ => pass.end(Ended::Answered, now),
                    }
                }
                Err(Refused::Busy { after } | Refused::Paused { after } | Refused::Soon { after }) => {
                    prop_assert!(!after.is_zero());
                    if patient {
                        now += after;
                    }
                }
            }
        }
        for (window, most) in [(MINUTE, calls_per_minute), (SECOND, CALLS_PER_SECOND)] {
            for first in &let_through {
                let within = let_through.iter().filter(|at| *at >= first && **at < *first + window);
                prop_assert!(within.count() <= most as usize, "{window:?} from {first:?}");
            }
        }
    }
}
