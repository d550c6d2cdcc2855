//! The configuration: flags, variables and the file, checked whole before anything is opened.
//!
//! [`load`] answers with a [`Config`] whose every value was checked, or with everything that is
//! wrong, at once. [`load_store`] reads of it what leads to the records, and nothing else can make
//! it fail: a stop must work whatever is wrong with the rest. What they learn of their surroundings
//! comes through a [`Lookup`]. No fault, warning or `Debug` shows a secret.

mod client;
mod fault;
mod file;
mod key;
mod lookup;
mod place;
mod print;
mod remote;
mod secret;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod value;

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use gate_core::AccountId;
use gate_money::{Rate, parse_pins};
use gate_store::PostgresAddress;

pub use client::{ClientConfig, load_client};
pub use fault::ConfigFault;
pub use key::{GatewaySecretOrigin, KeyOrigin, WebhookOrigin};
#[cfg(test)]
pub(crate) use lookup::map::Map;
pub use lookup::{FileAccess, FileFacts, FileStamp, Lookup, Process};
pub use print::{clap_args, clap_store_args, file_schema, reference_markdown};
pub use remote::RemoteConfig;
pub use secret::Secret;
pub use settings::{Preset, SETTINGS, Setting, Shape, UNSUPPORTED, Unsupported};
pub use source::Flags;
pub(crate) use value::parse_span;
pub use value::{AgentRate, LogFormat, WebUrl};

use key::KeyRules;
use settings::Scope;
use source::Reader;

/// Everything that can be configured.
#[derive(Debug)]
pub struct Config {
    /// Where the authority is served to gateways, if it is.
    pub authority_listen: Option<SocketAddr>,
    /// What is logged, and how.
    pub log: LogConfig,
    /// Exchange rates.
    pub rates: RatesConfig,
    /// The authority to ask, if it is not the one in this process.
    pub remote: Option<RemoteConfig>,
    /// Who is served, where and how.
    pub server: ServerConfig,
    /// Where records lie; with the remote authority, if there is one.
    pub store: Option<StoreConfig>,
    /// How Stripe is called.
    pub stripe: StripeConfig,
}

/// How Stripe is called.
#[derive(Debug)]
pub struct StripeConfig {
    /// The connected account to act for.
    pub account: Option<AccountId>,
    /// Whether a live key is taken.
    pub allow_live: bool,
    /// Where Stripe is reached: over TLS, or on this machine.
    pub api_base: WebUrl,
    /// How many calls the reads for staff may make in a minute, 1 to 600.
    pub calls_per_minute: u32,
    /// Where the key comes from; without one, no refund is made.
    pub key: Option<KeyOrigin>,
    /// Whether Stripe is known to hold refunds of the key for approvals of its own.
    pub key_agent_tagged: bool,
    /// How long one call may take, 1 second to 1 minute.
    pub timeout: Duration,
    /// The version of Stripe's interface.
    pub version: String,
    /// Where the secrets of Stripe's webhooks come from; without them, none is taken.
    pub webhook: Option<WebhookOrigin>,
}

/// Who is served, where and how.
#[derive(Debug)]
pub struct ServerConfig {
    /// How many requests one agent may make.
    pub agent_rate: AgentRate,
    /// The hosts that requests may come for besides loopback names, in lower case and without
    /// port: those given, the console's, and the listening address where it is one of its own.
    pub allowed_hosts: Vec<String>,
    /// How people reach the console; without it, at the listening address.
    pub console_url: Option<WebUrl>,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How often unfinished refunds are looked after, 1 second to 1 hour.
    pub reconcile_interval: Duration,
    /// How long work may take to finish after the signal to stop, 1 second to 10 minutes.
    pub shutdown_grace: Duration,
    /// Certificate and key, to serve over TLS.
    pub tls: Option<TlsFiles>,
}

/// The files to serve over TLS with, in PEM. They were readable when the configuration was.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Where records lie. Paths start at the root.
#[derive(Debug)]
pub struct StoreConfig {
    /// For what must outlast the process. It need not exist yet.
    pub data_dir: PathBuf,
    /// The database.
    pub database: Database,
    /// Whether records may be lost with their container.
    pub ephemeral: bool,
    /// The file of the key that our own secrets follow from. It need not exist yet.
    pub master_key: PathBuf,
}

/// What the records are written to.
#[derive(Clone, Debug)]
pub enum Database {
    /// The file of an SQLite database. It need not exist yet.
    File(PathBuf),
    /// A PostgreSQL database, which several gateways may share.
    Postgres(Box<PostgresAddress>),
}

impl Database {
    /// The file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Postgres(address) => write!(f, "{address}"),
        }
    }
}

/// Exchange rates.
#[derive(Debug)]
pub struct RatesConfig {
    /// How old fetched rates may become, 1 to 31 days.
    pub age_max: Duration,
    /// Where the day's rates are fetched.
    pub feed_url: WebUrl,
    /// The operator's own rates, which win.
    pub pins: Vec<Rate>,
}

/// What is logged, and how.
#[derive(Debug)]
pub struct LogConfig {
    /// What gets through, as [`logging`](crate::logging) takes it.
    pub filter: String,
    /// How lines are written; without it, text on a terminal and JSON elsewhere.
    pub format: Option<LogFormat>,
}

/// A configuration, and what a person should know about it.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// One line each, to be logged or printed.
    pub warnings: Vec<String>,
}

/// Reads and checks the whole configuration. Nothing is opened but the files that settings name.
///
/// # Errors
///
/// Everything that is wrong with it, at once.
pub fn load(lookup: &dyn Lookup, flags: &Flags) -> Result<Loaded, Vec<ConfigFault>> {
    let mut reader = Reader::open(lookup, flags, Scope::All);
    let remote = remote::read(&mut reader);
    // What is wrong with the remote authority's settings is told; the store is not looked at then.
    let store = match &remote {
        Some(None) => read_store(&mut reader).map(Some),
        Some(Some(_)) | None => Some(None),
    };
    if let Some(Some(store)) = &store {
        check_lasts(&mut reader, store);
        remote::check_master_key(&mut reader, store);
    }
    let authority_listen = remote::read_listen(&mut reader);
    // Without GATEWAY_EPHEMERAL, records that do not last are a fault already.
    let data_last = store.as_ref().and_then(Option::as_ref).is_none_or(|store| {
        let lasts = |(_, path): &(_, &Path)| place::lasts(lookup, path);
        !store.ephemeral || places(store).iter().all(lasts)
    });
    let stripe = read_stripe(&mut reader, data_last);
    let server = read_server(&mut reader);
    let rates = read_rates(&mut reader);
    let log = read_log(&mut reader);
    let Reader { faults, warnings, .. } = reader;
    match (log, rates, server, store, stripe, remote.zip(authority_listen)) {
        (
            Some(log),
            Some(rates),
            Some(server),
            Some(store),
            Some(stripe),
            Some((remote, authority_listen)),
        ) if faults.is_empty() => {
            let config = Config { authority_listen, log, rates, remote, server, store, stripe };
            Ok(Loaded { config, warnings })
        }
        _ => Err(faults),
    }
}

/// Reads and checks where the records lie, for commands that use a store which exists: with what
/// the arguments of [`clap_store_args`] gave, the variables and the section of the file that say
/// it. Whether the records outlast a container is not asked.
///
/// Answers also with what a person should know about it, one line each.
///
/// # Errors
///
/// Everything that is wrong with it, at once; so is `BURNBOUND_API`, for then the records lie with
/// a remote authority.
pub fn load_store(
    lookup: &dyn Lookup,
    flags: &Flags,
) -> Result<(StoreConfig, Vec<String>), Vec<ConfigFault>> {
    let mut reader = Reader::open(lookup, flags, Scope::Store);
    remote::refuse(&mut reader);
    let store = read_store(&mut reader);
    let Reader { faults, warnings, .. } = reader;
    match store {
        Some(store) if faults.is_empty() => Ok((store, warnings)),
        _ => Err(faults),
    }
}

fn read_store(reader: &mut Reader<'_>) -> Option<StoreConfig> {
    let ephemeral = reader.value(&settings::EPHEMERAL, value::switch);
    let data_dir = read_data_dir(reader);
    let database = reader.optional(&settings::DATABASE, value::database);
    let data_dir = data_dir?;
    let database = match database? {
        Some(Database::Postgres(address)) => {
            check_password(reader, &address);
            Database::Postgres(address)
        }
        Some(Database::File(path)) => Database::File(reader.lookup.absolute(&path)),
        // The database may be a link out of the directory.
        None => Database::File(reader.lookup.absolute(&data_dir.join("gateway.db"))),
    };
    let directory =
        database.file().filter(|path| reader.lookup.facts(path).is_ok_and(|facts| facts.directory));
    if let Some(path) = directory {
        let problem = format!("is {path:?}, which is a directory: name a file");
        reader.fault(&settings::DATABASE, problem);
    }
    let master_key = remote::read_master_key_path(reader)?;
    let master_key = master_key.unwrap_or_else(|| data_dir.join("master.key"));
    let master_key = reader.lookup.absolute(&master_key);
    Some(StoreConfig { data_dir, database, ephemeral: ephemeral?, master_key })
}

/// What must outlast a container, and what says where it is. A server keeps the records itself.
fn places(store: &StoreConfig) -> Vec<(&'static settings::Setting, &Path)> {
    match &store.database {
        Database::File(path) => {
            vec![(&settings::DATA_DIR, &store.data_dir), (&settings::DATABASE, path)]
        }
        Database::Postgres(_) => Vec::new(),
    }
}

/// Notes the first of the places whose content is lost with the container.
fn check_lasts(reader: &mut Reader<'_>, store: &StoreConfig) {
    let lost = places(store).into_iter().find(|(_, path)| !place::lasts(reader.lookup, path));
    let Some((setting, path)) = lost else {
        return;
    };
    let problem = format!("is {path:?}, which is on no mounted volume and lost with its container");
    if store.ephemeral {
        return reader.warn(setting, problem);
    }
    let remedy = format!(
        "add `-v gateway-data:/data` to docker run and leave {} unset, or set GATEWAY_EPHEMERAL=1 \
         if there are only test keys",
        setting.variable
    );
    reader.fault(setting, format!("{problem}: {remedy}"));
}

/// Notes a password that others may see, or that cannot be read.
fn check_password(reader: &mut Reader<'_>, address: &PostgresAddress) {
    let in_variable = reader
        .given(&settings::DATABASE)
        .is_some_and(|given| given.place == settings::DATABASE.variable);
    if address.holds_password() && !in_variable {
        let text = "holds a password, which others on this machine may see: put it into a file and \
                    name that with ?password_file=PATH";
        reader.warn(&settings::DATABASE, text);
    }
    if let Some(path) = address.password_file()
        && let Err(problem) = file::read(reader.lookup, path)
    {
        reader.fault(&settings::DATABASE, format!("has a password_file, and {problem}"));
    }
}

fn read_data_dir(reader: &mut Reader<'_>) -> Option<PathBuf> {
    let setting = &settings::DATA_DIR;
    let given = reader.optional(setting, value::path)?;
    let Some(path) = given.or_else(|| place::default_data_dir(reader.lookup)) else {
        reader.fault(setting, "is not set, and neither is HOME: set it to a directory that lasts");
        return None;
    };
    let path = reader.lookup.absolute(&path);
    let facts = reader.lookup.facts(&path);
    if facts.is_ok_and(|facts| !facts.directory) {
        reader.fault(setting, format!("is {path:?}, which is a file: give a directory"));
        return None;
    }
    Some(path)
}

fn read_stripe(reader: &mut Reader<'_>, data_last: bool) -> Option<StripeConfig> {
    let account = reader.optional(&settings::STRIPE_ACCOUNT, value::account);
    let allow_live = reader.value(&settings::ALLOW_LIVE, value::switch);
    let api_base = reader.value(&settings::STRIPE_API_BASE, value::WebUrl::parse_base);
    let timeout = reader
        .value(&settings::STRIPE_TIMEOUT, |text| value::span(&settings::STRIPE_TIMEOUT, text));
    let calls_per_minute = reader.value(&settings::STRIPE_CALLS_PER_MINUTE, |text| {
        value::number(&settings::STRIPE_CALLS_PER_MINUTE, text)
    });
    let key_agent_tagged = reader.value(&settings::STRIPE_KEY_AGENT_TAGGED, value::switch);
    let version = reader.value(&settings::STRIPE_VERSION, value::version);
    // A value that is itself at fault, and told, is not held against the key as well.
    let rules = KeyRules {
        allow_live: allow_live.unwrap_or(true),
        calls_stripe: api_base.as_ref().is_none_or(calls_stripe),
        data_last,
    };
    let key = read_key(reader, rules);
    let webhook = read_webhook(reader);
    Some(StripeConfig {
        account: account?,
        allow_live: allow_live?,
        api_base: api_base?,
        calls_per_minute: calls_per_minute?,
        key: key?,
        key_agent_tagged: key_agent_tagged?,
        timeout: timeout?,
        version: version?,
        webhook: webhook?,
    })
}

/// Whether calls go to Stripe's own address, which is the default.
fn calls_stripe(base: &WebUrl) -> bool {
    match settings::STRIPE_API_BASE.default {
        Preset::Value(text) => WebUrl::parse_base(text).as_ref() == Ok(base),
        Preset::None | Preset::Told(_) => false,
    }
}

fn read_key(reader: &mut Reader<'_>, rules: KeyRules) -> Option<Option<KeyOrigin>> {
    let (inline, twin) = (&settings::STRIPE_SECRET_KEY, &settings::STRIPE_SECRET_KEY_FILE);
    let Some(secret) = read_secret(reader, inline, twin)? else { return Some(None) };
    let origin = KeyOrigin { rules, secret };
    match origin.current(reader.lookup).map(|key| (origin, key.restricted())) {
        Ok((origin, restricted)) => {
            if !restricted {
                let warning = "gives a full key (sk_…), which may do everything in the account: \
                               use a restricted one (rk_…) that may read charges and write refunds";
                reader.warn(if reader.given(inline).is_some() { inline } else { twin }, warning);
            }
            Some(Some(origin))
        }
        Err(fault) => {
            reader.faults.push(fault);
            None
        }
    }
}

fn read_webhook(reader: &mut Reader<'_>) -> Option<Option<WebhookOrigin>> {
    let (inline, twin) = (&settings::STRIPE_WEBHOOK_SECRET, &settings::STRIPE_WEBHOOK_SECRET_FILE);
    let Some(secret) = read_secret(reader, inline, twin)? else { return Some(None) };
    let origin = WebhookOrigin { secret };
    match origin.current(reader.lookup) {
        Ok(_) => Some(Some(origin)),
        Err(fault) => {
            reader.faults.push(fault);
            None
        }
    }
}

/// A secret that is given by itself or in a file. The file is looked at, but not read.
fn read_secret(
    reader: &mut Reader<'_>,
    inline: &Setting,
    twin: &Setting,
) -> Option<Option<Secret>> {
    let secret = match (reader.given(inline), reader.given(twin)) {
        (None, None) => return Some(None),
        (Some(_), Some(twin)) => {
            reader.fault(inline, format!("and {} are both set: unset one", twin.place));
            return None;
        }
        (Some(given), None) => Secret::value(inline.variable, given.place, &given.text),
        (None, Some(given)) => {
            let path = reader.optional(twin, value::path)??;
            if let Some(warning) = file::readable_by_others(reader.lookup, &path) {
                reader.warn(twin, warning);
            }
            Ok(Secret::file(twin.variable, given.place, path))
        }
    };
    secret.map(Some).map_err(|fault| reader.faults.push(fault)).ok()
}

fn read_server(reader: &mut Reader<'_>) -> Option<ServerConfig> {
    let agent_rate = reader.value(&settings::AGENT_RATE, value::agent_rate);
    let hosts = reader.optional(&settings::ALLOWED_HOSTS, value::hosts);
    let console_url = reader.optional(&settings::CONSOLE_URL, value::WebUrl::parse_origin);
    let host = reader.value(&settings::HOST, value::address);
    let port = reader.value(&settings::PORT, value::port);
    let reconcile_interval = reader.value(&settings::RECONCILE_INTERVAL, |text| {
        value::span(&settings::RECONCILE_INTERVAL, text)
    });
    let shutdown_grace = reader
        .value(&settings::SHUTDOWN_GRACE, |text| value::span(&settings::SHUTDOWN_GRACE, text));
    let tls = read_tls(reader);
    let listen = SocketAddr::new(host?, port?);
    let (tls, console_url) = (tls?, console_url?);
    if tls.is_none() && !listen.ip().is_loopback() {
        let warning = format!(
            "is {}, which others can reach, and keys cross the network as they are: set \
             GATEWAY_TLS_CERT_FILE and GATEWAY_TLS_KEY_FILE, or put a proxy with TLS before it",
            listen.ip()
        );
        reader.warn(&settings::HOST, warning);
    }
    Some(ServerConfig {
        agent_rate: agent_rate?,
        allowed_hosts: let_in(hosts?.unwrap_or_default(), console_url.as_ref(), listen),
        console_url,
        listen,
        reconcile_interval: reconcile_interval?,
        shutdown_grace: shutdown_grace?,
        tls,
    })
}

/// The hosts that requests may come for, without repeats.
fn let_in(given: Vec<String>, console_url: Option<&WebUrl>, listen: SocketAddr) -> Vec<String> {
    let own = match listen {
        _ if listen.ip().is_unspecified() => None,
        SocketAddr::V4(listen) => Some(listen.ip().to_string()),
        SocketAddr::V6(listen) => Some(format!("[{}]", listen.ip())),
    };
    let console = console_url.map(|url| url.host().to_owned());
    let mut hosts = given;
    for host in console.into_iter().chain(own) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

fn read_tls(reader: &mut Reader<'_>) -> Option<Option<TlsFiles>> {
    let cert = reader.optional(&settings::TLS_CERT_FILE, value::path);
    let key = reader.optional(&settings::TLS_KEY_FILE, value::path);
    match (cert?, key?) {
        (None, None) => Some(None),
        (Some(cert), Some(key)) => {
            let cert_fits = check_pem(reader, &settings::TLS_CERT_FILE, &cert, "BEGIN CERTIFICATE");
            let key_fits = check_pem(reader, &settings::TLS_KEY_FILE, &key, "PRIVATE KEY");
            if let Some(warning) = file::readable_by_others(reader.lookup, &key) {
                reader.warn(&settings::TLS_KEY_FILE, warning);
            }
            (cert_fits && key_fits).then_some(Some(TlsFiles { cert, key }))
        }
        (Some(_), None) => {
            reader.fault(&settings::TLS_CERT_FILE, "needs a key: set GATEWAY_TLS_KEY_FILE as well");
            None
        }
        (None, Some(_)) => {
            let problem = "needs a certificate: set GATEWAY_TLS_CERT_FILE as well";
            reader.fault(&settings::TLS_KEY_FILE, problem);
            None
        }
    }
}

/// Whether the file can be read and looks like what it should be.
fn check_pem(reader: &mut Reader<'_>, setting: &Setting, path: &Path, mark: &str) -> bool {
    let problem = match file::read(reader.lookup, path) {
        Ok(content) if String::from_utf8_lossy(&content).contains(mark) => return true,
        Ok(_) => format!("names {path:?}, which has no line with {mark}: give a file in PEM"),
        Err(problem) => problem,
    };
    reader.fault(setting, problem);
    false
}

fn read_rates(reader: &mut Reader<'_>) -> Option<RatesConfig> {
    let setting = &settings::FIAT_USD_RATES;
    let age_max =
        reader.value(&settings::FX_MAX_AGE, |text| value::span(&settings::FX_MAX_AGE, text));
    let feed_url = reader.value(&settings::FX_URL, value::WebUrl::parse_guarded);
    let text = reader.given(setting).map(|given| given.text);
    let pins = match parse_pins(text.as_deref().unwrap_or_default()) {
        Ok(pins) => Some(pins),
        Err(faults) => {
            for fault in faults {
                reader.fault(setting, format!("holds {fault}"));
            }
            None
        }
    };
    Some(RatesConfig { age_max: age_max?, feed_url: feed_url?, pins: pins? })
}

fn read_log(reader: &mut Reader<'_>) -> Option<LogConfig> {
    let filter = reader.value(&settings::LOG, value::log_filter);
    let format = reader.optional(&settings::LOG_FORMAT, value::log_format);
    Some(LogConfig { filter: filter?, format: format? })
}
