//! The processes of a fleet: a Stripe, two authorities with the same master key on one PostgreSQL,
//! and a gateway for each; and the agents that share a cap.

use std::net::SocketAddr;
use std::path::Path;

use gate_cluster::Database;
use gate_core::Clock;
use gate_server::system::SystemClock;
use tempfile::TempDir;

use crate::asks::Told;
use crate::check::Cap;
use crate::http::text;
use crate::process::{Product, Server};
use crate::stripe::{STRIPE_KEY, Stripe};

/// Rounds over one database.
pub(crate) const ROUNDS_PER_WORLD: usize = 10;
/// The cap of a round, in millionths of a dollar; the policy's text says the same.
pub(crate) const CAP_MICRO_USD: u64 = 1_000_000_000;
/// Two authorities on one database, and a gateway for each.
pub(crate) struct Fleet {
    pub(crate) home: TempDir,
    pub(crate) stripe: Stripe,
    /// For commands: the records, and Stripe's side of them.
    pub(crate) commands: Product,
    pub(crate) crowds: Vec<Crowd>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) gateways: Vec<SocketAddr>,
    pub(crate) told: Vec<Told>,
    _servers: Vec<Server>,
}

impl Fleet {
    /// A fleet that nobody has asked yet.
    ///
    /// Leases follow from the time that Stripe has, and so does how long a killed authority is asked.
    pub(crate) fn new(
        binary: &Path,
        database: &Database,
        stripe_timeout: &str,
    ) -> Result<Self, String> {
        let home = tempfile::Builder::new().prefix("torture-fleet-").tempdir();
        let home = home.map_err(|error| format!("cannot make a directory: {error}"))?;
        let path = |name: &str| home.path().join(name);
        let product = |name: &str, variables| {
            let log = path(&format!("{name}.log"));
            Product { binary: binary.to_owned(), variables, log }
        };
        let sandbox = product("stripe", Vec::new());
        let (sandbox, stripe) = sandbox.serve(&["stripe-sandbox", "--port", "0"])?;
        let timeout = ("GATEWAY_STRIPE_TIMEOUT", stripe_timeout.to_owned());
        let records = |name: &str| {
            vec![
                ("FIAT_USD_RATES", "EUR=1.1172,JPY=0.0063591".to_owned()),
                ("GATEWAY_DATABASE", database.url.clone()),
                ("GATEWAY_DATA_DIR", path(name).display().to_string()),
                ("GATEWAY_EPHEMERAL", "1".to_owned()),
                ("GATEWAY_FX_URL", format!("http://{stripe}/_sandbox/rates/eurofxref-daily.xml")),
                ("GATEWAY_MASTER_KEY_FILE", path("master.key").display().to_string()),
                timeout.clone(),
            ]
        };
        let at_stripe = || {
            vec![
                ("STRIPE_API_BASE", format!("http://{stripe}")),
                ("STRIPE_SECRET_KEY", STRIPE_KEY.to_owned()),
            ]
        };
        let commands = product("commands", [records("commands"), at_stripe()].concat());
        Product::write(&path("master.key"), &"0123456789abcdef".repeat(4))?;
        Product::write(&path("policy.toml"), &policy())?;
        commands.done(&["policy", "apply", &path("policy.toml").display().to_string()])?;
        let (mut replicas, mut gateways, mut servers) = (Vec::new(), Vec::new(), vec![sandbox]);
        for name in ["east", "west"] {
            let mut replica = Replica {
                product: product(&format!("authority-{name}"), records(name)),
                at: SocketAddr::from(([127, 0, 0, 1], 0)),
                server: None,
            };
            replica.start()?;
            let made = commands.run(&["gateway", "create", name, "--json"])?;
            let asks = vec![
                ("BURNBOUND_API", format!("http://{}", replica.at)),
                ("BURNBOUND_GATEWAY_ID", text(&made, "/id").to_owned()),
                ("BURNBOUND_GATEWAY_SECRET", text(&made, "/secret").to_owned()),
                ("GATEWAY_AGENT_RATE", "1000/s burst 1000".to_owned()),
                ("GATEWAY_RECONCILE_INTERVAL", "1s".to_owned()),
                timeout.clone(),
            ];
            let gateway = product(&format!("gateway-{name}"), [asks, at_stripe()].concat());
            let (server, at) = gateway.serve(&["serve", "--port", "0"])?;
            replicas.push(replica);
            gateways.push(at);
            servers.push(server);
        }
        let (stripe, crowds, told) = (Stripe(stripe), Vec::new(), Vec::new());
        let _servers = servers;
        Ok(Self { home, stripe, commands, crowds, replicas, gateways, told, _servers })
    }
}

/// One of the two authorities.
pub(crate) struct Replica {
    pub(crate) product: Product,
    pub(crate) at: SocketAddr,
    /// None only while it is killed and started again.
    pub(crate) server: Option<Server>,
}

impl Replica {
    /// Starts it, on the port that it had.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let listen = self.at.to_string();
        let (server, at) = self.product.serve(&["authority", "--authority-listen", &listen])?;
        (self.server, self.at) = (Some(server), at);
        Ok(())
    }
}

/// Who shares the cap of a round, and their keys.
pub(crate) struct Crowd {
    pub(crate) cap: Cap,
    pub(crate) keys: Vec<String>,
    /// The code with which the cap refuses.
    pub(crate) code: &'static str,
}

impl Crowd {
    pub(crate) fn new(commands: &Product, place: usize) -> Result<Self, String> {
        let (names, code) = if place.is_multiple_of(2) {
            (vec![format!("alone-{place}")], "daily_cap")
        } else {
            (vec![format!("left-{place}"), format!("right-{place}")], "team_budget")
        };
        let key = |name: &String| {
            let made = commands.run(&["agent", "create", name, "--json"])?;
            Ok(text(&made, "/key").to_owned())
        };
        let keys = names.iter().map(key).collect::<Result<_, String>>()?;
        Ok(Self { cap: Cap { agents: names, micro_usd: CAP_MICRO_USD }, keys, code })
    }
}

/// The policy of a world, where it is about noon: no day ends meanwhile.
fn policy() -> String {
    let hour = SystemClock::start().now().millis().div_euclid(3_600_000).rem_euclid(24);
    // The database's signs are the other way round: Etc/GMT+5 is five hours behind.
    let mut policy = format!("[organization]\ntimezone = \"Etc/GMT{:+}\"\n", hour - 12);
    let may = "methods = [\"stripe_refund\"]\nallowed_hosts = [\"stripe-refund.action\"]\n";
    for place in 0..ROUNDS_PER_WORLD {
        policy += &if place.is_multiple_of(2) {
            format!("[agents.alone-{place}]\n{may}daily_cap = \"1000.00\"\n")
        } else {
            format!(
                "[teams.team-{place}]\n{may}daily_budget = \"1000.00\"\n\
                 [agents.left-{place}]\nteam = \"team-{place}\"\n\
                 [agents.right-{place}]\nteam = \"team-{place}\"\n"
            )
        };
    }
    policy
}
