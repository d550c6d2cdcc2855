//! What a world begins with and what people, agents and Stripe do in it: drawn from the seed
//! before anything runs. Things happen in bursts, so that they meet; between bursts pass seconds,
//! hours or days.

mod acts;
mod rules;

use crate::draw::{Draw, mixed};

pub(crate) use acts::{Act, Asking, Secret, Verdict};
pub(crate) use rules::Rules;

/// What some worlds have besides. What is drawn for these comes from streams of its own, so that a
/// world without them is what it was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ways {
    /// Reviewers of several roles, two of whom it may take, who come, go and err.
    pub(crate) panel: bool,
    /// A team with budgets, and weekly and monthly caps.
    pub(crate) team: bool,
    /// Exchange rates that move, grow old, or are nonsense.
    pub(crate) rates: bool,
    /// Gateways that ask an authority elsewhere.
    pub(crate) remote: bool,
}

/// Everything that is decided beforehand.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// UTC at the beginning, in milliseconds.
    pub(crate) base_ms: i64,
    pub(crate) ways: Ways,
    pub(crate) policy: Rules,
    pub(crate) charges: Vec<PlannedCharge>,
    /// In the order of their times; named `op:N` by their place.
    pub(crate) ops: Vec<Op>,
    /// When the last burst is over, in virtual milliseconds.
    pub(crate) ends_ms: u64,
    /// Whether a nervous person sits at the desk.
    pub(crate) is_fretted_over: bool,
    /// By node, the store last: how far a clock is off, and when it jumps by how much.
    pub(crate) clocks: Vec<(i64, Vec<(u64, i64)>)>,
}

/// A charge that is there at the beginning.
#[derive(Clone, Debug)]
pub(crate) struct PlannedCharge {
    pub(crate) id: String,
    pub(crate) payment_intent: Option<String>,
    pub(crate) minor: i64,
    pub(crate) currency: &'static str,
    /// The test card, which says how refunds go on.
    pub(crate) card: &'static str,
}

/// Something that somebody does.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) n: u64,
    pub(crate) at_ms: u64,
    pub(crate) act: Act,
}

/// The agents' names.
pub(crate) const AGENTS: [&str; 2] = ["anna", "bert"];
/// People: two who may review, one of them an owner, and one who may not.
pub(crate) const USERS: [(&str, &str); 3] =
    [("rita", "support-leads"), ("mona", "owner"), ("vic", "viewer")];
/// More of them, where several have to agree.
pub(crate) const PANEL: [(&str, &str); 2] = [("rolf", "support-leads"), ("lena", "risk")];
/// The team.
pub(crate) const TEAM: &str = "desk";
/// The rule that asks for a role of its own when the customer asked for the refund.
pub(crate) const RULE: &str = "asked-for";
/// That role.
pub(crate) const RULE_ROLE: &str = "risk";

/// How many worlds of a thousand ask an authority elsewhere. Signatures cost time.
const REMOTE_PERMILLE: u64 = 200;

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Times to begin at: an ordinary noon, and the last hours before something changes.
const STARTS: [&str; 7] = [
    "2026-10-30T12:00:00Z",
    // New York sets its clocks back on 1 November and forward on 8 March; Berlin on 25 October.
    "2026-11-01T03:58:00Z",
    "2027-03-08T04:57:00Z",
    "2026-10-24T21:58:30Z",
    "2026-10-30T23:58:00Z",
    "2026-12-31T23:30:00Z",
    // Cairo's midnight is skipped.
    "2026-04-23T21:57:00Z",
];
const ZONES: [&str; 5] =
    ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Africa/Cairo"];
/// Between two bursts: longer than a lease, an approval, Stripe's memory, a day.
const GAPS: [u64; 9] = [
    3 * SECOND,
    40 * SECOND,
    2 * MINUTE,
    HOUR,
    9 * HOUR,
    22 * HOUR + 50 * MINUTE,
    23 * HOUR + 5 * MINUTE,
    24 * HOUR + 10 * MINUTE,
    40 * HOUR,
];

impl Plan {
    /// Draws the plan of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut draw = Draw::of(seed, 10, 0);
        let start: jiff::Timestamp = draw.pick(&STARTS).parse().expect("a time");
        let base_ms = start.as_millisecond();
        let timezone = *draw.pick(&ZONES);
        let ways = Ways::of(seed);
        let policy = Rules::of(&mut draw, timezone, ways);
        let count = draw.between(1, 4) as usize;
        let charges: Vec<_> = (0..count).map(|n| PlannedCharge::of(&mut draw, n)).collect();
        let bursts = draw.between(1, 4).min(if ways.remote { 2 } else { 4 });
        let mut begins_ms = SECOND;
        let mut ops: Vec<Op> = Vec::new();
        for burst in 0..bursts {
            let span = *draw.pick(&[50, 1500, 15 * SECOND]);
            for _ in 0..draw.between(3, 12) {
                let n = ops.len() as u64;
                let mut own = Draw::of(seed, 11, n);
                let at_ms = begins_ms + own.below(span);
                ops.push(Op { n, at_ms, act: Act::of(&mut own, seed, &charges, timezone, ways) });
            }
            begins_ms += span;
            if burst + 1 < bursts {
                begins_ms += *draw.pick(&GAPS);
            }
        }
        acts::more(seed, timezone, ways, &mut ops);
        ops.sort_by_key(|op| op.at_ms);
        let is_fretted_over = draw.permille(350);
        let clocks = (0..4).map(|node| clock(seed, node, &ops, ways.remote)).collect();
        Self {
            base_ms,
            ways,
            policy,
            charges,
            ops,
            ends_ms: begins_ms + 5 * SECOND,
            is_fretted_over,
            clocks,
        }
    }
}

impl Plan {
    /// How far the store's clock is ever set back, in milliseconds.
    pub(crate) fn set_back_ms(&self) -> u64 {
        let jumps = self.clocks.last().map_or(&[][..], |(_, jumps)| &jumps[..]);
        jumps.iter().map(|(_, by)| by.min(&0).unsigned_abs()).sum()
    }
}

/// How far one clock is off and when it jumps. What the store's is off stays within the hour by
/// which Stripe keeps its keys longer than anything is sent again: the product assumes that.
fn clock(seed: u64, node: u64, ops: &[Op], remote: bool) -> (i64, Vec<(u64, i64)>) {
    let mut draw = Draw::of(seed, 12, node);
    // The store's clock is the one that counts; a gateway's may be hours off.
    let both_behind = Draw::of(seed, 12, 99).permille(150) && !remote;
    let skew = match draw.below(8) {
        // An authority takes calls of a gateway that is at most a minute off.
        0 if node < 2 && remote => 58_000,
        1 if node < 2 && remote => -58_000,
        2 if node < 2 && remote => 3_600_000,
        _ if node < 2 && both_behind => -7_200_000,
        0 if node < 2 => 7_200_000,
        1 if node < 2 => -7_200_000,
        _ => *draw.pick(&[0, 0, 700, -700, 25_000, -25_000]),
    };
    let mut jumps = Vec::new();
    let mut off = 0_i64;
    for _ in 0..draw.below(4) {
        let by = *draw.pick(&[900, -900, 40_000, -40_000, 600_000, -600_000]);
        if (off + by).abs() <= 600_000 {
            off += by;
            // Where something is going on.
            jumps.push((draw.pick(ops).at_ms + draw.below(30 * SECOND), by));
        }
    }
    (skew, jumps)
}

impl PlannedCharge {
    fn of(draw: &mut Draw, n: usize) -> Self {
        let (minor, currency) = *draw.pick(&[
            (10_000, "usd"),
            (5_000, "usd"),
            (5_000, "eur"),
            (9_000, "jpy"),
            (3_000, "gbp"),
        ]);
        let card = *draw.pick(&[
            "tok_visa",
            "tok_visa",
            "tok_visa",
            "tok_pendingRefund",
            "tok_refundFail",
        ]);
        let payment_intent = draw.permille(500).then(|| format!("pi_sim{n}"));
        Self { id: format!("ch_sim{n}"), payment_intent, minor, currency, card }
    }
}

impl Ways {
    fn of(seed: u64) -> Self {
        let mut draw = Draw::of(seed, 30, 0);
        Self {
            panel: draw.permille(300),
            team: draw.permille(300),
            rates: draw.permille(250),
            remote: draw.permille(REMOTE_PERMILLE),
        }
    }
}

/// A draw that belongs to one attempt of an operation.
pub(crate) const fn of_attempt(seed: u64, op: u64, attempt: u64) -> u64 {
    mixed(seed, 14, op, attempt)
}
