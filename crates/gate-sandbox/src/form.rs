//! Parameters as Stripe's v1 API takes them: form-encoded, with subscripts for lists
//! (`expand[]=a`, `expand[0]=a`) and maps (`metadata[k]=v`).
//!
//! Every reader answers with Stripe's error when a value has the wrong form, and nothing here
//! counts as begun execution.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// Metadata of an object, by key.
pub(crate) type Metadata = BTreeMap<String, String>;

/// Stripe's limits on metadata: keys of an object, characters of a key, characters of a value.
const METADATA_KEYS_MAX: usize = 50;
const METADATA_KEY_CHARS_MAX: usize = 40;
const METADATA_VALUE_CHARS_MAX: usize = 500;

/// The parameters of one request, in the order they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads the query and the body, which may both carry parameters.
    pub(crate) fn parse(query: &str, body: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes()).chain(form_urlencoded::parse(body));
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The same and more.
    pub(crate) fn with(mut self, more: impl Iterator<Item = (String, String)>) -> Self {
        self.0.extend(more);
        self
    }

    /// Refuses every parameter that is not listed. A listed name that ends in `[]` may carry
    /// subscripts; `expand[]` is always known.
    pub(crate) fn check_known(&self, known: &[&str]) -> Result<(), Failure> {
        let listed = |name: &str| {
            let base = base(name);
            base == "expand"
                || known.iter().any(|entry| {
                    entry.strip_suffix("[]").map_or(*entry == name, |listed| listed == base)
                })
        };
        match self.0.iter().find(|(name, _)| !listed(name)) {
            None => Ok(()),
            Some((name, _)) => Err(Failure::invalid(format!("Received unknown parameter: {name}"))
                .code("parameter_unknown")
                .param(name)),
        }
    }

    /// The value of `name`; an empty one is refused, as Stripe takes it for an attempt to unset.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Failure> {
        match self.last(name) {
            Some("") => Err(Failure::invalid(format!(
                "You passed an empty string for '{name}'. Leave it out or give it a value."
            ))
            .code("parameter_invalid_empty")
            .param(name)),
            found => Ok(found),
        }
    }

    /// The value of `name`, which must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Failure> {
        self.text(name)?.ok_or_else(|| Failure::missing(name))
    }

    /// The value of `name` as an owned text.
    pub(crate) fn owned(&self, name: &str) -> Result<Option<String>, Failure> {
        Ok(self.text(name)?.map(str::to_owned))
    }

    /// The value of `name` as a whole number.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            Failure::invalid(format!("Invalid integer: {text}"))
                .code("parameter_invalid_integer")
                .param(name)
        })
    }

    /// The value of `name` as a whole number of at least one.
    pub(crate) fn positive(&self, name: &str) -> Result<Option<i64>, Failure> {
        match self.integer(name)? {
            Some(found) if found < 1 => {
                Err(Failure::invalid("This value must be greater than or equal to 1.")
                    .code("parameter_invalid_integer")
                    .param(name))
            }
            found => Ok(found),
        }
    }

    /// The value of `name` as `true` or `false`; absent means `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Failure> {
        match self.text(name)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(text) => Err(Failure::invalid(format!("Invalid boolean: {text}")).param(name)),
        }
    }

    /// The value of `name`, which must be one of `allowed`.
    pub(crate) fn one_of(&self, name: &str, allowed: &[&str]) -> Result<Option<&str>, Failure> {
        match self.text(name)? {
            Some(text) if !allowed.contains(&text) => {
                let (last, first) = allowed.split_last().unwrap_or((&"", &[]));
                Err(Failure::invalid(format!(
                    "Invalid {name}: must be one of {}, or {last}",
                    first.join(", ")
                ))
                .param(name))
            }
            found => Ok(found),
        }
    }

    /// The values of the list `name`.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<&str>, Failure> {
        if self.last(name).is_some() {
            return Err(Failure::invalid(format!("Invalid array: send '{name}[]'")).param(name));
        }
        let members = self.0.iter().filter(|(held, _)| base(held) == name);
        Ok(members.map(|(_, value)| value.as_str()).collect())
    }

    /// The members of the map `name`, by subscript.
    pub(crate) fn map<'a>(&'a self, name: &str) -> Vec<(&'a str, &'a str)> {
        let member = |held: &'a str| held.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']');
        let members =
            self.0.iter().filter_map(|(held, value)| Some((member(held)?, value.as_str())));
        members.collect()
    }

    /// Lays the `metadata` of the request over `held`: an empty value unsets its key, an empty
    /// `metadata` unsets all.
    pub(crate) fn merge_metadata(&self, held: &Metadata) -> Result<Metadata, Failure> {
        let mut merged =
            if self.last("metadata").is_some() { BTreeMap::new() } else { held.clone() };
        for (key, value) in self.map("metadata") {
            let too_long = |what: &str, max: usize| {
                let text = format!("Metadata {what} can be at most {max} characters long: {key}");
                Err(Failure::invalid(text).param(&format!("metadata[{key}]")))
            };
            if key.chars().count() > METADATA_KEY_CHARS_MAX {
                return too_long("keys", METADATA_KEY_CHARS_MAX);
            }
            if value.chars().count() > METADATA_VALUE_CHARS_MAX {
                return too_long("values", METADATA_VALUE_CHARS_MAX);
            }
            if value.is_empty() {
                merged.remove(key);
            } else {
                merged.insert(key.to_owned(), value.to_owned());
            }
        }
        if merged.len() > METADATA_KEYS_MAX {
            let text = format!("Metadata can have at most {METADATA_KEYS_MAX} keys.");
            return Err(Failure::invalid(text).param("metadata"));
        }
        Ok(merged)
    }

    /// The parameters in a fixed order, for comparing two requests.
    pub(crate) fn sorted(&self) -> Vec<(String, String)> {
        let mut pairs = self.0.clone();
        pairs.sort();
        pairs
    }

    /// The parameters by name as sent; a repeated name has the list of its values.
    pub(crate) fn to_json(&self) -> Value {
        let mut form = Map::new();
        for (name, value) in &self.0 {
            match form.get_mut(name) {
                None => {
                    form.insert(name.clone(), json!(value));
                }
                Some(Value::Array(values)) => values.push(json!(value)),
                Some(first) => *first = json!([first.clone(), value]),
            }
        }
        Value::Object(form)
    }

    fn last(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(held, _)| held == name).map(|(_, value)| value.as_str())
    }
}

/// The name without its subscripts.
fn base(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}
