//! A fleet: two gateways that each ask an authority of their own, and both authorities on one
//! PostgreSQL. 200 requests at a time meet a cap under which little is left, an agent's own or one
//! that two agents of a team share. Some rounds kill authorities meanwhile and start them again.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::RwLock;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use gate_cluster::Cluster;
use serde_json::{Value, json};

use crate::asks::{Ask, REFUND, told};
use crate::check::{self, Cap, Seen};
use crate::http::{Answer, post, read, text};
use crate::random::Random;
use crate::replicas::{CAP_MICRO_USD, Crowd, Fleet, ROUNDS_PER_WORLD, Replica};
use crate::{now, print_line};

/// Requests at a time.
const REQUESTS: usize = 200;
/// Most kills in one round, of either authority.
const KILLS_PER_ROUND: u64 = 5;
/// What is spent of it before, in cents, and in a round with kills, which has to last for longer.
const SPENT_CENTS: u64 = 95_000;
const SPENT_CENTS_KILLS: u64 = 80_000;
/// Charges of a round, each large enough for all that is asked for.
const CURRENCIES: [&str; 3] = ["usd", "eur", "jpy"];
/// How long a client asks for its definite answer, and so how long everything may take to come to its
/// end: what is promised.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a killed authority stays down, in milliseconds: longer than a gateway asks it again.
const DOWN_MILLIS_MAX: u64 = 4_000;
/// How late Stripe's answers are in a round with kills, in milliseconds.
const DELAY_MILLIS: u64 = 200;

/// What happened, for the table at the end.
#[derive(Default)]
struct Counts {
    rounds: u64,
    kills: u64,
    refunded: u64,
    refused: u64,
    again: u64,
    open_at_kills: usize,
    quiet: Duration,
    killed: Duration,
    kill_rounds: u64,
    longest: Duration,
    /// The most that is left under a cap, in millionths of a dollar.
    left_max: u64,
}

/// Runs so many rounds, and then rounds for so many kills, and answers with a table.
///
/// # Errors
///
/// The first contradiction, with the round and where the logs are, which are kept.
pub(crate) fn run(binary: &Path, seed: u64, rounds: u64, kills: u64) -> Result<String, String> {
    let cluster = Cluster::start();
    let begun = now();
    let mut counts = Counts::default();
    for world in 0.. {
        let is_quiet = counts.rounds < rounds;
        if !is_quiet && counts.kills >= kills {
            break;
        }
        // Short enough that what a kill cut short is taken up soon.
        let timeout = if is_quiet { "20s" } else { "2s" };
        let mut fleet = Fleet::new(binary, &cluster.database(), timeout)?;
        let mut random = Random::of(seed, &[world]);
        let mut ran = Ok(());
        while ran.is_ok() && fleet.crowds.len() < ROUNDS_PER_WORLD {
            let left = if is_quiet { rounds - counts.rounds } else { kills - counts.kills };
            if left == 0 {
                break;
            }
            let kills = if is_quiet { 0 } else { left.min(KILLS_PER_ROUND) };
            ran = fleet.round(kills, &mut random, &mut counts);
        }
        if let Err(said) = ran.and_then(|()| fleet.holds_together()) {
            let (place, kept) = (fleet.crowds.len(), fleet.home.keep());
            return Err(format!(
                "world {world}, round {place}: {said}\nits logs are in {}",
                kept.display()
            ));
        }
        print_line(&format!("{} rounds, {} kills, nothing over", counts.rounds, counts.kills));
    }
    Ok(counts.table(begun.elapsed()))
}

impl Counts {
    fn table(&self, took: Duration) -> String {
        let mean = |span: Duration, count: u64| span.as_millis() / u128::from(count.max(1));
        let rows = [
            ("rounds", u128::from(self.rounds)),
            ("  of them with kills", u128::from(self.kill_rounds)),
            ("kills of an authority", u128::from(self.kills)),
            ("requests", u128::from(self.rounds) * REQUESTS as u128),
            ("  open at a kill, mean", self.open_at_kills as u128 / u128::from(self.kills.max(1))),
            ("  asked again", u128::from(self.again)),
            ("refunded", u128::from(self.refunded)),
            ("refused by the cap", u128::from(self.refused)),
            ("most left, micro-dollars", u128::from(self.left_max)),
            ("a round, ms", mean(self.quiet, self.rounds - self.kill_rounds)),
            ("a round with kills, ms", mean(self.killed, self.kill_rounds)),
            ("all ended after, ms", self.longest.as_millis()),
            ("seconds", u128::from(took.as_secs())),
        ];
        rows.map(|(name, count)| format!("{name:<28}{count:>8}\n")).concat()
    }
}

impl Fleet {
    /// 200 requests at once, by turns of one agent alone and of two of a team, with up to so many
    /// kills meanwhile, and everything held against Stripe.
    fn round(
        &mut self,
        kills: u64,
        random: &mut Random,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let place = self.crowds.len();
        self.crowds.push(Crowd::new(&self.commands, place)?);
        for currency in CURRENCIES {
            let id = charge(place, currency);
            let made = json!({ "id": id, "amount": 90_000_000, "currency": currency });
            self.stripe.control("POST", "/_sandbox/charges", &made)?;
        }
        let spent = if kills == 0 { SPENT_CENTS } else { SPENT_CENTS_KILLS };
        let first = Ask::new(0, "k-first", &charge(place, "usd"), spent);
        let asks: Vec<Ask> = (0..REQUESTS)
            .map(|n| {
                let currency = *random.pick(&CURRENCIES);
                let agent = n / 2 % self.crowds[place].keys.len();
                let amount = 100 + random.below(900);
                Ask::new(agent, &format!("k-{n}"), &charge(place, currency), amount)
            })
            .collect();
        self.asked(place, &[first], 0, random, counts)?;
        let last = self.asked(place, &asks, kills, random, counts)?;
        self.stripe.control("DELETE", "/_sandbox/faults", &Value::Null)?;
        if let Some(killed) = last {
            self.come_to_an_end(place, killed)?;
            counts.longest = counts.longest.max(killed.elapsed());
        }
        self.looks_right(place, kills == 0, counts)
    }

    /// Has all asked for at once until each has its answer, with so many kills meanwhile; when the
    /// last one was.
    fn asked(
        &mut self,
        place: usize,
        asks: &[Ask],
        kills: u64,
        random: &mut Random,
        counts: &mut Counts,
    ) -> Result<Option<Instant>, String> {
        if kills > 0 {
            let late = json!({ "method": "POST", "path": "/v1/refunds", "kind": "delay",
                "times": REQUESTS, "delayMs": DELAY_MILLIS });
            self.stripe.control("POST", "/_sandbox/faults", &late)?;
        }
        let (begun, up) = (now(), RwLock::new(()));
        let (has_ended, ended) = sync_channel(asks.len());
        let (gateways, crowd) = (&self.gateways, &self.crowds[place]);
        let replicas = &mut self.replicas;
        let (last, answers) = thread::scope(|scope| {
            let client = |(n, ask): (usize, &'_ Ask)| {
                let key = &crowd.keys[ask.agent];
                let (up, has_ended, body) = (&up, has_ended.clone(), ask.body());
                scope.spawn(move || {
                    let answers = until_definite(gateways, n, key, &body, up);
                    // Nobody listens any more once the kills are over.
                    let _ = has_ended.send(());
                    answers
                })
            };
            let clients: Vec<_> = asks.iter().enumerate().map(client).collect();
            let last = kill(replicas, kills, random, &up, &ended, counts);
            let join = |client: ScopedJoinHandle<'_, _>| client.join();
            let answers: Vec<_> =
                clients.into_iter().map(|client| join(client).unwrap_or_default()).collect();
            (last, answers)
        });
        let last = last?;
        if last.is_some() {
            counts.kill_rounds += 1;
            counts.killed += begun.elapsed();
        } else if asks.len() == REQUESTS {
            counts.quiet += begun.elapsed();
        }
        for (ask, answers) in asks.iter().zip(answers) {
            let definite = answers.last().ok_or("a gateway gave no answer")?;
            if !is_definite(definite) {
                return Err(format!("{} has no answer: {}", ask.body(), definite.json));
            }
            if kills == 0 && answers.len() > 1 {
                return Err(format!("{} was told {}", ask.body(), answers[0].json));
            }
            counts.again += answers.len() as u64 - 1;
            for answer in &answers {
                self.told.extend(told(ask, answer)?);
            }
            let code = text(&definite.json, "/reasons/0/code");
            if definite.text("/status") == "denied" && code != crowd.code {
                return Err(format!("{} was denied otherwise: {}", ask.body(), definite.json));
            }
        }
        Ok(last)
    }

    /// Waits until nothing is submitted any more; the report of a refund may have been lost.
    fn come_to_an_end(&self, place: usize, killed: Instant) -> Result<(), String> {
        loop {
            let open = ["intent", "list", "--state", "submitted", "--json"];
            let open = self.commands.run(&open)?;
            let Some(first) = open.get(0) else { return Ok(()) };
            if killed.elapsed() > ANSWER_TIME_MAX {
                return Err(format!("still submitted after {:?}: {open}", killed.elapsed()));
            }
            let crowd = &self.crowds[place];
            let agent = crowd.cap.agents.iter().position(|agent| agent == text(first, "/agent"));
            let path = format!("/v1/intents/{}?wait=2", text(first, "/intentId"));
            read(self.gateways[0], &path, &crowd.keys[agent.unwrap_or_default()]);
        }
    }

    /// Stripe, the record and what either gateway says of the budget agree, and nothing is over.
    fn looks_right(
        &mut self,
        place: usize,
        quiet: bool,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let before = self.stripe.refunds()?;
        let listed = self.commands.run(&["intent", "list", "--json", "--limit", "10000"])?;
        let intents = listed.as_array().cloned().unwrap_or_default();
        let seen = Seen { before, intents, after: self.stripe.refunds()? };
        let caps: Vec<Cap> = self.crowds.iter().map(|crowd| crowd.cap.clone()).collect();
        check::safety(&seen, &self.told, &caps)?;

        let crowd = &self.crowds[place];
        let ours: Vec<Value> =
            seen.intents.iter().filter(|intent| crowd.cap.is_of(intent)).cloned().collect();
        let of =
            |state: &str| ours.iter().filter(|i| text(i, "/state") == state).collect::<Vec<_>>();
        let (settled, denied) = (of("settled"), of("denied"));
        let is_open = |intent: &&Value| !settled.contains(intent) && !denied.contains(intent);
        if let Some(open) = ours.iter().find(is_open) {
            return Err(format!("an intent did not come to its end: {open}"));
        }
        // A key whose denial never arrived is decided anew, in an intent of its own.
        let keys: BTreeSet<&str> = ours.iter().map(|i| text(i, "/idempotencyKey")).collect();
        if keys.len() != REQUESTS + 1 || quiet && ours.len() != keys.len() {
            return Err(format!("there are {} intents of {} keys", ours.len(), keys.len()));
        }
        let is_ours = |refund: &&Value| {
            let id = text(refund, "/metadata/burnbound_intent");
            settled.iter().any(|intent| text(intent, "/intentId") == id)
        };
        let paid = seen.after.iter().filter(is_ours).map(micro_usd).sum::<Option<u64>>();
        let spent = crowd.cap.spent(&ours);
        if paid != Some(spent) || spent > CAP_MICRO_USD {
            return Err(format!(
                "Stripe paid {paid:?}, and {spent} of {CAP_MICRO_USD} is on record"
            ));
        }
        let left = CAP_MICRO_USD - spent;
        let fits = |intent: &&&Value| intent["amount"]["usdMicros"].as_u64() <= Some(left);
        // After a kill room may come back that was not there when somebody was denied.
        if let Some(intent) = denied.iter().find(fits).filter(|_| quiet) {
            return Err(format!("{left} is left, and this was denied: {intent}"));
        }
        for (at, key) in self.gateways.iter().zip(crowd.keys.iter().cycle()) {
            let budget = read(*at, "/v1/budget", key).ok_or("no answer of a gateway")?.json;
            let windows = budget["windows"].as_array().cloned().unwrap_or_default();
            let window = windows.iter().find(|window| text(window, "/code") == crowd.code);
            if window.and_then(|window| dollars(text(window, "/spent"))) != Some(spent) {
                return Err(format!("{spent} is spent, and a gateway says {budget}"));
            }
        }
        counts.rounds += 1;
        counts.refunded += settled.len() as u64 - 1;
        counts.refused += denied.len() as u64;
        counts.left_max = counts.left_max.max(left);
        Ok(())
    }

    /// The product's own check of the whole record, and of Stripe's side of it.
    fn holds_together(&self) -> Result<(), String> {
        self.commands.done(&["check", "--invariants"])
    }
}

/// Kills so many times while clients wait, and starts again; when the last one was killed.
fn kill(
    replicas: &mut [Replica],
    kills: u64,
    random: &mut Random,
    up: &RwLock<()>,
    ended: &Receiver<()>,
    counts: &mut Counts,
) -> Result<Option<Instant>, String> {
    let (mut last, mut have) = (None, 0);
    for kill in 0..kills {
        // Spread over the round, the first one perhaps before any answer.
        let span = REQUESTS as u64 / (kills + 1);
        let until = (kill * span + random.below(span)) as usize;
        while have < until {
            ended.recv_timeout(ANSWER_TIME_MAX).map_err(|_| "no more answers before a kill")?;
            have += 1;
        }
        have += ended.try_iter().count();
        // Only what is killed under load counts; there may be another round.
        if have == REQUESTS {
            break;
        }
        counts.open_at_kills += REQUESTS - have;
        // Who asks again waits until it is back; who asks for the first time does not.
        let _down = up.write().map_err(|error| error.to_string())?;
        let replica = &mut replicas[random.below(2) as usize];
        replica.server = None;
        last = Some(now());
        if random.percent(60) {
            let until = now() + Duration::from_millis(random.below(DOWN_MILLIS_MAX));
            while ended.recv_timeout(until.saturating_duration_since(now())).is_ok() {
                have += 1;
            }
        }
        replica.start()?;
        counts.kills += 1;
    }
    Ok(last)
}

/// Asks by turns at either gateway until the answer is definite; every answer.
fn until_definite(
    gateways: &[SocketAddr],
    n: usize,
    key: &str,
    body: &Value,
    up: &RwLock<()>,
) -> Vec<Answer> {
    let (mut answers, begun) = (Vec::new(), now());
    for place in n.. {
        // Gateways are not killed here, so each request has its answer.
        let asked = post(gateways[place % gateways.len()], REFUND, key, body);
        let Some(answer) = asked else { return Vec::new() };
        let is_over = is_definite(&answer) || begun.elapsed() > ANSWER_TIME_MAX;
        answers.push(answer);
        if is_over {
            break;
        }
        drop(up.read());
    }
    answers
}

fn is_definite(answer: &Answer) -> bool {
    answer.status == 200 && ["refunded", "denied"].contains(&answer.text("/status"))
}

/// What a refund is worth by Stripe's own figures where these are dollars, else by its metadata.
fn micro_usd(refund: &Value) -> Option<u64> {
    if text(refund, "/currency") == "usd" {
        return Some(refund["amount"].as_u64()? * 10_000);
    }
    text(refund, "/metadata/burnbound_usd_micros").parse().ok()
}

/// Dollars in digits as millionths of one.
fn dollars(digits: &str) -> Option<u64> {
    let (whole, part) = digits.split_once('.')?;
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 1_000_000 + part)
}

fn charge(place: usize, currency: &str) -> String {
    format!("ch_{currency}{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_to_the_millionth() {
        let table = [
            ("0.00", Some(0)),
            ("13.965001", Some(13_965_001)),
            ("1000.00", Some(1_000_000_000)),
            ("999.9", Some(999_900_000)),
            ("", None),
            ("x.00", None),
        ];
        for (digits, expected) in table {
            assert_eq!(dollars(digits), expected, "{digits}");
        }
    }
}
