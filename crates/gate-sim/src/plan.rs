//! What a world begins with and what people, agents and Stripe do in it: drawn from the seed
//! before anything runs. Things happen in bursts, so that they meet; between bursts pass seconds,
//! hours or days.

use gate_core::RefundReason;

use crate::draw::{Draw, mixed};

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

/// A policy for both agents.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    timezone: &'static str,
    approval_timeout: &'static str,
    entries: [Option<Entry>; 2],
    ways: Ways,
    /// The role that a rule asks for, where there is the rule.
    rule: Option<&'static str>,
    /// What the team may spend in a day and in a month.
    budgets: [Option<&'static str>; 2],
}

#[derive(Clone, Debug)]
struct Entry {
    daily_cap: &'static str,
    max_per_payment: Option<&'static str>,
    approval_threshold: Option<&'static str>,
    on_approval: &'static str,
    owner: Option<&'static str>,
    fraudulent: bool,
    /// A role, and how many people.
    panel: Option<(Option<&'static str>, u16)>,
    in_team: bool,
    weekly_cap: Option<&'static str>,
    monthly_cap: Option<&'static str>,
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

/// Which of an agent's keys it uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Secret {
    Newest,
    /// The one before, if there was one.
    Older,
}

/// A request for a refund, and how the agent behaves about it.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    pub(crate) agent: usize,
    pub(crate) secret: Secret,
    pub(crate) charge: usize,
    pub(crate) by_payment_intent: bool,
    /// None: in full.
    pub(crate) minor: Option<i64>,
    pub(crate) reason: Option<RefundReason>,
    /// None: without a key.
    pub(crate) key: Option<String>,
    pub(crate) justification: bool,
    pub(crate) dry_run: bool,
    pub(crate) gateway: usize,
    /// How long it waits for an answer, in milliseconds.
    pub(crate) patience_ms: u64,
    /// How often it asks again when none came.
    pub(crate) again: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Ask(Asking),
    /// The agent withdraws what it has pending or approved.
    Withdraw {
        agent: usize,
        pick: u64,
    },
    /// The agent reads its records.
    Look {
        agent: usize,
    },
    /// A person decides what is pending: yes, no, or two at once.
    Review {
        pick: u64,
        user: &'static str,
        verdict: Verdict,
    },
    ApplyPolicy(Box<Rules>),
    Stop {
        agent: Option<usize>,
    },
    Resume {
        agent: Option<usize>,
    },
    /// The team is stopped, or goes on.
    StopTeam,
    ResumeTeam,
    Rotate {
        agent: usize,
        at_once: bool,
    },
    Revoke {
        agent: usize,
    },
    /// Somebody refunds a part of a charge in Stripe's dashboard.
    Dashboard {
        charge: usize,
        minor: i64,
    },
    /// Stripe moves a refund of ours that still can.
    Move {
        pick: u64,
        status: &'static str,
    },
    /// A customer disputes a charge.
    Dispute {
        charge: usize,
        status: &'static str,
    },
    /// Somebody takes our marks off a refund in Stripe's dashboard.
    Unmark {
        pick: u64,
    },
    /// A person says yes, and the agent is stopped at once, for a while.
    ApproveAndStop {
        pick: u64,
        agent: usize,
    },
    /// A person finds out what became of a refund that needs one.
    Resolve {
        pick: u64,
    },
    /// Two people, or one of them twice, approve the same.
    Panel {
        pick: u64,
        users: [&'static str; 2],
    },
    /// Somebody gets other roles, or loses all.
    Seat {
        user: &'static str,
        roles: &'static [&'static str],
    },
    /// People say yes, and one of them loses the role for it at once, for a while.
    PanelAndUnseat {
        pick: u64,
        user: &'static str,
    },
    /// Somebody lets it be asked again what a person denied.
    Reopen {
        pick: u64,
        user: &'static str,
    },
    /// Somebody changes in the store what reviewers are asked.
    Tamper {
        pick: u64,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Approve,
    Deny,
    Both,
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
        let bursts = draw.between(1, 4);
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
        more(seed, ways, &mut ops);
        ops.sort_by_key(|op| op.at_ms);
        let is_fretted_over = draw.permille(350);
        let clocks = (0..4).map(|node| clock(seed, node, &ops)).collect();
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
fn clock(seed: u64, node: u64, ops: &[Op]) -> (i64, Vec<(u64, i64)>) {
    let mut draw = Draw::of(seed, 12, node);
    // The store's clock is the one that counts; a gateway's may be hours off.
    let both_behind = Draw::of(seed, 12, 99).permille(150);
    let skew = match draw.below(8) {
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

impl Rules {
    pub(crate) fn of(draw: &mut Draw, timezone: &'static str, ways: Ways) -> Self {
        let entry = |draw: &mut Draw| {
            (!draw.permille(40)).then(|| Entry {
                daily_cap: draw.word(&["60.00", "120.00", "1000.00", "1000.00"]),
                max_per_payment: *draw.pick(&[None, None, None, Some("90.00"), Some("40.00")]),
                approval_threshold: *draw.pick(&[
                    None,
                    None,
                    Some("0.01"),
                    Some("20.00"),
                    Some("45.00"),
                ]),
                on_approval: draw.word(&["execute", "agent"]),
                owner: *draw.pick(&[None, Some("mona"), Some("rita")]),
                fraudulent: draw.permille(800),
                panel: None,
                in_team: false,
                weekly_cap: None,
                monthly_cap: None,
            })
        };
        let rules = Self {
            timezone,
            approval_timeout: draw.word(&["1m", "10m", "2h", "24h", "24h", "14d"]),
            entries: [entry(draw), entry(draw)],
            ways,
            rule: None,
            budgets: [None, None],
        };
        rules.with_panel(draw).with_team(draw)
    }

    fn with_panel(mut self, draw: &mut Draw) -> Self {
        if !self.ways.panel {
            return self;
        }
        for entry in self.entries.iter_mut().flatten() {
            let role =
                *draw.pick(&[None, Some("support-leads"), Some("support-leads"), Some("risk")]);
            entry.panel = Some((role, *draw.pick(&[1, 2, 2])));
            entry.approval_threshold =
                *draw.pick(&[None, Some("0.01"), Some("0.01"), Some("20.00")]);
        }
        self.rule = draw.permille(500).then_some(RULE_ROLE);
        self
    }

    fn with_team(mut self, draw: &mut Draw) -> Self {
        if !self.ways.team {
            return self;
        }
        for entry in self.entries.iter_mut().flatten() {
            entry.in_team = draw.permille(850);
            entry.weekly_cap = *draw.pick(&[None, Some("90.00"), Some("150.00"), Some("2000.00")]);
            entry.monthly_cap = *draw.pick(&[None, None, Some("120.00"), Some("5000.00")]);
        }
        let daily = *draw.pick(&[None, Some("70.00"), Some("110.00"), Some("1000.00")]);
        let monthly = *draw.pick(&[None, Some("150.00"), Some("9000.00")]);
        self.budgets = [daily, monthly];
        self
    }

    /// The same, but every refund waits for a person.
    pub(crate) fn asking_a_person(mut self) -> Self {
        for entry in self.entries.iter_mut().flatten() {
            entry.approval_threshold = Some("0.01");
            entry.max_per_payment = None;
        }
        self
    }

    /// The time zone that days are counted in.
    pub(crate) const fn timezone(&self) -> &'static str {
        self.timezone
    }

    /// The document.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "[organization]\ntimezone = \"{}\"\napproval_timeout = \"{}\"\n",
            self.timezone, self.approval_timeout
        );
        if self.ways.team {
            text.push_str(&format!("[teams.{TEAM}]\n"));
            for (key, value) in ["daily_budget", "monthly_budget"].iter().zip(self.budgets) {
                if let Some(value) = value {
                    text.push_str(&format!("{key} = \"{value}\"\n"));
                }
            }
        }
        for (name, entry) in AGENTS.iter().zip(&self.entries) {
            let Some(entry) = entry else { continue };
            let methods = if entry.fraudulent {
                "\"stripe_refund\", \"stripe_refund_fraudulent\""
            } else {
                "\"stripe_refund\""
            };
            text.push_str(&format!(
                "[agents.{name}]\nmethods = [{methods}]\n\
                 allowed_hosts = [\"stripe-refund.action\"]\ndaily_cap = \"{}\"\non_approval = \"{}\"\n",
                entry.daily_cap, entry.on_approval
            ));
            let optional = [
                ("max_per_payment", entry.max_per_payment),
                ("approval_threshold", entry.approval_threshold),
                ("owner", entry.owner),
                ("team", entry.in_team.then_some(TEAM)),
                ("weekly_cap", entry.weekly_cap),
                ("monthly_cap", entry.monthly_cap),
            ];
            for (key, value) in optional {
                if let Some(value) = value {
                    text.push_str(&format!("{key} = \"{value}\"\n"));
                }
            }
            if let Some((role, people)) = entry.panel {
                text.push_str(&format!("approvals_required = {people}\n"));
                if let Some(role) = role {
                    text.push_str(&format!("reviewers = [\"{role}\"]\n"));
                }
            }
        }
        if let Some(role) = self.rule {
            text.push_str(&format!(
                "[[rules]]\nid = \"{RULE}\"\nagents = [\"*\"]\n\
                 reason_in = [\"requested_by_customer\"]\ncontrol = \"require_approval\"\n\
                 reviewers = [\"{role}\"]\n"
            ));
        }
        text
    }
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

impl Act {
    fn of(
        draw: &mut Draw,
        seed: u64,
        charges: &[PlannedCharge],
        timezone: &'static str,
        ways: Ways,
    ) -> Self {
        let agent = draw.below(2) as usize;
        let pick = draw.bits();
        let charge = draw.below(charges.len() as u64) as usize;
        match draw.below(100) {
            0..52 => Self::Ask(Asking::of(draw, seed, agent, charges)),
            52..76 => Self::Review {
                pick,
                user: draw.word(&["rita", "rita", "rita", "mona", "vic"]),
                verdict: *draw.pick(&[
                    Verdict::Approve,
                    Verdict::Approve,
                    Verdict::Approve,
                    Verdict::Deny,
                    Verdict::Both,
                ]),
            },
            76..80 => Self::Withdraw { agent, pick },
            80..81 => Self::Look { agent },
            81..82 => Self::ApproveAndStop { pick, agent },
            82..86 => Self::ApplyPolicy(Box::new({
                let timezone = if draw.permille(200) { *draw.pick(&ZONES) } else { timezone };
                Rules::of(draw, timezone, ways)
            })),
            86..88 => Self::Stop { agent: draw.permille(500).then_some(agent) },
            88..91 => Self::Resume { agent: draw.permille(500).then_some(agent) },
            91..93 => Self::Rotate { agent, at_once: draw.permille(400) },
            93..94 => Self::Revoke { agent },
            94..96 => {
                let whole = charges[charge].minor;
                Self::Dashboard { charge, minor: *draw.pick(&[100, whole / 2, whole / 5, whole]) }
            }
            96..97 => Self::Dispute {
                charge,
                status: draw.word(&["needs_response", "needs_response", "warning_needs_response"]),
            },
            97..98 => match draw.below(3) {
                0 => Self::Unmark { pick },
                _ => Self::Resolve { pick },
            },
            _ => {
                let status = draw.word(&["failed", "failed", "canceled", "pending"]);
                Self::Move { pick, status }
            }
        }
    }
}

impl Ways {
    fn of(seed: u64) -> Self {
        let mut draw = Draw::of(seed, 30, 0);
        Self { panel: draw.permille(300), team: draw.permille(300), rates: draw.permille(250) }
    }
}

/// What people do where there are more of them, or a team: beside what happens anyway.
fn more(seed: u64, ways: Ways, ops: &mut Vec<Op>) {
    let mut draw = Draw::of(seed, 31, 0);
    let panel = if ways.panel { draw.between(3, 9) } else { 0 };
    let team = if ways.team { draw.below(4) } else { 0 };
    let times: Vec<u64> = ops.iter().map(|op| op.at_ms).collect();
    for extra in 0..panel + team {
        let n = ops.len() as u64;
        let mut own = Draw::of(seed, 32, extra);
        let at_ms = *own.pick(&times) + own.below(1500);
        let act = if extra < panel { Act::of_panel(&mut own) } else { Act::of_team(&mut own) };
        ops.push(Op { n, at_ms, act });
    }
}

impl Act {
    fn of_panel(draw: &mut Draw) -> Self {
        let pick = draw.bits();
        let people = ["rita", "rita", "rolf", "lena", "mona"];
        match draw.below(100) {
            0..45 => Self::Panel { pick, users: [draw.word(&people), draw.word(&people)] },
            45..60 => Self::Seat {
                user: draw.word(&["rita", "rolf", "lena"]),
                roles: draw.pick::<&[&str]>(&[
                    &["support-leads"],
                    &["support-leads", "risk"],
                    &["risk"],
                    &["viewer"],
                    &[],
                ]),
            },
            60..78 => Self::PanelAndUnseat { pick, user: draw.word(&["rita", "rolf", "lena"]) },
            78..90 => Self::Reopen { pick, user: draw.word(&["rita", "mona", "vic"]) },
            _ => Self::Tamper { pick },
        }
    }

    const fn of_team(draw: &mut Draw) -> Self {
        if draw.permille(550) { Self::StopTeam } else { Self::ResumeTeam }
    }
}

impl Asking {
    fn of(draw: &mut Draw, seed: u64, agent: usize, charges: &[PlannedCharge]) -> Self {
        // What a key asks for is drawn by the key, most of the time: the same key, the same request.
        let key = draw.below(10);
        let key = (key >= 3).then_some(key % 4);
        let mut own = match key {
            Some(key) if !draw.permille(80) => Draw::of(seed, 13, key << 8 | agent as u64),
            _ => draw.clone(),
        };
        let charge = own.below(charges.len() as u64) as usize;
        let whole = charges[charge].minor;
        let minor = *own.pick(&[
            None,
            Some(whole / 2),
            Some(whole / 5),
            Some(whole),
            Some(whole / 5),
            Some(whole + 1),
        ]);
        let reason = *own.pick(&[
            None,
            None,
            Some(RefundReason::RequestedByCustomer),
            Some(RefundReason::Fraudulent),
        ]);
        let by_payment_intent = charges[charge].payment_intent.is_some() && draw.permille(400);
        Self {
            agent,
            secret: if draw.permille(150) { Secret::Older } else { Secret::Newest },
            charge,
            by_payment_intent,
            minor,
            reason,
            key: key.map(|key| format!("key-{key}")),
            justification: draw.permille(300),
            dry_run: draw.permille(30),
            gateway: draw.below(2) as usize,
            patience_ms: *draw.pick(&[30, 400, 5_000, 30_000, 60_000]),
            again: draw.below(4),
        }
    }
}

/// A draw that belongs to one attempt of an operation.
pub(crate) const fn of_attempt(seed: u64, op: u64, attempt: u64) -> u64 {
    mixed(seed, 14, op, attempt)
}
