//! What comes next in a story: commands drawn by dice, most of them where they are likely to matter.

use gate_core::State;

use crate::model::{self, Limits, Team};
use crate::props::Dice;
use crate::story::Both;

pub(crate) const HOUR: i64 = 3_600_000;
pub(crate) const DAY: i64 = 24 * HOUR;
pub(crate) const AGENTS: usize = 2;
/// Who reviews.
pub(crate) const PEOPLE: [&str; 3] = ["rita", "remy", "rosa"];
pub(crate) const ZONES: [(&str, i64); 4] = [
    ("UTC", 0),
    ("Asia/Kolkata", 5 * HOUR + HOUR / 2),
    ("Etc/GMT+8", -8 * HOUR),
    ("Etc/GMT-14", 14 * HOUR),
];

/// Something that is done to both. Agents are places among those that live, intents places among
/// all there are.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Ask {
        slot: usize,
        old_key: bool,
        by_payment: bool,
        ask: model::Ask,
    },
    Execute(usize),
    Told {
        at: usize,
        to: State,
        stale: bool,
    },
    Seen {
        at: usize,
        back: bool,
    },
    Vote {
        at: usize,
        who: usize,
        yes: bool,
    },
    Reopen(usize),
    Cancel(usize),
    Sweep,
    Policy {
        zone: usize,
        timeout: i64,
        limits: Box<[Option<Limits>; AGENTS]>,
        team: Team,
    },
    Stop {
        whom: Held,
        on: bool,
    },
    Revoke(usize),
    Rotate {
        slot: usize,
        at_once: bool,
    },
    /// Time passes; to an edge, if it is about an intent.
    Pass {
        span: i64,
        about: Option<usize>,
    },
}

/// Who is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    Everybody,
    Slot(usize),
    Team,
}

impl Both {
    pub(crate) fn next(&self, dice: &mut Dice) -> Command {
        let intents = &self.model.intents;
        let slot = dice.throw(AGENTS as u64) as usize;
        let in_state = |states: &[State]| -> Vec<usize> {
            let all = 0..intents.len();
            all.filter(|at| states.contains(&intents[*at].state)).collect()
        };
        let pick = |dice: &mut Dice, states: &[State]| {
            let found = in_state(states);
            (!found.is_empty()).then(|| dice.of(&found))
        };
        let sent = [
            State::Submitted,
            State::AwaitingStripe,
            State::NotExecuted,
            State::Settled,
            State::Failed,
            State::Reversed,
        ];
        if let Some(at) = self.about
            && let Some(command) = self.at_edge(at, dice)
        {
            return command;
        }
        // Mostly news of what is under way.
        let early = dice.of(&[1, 1, 2, 6]);
        let chosen = match dice.throw(100) {
            0..36 => None,
            36..46 => pick(dice, &State::STORED).and_then(|at| self.ask_again(at, dice)),
            46..50 => pick(dice, &[State::NotExecuted]).and_then(|at| self.ask_again(at, dice)),
            50..56 => pick(dice, &[State::Approved]).map(Command::Execute),
            56..68 => pick(dice, &sent[..early]).map(|at| {
                let to = dice.of(&[State::Failed, State::NotExecuted, State::AwaitingStripe]);
                Command::Told { at, to, stale: dice.throw(6) == 0 }
            }),
            68..76 => {
                pick(dice, &sent[..early]).map(|at| Command::Seen { at, back: dice.throw(3) == 0 })
            }
            76..82 => pick(dice, &[State::PendingApproval]).map(|at| vote(at, 6, dice)),
            82..84 => pick(dice, &State::STORED).map(Command::Cancel),
            84 => pick(dice, &[State::Denied]).map(Command::Reopen),
            85 => Some(Command::Sweep),
            86..89 => Some(Command::Policy {
                zone: dice.throw(ZONES.len() as u64) as usize,
                timeout: dice.of(&[60_000, HOUR, 30 * HOUR]),
                limits: Box::new([limits(dice), limits(dice)]),
                team: (dice.throw(2) == 0).then(|| {
                    (dollars(dice, &[0, 60, 150, 400]), dollars(dice, &[0, 0, 200, 1_000]))
                }),
            }),
            89..92 => {
                let (_, _, limits, team) = &self.policy;
                let has_team = team.is_some() && limits.iter().any(Option::is_some);
                let whom = match dice.throw(4) {
                    0 | 1 => Held::Slot(slot),
                    2 if has_team => Held::Team,
                    _ => Held::Everybody,
                };
                Some(Command::Stop { whom, on: dice.throw(3) == 0 })
            }
            92 if dice.throw(4) == 0 => Some(Command::Revoke(slot)),
            92 => Some(Command::Rotate { slot, at_once: dice.throw(3) == 0 }),
            _ => Some(self.pass(dice)),
        };
        chosen.unwrap_or_else(|| Command::Ask {
            slot,
            old_key: dice.throw(12) == 0,
            by_payment: dice.throw(3) == 0,
            ask: model::Ask {
                agent: self.living[slot].agent,
                key: (dice.throw(3) > 0).then(|| dice.throw(12) as u8),
                charge: dice.of(&[0, 0, 0, 1, 1, 2, 3, 4]),
                wanted: dice.of(&[None, Some(1), Some(2_500), Some(4_000), Some(10_000)]),
                reason: dice.of(&[None, None, None, Some("duplicate"), Some("fraudulent")]),
            },
        })
    }

    /// Moments, hours, and spans that end around an edge: a day's, or one of an intent's. (The next
    /// command is a millisecond later.)
    fn pass(&self, dice: &mut Dice) -> Command {
        let now = self.model.now;
        let around = dice.of(&[-2, -1, -1, 0]);
        let pass = |span: i64| Command::Pass { span: span.max(1), about: None };
        let edges = |(at, intent): (usize, &model::Intent)| {
            let (until, given) = intent.approval.unzip();
            let given = given.flatten().map(|given| given + DAY);
            let denied = intent.by_person.then_some(intent.updated_at + DAY);
            let settled = intent.settled_at.map(|at| at + DAY);
            let of_intent = [until, given, denied, settled].into_iter().flatten();
            of_intent.map(move |edge| (at, edge)).collect::<Vec<_>>()
        };
        let ahead: Vec<(usize, i64)> =
            self.model.intents.iter().enumerate().flat_map(edges).collect();
        let ahead: Vec<_> = ahead.into_iter().filter(|(_, edge)| edge + around > now).collect();
        match dice.throw(8) {
            0 => pass(dice.of(&[1, 59_000, 61_000, HOUR, 25 * HOUR])),
            1 => pass(dice.of(&[5 * HOUR, 13 * HOUR])),
            2 | 3 => {
                let zone = self.model.policy.zone;
                let midnight = ((now + zone).div_euclid(DAY) + 1) * DAY - zone;
                pass(midnight + around - now)
            }
            _ if ahead.is_empty() => pass(1),
            _ => {
                let (at, edge) = dice.of(&ahead);
                Command::Pass { span: edge + around - now, about: Some(at) }
            }
        }
    }

    /// Asks for what an intent is about: under its key, without, or under another.
    fn ask_again(&self, at: usize, dice: &mut Dice) -> Option<Command> {
        let mut ask = self.model.intents[at].ask.clone();
        let slot = self.living.iter().position(|living| living.agent == ask.agent)?;
        if dice.throw(3) == 0 {
            let keys = dice.of(&[12, 256]);
            ask.key = Some(dice.throw(keys) as u8);
        }
        Some(Command::Ask { slot, old_key: false, by_payment: dice.throw(3) == 0, ask })
    }

    /// What an intent's edge is about.
    fn at_edge(&self, at: usize, dice: &mut Dice) -> Option<Command> {
        match self.model.intents[at].state {
            State::PendingApproval if dice.throw(2) == 0 => Some(vote(at, 2, dice)),
            State::Approved if dice.throw(2) == 0 => Some(Command::Execute(at)),
            State::PendingApproval | State::Approved => Some(Command::Sweep),
            _ => self.ask_again(at, dice),
        }
    }
}

fn dollars(dice: &mut Dice, choices: &[i64]) -> Option<i64> {
    Some(dice.of(choices)).filter(|dollars| *dollars > 0).map(|dollars| dollars * 1_000_000)
}

fn limits(dice: &mut Dice) -> Option<Limits> {
    (dice.throw(12) > 0).then(|| Limits {
        fraudulent: dice.throw(2) == 0,
        max_per_payment: dollars(dice, &[0, 0, 0, 60, 100]),
        daily_cap: dollars(dice, &[0, 50, 100, 150, 200, 200, 1_000, 1_000]),
        weekly_cap: dollars(dice, &[0, 0, 150, 300]),
        monthly_cap: dollars(dice, &[0, 0, 300, 600]),
        customer_cap: dollars(dice, &[0, 0, 60, 120]),
        per_hour: dice.of(&[None, None, None, Some(2), Some(4)]),
        threshold: dollars(dice, &[0, 25, 40, 100]),
        people: dice.of(&[1, 1, 2]),
    })
}

fn vote(at: usize, sides: u64, dice: &mut Dice) -> Command {
    let yes = dice.throw(sides) > 0;
    Command::Vote { at, who: dice.throw(PEOPLE.len() as u64) as usize, yes }
}
