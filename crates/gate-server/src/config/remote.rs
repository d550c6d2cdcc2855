//! The authority over the network: the one that this gateway asks, or the one that it serves.

use std::net::SocketAddr;
use std::path::PathBuf;

use gate_core::GatewayId;

use super::key::GatewaySecretOrigin;
use super::settings::{self, Setting};
use super::source::Reader;
use super::value::{self, WebUrl};
use super::{StoreConfig, file, read_secret};
use crate::master_key::MasterKey;

/// A remote authority, and this gateway's credential for it.
#[derive(Debug)]
pub struct RemoteConfig {
    /// Where it is reached, without a path.
    pub origin: String,
    /// The path that a proxy takes off on the way; usually empty.
    pub stripped: String,
    /// The gateway's id.
    pub gateway: GatewayId,
    /// The gateway's secret.
    pub secret: GatewaySecretOrigin,
}

/// What belongs to whoever decides, and not to a gateway that asks elsewhere.
const THE_AUTHORITYS: [Setting; 3] =
    [settings::DATABASE, settings::FIAT_USD_RATES, settings::AUTHORITY_LISTEN];

/// The remote authority, if one is named.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<Option<RemoteConfig>> {
    let api = reader.optional(&settings::BURNBOUND_API, value::WebUrl::parse_guarded);
    let stripped = reader.value(&settings::API_PATH_PREFIX_STRIPPED, value::switch);
    let id = reader.optional(&settings::BURNBOUND_GATEWAY_ID, |text| {
        GatewayId::parse(text).map_err(|fault| format!("which is {fault}"))
    });
    let (inline, twin) =
        (&settings::BURNBOUND_GATEWAY_SECRET, &settings::BURNBOUND_GATEWAY_SECRET_FILE);
    let credential = [&settings::BURNBOUND_GATEWAY_ID, inline, twin];
    if reader.given(&settings::BURNBOUND_API).is_none() {
        let given = credential.into_iter().find(|setting| reader.given(setting).is_some());
        let Some(setting) = given else { return Some(None) };
        let problem = "is of no use without BURNBOUND_API: name the authority, or unset both";
        reader.fault(setting, problem);
        return None;
    }
    for setting in &THE_AUTHORITYS {
        if reader.given(setting).is_some() {
            let problem = "belongs to the authority, which BURNBOUND_API says is elsewhere: set it \
                           there and unset it here";
            reader.fault(setting, problem);
        }
    }
    let secret = read_secret(reader, inline, twin);
    let secret = secret.map(|secret| secret.map(|secret| GatewaySecretOrigin { secret }));
    if let Some(Some(origin)) = &secret
        && let Err(fault) = origin.current(reader.lookup)
    {
        reader.faults.push(fault);
    }
    let lacking = matches!(secret, Some(None)) || matches!(id, Some(None));
    if lacking {
        let problem = "needs this gateway's credential: set BURNBOUND_GATEWAY_ID and \
                       BURNBOUND_GATEWAY_SECRET_FILE to what `gateway create` printed at the \
                       authority";
        reader.fault(&settings::BURNBOUND_API, problem);
    }
    let (origin, stripped) = address(reader, &api??, stripped?)?;
    Some(Some(RemoteConfig { origin, stripped, gateway: id??, secret: secret?? }))
}

/// Where the authority is reached, and the path that is taken off on the way.
fn address(reader: &mut Reader<'_>, api: &WebUrl, stripped: bool) -> Option<(String, String)> {
    let path = api.path_and_query();
    let whole = api.to_string();
    if path == "/" {
        return Some((whole, String::new()));
    }
    if path.contains('?') {
        reader.fault(&settings::BURNBOUND_API, "has a query in it: remove the ? and what follows");
        return None;
    }
    if !stripped {
        let problem = "has a path, and calls are signed with the path that the authority sees: give \
                       the address without one, or set GATEWAY_API_PATH_PREFIX_STRIPPED=1 if a proxy \
                       takes it off on the way";
        reader.fault(&settings::BURNBOUND_API, problem);
        return None;
    }
    let origin = whole.strip_suffix(path).unwrap_or(&whole).to_owned();
    Some((origin, path.trim_end_matches('/').to_owned()))
}

/// Refuses a remote authority for a command that works on the records themselves.
pub(super) fn refuse(reader: &mut Reader<'_>) {
    if reader.given(&settings::BURNBOUND_API).is_some() {
        let problem = "says that the authority is elsewhere, and the records with it: run this \
                       command there";
        reader.fault(&settings::BURNBOUND_API, problem);
    }
}

/// Where the authority is served.
pub(super) fn read_listen(reader: &mut Reader<'_>) -> Option<Option<SocketAddr>> {
    let setting = &settings::AUTHORITY_LISTEN;
    let listen = reader.optional(setting, |text| {
        text.parse::<SocketAddr>().map_err(|_| {
            "which is not an address with a port: write it like 127.0.0.1:8788 or 0.0.0.0:8788"
                .to_owned()
        })
    })?;
    let tls = reader.given(&settings::TLS_CERT_FILE).is_some();
    if let Some(listen) = listen
        && !tls
        && !listen.ip().is_loopback()
    {
        let warning = format!(
            "is {}, which others can reach, and agents' keys cross the network as they are: set \
             GATEWAY_TLS_CERT_FILE and GATEWAY_TLS_KEY_FILE, or put a proxy with TLS before it",
            listen.ip()
        );
        reader.warn(setting, warning);
    }
    Some(listen)
}

/// How several authorities come to one key.
const MAKE_MASTER_KEY: &str = "make the key once, `(umask 077; openssl rand -hex 32 > master.key)`, \
                               and name a copy of it to every process on this database";

/// Where the master key is to be, if that is said. The key itself in its place is not repeated.
pub(super) fn read_master_key_path(reader: &mut Reader<'_>) -> Option<Option<PathBuf>> {
    let setting = &settings::MASTER_KEY_FILE;
    let given = reader.given(setting).map(|given| given.text).unwrap_or_default();
    if MasterKey::parse(given.as_bytes()).is_ok() {
        reader.fault(setting, "gives the key itself: put it into a file and name the file");
        return None;
    }
    reader.optional(setting, value::path)
}

/// Notes a master key that is there and is none, and, where authorities may share one database,
/// one that is not there: each would make its own, and each other's answers would look forged.
pub(super) fn check_master_key(reader: &mut Reader<'_>, store: &StoreConfig) {
    let setting = &settings::MASTER_KEY_FILE;
    let path = &store.master_key;
    let shared = store.database.file().is_none();
    if shared && reader.given(setting).is_none() {
        reader.fault(setting, format!("must be given with PostgreSQL: {MAKE_MASTER_KEY}"));
        return;
    }
    if reader.lookup.facts(path).is_err() {
        if shared {
            let problem = format!("names {path:?}, which does not exist: {MAKE_MASTER_KEY}");
            reader.fault(setting, problem);
        }
        return;
    }
    match file::read(reader.lookup, path) {
        Err(problem) => reader.fault(setting, problem),
        Ok(bytes) => {
            if let Err(problem) = MasterKey::parse(&bytes) {
                reader.fault(setting, format!("names {path:?}, which {problem}"));
            }
        }
    }
    if let Some(warning) = file::readable_by_others(reader.lookup, path) {
        reader.warn(setting, warning);
    }
}
