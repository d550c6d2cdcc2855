//! What agents, people and Stripe do, and how it is drawn.

use gate_core::RefundReason;

use super::{Op, PlannedCharge, Rules, Ways, ZONES};
use crate::draw::Draw;

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
    /// A gateway gets another key at the authority, and its file is written so much later; or
    /// before, by as much.
    RotateGateway {
        gateway: usize,
        at_once: bool,
        file_first: bool,
        apart_ms: u64,
    },
    /// A gateway is revoked, and set up anew after a while.
    RevokeGateway {
        gateway: usize,
        back_ms: u64,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Approve,
    Deny,
    Both,
}

impl Act {
    pub(super) fn of(
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

/// What people do where there are more of them, or a team: beside what happens anyway.
pub(super) fn more(seed: u64, timezone: &'static str, ways: Ways, ops: &mut Vec<Op>) {
    let mut draw = Draw::of(seed, 31, 0);
    let panel = if ways.panel { draw.between(3, 9) } else { 0 };
    let team = if ways.team { draw.below(4) } else { 0 };
    let times: Vec<u64> = ops.iter().map(|op| op.at_ms).collect();
    if ways.remote {
        let mut draw = Draw::of(seed, 36, 0);
        for extra in 0..draw.below(5) {
            let n = ops.len() as u64;
            let mut own = Draw::of(seed, 37, extra);
            let at_ms = *own.pick(&times) + own.below(1500);
            ops.push(Op { n, at_ms, act: Act::of_credentials(&mut own) });
        }
        for extra in 0..draw.below(7) {
            let n = ops.len() as u64;
            let mut own = Draw::of(seed, 38, extra);
            let at_ms = *own.pick(&times) + own.below(2500);
            ops.push(Op { n, at_ms, act: Act::of_second_thoughts(&mut own, timezone, ways) });
        }
    }
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

    const fn of_credentials(draw: &mut Draw) -> Self {
        let gateway = draw.below(2) as usize;
        if draw.permille(250) {
            let back_ms = *draw.pick(&[500, 5_000, 60_000, 4_000_000]);
            return Self::RevokeGateway { gateway, back_ms };
        }
        Self::RotateGateway {
            gateway,
            at_once: draw.permille(350),
            file_first: draw.permille(300),
            apart_ms: *draw.pick(&[0, 200, 3_000, 40_000, 3_600_000, 90_000_000]),
        }
    }

    /// What lets approved refunds lie, and what becomes of them then.
    fn of_second_thoughts(draw: &mut Draw, timezone: &'static str, ways: Ways) -> Self {
        let (agent, pick) = (draw.below(2) as usize, draw.bits());
        match draw.below(100) {
            0..50 => Self::Withdraw { agent, pick },
            50..80 => Self::ApproveAndStop { agent, pick },
            _ => Self::ApplyPolicy(Box::new(Rules::of(draw, timezone, ways))),
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
