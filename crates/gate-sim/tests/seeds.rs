//! That seeds replay, and that those which once failed no longer do. Whether the seeded bugs are
//! found takes the optimised program: `cargo xtask sim --bugs`.

use gate_sim::{Bug, KILLERS, Options, run, shrink};

/// How many seeds are run twice.
const SEEDS: u64 = 50;

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 0..SEEDS {
        let (first, second) = (run(seed, &Options::default()), run(seed, &Options::default()));
        assert_eq!(first.violations, [], "seed {seed}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!((first.polls, first.faults), (second.polls, second.faults), "seed {seed}");
    }
}

#[test]
fn what_once_failed_holds() {
    let corpus = [
        // seed  what it found
        (159, "not executed was told before it was recorded, and then it was executed"),
        (2316, "a gateway whose clock is behind sent it again after Stripe forgot its key"),
    ];
    for (seed, found) in corpus {
        assert_eq!(run(seed, &Options::default()).violations, [], "seed {seed}: {found}");
    }
}

#[test]
fn every_seeded_bug_has_a_seed_to_try_first() {
    let kept: Vec<Bug> = KILLERS.iter().map(|(bug, _)| *bug).collect();
    assert_eq!(kept, Bug::ALL, "run `cargo xtask sim --bugs` and keep what it prints");
}

#[test]
fn a_failure_is_made_small_and_stays_one() {
    let options = Options { bug: Some(Bug::AuditLeftOut), ..Options::default() };
    let whole = run(0, &options);
    let shrunk = shrink(0, &options).expect("a failure");
    assert!(shrunk.only.len() <= 2, "{:?}", shrunk.only);
    assert!(shrunk.only.len() < whole.faults.len() + whole.ops.len());
    let kinds =
        |report: &gate_sim::Report| report.violations.first().map(gate_sim::Violation::kind);
    assert_eq!(kinds(&shrunk.report), kinds(&whole));
    assert!(shrunk.report.timeline.iter().any(|(_, line)| line.starts_with("VIOLATION")));
}
