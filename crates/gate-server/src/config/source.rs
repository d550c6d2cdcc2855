//! Reading settings from flags, variables and the file, in that order, and collecting everything
//! that is wrong on the way.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use clap::ArgMatches;
use toml::{Table, Value};

use super::{
    fault::{ConfigFault, nearest, shown},
    file,
    lookup::Lookup,
    settings::{CONFIG, Preset, SETTINGS, Scope, Setting, Shape, UNSUPPORTED},
    value,
};

/// What the command line gave: setting names, such as `server.port`, and their values.
#[derive(Clone, Debug, Default)]
pub struct Flags(BTreeMap<String, String>);

impl Flags {
    /// Takes what was given to the arguments that [`clap_args`](super::clap_args) or
    /// [`clap_store_args`](super::clap_store_args) makes.
    #[must_use]
    pub fn from_matches(matches: &ArgMatches) -> Self {
        SETTINGS
            .iter()
            .filter_map(|setting| {
                let value = matches.try_get_one::<String>(setting.name).ok()??;
                Some((setting.name.to_owned(), value.clone()))
            })
            .collect()
    }
}

impl FromIterator<(String, String)> for Flags {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(pairs: T) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// A value and the place it came from, as messages name it.
pub(super) struct Given {
    pub(super) place: String,
    pub(super) text: String,
}

/// Reads settings one by one. `None` from its methods means that a fault was noted.
pub(super) struct Reader<'a> {
    pub(super) faults: Vec<ConfigFault>,
    file: BTreeMap<&'static str, Given>,
    flags: &'a Flags,
    pub(super) lookup: &'a dyn Lookup,
    scope: Scope,
    pub(super) warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    /// Reads the configuration file, if one is named, and looks for variables that do nothing.
    /// What is wrong with settings outside of `scope` is passed over.
    pub(super) fn open(lookup: &'a dyn Lookup, flags: &'a Flags, scope: Scope) -> Self {
        let (faults, file, warnings) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut reader = Self { faults, file, flags, lookup, scope, warnings };
        reader.note_idle_variables();
        if let Some(Some(path)) = reader.optional(&CONFIG, value::path) {
            reader.read_config_file(path);
        }
        reader
    }

    /// What was given for the setting: by flag, else variable, else in the file.
    pub(super) fn given(&self, setting: &Setting) -> Option<Given> {
        if let (Some(flag), Some(text)) = (setting.flag, self.flags.0.get(setting.name)) {
            return Some(Given { place: format!("--{flag}"), text: text.clone() });
        }
        if let Some(text) = self.lookup.variable(setting.variable) {
            return Some(Given { place: setting.variable.to_owned(), text });
        }
        let Given { place, text } = self.file.get(setting.name)?;
        Some(Given { place: place.clone(), text: text.clone() })
    }

    /// The value, if one is given anywhere.
    pub(super) fn optional<T>(
        &mut self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Option<T>> {
        match self.given(setting) {
            Some(given) => self.parse(setting, &given, parse).map(Some),
            None => Some(None),
        }
    }

    /// The value, or the setting's own.
    pub(super) fn value<T>(
        &mut self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let given = self.given(setting).unwrap_or_else(|| Given {
            place: format!("the default of {}", setting.variable),
            text: match setting.default {
                Preset::None | Preset::Told(_) => String::new(),
                Preset::Value(text) => text.to_owned(),
            },
        });
        self.parse(setting, &given, parse)
    }

    /// Notes what is wrong with what is given for the setting.
    pub(super) fn fault(&mut self, setting: &Setting, problem: impl Into<String>) {
        let place =
            self.given(setting).map_or_else(|| setting.variable.to_owned(), |given| given.place);
        self.faults.push(ConfigFault::new(setting.variable, place, problem));
    }

    /// Notes something about the setting that a person should know.
    pub(super) fn warn(&mut self, setting: &Setting, text: impl fmt::Display) {
        let place =
            self.given(setting).map_or_else(|| setting.variable.to_owned(), |given| given.place);
        self.warnings.push(format!("{place} {text}"));
    }

    fn parse<T>(
        &mut self,
        setting: &Setting,
        given: &Given,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Given { place, text } = given;
        let odd = text.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER);
        let parsed = if odd {
            Err("which has control characters, or bytes that are no text: remove them".to_owned())
        } else {
            parse(text)
        };
        match parsed {
            Ok(value) => Some(value),
            Err(problem) => {
                let problem = format!("holds {}, {problem}", shown(text));
                self.faults.push(ConfigFault::new(setting.variable, place, problem));
                None
            }
        }
    }

    fn note_idle_variables(&mut self) {
        let mut set = self.lookup.variables();
        set.sort();
        for name in set {
            if let Some(unsupported) = UNSUPPORTED.iter().find(|other| other.variable == name) {
                if !self.scope.minds_others() {
                    continue;
                }
                let text = "is not supported by this version: unset it";
                if unsupported.harmless {
                    self.warnings.push(format!("{name} {text}"));
                } else {
                    let variable = unsupported.variable;
                    self.faults.push(ConfigFault::new(variable, variable, text));
                }
            } else if name.starts_with("GATEWAY_") && known(&name).is_none() {
                let variables = SETTINGS.iter().map(|setting| setting.variable);
                let nearest = nearest(&name, variables).unwrap_or_default();
                if known(nearest).is_some_and(|setting| self.scope.holds(setting)) {
                    let text = format!("{name} is not a setting; the nearest is {nearest}");
                    self.warnings.push(text);
                }
            }
        }
    }

    fn read_config_file(&mut self, path: PathBuf) {
        let text = match file::read(self.lookup, &path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(problem) => return self.fault(&CONFIG, problem),
        };
        match text.parse::<Table>() {
            Ok(table) => self.take_table(&path.display().to_string(), &table),
            Err(error) => {
                // The error's own text repeats the line, which may hold anything.
                let start = error.span().map_or(0, |span| span.start);
                let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count();
                let line = line.saturating_add(1);
                let problem = format!(
                    "names {path:?}, which is not TOML at line {line}: write lines like port = \
                     8787 below a line like [server]"
                );
                self.fault(&CONFIG, problem);
            }
        }
    }

    fn take_table(&mut self, path: &str, table: &Table) {
        for (section, content) in table {
            // An unknown section is not passed over: it could be a known one, misspelt.
            if has_section(section) && !self.scope.holds_section(section) {
                continue;
            }
            match content {
                Value::Table(content) if has_section(section) => {
                    for (key, value) in content {
                        self.take_value(path, &format!("{section}.{key}"), value);
                    }
                }
                Value::Array(_)
                | Value::Boolean(_)
                | Value::Datetime(_)
                | Value::Float(_)
                | Value::Integer(_)
                | Value::String(_)
                | Value::Table(_) => self.unknown_key(path, section),
            }
        }
    }

    fn take_value(&mut self, path: &str, key: &str, value: &Value) {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == key) else {
            return self.unknown_key(path, key);
        };
        let place = format!("{key} in {path:?}");
        if setting.secret() {
            let problem = format!("is a secret, which no configuration file holds: use {key}_file");
            self.faults.push(ConfigFault::new(setting.variable, place, problem));
        } else if let Some(text) = text_of(value, setting.shape) {
            self.file.insert(setting.name, Given { place, text });
        } else {
            let problem = format!("is of the type {}: write it as \"text\"", value.type_str());
            self.faults.push(ConfigFault::new(setting.variable, place, problem));
        }
    }

    fn unknown_key(&mut self, path: &str, key: &str) {
        let nearest = nearest(key, SETTINGS.iter().filter_map(Setting::file_key));
        let problem =
            format!("is not a setting: remove it; the nearest is {}", nearest.unwrap_or_default());
        let place = format!("{} in {path:?}", shown(key));
        self.faults.push(ConfigFault::new(CONFIG.variable, place, problem));
    }
}

fn known(variable: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.variable == variable)
}

fn has_section(name: &str) -> bool {
    SETTINGS.iter().filter_map(Setting::section).any(|(section, _)| section == name)
}

/// A value of the file as a variable would hold it.
fn text_of(value: &Value, shape: Shape) -> Option<String> {
    match (value, shape) {
        (Value::String(text), _) => Some(text.clone()),
        (Value::Integer(number), _) => Some(number.to_string()),
        (Value::Boolean(on), Shape::Switch) => Some(if *on { "1" } else { "0" }.to_owned()),
        (Value::Array(items), Shape::Hosts) => {
            let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            Some(items?.join(","))
        }
        (
            Value::Array(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Float(_)
            | Value::Table(_),
            _,
        ) => None,
    }
}
