//! `sim`: runs seeds, makes failures small and says how to see them again.
#![allow(clippy::print_stdout, reason = "a command line talks to whoever typed it")]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    reason = "a tool of the project's own: a panic is a finding"
)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use gate_sim::{Bug, Coverage, KILLERS, Options, killed, run, shrink};

/// Simulates the whole gateway under every fault, on virtual time.
#[derive(Parser)]
struct Words {
    /// How many seeds to run.
    #[arg(long, default_value_t = 2000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run this seed alone, make its failure small and show what happens.
    #[arg(long)]
    seed: Option<u64>,
    /// Run seeds for so many minutes instead of a number of them.
    #[arg(long)]
    minutes: Option<u64>,
    /// Run every seed twice and compare what it came to.
    #[arg(long)]
    twice: bool,
    /// How many seeds run at a time.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Leave out classes of faults, single faults or operations, by name.
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Let only these operations and faults happen, by name.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Go on until every reachable cell is reached; fail when as many seeds again do not do it.
    #[arg(long)]
    covered: bool,
    /// Put each seeded bug into the product in turn, and see that it is found.
    #[arg(long)]
    bugs: bool,
    /// Put this seeded bug into the product.
    #[arg(long, value_parser = bug_named)]
    bug: Option<Bug>,
    /// Show what happens in the seed, as it is.
    #[arg(long)]
    trace: bool,
}

impl Words {
    fn options(&self) -> Options {
        let only: BTreeSet<String> = self.only.iter().cloned().collect();
        Options {
            without: self.without.iter().cloned().collect(),
            only: (!only.is_empty()).then_some(only),
            timeline: self.trace,
            bug: self.bug,
        }
    }
}

fn main() -> ExitCode {
    let words = Words::parse();
    let good = match words.seed {
        Some(seed) if words.trace => traced(seed, &words.options()),
        Some(seed) => one(seed, &words.options()),
        None if words.bugs => bugs(&words),
        None => many(&words),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[allow(clippy::disallowed_methods, reason = "how fast the real machine is")]
fn now() -> Instant {
    Instant::now()
}

fn traced(seed: u64, options: &Options) -> bool {
    let report = run(seed, options);
    shown(&report.timeline);
    report.violations.iter().for_each(|violation| println!("{violation}"));
    println!("seed {seed}: trace {:016x}, {} polls", report.trace_hash, report.polls);
    report.violations.is_empty()
}

fn shown(timeline: &[(u64, String)]) {
    for (at_ms, line) in timeline {
        println!("{:>12}.{:03} s  {line}", at_ms / 1000, at_ms % 1000);
    }
}

/// Runs one seed; a failure is made small and shown.
fn one(seed: u64, options: &Options) -> bool {
    let Some(shrunk) = shrink(seed, options) else {
        println!("seed {seed}: nothing is wrong");
        return true;
    };
    shown(&shrunk.report.timeline);
    for violation in &shrunk.report.violations {
        println!("{violation}");
    }
    let only: Vec<String> = shrunk.only.into_iter().collect();
    println!("again: cargo xtask sim --seed {seed} --only {}", only.join(","));
    false
}

fn bug_named(name: &str) -> Result<Bug, String> {
    let found = Bug::ALL.iter().find(|bug| format!("{bug:?}") == name);
    found.copied().ok_or_else(|| format!("there is no seeded bug {name}: {:?}", Bug::ALL))
}

/// Runs each bug until it is found: its own seed first, then others. One that survives fails.
fn bugs(words: &Words) -> bool {
    let began = now();
    let next = AtomicU64::new(0);
    let survivors = AtomicU64::new(0);
    let moved = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..words.threads.max(1) {
            scope.spawn(|| {
                while let Some(bug) = usize::try_from(next.fetch_add(1, Ordering::Relaxed))
                    .ok()
                    .and_then(|n| Bug::ALL.get(n))
                {
                    let known = KILLERS.iter().find(|(of, _)| of == bug).map(|(_, seed)| *seed);
                    let name = format!("{bug:?}");
                    match killed(*bug, known, 0..words.seeds) {
                        Some((seed, violation)) => {
                            println!("{name:<26} seed {seed:>5}  {violation}");
                            if known != Some(seed) {
                                moved.lock().expect("no thread panics").push((name, seed));
                            }
                        }
                        None => {
                            println!("{name:<26} SURVIVED {} seeds", words.seeds);
                            survivors.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let mut moved = moved.into_inner().expect("no thread panics");
    moved.sort();
    for (name, seed) in moved {
        println!("found by another seed than the one that is kept: (Bug::{name}, {seed}),");
    }
    let (all, survived) = (Bug::ALL.len(), survivors.into_inner());
    println!("{all} seeded bugs, {survived} survived, in {:.1} s", began.elapsed().as_secs_f64());
    survived == 0
}

/// What many seeds came to.
#[derive(Default)]
struct Sum {
    seeds: u64,
    polls: u64,
    coverage: Coverage,
    failed: Vec<u64>,
}

impl Sum {
    fn fails(&self) -> bool {
        !self.failed.is_empty()
    }
}

fn many(words: &Words) -> bool {
    let began = now();
    let mut sum = Sum::default();
    if let Some(minutes) = words.minutes {
        let limit = Duration::from_secs(minutes * 60);
        some(words, words.from..u64::MAX, &|| began.elapsed() > limit, &mut sum);
    } else {
        some(words, words.from..words.from + words.seeds, &|| false, &mut sum);
    }
    let uncovered = |sum: &Sum| words.covered && !sum.coverage.missing().1.is_empty();
    // Chance may leave a rare cell out: as many seeds again may reach it.
    while uncovered(&sum) && !sum.fails() && sum.seeds < 2 * words.seeds {
        let from = words.from + sum.seeds;
        some(words, from..from + words.seeds.div_ceil(10), &|| false, &mut sum);
    }
    let secs = began.elapsed().as_secs_f64();
    println!("{}", sum.coverage);
    println!(
        "{} seeds in {secs:.1} s ({:.0} a second on {} thread(s)), {} polls each: {} failed",
        sum.seeds,
        rate(sum.seeds, secs),
        words.threads,
        sum.polls / sum.seeds.max(1),
        sum.failed.len(),
    );
    if let Some(first) = sum.failed.iter().min() {
        println!("\nthe first of them, made small:");
        one(*first, &words.options());
    }
    !sum.fails() && !uncovered(&sum)
}

/// Runs `seeds` until they are through, it `is_late`, or too many failed.
fn some(words: &Words, seeds: Range<u64>, is_late: &(dyn Fn() -> bool + Sync), into: &mut Sum) {
    let options = words.options();
    let next = AtomicU64::new(seeds.start);
    let over = AtomicBool::new(false);
    let sum = Mutex::new(into);
    std::thread::scope(|scope| {
        for _ in 0..words.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || is_late() || over.load(Ordering::Relaxed) {
                        return;
                    }
                    let report = run(seed, &options);
                    let again = words.twice.then(|| run(seed, &options).trace_hash);
                    let same = again.is_none_or(|hash| hash == report.trace_hash);
                    let mut sum = sum.lock().expect("no thread panics");
                    sum.seeds += 1;
                    sum.polls += report.polls;
                    sum.coverage.add(&report.coverage);
                    if !same {
                        println!("seed {seed} does not replay");
                    }
                    if let Some(violation) = report.violations.first() {
                        println!("seed {seed}: {violation}");
                    }
                    if !same || !report.violations.is_empty() {
                        sum.failed.push(seed);
                        over.store(sum.failed.len() >= 20, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

#[allow(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "a figure for people to read"
)]
fn rate(count: u64, secs: f64) -> f64 {
    count as f64 / secs
}
