//! One world: a Stripe, a data directory, agents, people, and a gateway that is killed again and
//! again. Every choice follows from the seed; when things happen follows from the machine.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::asks::{AGENTS, Ask, CAP_MICRO_USD, POLICY, REFUND, Told, charges, told};
use crate::check::{self, Cap, Seen};
use crate::counts::Counts;
use crate::http::{post, read, text};
use crate::process::{Product, Server};
use crate::random::Random;
use crate::stripe::{STRIPE_KEY, Stripe};
use crate::{now, print_line};

/// Kills between two looks at whether everything came to an end.
const KILLS_PER_LIVENESS: u64 = 20;
/// How long everything may take to come to an end once faults have stopped: what is promised.
const LIVENESS_SECS_MAX: u64 = 60;
/// Clients at a time, and how much each asks in a round at most.
const CLIENTS: u64 = 4;
const ASKS_PER_CLIENT: u64 = 8;
/// Most decisions of people in a round.
const DECISIONS: u64 = 2;
/// Latest random instant of a kill, in milliseconds after the gateway is ready.
const KILL_MILLIS_MAX: u64 = 400;
/// How long a kill waits for Stripe to receive a refund, in milliseconds.
const REFUND_MILLIS_MAX: u64 = 1_000;
const REVIEWER: &str = "maria";
const FAULTS: [&str; 6] =
    ["delay", "drop_after", "drop_before", "status_409", "status_429", "status_500_done"];

/// When a round's gateway is killed.
enum Kill {
    /// So many milliseconds after it was started, ready or not.
    Starting(u64),
    /// So many milliseconds after it was ready.
    After(u64),
    /// As soon as Stripe has made one more refund, whose answer is delayed.
    OnRefund,
}

/// A world and what is known of it.
pub(crate) struct World {
    home: TempDir,
    product: Product,
    stripe: Stripe,
    _sandbox: Server,
    agent_keys: Vec<String>,
    asks: Vec<Ask>,
    seed: u64,
    number: u64,
    told: Mutex<Vec<Told>>,
    /// Intents that were seen submitted right after a restart, and not yet at their end.
    cut_short: BTreeSet<String>,
    counts: Mutex<Counts>,
}

/// What the product is run with, besides what it is told.
pub(crate) fn variables(stripe: SocketAddr, data: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("GATEWAY_DATA_DIR", data.display().to_string()),
        ("GATEWAY_EPHEMERAL", "1".to_owned()),
        ("GATEWAY_FX_URL", format!("http://{stripe}/_sandbox/rates/eurofxref-daily.xml")),
        ("GATEWAY_RECONCILE_INTERVAL", "1s".to_owned()),
        ("GATEWAY_STRIPE_TIMEOUT", "1s".to_owned()),
        ("STRIPE_API_BASE", format!("http://{stripe}")),
        ("STRIPE_SECRET_KEY", STRIPE_KEY.to_owned()),
    ]
}

impl World {
    /// A world with a Stripe, charges, a policy, two agents and a reviewer.
    pub(crate) fn new(binary: &Path, seed: u64, number: u64) -> Result<Self, String> {
        let home = tempfile::Builder::new().prefix("torture-").tempdir();
        let home = home.map_err(|error| format!("cannot make a directory: {error}"))?;
        let path = |name: &str| home.path().join(name);
        let log = path("log");
        let mut product = Product { binary: binary.to_owned(), variables: Vec::new(), log };
        let (sandbox, stripe) = product.serve(&["stripe-sandbox", "--port", "0"])?;
        product.variables = variables(stripe, &path("data"));
        let policy = path("policy.toml");
        Product::write(&policy, POLICY)?;
        product.done(&["policy", "apply", &policy.display().to_string()])?;
        product.done(&["user", "create", REVIEWER, "--role", "reviewer"])?;
        let mut agent_keys = Vec::new();
        for agent in AGENTS {
            let made = product.run(&["agent", "create", agent, "--json"])?;
            agent_keys.push(text(&made, "/key").to_owned());
        }
        let mut random = Random::of(seed, &[number]);
        let asks = Ask::all(&mut random);
        let world = Self {
            home,
            product,
            stripe: Stripe(stripe),
            _sandbox: sandbox,
            agent_keys,
            asks,
            seed,
            number,
            told: Mutex::default(),
            cut_short: BTreeSet::new(),
            counts: Mutex::default(),
        };
        for charge in charges(&mut random) {
            world.stripe.control("POST", "/_sandbox/charges", &charge)?;
        }
        Ok(world)
    }

    /// Kills the gateway `kills` times, or until `is_over`, and answers what happened.
    ///
    /// # Errors
    ///
    /// The first contradiction, with the round and where the data are, which are kept.
    pub(crate) fn run(mut self, kills: u64, is_over: impl Fn() -> bool) -> Result<Counts, String> {
        for round in 1..=kills {
            if is_over() {
                break;
            }
            if let Err(said) = self.round(round) {
                let (number, kept) = (self.number, self.home.keep());
                return Err(format!(
                    "world {number}, round {round}: {said}\nits data and its log are kept in {}",
                    kept.display()
                ));
            }
        }
        Ok(self.counts.into_inner().unwrap_or_default())
    }

    /// Starts the gateway, has it asked, kills it, starts it again and looks.
    fn round(&mut self, round: u64) -> Result<(), String> {
        let mut random = Random::of(self.seed, &[self.number, round]);
        let kill = match random.below(10) {
            0 => Kill::Starting(random.below(60)),
            1..=5 => Kill::After(random.below(KILL_MILLIS_MAX)),
            _ => Kill::OnRefund,
        };
        self.order_faults(&mut random, &kill)?;
        match kill {
            Kill::Starting(millis) => {
                let gateway = self.product.start(&["serve", "--port", "0"])?;
                gateway.ended_within(millis);
            }
            Kill::After(_) | Kill::OnRefund => self.killed_while_asked(round, &kill)?,
        }
        self.count(|counts| counts.kills += 1);

        let (gateway, at) = self.product.serve(&["serve", "--port", "0"])?;
        let seen = self.check()?;
        let submitted = seen.intents.iter().filter(|intent| text(intent, "/state") == "submitted");
        self.cut_short.extend(submitted.map(|intent| text(intent, "/intentId").to_owned()));
        if round.is_multiple_of(KILLS_PER_LIVENESS) {
            self.come_to_an_end(&gateway, at)?;
            self.check()?;
            print_line(&format!("world {}: {round} kills, all settled", self.number));
        }
        Ok(())
    }

    fn order_faults(&self, random: &mut Random, kill: &Kill) -> Result<(), String> {
        let mut faults = Vec::new();
        for _ in 0..random.below(4) {
            faults.push((*random.pick(&FAULTS), random.below(300)));
        }
        if matches!(kill, Kill::OnRefund) {
            faults.push(("delay", 300));
        }
        for (kind, millis) in faults {
            let mut fault = json!({ "method": "POST", "path": "/v1/refunds", "kind": kind });
            if kind == "delay" {
                fault["delayMs"] = json!(millis);
            }
            self.stripe.control("POST", "/_sandbox/faults", &fault)?;
            self.count(|counts| counts.faults += 1);
        }
        Ok(())
    }

    /// A gateway that clients and a reviewer are busy with, until it is killed.
    fn killed_while_asked(&self, round: u64, kill: &Kill) -> Result<(), String> {
        let newest = self.stripe.newest_refund();
        let (gateway, at) = self.product.serve(&["serve", "--port", "0"])?;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let ask = |client| {
                let random = Random::of(self.seed, &[self.number, round, client]);
                let is_over = &is_over;
                scope.spawn(move || self.client(at, round, random, is_over))
            };
            let clients: Vec<_> = (1..=CLIENTS).map(ask).collect();
            let random = Random::of(self.seed, &[self.number, round, 0]);
            let reviewer = scope.spawn(|| self.reviewer(random, &is_over));
            let crashed = match kill {
                Kill::Starting(millis) | Kill::After(millis) => gateway.ended_within(*millis),
                Kill::OnRefund => self.next_refund(&newest, &gateway),
            };
            drop(gateway);
            is_over.store(true, Ordering::Release);
            let workers = clients.into_iter().chain([reviewer]);
            let mut said: Vec<_> =
                workers.map(|worker| worker.join().unwrap_or(Err("panicked".into()))).collect();
            if crashed {
                said.push(Err("the gateway ended by itself".to_owned()));
            }
            said.into_iter().collect()
        })
    }

    /// Waits until Stripe has made a refund after this one; whether the gateway ended meanwhile.
    fn next_refund(&self, newest: &Value, gateway: &Server) -> bool {
        let until = now() + Duration::from_millis(REFUND_MILLIS_MAX);
        while now() < until && self.stripe.newest_refund() == *newest {
            if gateway.ended_within(1) {
                return true;
            }
        }
        false
    }

    /// Asks for what the world knows by this round, again and again, until the gateway is gone.
    fn client(
        &self,
        at: SocketAddr,
        round: u64,
        mut random: Random,
        is_over: &AtomicBool,
    ) -> Result<(), String> {
        for _ in 0..ASKS_PER_CLIENT {
            if is_over.load(Ordering::Acquire) {
                break;
            }
            let known = (4 + round * 4).min(self.asks.len() as u64);
            let ask = random.pick(&self.asks[..known as usize]);
            self.count(|counts| counts.requests += 1);
            let Some(answer) = post(at, REFUND, &self.agent_keys[ask.agent], &ask.body()) else {
                self.count(|counts| counts.unanswered += 1);
                break;
            };
            if let Some(told) = told(ask, &answer)? {
                let is_replay = answer.json["replayed"] == true;
                self.count(|counts| {
                    counts.replays += u64::from(is_replay);
                    counts.denials += u64::from(told.status == "denied");
                });
                self.told.lock().map_err(|error| error.to_string())?.push(told);
            }
        }
        Ok(())
    }

    /// Decides some of what waits for a person, with the gateway there or not.
    fn reviewer(&self, mut random: Random, is_over: &AtomicBool) -> Result<(), String> {
        for _ in 0..DECISIONS {
            let waiting = self.product.run(&["approval", "list", "--json"])?;
            let waiting = waiting.as_array().cloned().unwrap_or_default();
            if is_over.load(Ordering::Acquire) || waiting.is_empty() {
                break;
            }
            let id = text(random.pick(&waiting), "/id").to_owned();
            let is_yes = random.percent(80);
            let decision = if is_yes { "approve" } else { "deny" };
            let words = ["approval", decision, &id, "--as", REVIEWER, "--note", "torture"];
            self.product.done(&words)?;
            self.count(|counts| counts.approvals += u64::from(is_yes));
        }
        Ok(())
    }

    /// Reads both sides and holds them against each other and against what clients were told.
    fn check(&mut self) -> Result<Seen, String> {
        let before = self.stripe.refunds()?;
        let intents = self.intents()?;
        let seen = Seen { before, intents, after: self.stripe.refunds()? };
        let told = self.told.get_mut().map_err(|error| error.to_string())?;
        // A run that passes midnight spends in two days, and which one an intent counts for is not
        // shown; so each day that was touched is allowed its cap.
        let day = |intent| text(intent, "/updatedAt").get(..10);
        let days = seen.intents.iter().filter_map(day).collect::<BTreeSet<_>>().len() as u64;
        let micro_usd = CAP_MICRO_USD * days;
        let caps = AGENTS.map(|agent| Cap { agents: vec![agent.to_owned()], micro_usd });
        check::safety(&seen, told, &caps)?;
        let counts = self.counts.get_mut().map_err(|error| error.to_string())?;
        counts.refunds = seen.after.len() as u64;
        for intent in &seen.intents {
            let state = text(intent, "/state");
            if state != "submitted" && self.cut_short.remove(text(intent, "/intentId")) {
                counts.repaired(state);
            }
        }
        Ok(seen)
    }

    /// Stops the faults and waits until nothing is submitted or approved any more (I8).
    fn come_to_an_end(&self, gateway: &Server, at: SocketAddr) -> Result<(), String> {
        self.stripe.control("DELETE", "/_sandbox/faults", &Value::Null)?;
        let begun = now();
        self.product.done(&["reconcile"])?;
        loop {
            let intents = self.intents()?;
            let unknowable = self.unknowable()?;
            let is_open = |intent: &&Value| {
                ["submitted", "approved"].contains(&text(intent, "/state"))
                    && !unknowable.contains(text(intent, "/intentId"))
            };
            let open: Vec<_> = intents.iter().filter(is_open).collect();
            let took = begun.elapsed();
            let Some(first) = open.first() else {
                self.count(|counts| {
                    counts.longest = counts.longest.max(took);
                    counts.unknowable = unknowable.len() as u64;
                });
                return Ok(());
            };
            if took > Duration::from_secs(LIVENESS_SECS_MAX) || gateway.ended_within(0) {
                return Err(format!("still open after {} s: {open:?}", took.as_secs()));
            }
            // An approval that is used by asking again is asked for again.
            for intent in open.iter().filter(|intent| text(intent, "/state") == "approved") {
                let ask = |ask: &&Ask| {
                    ask.key.as_deref() == Some(text(intent, "/idempotencyKey"))
                        && AGENTS[ask.agent] == text(intent, "/agent")
                };
                if let Some(ask) = self.asks.iter().find(ask) {
                    post(at, REFUND, &self.agent_keys[ask.agent], &ask.body());
                }
            }
            let path = format!("/v1/intents/{}?wait=2", text(first, "/intentId"));
            let agent = AGENTS.iter().position(|agent| *agent == text(first, "/agent"));
            read(at, &path, &self.agent_keys[agent.unwrap_or_default()]);
        }
    }

    /// The intents for which Stripe keeps a 500 under the key and made no refund.
    ///
    /// It answers so for ever, though it may still make the refund: nothing but a person or time
    /// ends these, so they alone may stay submitted (F18).
    fn unknowable(&self) -> Result<BTreeSet<String>, String> {
        let requests = read(self.stripe.0, "/_sandbox/requests", STRIPE_KEY);
        let requests = requests.ok_or("the sandbox is gone")?.json;
        let kept =
            requests.as_array().into_iter().flatten().filter(|request| {
                text(request, "/path") == "/v1/refunds" && request["status"] == 500
            });
        let intent = |request| text(request, "/idempotencyKey").strip_prefix("bb_");
        let mut kept: BTreeSet<String> = kept.filter_map(intent).map(str::to_owned).collect();
        for refund in self.stripe.refunds()? {
            kept.remove(text(&refund, "/metadata/burnbound_intent"));
        }
        Ok(kept)
    }

    /// All intents of this world.
    fn intents(&self) -> Result<Vec<Value>, String> {
        let listed = self.product.run(&["intent", "list", "--json", "--limit", "10000"])?;
        listed.as_array().cloned().ok_or_else(|| format!("no list of intents: {listed}"))
    }

    fn count(&self, add: impl FnOnce(&mut Counts)) {
        if let Ok(mut counts) = self.counts.lock() {
            add(&mut counts);
        }
    }
}
