//! What depends on what, as cargo resolved it.
//!
//! Cargo's answer names every optional dependency that a feature *mentions*, switched on or not
//! (`borsh?/std` brings in borsh). Such edges are dropped unless a feature that is on asks for
//! them. What remains is never less than what is built.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use crate::fault::Outcome;
use crate::workspace::{list, text};

/// All packages of all platforms.
pub(crate) struct Graph {
    packages: BTreeMap<PackageId, Package>,
}

type PackageId = String;

/// One version of one crate.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    is_member: bool,
    edges: Vec<Edge>,
}

struct Edge {
    to: PackageId,
    is_dev: bool,
}

impl Graph {
    /// Reads the answer of `cargo metadata`.
    pub(crate) fn from_metadata(metadata: &Value) -> Outcome<Self> {
        let members: BTreeSet<_> =
            list(metadata, "workspace_members")?.iter().filter_map(Value::as_str).collect();
        let mut described = BTreeMap::new();
        for package in list(metadata, "packages")? {
            described.insert(text(package, "id")?, package);
        }
        let mut packages = BTreeMap::new();
        let resolve = metadata.get("resolve").unwrap_or(&Value::Null);
        for node in list(resolve, "nodes")? {
            let id = text(node, "id")?;
            let package = described.get(&id).copied().unwrap_or(&Value::Null);
            let entry = Package {
                name: text(package, "name")?,
                version: text(package, "version")?,
                is_member: members.contains(id.as_str()),
                edges: edges(package, node, &described)?,
            };
            packages.insert(id, entry);
        }
        Ok(Self { packages })
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.values().filter(|package| package.is_member)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.packages.values().any(|package| package.name == name)
    }

    /// The names that `name` depends on itself, tests aside.
    pub(crate) fn direct(&self, name: &str) -> BTreeSet<&str> {
        let named = self.packages.values().filter(|package| package.name == name);
        named.flat_map(|package| self.next(package, false)).map(|used| used.name.as_str()).collect()
    }

    /// The names that depend on `name` themselves, tests included.
    pub(crate) fn users(&self, name: &str) -> BTreeSet<&str> {
        let uses_it = |package: &&Package| self.next(package, true).any(|used| used.name == name);
        self.packages.values().filter(uses_it).map(|package| package.name.as_str()).collect()
    }

    /// The shortest way from `from` to a package that `wanted` picks, tests aside.
    pub(crate) fn way(&self, from: &str, wanted: impl Fn(&str) -> bool) -> Option<Vec<&str>> {
        let mut ways: VecDeque<Vec<&Package>> = self
            .packages
            .values()
            .filter(|package| package.name == from)
            .map(|p| vec![p])
            .collect();
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            let here = way.last()?;
            if way.len() > 1 && wanted(&here.name) {
                return Some(way.iter().map(|package| package.name.as_str()).collect());
            }
            for next in self.next(here, false) {
                if seen.insert((&next.name, &next.version)) {
                    ways.push_back(way.iter().copied().chain([next]).collect());
                }
            }
        }
        None
    }

    /// Everything that building the members takes, with their tests or without.
    pub(crate) fn built(&self, with_tests: bool) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut built: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut open: Vec<&Package> = self.members().collect();
        while let Some(package) = open.pop() {
            if built.entry(&package.name).or_default().insert(&package.version) {
                open.extend(self.next(package, with_tests));
            }
        }
        built
    }

    fn next(&self, package: &Package, with_tests: bool) -> impl Iterator<Item = &Package> {
        let edges = package.edges.iter().filter(move |edge| with_tests || !edge.is_dev);
        edges.filter_map(|edge| self.packages.get(&edge.to))
    }
}

fn edges(
    package: &Value,
    node: &Value,
    described: &BTreeMap<PackageId, &Value>,
) -> Outcome<Vec<Edge>> {
    let mut edges = Vec::new();
    for dependency in list(node, "deps")? {
        let to = text(dependency, "pkg")?;
        let name = text(described.get(&to).copied().unwrap_or(&Value::Null), "name")?;
        for kind in list(dependency, "dep_kinds")? {
            let kind = kind.get("kind").unwrap_or(&Value::Null);
            if is_on(package, node, &name, kind)? {
                edges.push(Edge { to: to.clone(), is_dev: kind == "dev" });
            }
        }
    }
    Ok(edges)
}

/// Whether `package` as resolved in `node` really takes the crate `name` in this kind. What it
/// does not declare at all counts as taken: in doubt an edge stays.
fn is_on(package: &Value, node: &Value, name: &str, kind: &Value) -> Outcome<bool> {
    let mut is_off = false;
    for declared in list(package, "dependencies")? {
        if text(declared, "name")? != name || declared.get("kind").unwrap_or(&Value::Null) != kind {
            continue;
        }
        let is_optional = declared.get("optional").and_then(Value::as_bool).unwrap_or(false);
        let alias = declared.get("rename").and_then(Value::as_str).unwrap_or(name);
        if !is_optional || is_asked_for(package, node, alias)? {
            return Ok(true);
        }
        is_off = true;
    }
    Ok(!is_off)
}

fn is_asked_for(package: &Value, node: &Value, alias: &str) -> Outcome<bool> {
    for feature in list(node, "features")?.iter().filter_map(Value::as_str) {
        let asks = package.get("features").and_then(|all| all.get(feature));
        let asks = asks.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut asks = asks.iter().filter_map(Value::as_str);
        if asks.any(|ask| {
            ask.strip_prefix("dep:") == Some(alias)
                || ask.split_once('/').is_some_and(|(name, _)| name == alias)
        }) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Small worlds for tests.
#[cfg(test)]
pub(crate) mod fake {
    use serde_json::json;

    use super::*;

    /// A graph from edges like `gate-core > serde`, with commas between; `dev>` for tests only, `?>` for a dependency
    /// that a feature mentions but none switches on, `!>` for one that is switched on. A name
    /// may carry a version, `syn@2`. Crates named `gate-*` and `xtask` are the members.
    pub(crate) fn graph(edges: &str) -> Graph {
        let edges: Vec<_> = edges.split(',').map(words).collect();
        let ids: BTreeSet<_> = edges.iter().flat_map(|(from, _, to)| [*from, *to]).collect();
        let of = |id: &str| edges.iter().filter(move |edge| edge.0 == id).collect::<Vec<_>>();
        let metadata = json!({
            "workspace_members": ids.iter().filter(|id| is_member(id)).collect::<Vec<_>>(),
            "packages": ids.iter().map(|id| json!({
                "id": id,
                "name": name(id),
                "version": id.split_once('@').map_or("1", |(_, version)| version),
                "features": {
                    "std": of(id).iter().map(|edge| match edge.1 {
                        "?>" => format!("{}?/std", name(edge.2)),
                        _ => format!("dep:{}", name(edge.2)),
                    }).collect::<Vec<_>>(),
                },
                "dependencies": of(id).iter().map(|edge| json!({
                    "name": name(edge.2),
                    "kind": kind(edge.1),
                    "optional": matches!(edge.1, "?>" | "!>"),
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "resolve": { "nodes": ids.iter().map(|id| json!({
                "id": id,
                "features": ["std"],
                "deps": of(id).iter().map(|edge| json!({
                    "pkg": edge.2,
                    "dep_kinds": [{ "kind": kind(edge.1) }],
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>() },
        });
        Graph::from_metadata(&metadata).unwrap()
    }

    fn words(edge: &str) -> (&str, &str, &str) {
        let mut words = edge.split_whitespace();
        let mut word = || words.next().unwrap();
        (word(), word(), word())
    }

    fn name(id: &str) -> &str {
        id.split_once('@').map_or(id, |(name, _)| name)
    }

    fn kind(arrow: &str) -> Option<&str> {
        (arrow == "dev>").then_some("dev")
    }

    fn is_member(id: &str) -> bool {
        id.starts_with("gate-") || id == "xtask"
    }
}
