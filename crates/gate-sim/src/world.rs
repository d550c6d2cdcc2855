//! The world: one store, one Stripe, two gateways that may die and come back, and a desk from
//! which people work. Everything but clock, ids, transport and store is the shipped code.

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select;
use gate_authority::{Actor, Admin, AuthorityConfig, LocalAuthority, RatesFeed, Sweeper};
use gate_burnbound::{ClientSettings, RemoteAuthority};
use gate_core::{
    ActionError, AgentId, AgentKey, AgentName, Authority, Channel, ChargeId, Clock, Ids,
    Reconciler, Records, Refunds, Settings, UserName,
};
use gate_served::Served;
use gate_store::{KeyHash, MemStore, Store};
use gate_stripe::{KeySource, StripeClient, StripeConfig, StripeKey};
use serde_json::json;

use crate::authority::SimAuthority;
use crate::clock::{SimClock, SimIds};
use crate::credentials::{self, Credentials, File};
use crate::draw::Draw;
use crate::executor::{Bell, Handle, Node};
use crate::faults::{Class, Faults};
use crate::people::resolves;
use crate::plan::{AGENTS, PANEL, Plan, USERS};
use crate::rates;
use crate::run::Options;
use crate::store::SimStore;
use crate::transport::{API_BASE, STRIPE_KEY, SimTransport, Stripe};
use crate::wire::{self, Replica, Wire, WireTransport};
use crate::witness::Witness;

/// The deadline of one call to Stripe; the gateway's default.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// The deadline of one call to an authority elsewhere, all attempts together; the gateway's own.
const AUTHORITY_TIMEOUT: Duration = Duration::from_secs(10);
/// How it is told that the authority does not take this gateway's call.
const REFUSED: &str = "the authority refuses this gateway";
/// A lease: that, and ten seconds.
const LEASE: Duration = Duration::from_secs(30);
/// How often the reconciler looks for work by itself; the gateway's default.
const RECONCILE_MS: u64 = 15_000;
/// Least time between two looks that commits give rise to.
const RECONCILE_PAUSE_MS: u64 = 200;
/// How often approvals are looked through.
const SWEEP_MS: u64 = 5_000;
/// The longest pause of either while nothing happens, and while nothing has happened for days:
/// looking for what is not there costs time.
const QUIET_MS: u64 = 3 * 3_600_000;
const VERY_QUIET_MS: u64 = 10 * 3_600_000;
/// How often exchange rates are fetched.
const RATES_MS: u64 = 48 * 3_600_000;
/// The same where they move.
const MOVING_RATES_MS: u64 = 3 * 3_600_000;

/// The core of one gateway process.
pub(crate) struct Gateway {
    pub(crate) refunds: Arc<Refunds>,
    /// The authority, where it is in this process.
    pub(crate) here: Option<Arc<LocalAuthority>>,
    /// What agents read and withdraw.
    pub(crate) records: Arc<dyn Records>,
    /// The way to the authority, where it is elsewhere.
    pub(crate) remote: Option<Arc<RemoteAuthority>>,
}

/// An agent, as the world knows it: its keys, oldest first.
pub(crate) struct Agent {
    pub(crate) id: AgentId,
    pub(crate) keys: Vec<(AgentKey, KeyHash)>,
}

/// See the module.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) handle: Handle,
    pub(crate) plan: Plan,
    pub(crate) faults: Arc<Faults>,
    pub(crate) witness: Witness,
    pub(crate) stripe: Stripe,
    pub(crate) store: Arc<MemStore>,
    pub(crate) desk: Arc<LocalAuthority>,
    pub(crate) agents: Mutex<Vec<Agent>>,
    /// Rung when somebody begins something, for those who look for work.
    pub(crate) bell: Bell,
    /// Rung when everything is over.
    pub(crate) last_bell: Bell,
    pub(crate) is_set_up: AtomicBool,
    pub(crate) credentials: Arc<Credentials>,
    /// The way to the authority, where it is elsewhere.
    pub(crate) wire: Option<Arc<Wire>>,
    /// Gateways that the operator starts anew.
    pub(crate) restarts: Mutex<Vec<Node>>,
    gateways: [Mutex<Option<Arc<Gateway>>>; 2],
    clocks: Vec<Arc<SimClock>>,
    ids: Vec<Arc<SimIds>>,
}

struct OneKey;

impl KeySource for OneKey {
    fn key(&self) -> Option<StripeKey> {
        StripeKey::parse(STRIPE_KEY).ok()
    }
}

struct Feed {
    stripe: Stripe,
    handle: Handle,
    /// In a world of moving rates: its seed, and when it began.
    moving: Option<(u64, i64)>,
}

#[async_trait]
impl RatesFeed for Feed {
    async fn fetch(&self) -> Result<Vec<u8>, String> {
        match self.moving {
            Some((seed, base_ms)) => rates::feed(seed, base_ms, self.handle.now_ms()),
            None => Ok(self.stripe.rates()),
        }
    }
}

impl World {
    /// A world in which nothing has happened yet.
    pub(crate) fn new(seed: u64, handle: &Handle, options: &Options) -> Self {
        let plan = Plan::of(seed);
        let (without, only) = (options.without.clone(), options.only.clone());
        let faults = Arc::new(Faults::new(seed, without, only, plan.ways.remote));
        let witness = Witness::new(handle.clone(), options.timeline);
        let clocks: Vec<Arc<SimClock>> = plan
            .clocks
            .iter()
            .enumerate()
            .map(|(node, (skew, jumps))| {
                let jumps =
                    if faults.has(Class::Jump) { kept(&faults, node, jumps) } else { Vec::new() };
                Arc::new(SimClock::new(handle.clone(), plan.base_ms, *skew, jumps))
            })
            .collect();
        let ids: Vec<Arc<SimIds>> = (0..3).map(|node| Arc::new(SimIds::new(seed, node))).collect();
        let store_clock = Arc::clone(clocks.last().expect("the store's clock"));
        let store = Arc::new(MemStore::new(store_clock as Arc<dyn Clock>));
        let stripe = Stripe::new(handle.clone(), witness.clone(), plan.base_ms, seed);
        let desk_store = SimStore {
            node: Node::DESK,
            inner: Arc::clone(&store),
            handle: handle.clone(),
            faults: Arc::clone(&faults),
            witness: witness.clone(),
            seed,
            reads: AtomicU64::new(0),
        };
        let config = counting(seed, &plan);
        witness.seen().ledger.counts_by(config.rates_max_age, config.pins.clone());
        let credentials = Arc::new(Credentials::new(seed, handle.clone()));
        let wire = plan.ways.remote.then(|| {
            Arc::new(Wire {
                seed,
                handle: handle.clone(),
                faults: Arc::clone(&faults),
                witness: witness.clone(),
                store: Arc::clone(&store),
                credentials: Arc::clone(&credentials),
                state: Mutex::default(),
            })
        });
        let (clock, desk_ids) = (Arc::clone(&clocks[2]), Arc::clone(&ids[2]));
        let desk = Arc::new(LocalAuthority::new(Arc::new(desk_store), clock, desk_ids, config));
        Self {
            seed,
            handle: handle.clone(),
            plan,
            faults,
            witness,
            stripe,
            store,
            desk,
            agents: Mutex::default(),
            bell: Bell::default(),
            last_bell: Bell::default(),
            is_set_up: AtomicBool::new(false),
            credentials,
            wire,
            restarts: Mutex::default(),
            gateways: [Mutex::default(), Mutex::default()],
            clocks,
            ids,
        }
    }

    /// What is there before the first fault: people, agents, a policy, charges, rates.
    pub(crate) async fn set_up(self: &Arc<Self>) {
        let admin = Admin::new(&self.desk, Actor::cli("sim", None));
        let panel = if self.plan.ways.panel { &PANEL[..] } else { &[] };
        for (name, role) in USERS.iter().chain(panel) {
            let name = UserName::parse(name).expect("a name");
            admin.create_user(&name, &[(*role).to_owned()]).await.expect("a user");
        }
        for name in AGENTS {
            let name = AgentName::parse(name).expect("a name");
            let (row, key) = admin.create_agent(&name, None, false).await.expect("an agent");
            self.new_key(&row, key);
        }
        admin.apply_policy(&self.plan.policy.text()).await.expect("a policy");
        for charge in &self.plan.charges {
            let order = json!({
                "id": charge.id, "amount": charge.minor, "currency": charge.currency,
                "payment_intent": charge.payment_intent, "source": charge.card,
            });
            let made = self.stripe.control("POST", "charges", &order);
            assert_eq!(made["id"], charge.id, "{made}");
        }
        let sweeper = Sweeper::new(Arc::clone(&self.desk), Arc::new(self.feed()));
        sweeper.refresh_rates().await.expect("rates");
        self.witness.seen().canaries.push(STRIPE_KEY.to_owned());
        if self.wire.is_some() {
            for which in 0..2 {
                credentials::makes(self, &self.desk, which).await.expect("a gateway");
            }
        }
        self.is_set_up.store(true, Ordering::Relaxed);
    }

    /// Takes note of a key that was made for an agent.
    pub(crate) fn new_key(&self, row: &gate_store::AgentRow, key: AgentKey) {
        let hash = row.keys.last().expect("the key").hash;
        self.witness.seen().canaries.push(key.expose().to_owned());
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        match agents.iter_mut().find(|agent| agent.id == row.id) {
            Some(agent) => agent.keys.push((key, hash)),
            None => agents.push(Agent { id: row.id.clone(), keys: vec![(key, hash)] }),
        }
    }

    fn feed(&self) -> Feed {
        let moving = self.plan.ways.rates.then_some((self.seed, self.plan.base_ms));
        Feed { stripe: self.stripe.clone(), handle: self.handle.clone(), moving }
    }

    /// A gateway that is up.
    pub(crate) fn gateway(&self, which: usize) -> Option<Arc<Gateway>> {
        self.gateways[which].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The gateways, as far as they are up.
    pub(crate) fn gateways(&self) -> [Option<Arc<Gateway>>; 2] {
        [self.gateway(0), self.gateway(1)]
    }

    /// Notes that a process is gone.
    pub(crate) fn died(&self, node: Node) {
        if let Some(place) = self.gateways.get(usize::from(node.0)) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = None;
        } else if let Some(wire) = &self.wire {
            wire.set(node, None);
        }
    }

    /// Every process of this world that may die.
    pub(crate) fn processes(&self) -> Vec<Node> {
        let replicas = if self.wire.is_some() { &Node::REPLICAS[..] } else { &[] };
        replicas.iter().chain(&Node::GATEWAYS).copied().collect()
    }

    /// Starts a process over what is durable.
    pub(crate) fn start(self: &Arc<Self>, node: Node) {
        match &self.wire {
            Some(wire) if Node::REPLICAS.contains(&node) => self.start_replica(node, wire),
            Some(wire) => self.start_remote(node, wire),
            None => self.start_here(node),
        }
        let name = if Node::REPLICAS.contains(&node) { "authority" } else { "gateway" };
        self.witness.line(|| format!("{name} {} is up", node.0));
    }

    /// The authority in a process of its own or a gateway's, with what it does by itself.
    fn authority_of(
        self: &Arc<Self>,
        node: Node,
        clock: &Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> (Arc<dyn Store>, Arc<LocalAuthority>) {
        let store: Arc<dyn Store> = Arc::new(SimStore {
            node,
            inner: Arc::clone(&self.store),
            handle: self.handle.clone(),
            faults: Arc::clone(&self.faults),
            witness: self.witness.clone(),
            seed: self.seed,
            reads: AtomicU64::new(0),
        });
        let config = counting(self.seed, &self.plan);
        let local = LocalAuthority::new(Arc::clone(&store), Arc::clone(clock), ids, config);
        (store, Arc::new(local))
    }

    /// What an authority does by itself.
    fn sweep(self: &Arc<Self>, node: Node, authority: Arc<LocalAuthority>) {
        let sweeper = Arc::new(Sweeper::new(authority, Arc::new(self.feed())));
        self.handle.spawn(node, Arc::clone(self).sweeps(Arc::clone(&sweeper)));
        self.handle.spawn(node, Arc::clone(self).fetches_rates(sweeper));
    }

    /// Starts a gateway with its authority in it.
    fn start_here(self: &Arc<Self>, node: Node) {
        let which = usize::from(node.0);
        let clock: Arc<dyn Clock> = Arc::<SimClock>::clone(&self.clocks[which]);
        let ids: Arc<dyn Ids> = Arc::<SimIds>::clone(&self.ids[which]);
        let (store, authority) = self.authority_of(node, &clock, ids);
        let records: Arc<dyn Records> = Arc::<LocalAuthority>::clone(&authority);
        let port: Arc<dyn Authority> = Arc::new(SimAuthority {
            node,
            inner: Arc::<LocalAuthority>::clone(&authority),
            records: Arc::clone(&records),
            witness: self.witness.clone(),
            wire: None,
        });
        let here = Some(Arc::clone(&authority));
        self.start_gateway(node, port, records, here, None, Some(store));
        self.sweep(node, authority);
    }

    /// Starts a gateway that asks an authority elsewhere.
    fn start_remote(self: &Arc<Self>, node: Node, wire: &Arc<Wire>) {
        let which = usize::from(node.0);
        let Some(held) = self.credentials.of(which) else { return };
        let settings = ClientSettings {
            origin: wire::ORIGIN.to_owned(),
            stripped: String::new(),
            gateway: held.id,
            call_timeout: AUTHORITY_TIMEOUT,
        };
        self.credentials.started(which);
        let remote = Arc::new(RemoteAuthority::new(
            Arc::new(WireTransport { node, wire: Arc::clone(wire) }),
            Arc::<SimClock>::clone(&self.clocks[which]),
            Arc::<SimIds>::clone(&self.ids[which]),
            settings,
            Arc::new(File { credentials: Arc::clone(&self.credentials), which }),
            || {
                let version = StripeConfig::default().version;
                Some(Channel {
                    account: None,
                    livemode: false,
                    version,
                    key: None,
                    agent_tagged: false,
                })
            },
        ));
        let port = Arc::new(SimAuthority {
            node,
            inner: Arc::<RemoteAuthority>::clone(&remote),
            records: Arc::<RemoteAuthority>::clone(&remote),
            witness: self.witness.clone(),
            wire: Some(Arc::clone(wire)),
        });
        let records: Arc<dyn Records> = Arc::<SimAuthority>::clone(&port);
        self.start_gateway(node, port, records, None, Some(remote), None);
    }

    /// Starts a process that serves the authority.
    fn start_replica(self: &Arc<Self>, node: Node, wire: &Arc<Wire>) {
        let plain = SimClock::new(self.handle.clone(), self.plan.base_ms, 0, Vec::new());
        let clock: Arc<dyn Clock> = Arc::new(plain);
        let life = wire.new_life();
        let ids: Arc<dyn Ids> = Arc::new(SimIds::new(self.seed, 100 + life));
        let (_, authority) = self.authority_of(node, &clock, Arc::clone(&ids));
        let key = credentials::authority_key();
        let served = Served { authority: Arc::clone(&authority), key, clock, ids };
        wire.set(node, Some(Replica { node, life, served, authority: Arc::clone(&authority) }));
        self.sweep(node, authority);
    }

    /// The core of a gateway, and its reconciler.
    fn start_gateway(
        self: &Arc<Self>,
        node: Node,
        port: Arc<dyn Authority>,
        records: Arc<dyn Records>,
        here: Option<Arc<LocalAuthority>>,
        remote: Option<Arc<RemoteAuthority>>,
        store: Option<Arc<dyn Store>>,
    ) {
        let which = usize::from(node.0);
        let (clock, ids) = (Arc::clone(&self.clocks[which]), Arc::clone(&self.ids[which]));
        let transport =
            SimTransport { node, stripe: self.stripe.clone(), faults: Arc::clone(&self.faults) };
        let config = StripeConfig { api_base: API_BASE.to_owned(), ..StripeConfig::default() };
        let client = StripeClient::new(
            Arc::new(transport),
            Arc::clone(&clock) as Arc<dyn Clock>,
            config,
            Arc::new(OneKey),
        );
        let refunds = Arc::new(Refunds::new(
            port,
            Arc::clone(&records),
            Arc::new(client),
            Arc::clone(&clock) as Arc<dyn Clock>,
            ids as Arc<dyn Ids>,
            Settings { call_timeout: CALL_TIMEOUT, ..Settings::default() },
        ));
        let reconciler = Reconciler::new(Arc::clone(&refunds), clock as Arc<dyn Clock>);
        let gateway = Gateway { refunds, here, records, remote };
        *self.gateways[which].lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::new(gateway));
        self.handle.spawn(node, Arc::clone(self).reconciles(reconciler, store));
    }

    /// The gateways' clocks show the authority's time from now on.
    pub(crate) fn sets_clocks(&self) {
        if self.wire.is_some() {
            let right = self.clocks.last().expect("the store's clock");
            for clock in self.clocks.iter().take(2) {
                clock.follow(right);
            }
        }
    }

    /// How long to wait before looking for work again: as configured, or rarer the longer nothing
    /// has happened.
    fn pause_ms(&self, configured: u64) -> u64 {
        let seen = self.witness.seen();
        let quiet_ms = self.handle.now_ms() - seen.active_ms;
        let longest = if quiet_ms < 15 * QUIET_MS { QUIET_MS } else { VERY_QUIET_MS };
        // Each look of a gateway that asks elsewhere costs signatures.
        let longer = if self.wire.is_some() { quiet_ms * 3 } else { quiet_ms / 6 };
        configured.max(longer.min(longest))
    }

    /// The reconciler, as the gateway runs it: at start, on a timer and when something changed.
    async fn reconciles(self: Arc<Self>, reconciler: Reconciler, store: Option<Arc<dyn Store>>) {
        let mut changes = store.map(|store| store.changes());
        loop {
            if let Some(changes) = &mut changes {
                changes.mark();
            }
            if let Ok(done) = reconciler.step().await {
                for (id, error) in done.failed {
                    self.sound(&error);
                    self.witness.line(|| format!("{id} is not reconciled yet: {error}"));
                }
                if done.more {
                    continue;
                }
            }
            let timer = self.handle.sleep(self.pause_ms(RECONCILE_MS));
            let changed = async {
                match &mut changes {
                    Some(changes) => changes.changed().await,
                    None => pending().await,
                }
            };
            select(select(pin!(changed), self.bell.rung()), pin!(timer)).await;
            self.handle.sleep(RECONCILE_PAUSE_MS).await;
        }
    }

    /// Webhooks about refunds, as a gateway takes them once it trusts one: late, out of order,
    /// several times or never.
    pub(crate) async fn posts(self: Arc<Self>) {
        for n in 0_u64.. {
            let rung = self.stripe.post.rung();
            for charge in self.stripe.take_post() {
                let mut draw = Draw::of(self.seed, 21, n);
                let mistaken = {
                    let seen = self.witness.seen();
                    let mut entries = seen.ledger.intents.values();
                    entries.any(|e| e.ended_by_mistake && e.intent.charge.as_str() == charge)
                };
                // What contradicts a person is told again and again.
                for _ in 0..draw.below(4) + if mistaken { 4 } else { 0 } {
                    let which = draw.below(2) as usize;
                    let late_ms = *draw.pick(&[5, 300, 20_000, 7_200_000]);
                    let (world, charge) = (Arc::clone(&self), charge.clone());
                    self.handle.spawn(Node::STRIPE, async move {
                        world.handle.sleep(late_ms).await;
                        world.webhook(which, &charge);
                    });
                }
            }
            rung.await;
        }
    }

    /// A nervous person, who refunds by hand what is in doubt, and ends whatever raises an alarm
    /// within seconds.
    pub(crate) async fn frets(self: Arc<Self>) {
        let mut changes = self.store.changes();
        let mut draw = Draw::of(self.seed, 22, 0);
        loop {
            changes.mark();
            let (alarm, in_doubt) = {
                let seen = self.witness.seen();
                let entries = seen.ledger.intents.values();
                let alarm = entries.clone().any(|entry| entry.intent.needs_person);
                let mut in_doubt = entries.filter(|entry| entry.is_in_doubt()).map(|entry| {
                    (entry.intent.charge.as_str().to_owned(), entry.intent.amount.minor())
                });
                (alarm, in_doubt.next_back())
            };
            if let Some((charge, minor)) = in_doubt.filter(|_| draw.permille(600)) {
                let form = format!("charge={charge}&amount={minor}");
                self.stripe.dashboard("/v1/refunds", &form);
            }
            if alarm {
                self.handle.sleep(draw.below(5_000)).await;
                let _ = resolves(&self, &self.desk, draw.bits()).await;
            }
            changes.changed().await;
        }
    }

    fn webhook(self: &Arc<Self>, which: usize, charge: &str) {
        let (Some(gateway), Ok(charge)) = (self.gateway(which), ChargeId::parse(charge)) else {
            return;
        };
        self.witness.line(|| format!("webhook about {charge} to gateway {which}"));
        let world = Arc::clone(self);
        self.handle.spawn(Node::GATEWAYS[which], async move {
            if let Err(error) = gateway.refunds.observe(&charge).await {
                world.sound(&error);
            }
        });
    }

    async fn sweeps(self: Arc<Self>, sweeper: Arc<Sweeper>) {
        loop {
            let _ = sweeper.step().await;
            let timer = self.handle.sleep(self.pause_ms(SWEEP_MS));
            select(pin!(timer), self.last_bell.rung()).await;
        }
    }

    async fn fetches_rates(self: Arc<Self>, sweeper: Arc<Sweeper>) {
        // The world begins with today's.
        loop {
            let moving = self.plan.ways.rates;
            let pause_ms = if moving { self.pause_ms(MOVING_RATES_MS) } else { RATES_MS };
            self.handle.sleep(pause_ms).await;
            let _ = sweeper.refresh_rates().await;
        }
    }

    /// An answer may be no, but never that something is broken, and never a secret.
    pub(crate) fn sound(&self, error: &ActionError) {
        let mut seen = self.witness.seen();
        if let ActionError::AuthorityError { detail } = error {
            let sound = detail == "stale lease" || detail.starts_with(REFUSED);
            seen.law("I7", sound, || format!("something is broken: {detail}"));
        }
        seen.no_secret(&format!("{error} {error:?}"));
    }
}

/// The jumps of a clock that were not left out.
fn kept(faults: &Faults, node: usize, jumps: &[(u64, i64)]) -> Vec<(u64, i64)> {
    let named = jumps.iter().enumerate();
    let kept = named.filter(|(n, _)| !faults.is_left_out(&format!("jump:plan:{node}:{n}")));
    kept.map(|(_, jump)| *jump).collect()
}

fn counting(seed: u64, plan: &Plan) -> AuthorityConfig {
    let config = AuthorityConfig { lease: LEASE, ..AuthorityConfig::default() };
    if !plan.ways.rates {
        return config;
    }
    AuthorityConfig { pins: rates::pins(seed), rates_max_age: rates::MAX_AGE, ..config }
}
