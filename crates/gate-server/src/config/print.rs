//! The table of settings as command-line arguments, as the reference page and as the schema of the
//! configuration file.

use std::fmt::Write;

use clap::Arg;
use serde_json::{Map, Value, json};

use super::{
    settings::{Preset, SETTINGS, Scope, Setting, Shape, UNSUPPORTED},
    value::span_text,
};

/// An argument for each setting that has a flag, its id the setting's name; each takes one value.
#[must_use]
pub fn clap_args() -> Vec<Arg> {
    args(Scope::All)
}

/// Those of [`clap_args`] that say where the records lie, which is all that
/// [`load_store`](super::load_store) reads.
#[must_use]
pub fn clap_store_args() -> Vec<Arg> {
    args(Scope::Store)
}

fn args(scope: Scope) -> Vec<Arg> {
    SETTINGS
        .iter()
        .filter(|setting| scope.holds(setting))
        .filter_map(|setting| {
            let arg = Arg::new(setting.name)
                .long(setting.flag?)
                .num_args(1)
                .value_name(value_name(setting))
                .help_heading("Configuration")
                .help(help(setting));
            Some(arg)
        })
        .collect()
}

fn value_name(setting: &Setting) -> &'static str {
    match setting.shape {
        Shape::ConfigFile => "FILE",
        Shape::Hosts => "HOSTS",
        Shape::Number { .. } => "NUMBER",
        Shape::Path => "PATH",
        Shape::Secret => "SECRET",
        Shape::Span { .. } => "SPAN",
        Shape::Switch => "0|1",
        Shape::Text(name) => name,
        Shape::Words(_) => "WORD",
    }
}

fn help(setting: &Setting) -> String {
    let default = match setting.default {
        Preset::None => String::new(),
        Preset::Told(text) => format!("; default: {}", text.replace('`', "")),
        Preset::Value(text) => format!("; default: {text}"),
    };
    format!("{} [{}{default}]", setting.help, setting.variable)
}

/// The reference page of the configuration, in Markdown.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str(
        "\n| Variable | Flag | File | Default | Meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    for setting in SETTINGS {
        page.push_str(&row(setting));
    }
    page.push_str(RULES);
    for (title, harmless) in [("Refused", false), ("Warned about", true)] {
        let names: Vec<String> = UNSUPPORTED
            .iter()
            .filter(|other| other.harmless == harmless)
            .map(|other| format!("`{}`", other.variable))
            .collect();
        // Writing to a string does not fail.
        let _ = writeln!(page, "\n{title}: {}.", names.join(", "));
    }
    page
}

fn row(setting: &Setting) -> String {
    let flag = setting.flag.map_or("–".to_owned(), |flag| format!("`--{flag}`"));
    let key = setting.file_key().map_or("–".to_owned(), |key| format!("`{key}`"));
    let default = match setting.default {
        Preset::None => "–".to_owned(),
        Preset::Told(text) => text.to_owned(),
        Preset::Value(text) => format!("`{text}`"),
    };
    let bounds = match setting.shape {
        Shape::Number { least, most } => format!(" ({least} to {most})"),
        Shape::Span { least, most } => {
            format!(" ({} to {})", span_text(least), span_text(most))
        }
        Shape::Words(words) => format!(" (`{}`)", words.join("`, `")),
        Shape::Switch => " (`0` or `1`)".to_owned(),
        Shape::ConfigFile | Shape::Hosts | Shape::Path | Shape::Secret | Shape::Text(_) => {
            String::new()
        }
    };
    format!("| `{}` | {flag} | {key} | {default} | {}{bounds} |\n", setting.variable, setting.help)
}

const INTRODUCTION: &str = "\
<!-- Made from the table of settings in crates/gate-server/src/config/settings.rs. -->
# Configuration

A setting is taken from its flag, else from its variable, else from the configuration file, else
its default holds. Everything is checked before anything is opened, and all faults are told
together, each with its place and with what to do. `action-gateway check` does the same and stops
there.

The configuration file is TOML and is named by `GATEWAY_CONFIG` or `--config`. A name like
`server.port` below stands for `port` in the section `[server]`. A key that is not listed is a
fault.

```toml
[stripe]
secret_key_file = \"/run/secrets/stripe\"

[server]
port = 8787
allowed_hosts = [\"gateway.example.com\"]
```

## Settings
";

const RULES: &str = "
- Spans of time have a unit: `500ms`, `20s`, `1m`, `2h`, `7d`.
- Switches are `0` or `1`; in the file, `true` and `false` will do as well.
- Relative paths start where the gateway is started.
- A variable that is set but empty counts as set.

## Secrets

- A secret stands in its variable, or in a file that the variable with `_FILE` behind its name
  gives; not in both, on no command line, and not in the configuration file.
- It is one line. One newline at the end is dropped; other control characters are refused.
- A changed file is read again, and what it holds is checked like the first time.
- A file that everyone can read is warned about: use mode 0400 and the gateway's own user.
- No message shows a secret, or a value that could be one.

## Stripe's key

- Use a restricted key (`rk_test_…`, `rk_live_…`). A full key (`sk_…`) is warned about, everything
  else is refused.
- Without a key the gateway starts, and refunds are refused with `stripe_key_missing`.
- A live key is refused unless `GATEWAY_ALLOW_LIVE=1`, `STRIPE_API_BASE` is Stripe's own address,
  and the records outlast the container.

## Where the records lie

In one SQLite file in the data directory, unless `GATEWAY_DATABASE` names another file or a
[PostgreSQL database](deployment.md#postgresql), which several gateways may share:
`postgres://USER@HOST:PORT/DATABASE?password_file=PATH`. The password may also stand in the address
(`USER:PASSWORD@`); it is never shown. Without `sslmode=disable` only loopback addresses and Unix
sockets are spoken to without TLS; `sslrootcert=PATH` names the certificates to trust instead of the
public authorities'.

In a container, the data directory and an SQLite file must lie on a mounted volume (a file system in
memory is none): add `-v gateway-data:/data` to `docker run`. Who loses the records could make a
refund twice. `GATEWAY_EPHEMERAL=1` allows it with test keys. That a Kubernetes `emptyDir` is lost
with its Pod cannot be seen from inside: use a PersistentVolumeClaim. A machine that was made from
a container's image is no container, by its root: a whole file system of the kind ext2, ext3, ext4,
f2fs or xfs.

## Administration

Commands that administer, such as `stop`, `agent`, `approval` and `policy`, read only
`GATEWAY_CONFIG`, `GATEWAY_DATA_DIR`, `GATEWAY_DATABASE`, `GATEWAY_EPHEMERAL` and
`GATEWAY_MASTER_KEY_FILE`, their flags, and the section `[store]` of the file. So they work whatever
is wrong with the rest: a stop does not wait until a key file is put right. `BURNBOUND_API` is
refused, for with it the records lie with the [authority](fleet.md): run them there. Give them the
same variables as the gateway, or the authority, itself.

## Who is let in

Requests must come for a loopback name, for the listening address, for the host of
`GATEWAY_CONSOLE_URL` or for one of `GATEWAY_ALLOWED_HOSTS`. An address that others can reach is
warned about without TLS.

## Variables of a fuller version

This version does without them. One that would change who decides or what a refund needs is refused
when it is set; the others are warned about. So is any other `GATEWAY_…` variable that is not
listed, with the nearest name that is.
";

/// The JSON Schema (2020-12) of the configuration file.
#[must_use]
pub fn file_schema() -> Value {
    let mut sections = Map::new();
    for setting in SETTINGS {
        let Some((section, key)) = setting.section() else {
            continue;
        };
        let entry = sections.entry(section).or_insert_with(|| object(Map::new()));
        if let Some(properties) = entry.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert(key.to_owned(), property(setting));
        }
    }
    let mut schema = object(sections);
    if let Some(schema) = schema.as_object_mut() {
        let dialect = "https://json-schema.org/draft/2020-12/schema";
        schema.insert("$schema".to_owned(), dialect.into());
        schema.insert("title".to_owned(), "action-gateway configuration".into());
    }
    schema
}

fn object(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn property(setting: &Setting) -> Value {
    let mut property = match setting.shape {
        Shape::Hosts => json!({
            "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
        }),
        Shape::Number { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Shape::Span { .. } => json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" }),
        Shape::Switch => json!({ "enum": [false, true, 0, 1] }),
        Shape::Words(words) => json!({ "enum": words }),
        Shape::ConfigFile | Shape::Path | Shape::Secret | Shape::Text(_) => {
            json!({ "type": "string" })
        }
    };
    if let Some(property) = property.as_object_mut() {
        property.insert("description".to_owned(), setting.help.into());
        if let Some(default) = default_json(setting) {
            property.insert("default".to_owned(), default);
        }
    }
    property
}

/// The default in the type that the file holds it in.
fn default_json(setting: &Setting) -> Option<Value> {
    let text = match setting.default {
        Preset::None | Preset::Told(_) => return None,
        Preset::Value(text) => text,
    };
    match setting.shape {
        Shape::Number { .. } => text.parse::<u32>().ok().map(Value::from),
        Shape::Switch => Some((text == "1").into()),
        Shape::ConfigFile
        | Shape::Hosts
        | Shape::Path
        | Shape::Secret
        | Shape::Span { .. }
        | Shape::Text(_)
        | Shape::Words(_) => Some(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn page_and_schema_show_every_setting() {
        let (page, schema) = (reference_markdown(), file_schema());
        for setting in SETTINGS {
            let row =
                page.lines().find(|line| line.starts_with(&format!("| `{}` |", setting.variable)));
            assert_eq!(row.unwrap().matches('|').count(), 6, "{row:?}");
            if let Some((section, key)) = setting.section() {
                let property = &schema["properties"][section]["properties"][key];
                assert_eq!(property["description"], setting.help, "{}", setting.name);
            }
            assert!(setting.flag.is_none() || !setting.secret(), "{}", setting.name);
        }
        for other in UNSUPPORTED {
            assert!(page.contains(&format!("`{}`", other.variable)), "{}", other.variable);
        }
        assert_eq!(schema["properties"]["server"]["properties"]["port"]["default"], 8787);
        assert_eq!(schema["additionalProperties"], false);
        assert!(schema["properties"]["stripe"]["properties"]["secret_key"].is_null());
    }

    #[test]
    fn names_and_variables_are_given_once() {
        let unique =
            |values: Vec<&str>| values.iter().collect::<BTreeSet<_>>().len() == values.len();
        assert!(unique(SETTINGS.iter().map(|setting| setting.name).collect()));
        assert!(unique(SETTINGS.iter().filter_map(|setting| setting.flag).collect()));
        let variables = SETTINGS.iter().map(|setting| setting.variable);
        assert!(unique(variables.chain(UNSUPPORTED.iter().map(|other| other.variable)).collect()));
    }
}
