//! The one table of settings: what the parser, `--help`, the reference page, the schema of the
//! configuration file and the tests are made from.

use std::time::Duration;

/// One setting: where it can be given, what it looks like and what it is for.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name, section first, such as `stripe.timeout`; in the configuration file `timeout`
    /// below `[stripe]`.
    pub name: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// The long flag without its dashes. Secrets have none: others see command lines.
    pub flag: Option<&'static str>,
    /// What a value looks like.
    pub shape: Shape,
    /// What holds when it is given nowhere.
    pub default: Preset,
    /// One line of help, without a full stop.
    pub help: &'static str,
}

impl Setting {
    /// Whether the value must never be shown.
    #[must_use]
    pub const fn secret(&self) -> bool {
        matches!(self.shape, Shape::Secret)
    }

    /// Its place in the configuration file. Secrets have none, and the file does not name itself.
    #[must_use]
    pub const fn file_key(&self) -> Option<&'static str> {
        match self.shape {
            Shape::Secret | Shape::ConfigFile => None,
            Shape::Hosts
            | Shape::Number { .. }
            | Shape::Path
            | Shape::Span { .. }
            | Shape::Switch
            | Shape::Text(_)
            | Shape::Words(_) => Some(self.name),
        }
    }

    /// The section of the configuration file and the key in it.
    pub(super) fn section(&self) -> Option<(&'static str, &'static str)> {
        self.file_key()?.split_once('.')
    }
}

/// Which settings are read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope {
    /// All of them.
    All,
    /// Those that say where the records lie.
    Store,
}

impl Scope {
    pub(super) fn holds(self, setting: &Setting) -> bool {
        setting.name.split_once('.').is_none_or(|(section, _)| self.holds_section(section))
    }

    /// Whether the settings of the section are read.
    pub(super) fn holds_section(self, section: &str) -> bool {
        match self {
            Self::All => true,
            Self::Store => section == "store",
        }
    }

    /// Whether variables of a fuller version matter here: none of them leads to other records.
    pub(super) const fn minds_others(self) -> bool {
        matches!(self, Self::All)
    }
}

/// What a value looks like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// The path of the configuration file.
    ConfigFile,
    /// Host names with commas between them; in the configuration file a list will do as well.
    Hosts,
    /// A whole number.
    Number {
        /// The smallest that is taken.
        least: u32,
        /// The largest that is taken.
        most: u32,
    },
    /// The path of a file or directory.
    Path,
    /// A secret.
    Secret,
    /// A span of time with its unit: `500ms`, `20s`, `1m`, `2h`, `7d`.
    Span {
        /// The shortest that is taken.
        least: Duration,
        /// The longest that is taken.
        most: Duration,
    },
    /// `0` or `1`; in the configuration file `true` and `false` will do as well.
    Switch,
    /// A text; what `--help` calls it.
    Text(&'static str),
    /// One of these words.
    Words(&'static [&'static str]),
}

/// What holds when a setting is given nowhere.
#[derive(Clone, Copy, Debug)]
pub enum Preset {
    /// Nothing.
    None,
    /// Something that depends on the surroundings, in words.
    Told(&'static str),
    /// This value, read like any other.
    Value(&'static str),
}

/// Writes each row as a constant, for the code that reads it, and all of them as the table.
macro_rules! settings {
    ($($id:ident: $name:literal, $variable:literal, $flag:expr, $shape:expr, $default:expr,
        $help:literal;)*) => {
        $(pub(super) const $id: Setting = Setting {
            name: $name,
            variable: $variable,
            flag: $flag,
            shape: $shape,
            default: $default,
            help: $help,
        };)*

        /// Every setting of this version.
        pub static SETTINGS: &[Setting] = &[$($id),*];
    };
}

use Preset::{Told, Value};
use Shape::{ConfigFile, Hosts, Number, Path, Secret, Span, Switch, Text, Words};

const fn secs(least: u64, most: u64) -> Shape {
    Span { least: Duration::from_secs(least), most: Duration::from_secs(most) }
}

const HOUR_SECS: u64 = 3600;
const DAY_SECS: u64 = 24 * HOUR_SECS;

settings! {
    CONFIG: "config", "GATEWAY_CONFIG",
        Some("config"), ConfigFile, Preset::None,
        "The configuration file, in TOML";

    STRIPE_SECRET_KEY: "stripe.secret_key", "STRIPE_SECRET_KEY",
        None, Secret, Preset::None,
        "The Stripe key that refunds are made with, best a restricted one (rk_test_…)";
    STRIPE_SECRET_KEY_FILE: "stripe.secret_key_file", "STRIPE_SECRET_KEY_FILE",
        Some("stripe-secret-key-file"), Path, Preset::None,
        "The file that holds the Stripe key; a changed file is read again";
    STRIPE_KEY_AGENT_TAGGED: "stripe.key_agent_tagged", "STRIPE_KEY_AGENT_TAGGED",
        Some("stripe-key-agent-tagged"), Switch, Value("0"),
        "Stripe holds refunds of this key for approvals of its own; also learnt from the first";
    STRIPE_WEBHOOK_SECRET: "stripe.webhook_secret", "STRIPE_WEBHOOK_SECRET",
        None, Secret, Preset::None,
        "What Stripe signs webhooks with (whsec_…), with commas between several while rotating";
    STRIPE_WEBHOOK_SECRET_FILE: "stripe.webhook_secret_file", "STRIPE_WEBHOOK_SECRET_FILE",
        Some("stripe-webhook-secret-file"), Path, Preset::None,
        "The file that holds the webhook secret, or several; a changed file is read again";
    ALLOW_LIVE: "stripe.allow_live", "GATEWAY_ALLOW_LIVE",
        Some("allow-live"), Switch, Value("0"),
        "Take a live key, with which real money moves";
    STRIPE_API_BASE: "stripe.api_base", "STRIPE_API_BASE",
        Some("stripe-api-base"), Text("URL"), Value("https://api.stripe.com"),
        "Where Stripe is reached; another place than Stripe's takes test keys only";
    STRIPE_VERSION: "stripe.version", "STRIPE_VERSION",
        Some("stripe-version"), Text("VERSION"), Value("2025-09-30.clover"),
        "The version of Stripe's interface that is asked for";
    STRIPE_ACCOUNT: "stripe.account", "STRIPE_ACCOUNT",
        Some("stripe-account"), Text("ACCOUNT"), Preset::None,
        "The connected account (acct_…) to act for";
    STRIPE_TIMEOUT: "stripe.timeout", "GATEWAY_STRIPE_TIMEOUT",
        Some("stripe-timeout"), secs(1, 60), Value("20s"),
        "How long one call to Stripe may take";
    STRIPE_CALLS_PER_MINUTE: "stripe.calls_per_minute", "GATEWAY_STRIPE_CALLS_PER_MINUTE",
        Some("stripe-calls-per-minute"), Number { least: 1, most: 600 }, Value("120"),
        "How many calls the tools that read Stripe for staff may make in a minute";

    HOST: "server.host", "GATEWAY_HOST",
        Some("host"), Text("ADDRESS"), Value("127.0.0.1"),
        "The IP address to listen on";
    PORT: "server.port", "GATEWAY_PORT",
        Some("port"), Number { least: 0, most: 65_535 }, Value("8787"),
        "The port to listen on; 0 takes a free one";
    TLS_CERT_FILE: "server.tls_cert_file", "GATEWAY_TLS_CERT_FILE",
        Some("tls-cert-file"), Path, Preset::None,
        "The certificate chain to serve with, in PEM";
    TLS_KEY_FILE: "server.tls_key_file", "GATEWAY_TLS_KEY_FILE",
        Some("tls-key-file"), Path, Preset::None,
        "The certificate's private key, in PEM";
    CONSOLE_URL: "server.console_url", "GATEWAY_CONSOLE_URL",
        Some("console-url"), Text("URL"), Told("the listening address"),
        "How people reach this gateway: used in links, and its host is let in";
    ALLOWED_HOSTS: "server.allowed_hosts", "GATEWAY_ALLOWED_HOSTS",
        Some("allowed-hosts"), Hosts, Preset::None,
        "More host names that requests may come for, with commas between them";
    AGENT_RATE: "server.agent_rate", "GATEWAY_AGENT_RATE",
        Some("agent-rate"), Text("RATE"), Value("100/s burst 400"),
        "How many requests an agent may make in a second, and at once";
    RECONCILE_INTERVAL: "server.reconcile_interval", "GATEWAY_RECONCILE_INTERVAL",
        Some("reconcile-interval"), secs(1, HOUR_SECS), Value("15s"),
        "How often unfinished refunds are looked after";
    SHUTDOWN_GRACE: "server.shutdown_grace", "GATEWAY_SHUTDOWN_GRACE",
        Some("shutdown-grace"), secs(1, 600), Value("30s"),
        "How long work may take to finish after the signal to stop";

    DATA_DIR: "store.data_dir", "GATEWAY_DATA_DIR",
        Some("data-dir"), Path,
        Told("`/data` in a container that has it, else `$XDG_DATA_HOME/action-gateway`, \
              else `$HOME/.local/share/action-gateway`"),
        "The directory for what must outlast the process";
    DATABASE: "store.database", "GATEWAY_DATABASE",
        Some("database"), Text("PATH or URL"), Told("`gateway.db` in the data directory"),
        "The file of the SQLite database, or postgres://USER@HOST/DATABASE";
    EPHEMERAL: "store.ephemeral", "GATEWAY_EPHEMERAL",
        Some("ephemeral"), Switch, Value("0"),
        "Allow, with test keys, data that are lost with their container";

    MASTER_KEY_FILE: "store.master_key_file", "GATEWAY_MASTER_KEY_FILE",
        Some("master-key-file"), Path, Told("`master.key` in the data directory"),
        "The file of the key that our own secrets follow from; made at the first start, and to be \
         given with PostgreSQL";

    AUTHORITY_LISTEN: "authority.listen", "AUTHORITY_LISTEN",
        Some("authority-listen"), Text("ADDRESS"),
        Told("`127.0.0.1:8788` for `authority`, else none"),
        "The IP address and port to serve the authority to gateways on; port 0 takes a free one";
    BURNBOUND_API: "authority.api", "BURNBOUND_API",
        Some("authority-api"), Text("URL"), Told("the authority in this process"),
        "The remote authority to ask";
    BURNBOUND_GATEWAY_ID: "authority.gateway_id", "BURNBOUND_GATEWAY_ID",
        Some("gateway-id"), Text("ID"), Preset::None,
        "The id that the remote authority gave this gateway (gw_…)";
    BURNBOUND_GATEWAY_SECRET: "authority.gateway_secret", "BURNBOUND_GATEWAY_SECRET",
        None, Secret, Preset::None,
        "The secret that belongs to that id (bbgw_…)";
    BURNBOUND_GATEWAY_SECRET_FILE: "authority.gateway_secret_file", "BURNBOUND_GATEWAY_SECRET_FILE",
        Some("gateway-secret-file"), Path, Preset::None,
        "The file that holds that secret; a changed file is read again";
    API_PATH_PREFIX_STRIPPED: "authority.path_prefix_stripped", "GATEWAY_API_PATH_PREFIX_STRIPPED",
        Some("api-path-prefix-stripped"), Switch, Value("0"),
        "A proxy takes the path of BURNBOUND_API off before the authority sees it";

    FIAT_USD_RATES: "rates.fiat_usd", "FIAT_USD_RATES",
        Some("fiat-usd-rates"), Text("RATES"), Preset::None,
        "Pinned rates in dollars for one unit, such as KWD=3.26,EUR=1.10; they win over the feed";
    FX_URL: "rates.fx_url", "GATEWAY_FX_URL",
        Some("fx-url"), Text("URL"),
        Value("https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml"),
        "Where the day's reference rates are fetched";
    FX_MAX_AGE: "rates.fx_max_age", "GATEWAY_FX_MAX_AGE",
        Some("fx-max-age"), secs(DAY_SECS, 31 * DAY_SECS), Value("7d"),
        "How old fetched rates may become before they no longer count";

    LOG: "log.filter", "GATEWAY_LOG",
        Some("log"), Text("FILTER"), Value("info"),
        "What is logged: error, warn, info, debug, trace or off, also by module (gate_core=debug)";
    LOG_FORMAT: "log.format", "GATEWAY_LOG_FORMAT",
        Some("log-format"), Words(&["text", "json"]), Told("text on a terminal, else json"),
        "How log lines are written";
}

/// A variable of a fuller version of the gateway.
#[derive(Clone, Copy, Debug)]
pub struct Unsupported {
    /// The environment variable.
    pub variable: &'static str,
    /// Whether the gateway does without it and only warns. The others would change who decides or
    /// what a refund needs: whoever set them must learn that they do nothing.
    pub harmless: bool,
}

const fn refused(variable: &'static str) -> Unsupported {
    Unsupported { variable, harmless: false }
}

const fn warned(variable: &'static str) -> Unsupported {
    Unsupported { variable, harmless: true }
}

/// The variables of a fuller version that this one refuses or warns about.
pub static UNSUPPORTED: &[Unsupported] = &[
    warned("GATEWAY_METRICS_ADDR"),
    refused("OIDC_CLIENT_ID"),
    refused("OIDC_CLIENT_SECRET"),
    refused("OIDC_CLIENT_SECRET_FILE"),
    refused("OIDC_ISSUER"),
    warned("OTEL_EXPORTER_OTLP_ENDPOINT"),
    refused("SLACK_BOT_TOKEN"),
    refused("SLACK_BOT_TOKEN_FILE"),
    refused("SLACK_SIGNING_SECRET"),
    refused("SLACK_SIGNING_SECRET_FILE"),
    refused("SMTP_URL"),
    refused("SMTP_URL_FILE"),
];
