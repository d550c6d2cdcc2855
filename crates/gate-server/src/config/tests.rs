//! The configuration as a whole: what is given where, and what comes of it.

mod remote;
mod secrets;
mod store;

use clap::Command;

use super::*;

const HOME_DIR: &str = "/home/ada/.local/share/action-gateway";
const PEM_CERT: &str = "-----BEGIN CERTIFICATE-----\n";
const PEM_KEY: &str = "-----BEGIN PRIVATE KEY-----\n";

/// A world with the files that the tables below name.
fn world(variables: &[&str]) -> Map {
    Map::of(variables.iter().copied())
        .file("/key", "rk_test_file\n")
        .file("/hook", "whsec_file\n")
        .file("/cert.pem", PEM_CERT)
        .file("/key.pem", PEM_KEY)
        .file("/a.toml", "[server]\nport = 1111\n")
        .file("/dir", "")
        .change("/dir", |file| file.directory = true)
}

fn flags(given: &[&str]) -> Flags {
    given
        .iter()
        .map(|flag| flag.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn good(map: &Map) -> Loaded {
    load(map, &Flags::default()).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn faults(map: &Map) -> String {
    lines(&load(map, &Flags::default()).map(|loaded| loaded.config).unwrap_err())
}

/// All faults, one a line.
fn lines(faults: &[ConfigFault]) -> String {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn nothing_given_is_a_gateway_on_this_machine_without_a_key() {
    let Loaded { config, warnings } = good(&world(&[]));
    assert_eq!(warnings, [""; 0]);
    let Config { authority_listen, log, rates, remote, server, store, stripe } = config;
    assert!(authority_listen.is_none() && remote.is_none());
    let store = store.unwrap();
    let seconds = Duration::from_secs;

    assert_eq!((log.filter.as_str(), log.format), ("info", None));
    assert_eq!(rates.age_max, seconds(7 * 24 * 60 * 60));
    assert_eq!(
        rates.feed_url.to_string(),
        "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml"
    );
    assert_eq!(rates.pins, []);
    assert_eq!(server.agent_rate.per_second.get(), 100);
    assert_eq!(server.agent_rate.burst.get(), 400);
    assert_eq!(server.allowed_hosts, ["127.0.0.1"]);
    assert_eq!(server.console_url, None);
    assert_eq!(server.listen.to_string(), "127.0.0.1:8787");
    assert_eq!(server.reconcile_interval, seconds(15));
    assert_eq!(server.shutdown_grace, seconds(30));
    assert_eq!(server.tls, None);
    assert_eq!(store.data_dir, Path::new(HOME_DIR));
    assert_eq!(store.database.to_string(), format!("{HOME_DIR}/gateway.db"));
    assert!(!store.ephemeral);
    assert_eq!((stripe.account, stripe.allow_live), (None, false));
    assert_eq!(stripe.api_base.to_string(), "https://api.stripe.com");
    assert!(stripe.key.is_none() && stripe.webhook.is_none());
    assert_eq!((stripe.timeout, stripe.calls_per_minute), (seconds(20), 120));
    assert_eq!(stripe.version, "2025-09-30.clover");
}

/// Every setting with a value that changes the configuration, as a variable holds it, and with the
/// value as the file holds it.
const CHANGES: &[(&str, &str, &str)] = &[
    // name                       variable                       file
    ("config", "/a.toml", ""),
    ("stripe.secret_key", "rk_test_inline", ""),
    ("stripe.secret_key_file", "/key", "\"/key\""),
    ("stripe.key_agent_tagged", "1", "true"),
    ("stripe.webhook_secret", "whsec_inline", ""),
    ("stripe.webhook_secret_file", "/hook", "\"/hook\""),
    ("stripe.allow_live", "1", "true"),
    ("stripe.api_base", "http://127.0.0.1:12111", "\"http://127.0.0.1:12111\""),
    ("stripe.version", "2025-10-29.clover", "\"2025-10-29.clover\""),
    ("stripe.account", "acct_1", "\"acct_1\""),
    ("stripe.timeout", "10s", "\"10s\""),
    ("stripe.calls_per_minute", "600", "600"),
    ("server.host", "::1", "\"::1\""),
    ("server.port", "0", "0"),
    ("server.tls_cert_file", "/cert.pem", "\"/cert.pem\""),
    ("server.tls_key_file", "/key.pem", "\"/key.pem\""),
    ("server.console_url", "https://pay.example.com", "\"https://pay.example.com\""),
    ("server.allowed_hosts", "a,b", "[\"a\", \"b\"]"),
    ("server.agent_rate", "1/s burst 2", "\"1/s burst 2\""),
    ("server.reconcile_interval", "1m", "\"1m\""),
    ("server.shutdown_grace", "5s", "\"5s\""),
    ("store.data_dir", "/srv/gateway", "\"/srv/gateway\""),
    ("store.database", "other.db", "\"other.db\""),
    ("store.ephemeral", "1", "1"),
    ("store.master_key_file", "/master.key", "\"/master.key\""),
    ("authority.listen", "127.0.0.1:0", "\"127.0.0.1:0\""),
    ("authority.api", "https://authority.example", "\"https://authority.example\""),
    ("authority.gateway_id", "gw_2", "\"gw_2\""),
    ("authority.gateway_secret", SECRET, ""),
    ("authority.gateway_secret_file", "/secret", "\"/secret\""),
    ("authority.path_prefix_stripped", "1", "true"),
    ("rates.fiat_usd", "KWD=3.26", "\"KWD=3.26\""),
    ("rates.fx_url", "https://example.com/daily.xml", "\"https://example.com/daily.xml\""),
    ("rates.fx_max_age", "1d", "\"1d\""),
    ("log.filter", "warn", "\"warn\""),
    ("log.format", "json", "\"json\""),
];

/// Two secrets of gateways that hold together.
const SECRET: &str =
    "bbgw_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const OTHER_SECRET: &str =
    "bbgw_BBBBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// What else is given, so that the setting alone can change something: the other half of TLS, the
/// rest of a credential, an authority to use it at, a path to be taken off.
fn company(name: &str) -> &'static [&'static str] {
    const ID: &str = "BURNBOUND_GATEWAY_ID=gw_1";
    const FILE: &str = "BURNBOUND_GATEWAY_SECRET_FILE=/s";
    match name {
        "server.tls_cert_file" | "server.tls_key_file" => {
            &["GATEWAY_TLS_CERT_FILE=/c", "GATEWAY_TLS_KEY_FILE=/k"]
        }
        "authority.path_prefix_stripped" => &["BURNBOUND_API=https://a.example/a", ID, FILE],
        "authority.listen" => &[],
        name if name.starts_with("authority.") => &["BURNBOUND_API=https://a.example", ID, FILE],
        _ => &[],
    }
}

#[test]
fn every_setting_changes_the_configuration_wherever_it_is_given() {
    let named: Vec<&str> = CHANGES.iter().map(|(name, ..)| *name).collect();
    let settings: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    assert_eq!(named, settings, "one row a setting");

    let files = |map: Map| {
        map.file("/c", PEM_CERT)
            .file("/k", PEM_KEY)
            .file("/s", OTHER_SECRET)
            .file("/secret", SECRET)
    };
    let told = |map: &Map, given: &Flags| format!("{:?}", load(map, given).map(|l| l.config));
    for (setting, (name, value, in_file)) in SETTINGS.iter().zip(CHANGES) {
        let company = company(name);
        let others = company.iter().filter(|other| !other.starts_with(setting.variable));
        let others: Vec<&str> = others.copied().collect();
        let base = || files(world(&others));
        let before = told(&files(world(company)), &Flags::default());
        // The place of a key is part of what it shows, and differs by where it is given.
        let changes = |map: &Map, given: &Flags| {
            load(map, given).unwrap_or_else(|faults| panic!("{name}: {faults:#?}"));
            told(map, given) != before
        };
        let by_variable = base().with(&format!("{}={value}", setting.variable));
        assert!(changes(&by_variable, &Flags::default()), "{name} by variable");
        if setting.flag.is_some() {
            assert!(changes(&base(), &flags(&[&format!("{name}={value}")])), "{name} by flag");
        }
        if let Some((section, key)) = setting.section() {
            let file = format!("[{section}]\n{key} = {in_file}\n");
            let map = base().file("/b.toml", &file).with("GATEWAY_CONFIG=/b.toml");
            assert!(changes(&map, &Flags::default()), "{name} in the file");
        }
    }
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let table: [(&[&str], &[&str], u16); 5] = [
        // flags, variables, port
        (&[], &[], 8787),
        (&[], &["GATEWAY_CONFIG=/a.toml"], 1111),
        (&["config=/a.toml"], &[], 1111),
        (&["config=/a.toml"], &["GATEWAY_PORT=2222"], 2222),
        (&["config=/a.toml", "server.port=3333"], &["GATEWAY_PORT=2222"], 3333),
    ];
    for (given, variables, port) in table {
        let loaded = load(&world(variables), &flags(given)).unwrap();
        assert_eq!(loaded.config.server.listen.port(), port, "{given:?} {variables:?}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_a_remedy() {
    let table: &[(&[&str], &[&str])] = &[
        // variables, parts of the only fault
        (&["GATEWAY_PORT=http"], &["GATEWAY_PORT holds \"http\"", "0 to 65535"]),
        (&["GATEWAY_PORT="], &["GATEWAY_PORT holds \"\""]),
        (&["GATEWAY_PORT=tcp://10.0.0.1:80"], &["Kubernetes", "enableServiceLinks"]),
        (&["GATEWAY_HOST=example.com"], &["not an IP address"]),
        (&["GATEWAY_HOST=127.0.0.1\n"], &["control characters"]),
        (&["GATEWAY_ALLOW_LIVE=true"], &["neither 0 nor 1"]),
        (&["GATEWAY_STRIPE_TIMEOUT=2m"], &["out of bounds", "from 1s to 1m"]),
        (&["GATEWAY_STRIPE_CALLS_PER_MINUTE=0"], &["out of bounds", "from 1 to 600"]),
        (&["GATEWAY_STRIPE_CALLS_PER_MINUTE=2/s"], &["no whole number", "from 1 to 600"]),
        (&["GATEWAY_FX_MAX_AGE=7"], &["not a span of time", "7d"]),
        (&["GATEWAY_AGENT_RATE=100/s"], &["100/s burst 400"]),
        (&["GATEWAY_DATABASE=postgres://u:hunter2@h/"], &["names no host or no database"]),
        (&["GATEWAY_DATABASE=postgres://h?password=hunter2"], &["names no host or no database"]),
        (&["GATEWAY_DATABASE=:memory:"], &["lost with the process"]),
        (&["GATEWAY_DATA_DIR=/key"], &["is a file", "directory"]),
        (&["GATEWAY_DATABASE=/dir"], &["is a directory"]),
        (&["GATEWAY_FX_URL=http://example.com/a.xml"], &["write https://"]),
        (&["GATEWAY_CONSOLE_URL=https://a.com/console"], &["has a path"]),
        (&["GATEWAY_ALLOWED_HOSTS=https://a.com"], &["write names alone"]),
        (&["GATEWAY_LOG=loud"], &["not a filter"]),
        (&["GATEWAY_LOG_FORMAT=xml"], &["use text or json"]),
        (&["FIAT_USD_RATES=EUR"], &["FIAT_USD_RATES holds \"EUR\"", "KWD=3.26"]),
        (&["STRIPE_ACCOUNT=1"], &["acct_"]),
        (&["STRIPE_VERSION=latest"], &["2025-09-30.clover"]),
        (&["STRIPE_API_BASE=http://example.com"], &["write https://"]),
        (&["STRIPE_SECRET_KEY="], &["STRIPE_SECRET_KEY gives an empty secret"]),
        (&["STRIPE_SECRET_KEY=pk_test_1"], &["publishable"]),
        (&["STRIPE_WEBHOOK_SECRET=rk_test_1"], &["STRIPE_WEBHOOK_SECRET", "whsec_"]),
        (&["STRIPE_WEBHOOK_SECRET_FILE=/key"], &["STRIPE_WEBHOOK_SECRET_FILE", "whsec_"]),
        (
            &["STRIPE_WEBHOOK_SECRET=whsec_1", "STRIPE_WEBHOOK_SECRET_FILE=/hook"],
            &["both set", "unset one"],
        ),
        (&["STRIPE_SECRET_KEY=rk_live_1"], &["GATEWAY_ALLOW_LIVE=1"]),
        (
            &[
                "STRIPE_SECRET_KEY=rk_live_1",
                "GATEWAY_ALLOW_LIVE=1",
                "STRIPE_API_BASE=https://a.com",
            ],
            &["unset STRIPE_API_BASE"],
        ),
        (
            &["STRIPE_SECRET_KEY=rk_test_1", "STRIPE_SECRET_KEY_FILE=/key"],
            &["STRIPE_SECRET_KEY and STRIPE_SECRET_KEY_FILE are both set"],
        ),
        (&["STRIPE_SECRET_KEY_FILE=/none"], &["\"/none\"", "does not exist"]),
        (&["STRIPE_SECRET_KEY_FILE="], &["STRIPE_SECRET_KEY_FILE holds \"\""]),
        (&["GATEWAY_TLS_CERT_FILE=/cert.pem"], &["set GATEWAY_TLS_KEY_FILE as well"]),
        (&["GATEWAY_TLS_KEY_FILE=/key.pem"], &["set GATEWAY_TLS_CERT_FILE as well"]),
        (
            &["GATEWAY_TLS_CERT_FILE=/key.pem", "GATEWAY_TLS_KEY_FILE=/key.pem"],
            &["GATEWAY_TLS_CERT_FILE names \"/key.pem\"", "BEGIN CERTIFICATE"],
        ),
        (&["GATEWAY_CONFIG=/none"], &["GATEWAY_CONFIG names \"/none\""]),
        (&["BURNBOUND_API=https://a.com"], &["BURNBOUND_API needs", "BURNBOUND_GATEWAY_ID"]),
        (&["GATEWAY_MASTER_KEY_FILE=/key"], &["GATEWAY_MASTER_KEY_FILE names", "32 bytes in hex"]),
        (
            &["GATEWAY_DATABASE=postgres://h/d"],
            &["GATEWAY_MASTER_KEY_FILE must be given with PostgreSQL", "openssl rand -hex 32"],
        ),
        (
            &["GATEWAY_DATABASE=postgres://h/d", "GATEWAY_MASTER_KEY_FILE=/none"],
            &["GATEWAY_MASTER_KEY_FILE names \"/none\", which does not exist"],
        ),
        (&["AUTHORITY_LISTEN=8788"], &["AUTHORITY_LISTEN holds \"8788\"", "127.0.0.1:8788"]),
        (&["OIDC_ISSUER=x"], &["OIDC_ISSUER is not supported by this version: unset it"]),
    ];
    for (variables, parts) in table {
        let faults = faults(&world(variables));
        assert_eq!(faults.lines().count(), 1, "{variables:?}: {faults}");
        for part in *parts {
            assert!(faults.contains(part), "{variables:?}: {faults}");
        }
    }
}

#[test]
fn what_is_wrong_with_the_file_is_told_with_its_key() {
    let table = [
        // file, parts of the only fault
        ("[server]\nport = \"http\"", ["server.port in \"/b.toml\" holds \"http\"", "65535"]),
        ("[server]\nport = 8787.5", ["server.port", "type float"]),
        ("[server]\nprot = 8787", ["\"server.prot\" in", "nearest is server.port"]),
        ("[sever]\nport = 1", ["\"sever\" in", "nearest is server."]),
        ("port = 1", ["\"port\" in", "remove it"]),
        ("[stripe]\nsecret_key = \"rk_test_1\"", ["no configuration file", "secret_key_file"]),
        ("[store]\nephemeral = \"yes\"", ["store.ephemeral", "0 nor 1"]),
        ("[server]\nallowed_hosts = [1]", ["server.allowed_hosts", "type array"]),
        ("[server]\n\nport = = 1", ["not TOML at line 3", "[server]"]),
        ("[log]\nfilter = true", ["log.filter", "type boolean"]),
    ];
    for (file, parts) in table {
        let faults = faults(&world(&["GATEWAY_CONFIG=/b.toml"]).file("/b.toml", file));
        assert_eq!(faults.lines().count(), 1, "{file}: {faults}");
        for part in parts {
            assert!(faults.contains(part), "{file}: {faults}");
        }
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let map = world(&[
        "AUTHORITY_LISTEN=x",
        "FIAT_USD_RATES=EUR,KWD=0",
        "GATEWAY_AGENT_RATE=x",
        "GATEWAY_CONFIG=/b.toml",
        "GATEWAY_DATA_DIR=/key",
        "GATEWAY_EPHEMERAL=x",
        "GATEWAY_LOG=x",
        "GATEWAY_PORT=x",
        "GATEWAY_STRIPE_CALLS_PER_MINUTE=x",
        "GATEWAY_STRIPE_TIMEOUT=x",
        "GATEWAY_TLS_KEY_FILE=/key.pem",
        "STRIPE_ACCOUNT=x",
        "STRIPE_SECRET_KEY=x",
    ])
    .file("/b.toml", "[rates]\nfx_max_age = \"x\"\nfx = 1\n");
    let faults = load(&map, &Flags::default()).unwrap_err();
    let mut variables: Vec<&str> = faults.iter().map(ConfigFault::variable).collect();
    variables.sort_unstable();
    let expected = [
        "AUTHORITY_LISTEN",
        "FIAT_USD_RATES",
        "FIAT_USD_RATES",
        "GATEWAY_AGENT_RATE",
        "GATEWAY_CONFIG",
        "GATEWAY_DATA_DIR",
        "GATEWAY_EPHEMERAL",
        "GATEWAY_FX_MAX_AGE",
        "GATEWAY_LOG",
        "GATEWAY_PORT",
        "GATEWAY_STRIPE_CALLS_PER_MINUTE",
        "GATEWAY_STRIPE_TIMEOUT",
        "GATEWAY_TLS_KEY_FILE",
        "STRIPE_ACCOUNT",
        "STRIPE_SECRET_KEY",
    ];
    assert_eq!(variables, expected);
}

#[test]
fn warnings_tell_what_works_but_should_not_stay() {
    let table: &[(&[&str], &str)] = &[
        // variables, a part of the only warning
        (&["STRIPE_SECRET_KEY=sk_test_1"], "STRIPE_SECRET_KEY gives a full key"),
        (&["GATEWAY_HOST=0.0.0.0"], "GATEWAY_HOST is 0.0.0.0, which others can reach"),
        (
            &["STRIPE_SECRET_KEY_FILE=/open"],
            "everyone can read (its mode is 0644): run `chmod o-r /open`",
        ),
        (&["GATEWAY_PROT=1"], "GATEWAY_PROT is not a setting; the nearest is GATEWAY_PORT"),
        (&["GATEWAY_HOSTS=1"], "the nearest is GATEWAY_HOST"),
        (&["GATEWAY_LOGFORMAT=1"], "the nearest is GATEWAY_LOG_FORMAT"),
        (&["GATEWAY_METRICS_ADDR=:9090"], "not supported by this version"),
        (&["OTEL_EXPORTER_OTLP_ENDPOINT=http://a"], "not supported by this version"),
    ];
    for (variables, part) in table {
        let map =
            world(variables).file("/open", "rk_test_1").change("/open", |file| file.mode = 0o644);
        let warnings = good(&map).warnings;
        assert_eq!(warnings.len(), 1, "{variables:?}: {warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains(part)), "{warnings:?}");
    }
    let tls =
        ["GATEWAY_HOST=::", "GATEWAY_TLS_CERT_FILE=/cert.pem", "GATEWAY_TLS_KEY_FILE=/key.pem"];
    assert_eq!(good(&world(&tls)).warnings, [""; 0], "a public address with TLS");
}

#[test]
fn in_a_container_records_lie_on_a_volume() {
    const MOUNTS: &str = "1 0 0:1 / / rw - overlay o rw\n2 1 8:1 /v /data rw - ext4 /dev/sda1 rw\n";
    let live = "STRIPE_SECRET_KEY=rk_live_1";
    let table: &[(&str, &[&str], &str)] = &[
        // name, variables, a part of what is told, or nothing when it starts quietly
        ("volume", &["GATEWAY_DATA_DIR=/data"], ""),
        ("below", &["GATEWAY_DATA_DIR=/data/gateway"], ""),
        ("home", &[], "-v gateway-data:/data"),
        (
            "other",
            &["GATEWAY_DATA_DIR=/srv"],
            "GATEWAY_DATA_DIR is \"/srv\", which is on no mounted",
        ),
        ("database", &["GATEWAY_DATA_DIR=/data", "GATEWAY_DATABASE=/srv/a.db"], "GATEWAY_DATABASE"),
        ("allowed", &["GATEWAY_EPHEMERAL=1"], "lost with its container"),
        ("live", &["GATEWAY_EPHEMERAL=1", "GATEWAY_ALLOW_LIVE=1", live], "for test keys only"),
        (
            "lasting",
            &["GATEWAY_DATA_DIR=/data", "GATEWAY_EPHEMERAL=1", "GATEWAY_ALLOW_LIVE=1", live],
            "",
        ),
    ];
    for (name, variables, part) in table {
        for mark in ["/.dockerenv", "/run/.containerenv"] {
            let map = world(variables).file(mark, "").file("/proc/self/mountinfo", MOUNTS);
            let told = match load(&map, &Flags::default()) {
                Ok(loaded) => loaded.warnings.join("\n"),
                Err(faults) => faults.iter().map(ToString::to_string).collect(),
            };
            assert!(told.contains(part) && told.is_empty() == part.is_empty(), "{name}: {told}");
        }
    }
    let blind = world(&["KUBERNETES_SERVICE_HOST=10.0.0.1", "GATEWAY_DATA_DIR=/data"]);
    assert!(faults(&blind).contains("no mounted volume"), "mounts that cannot be read");
}

#[test]
fn requests_may_come_for_the_given_hosts_the_console_and_the_address() {
    let table: &[(&[&str], &[&str])] = &[
        // variables, hosts
        (&["GATEWAY_HOST=0.0.0.0"], &[]),
        (&["GATEWAY_HOST=10.0.0.1"], &["10.0.0.1"]),
        (&["GATEWAY_HOST=fd00::1"], &["[fd00::1]"]),
        (&["GATEWAY_HOST=::", "GATEWAY_CONSOLE_URL=https://Pay.example.com"], &["pay.example.com"]),
        (
            &["GATEWAY_ALLOWED_HOSTS=a,127.0.0.1", "GATEWAY_CONSOLE_URL=http://a:8787"],
            &["a", "127.0.0.1"],
        ),
    ];
    for (variables, hosts) in table {
        assert_eq!(good(&world(variables)).config.server.allowed_hosts, *hosts, "{variables:?}");
    }
}

#[test]
fn the_command_line_takes_every_flag_of_the_table() {
    let command = || Command::new("action-gateway").args(clap_args());
    command().debug_assert();
    let line: Vec<String> = SETTINGS
        .iter()
        .zip(CHANGES)
        // Of the authority that is here; one that is elsewhere goes with less.
        .filter(|(setting, _)| {
            !setting.name.starts_with("authority.") || setting.name == "authority.listen"
        })
        .filter_map(|(setting, (_, value, _))| {
            Some([format!("--{}", setting.flag?), (*value).into()])
        })
        .flatten()
        .collect();
    let matches = command().try_get_matches_from([vec!["action-gateway".into()], line].concat());
    let loaded = load(&world(&[]), &Flags::from_matches(&matches.unwrap())).unwrap();
    assert_eq!(loaded.config.server.listen.to_string(), "[::1]:0");
    let help = command().render_help().to_string();
    for setting in SETTINGS.iter().filter(|setting| setting.flag.is_some()) {
        assert!(help.contains(setting.variable), "{}", setting.name);
    }
}
