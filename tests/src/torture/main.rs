//! `torture`: the real binary on a real disk, killed at random instants, and held afterwards
//! against what Stripe has, what the authority recorded and what clients were told.
//!
//! Choices follow from one seed. Worlds are independent of each other and two run at a time,
//! because most of a world's time is spent waiting for the leases of killed gateways to end.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test program: it computes freely, prints, and measures real time"
)]

mod asks;
mod backlog;
mod check;
mod counts;
mod fleet;
mod http;
mod process;
mod random;
mod replicas;
mod stripe;
mod world;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::counts::Counts;
use crate::world::World;

const HELP: &str = "\
torture --gateway PATH [--kills N] [--seed S] [--minutes M]
torture --gateway PATH --rounds N [--kills N] [--seed S]
torture --gateway PATH --open N

  --gateway PATH   the gateway's binary
  --kills N        how often it is killed; 200 unless said, and none with --rounds
  --seed S         what all choices follow from; a random one unless said
  --minutes M      how long it may take; 10 unless said
  --rounds N       instead, 200 requests at once against a nearly full cap, N times, over two
                   gateways, two authorities and one PostgreSQL; --kills kills authorities
                   in rounds more
  --open N         instead, start it over N open refunds, and say how long what takes";
/// Kills, unless said.
const KILLS: u64 = 200;
/// Kills of one world; more would find its caps used up.
const KILLS_PER_WORLD: u64 = 40;
/// Worlds at a time.
const LANES: usize = 2;

/// What was asked for.
struct Options {
    gateway: PathBuf,
    kills: Option<u64>,
    seed: u64,
    minutes: u64,
    open: Option<u32>,
    rounds: Option<u64>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = options(&words) else {
        eprintln!("{HELP}");
        return ExitCode::FAILURE;
    };
    print_line(&format!("seed {}", options.seed));
    let Options { gateway, kills, seed, .. } = &options;
    let ran = match (options.open, options.rounds) {
        (Some(open), _) => backlog::run(gateway, open),
        (None, Some(rounds)) => fleet::run(gateway, *seed, rounds, kills.unwrap_or(0)),
        (None, None) => run(&options, kills.unwrap_or(KILLS)),
    };
    match ran {
        Ok(table) => {
            print_line(&table);
            ExitCode::SUCCESS
        }
        Err(said) => {
            eprintln!("FAILED: `{}`\n{said}", again(&options));
            ExitCode::FAILURE
        }
    }
}

/// What to say to have the same once more.
fn again(options: &Options) -> String {
    let Options { kills, seed, open, rounds, .. } = options;
    let word = |name, value: Option<u64>| value.map(|value| format!(" --{name} {value}"));
    let words = [word("open", open.map(u64::from)), word("rounds", *rounds), word("kills", *kills)];
    format!("--seed {seed}{}", words.map(Option::unwrap_or_default).concat())
}

fn options(words: &[String]) -> Option<Options> {
    let seed = RandomState::new().hash_one("seed");
    let mut options = Options {
        gateway: PathBuf::new(),
        kills: None,
        seed,
        minutes: 10,
        open: None,
        rounds: None,
    };
    for pair in words.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--gateway" => options.gateway = value.into(),
            "--kills" => options.kills = Some(value.parse().ok()?),
            "--seed" => options.seed = value.parse().ok()?,
            "--minutes" => options.minutes = value.parse().ok()?,
            "--rounds" => options.rounds = Some(value.parse().ok()?),
            "--open" => options.open = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    options.gateway.is_file().then_some(options)
}

/// Runs every world; the table, or the first contradiction.
fn run(options: &Options, kills: u64) -> Result<String, String> {
    let begun = now();
    let time_max = Duration::from_secs(options.minutes.saturating_mul(60));
    let is_failed = AtomicBool::new(false);
    let is_over = || is_failed.load(Ordering::Acquire) || begun.elapsed() > time_max;
    let next = AtomicU64::new(0);
    let total = Mutex::new(Counts::default());
    let lane = || -> Result<(), String> {
        loop {
            let number = next.fetch_add(1, Ordering::AcqRel);
            let left = kills.saturating_sub(number.saturating_mul(KILLS_PER_WORLD));
            if left == 0 || is_over() {
                return Ok(());
            }
            let world = World::new(&options.gateway, options.seed, number);
            let counts = world.and_then(|world| world.run(left.min(KILLS_PER_WORLD), is_over));
            let counts = counts.inspect_err(|_| is_failed.store(true, Ordering::Release))?;
            total.lock().map_err(|error| error.to_string())?.add(&counts);
        }
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        let ends = lanes.into_iter().map(|lane| lane.join().unwrap_or(Err("panicked".into())));
        ends.collect::<Vec<_>>().into_iter().collect::<Result<(), String>>()
    })?;
    let total = total.into_inner().map_err(|error| error.to_string())?;
    let table = total.table(begun.elapsed());
    if total.kills < kills {
        let minutes = options.minutes;
        return Err(format!("only so much in {minutes} minutes: give it more\n{table}"));
    }
    Ok(table)
}

fn now() -> Instant {
    Instant::now()
}

fn print_line(line: &str) {
    println!("{line}");
}
