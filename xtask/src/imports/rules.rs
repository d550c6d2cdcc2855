//! The import table. Architecture that is not checked here is a wish.
//!
//! A rule about a crate that the workspace does not have yet is passed over, by name and out
//! loud, and holds from the crate's first day.

use std::collections::BTreeSet;

use super::graph::Graph;

/// The table.
pub(crate) const TABLE: &[Rule] = &[
    Rule::Exactly {
        of: "gate-money",
        uses: &["rust_decimal"],
        because: "a yardstick has no opinions",
    },
    Rule::NoneOfOurs {
        of: "gate-core",
        but: &["gate-money"],
        because: "adapters implement the core's ports; the core knows no adapter",
    },
    Rule::Never {
        of: &["gate-core"],
        uses: &[
            "tokio",
            "hyper",
            "serde",
            "serde_core",
            "rusqlite",
            "tokio-postgres",
            "rmcp",
            "clap",
        ],
        reach: Reach::Transitive,
        because: "an embedder brings its own runtime, store, wire and command line",
    },
    Rule::Never {
        of: &["gate-policy"],
        uses: &["gate-store", "tokio", "hyper"],
        reach: Reach::Transitive,
        because: "a verdict is a function of facts",
    },
    Rule::Never {
        of: &["gate-stripe"],
        uses: &["gate-burnbound", "gate-store"],
        reach: Reach::Transitive,
        because: "two secrets, two crates",
    },
    Rule::Never {
        of: &["gate-burnbound"],
        uses: &["gate-stripe", "gate-store"],
        reach: Reach::Transitive,
        because: "two secrets, two crates",
    },
    Rule::Never {
        of: &["gate-store"],
        uses: &["gate-stripe", "gate-burnbound", "gate-http", "hyper"],
        reach: Reach::Transitive,
        because: "SQL never waits for a network",
    },
    Rule::Never {
        of: &["gate-tools", "gate-console"],
        uses: &["gate-store"],
        reach: Reach::Direct,
        because: "a surface asks the core or the authority",
    },
    Rule::Never {
        of: &["gate-console"],
        uses: &["gate-stripe"],
        reach: Reach::Direct,
        because: "the console shows what the authority knows",
    },
    Rule::UsedOnlyBy {
        of: "gate-sim",
        by: &["gate-tests", "xtask"],
        because: "a simulated world has no place in the product",
    },
    Rule::UsedOnlyBy {
        of: "gate-server",
        by: &["gate-sim", "gate-tests", "xtask"],
        because: "one composition root, and nothing is composed of it",
    },
    Rule::UsedOnlyBy {
        of: "rmcp",
        by: &["gate-tools"],
        because: "the SDK moves fast; everybody else knows tools and not MCP",
    },
    Rule::Nowhere {
        names: &["aws-lc-sys", "aws-lc-rs", "openssl-sys", "native-tls", "reqwest"],
        because: "one TLS provider (ring), one HTTP client (hyper)",
    },
    Rule::OneVersion {
        but: &[
            ("getrandom", "ring 0.17 stays on 0.2; tempfile and uuid are on 0.4"),
            ("hashbrown", "governor and hashlink take different ones"),
            ("syn", "derive macros of two generations; nothing of it is in the binary"),
            ("windows-sys", "ring stays on 0.52; built on Windows only"),
        ],
        because: "two versions are two sets of bugs and a longer build",
    },
];

/// One line of the table.
pub(crate) enum Rule {
    /// `of` depends itself on these and nothing else.
    Exactly { of: &'static str, uses: &'static [&'static str], because: &'static str },
    /// None of `of` depends on any of `uses`.
    Never {
        of: &'static [&'static str],
        uses: &'static [&'static str],
        reach: Reach,
        because: &'static str,
    },
    /// `of` depends on no crate of this workspace but these, at any distance.
    NoneOfOurs { of: &'static str, but: &'static [&'static str], because: &'static str },
    /// Nothing that the workspace builds, tests included, is one of these.
    Nowhere { names: &'static [&'static str], because: &'static str },
    /// Every crate that the product takes has one version, but for these, each with the reason.
    OneVersion { but: &'static [(&'static str, &'static str)], because: &'static str },
    /// Nobody but `by` depends on `of`.
    UsedOnlyBy { of: &'static str, by: &'static [&'static str], because: &'static str },
}

/// How far a rule looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Direct,
    Transitive,
}

/// What the graph holds against the table, one sentence each.
pub(crate) fn broken(graph: &Graph) -> Vec<String> {
    TABLE.iter().flat_map(|rule| rule.broken(graph)).collect()
}

/// The crates that the table speaks of and the workspace does not have.
pub(crate) fn absent(graph: &Graph) -> Vec<&'static str> {
    let named: BTreeSet<&str> = TABLE.iter().flat_map(Rule::subjects).copied().collect();
    named.into_iter().filter(|name| !graph.has(name)).collect()
}

impl Rule {
    fn broken(&self, graph: &Graph) -> Vec<String> {
        match self {
            Self::Exactly { of, uses, because } => {
                let found = graph.direct(of);
                if !graph.has(of) || found.iter().eq(uses.iter()) {
                    return Vec::new();
                }
                let found: Vec<_> = found.into_iter().collect();
                vec![format!(
                    "{of} depends on [{}] instead of exactly [{}] ({because})",
                    found.join(", "),
                    uses.join(", "),
                )]
            }
            Self::Never { of, uses, reach, because } => {
                let pairs = of.iter().flat_map(|of| uses.iter().map(move |used| (of, used)));
                let ways = pairs.filter_map(|(of, used)| graph.way(of, |name| name == *used));
                ways.filter(|way| *reach == Reach::Transitive || way.len() == 2)
                    .map(|way| format!("{} ({because})", way.join(" → ")))
                    .collect()
            }
            Self::NoneOfOurs { of, but, because } => {
                let ours = graph.members().map(|member| member.name.as_str());
                ours.filter(|name| !but.contains(name))
                    .filter_map(|name| graph.way(of, |reached| reached == name))
                    .map(|way| format!("{} ({because})", way.join(" → ")))
                    .collect()
            }
            Self::Nowhere { names, because } => {
                let built = graph.built(true);
                let found = names.iter().filter(|name| built.contains_key(**name));
                found
                    .map(|name| {
                        format!("{name} is in the build: `cargo tree -i {name}` ({because})")
                    })
                    .collect()
            }
            Self::OneVersion { but, because } => one_version(graph, but, because),
            Self::UsedOnlyBy { of, by, because } => {
                let strangers = graph.users(of).into_iter().filter(|user| !by.contains(user));
                strangers.map(|user| format!("{user} → {of} ({because})")).collect()
            }
        }
    }

    /// The crates of the workspace that the rule is about.
    fn subjects(&self) -> &[&'static str] {
        match self {
            Self::Exactly { of, .. }
            | Self::NoneOfOurs { of, .. }
            | Self::UsedOnlyBy { of, .. } => std::slice::from_ref(of),
            Self::Never { of, .. } => of,
            Self::Nowhere { .. } | Self::OneVersion { .. } => &[],
        }
    }
}

/// Second versions that nobody allowed, and allowances that nobody needs any more.
fn one_version(graph: &Graph, allowed: &[(&str, &str)], because: &str) -> Vec<String> {
    let built = graph.built(false);
    let is_allowed = |name: &str| allowed.iter().any(|(allowed, _)| *allowed == name);
    let several = built.iter().filter(|(name, versions)| versions.len() > 1 && !is_allowed(name));
    let unwanted = several.map(|(name, versions)| {
        let versions: Vec<_> = versions.iter().copied().collect();
        format!("{name} is built as {}: `cargo tree -d` ({because})", versions.join(" and "))
    });
    let single = |name: &str| built.get(name).is_some_and(|versions| versions.len() == 1);
    let stale = allowed.iter().filter(|(name, _)| single(name)).map(|(name, _)| {
        format!("{name} has one version now: take it off the list of allowed duplicates")
    });
    unwanted.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::super::graph::fake;
    use super::*;

    #[test]
    fn every_rule_can_fail() {
        #[rustfmt::skip]
        let table = [
            // more edges in a good world                       | what is said
            "gate-money > libm                                  | gate-money depends on [libm, rust_decimal]",
            "rust_decimal > serde                               | gate-core → gate-money → rust_decimal → serde",
            "rust_decimal !> serde                              | gate-core → gate-money → rust_decimal → serde",
            "gate-core > async-trait, async-trait > tokio       | gate-core → async-trait → tokio",
            "gate-core > x, x > y, y > tokio-postgres           | gate-core → x → y → tokio-postgres",
            "gate-core > serde_core                             | gate-core → serde_core",
            "gate-core > hyper                                  | gate-core → hyper",
            "gate-core > rusqlite                               | gate-core → rusqlite",
            "gate-core > rmcp                                   | gate-core → rmcp",
            "gate-core > clap                                   | gate-core → clap",
            "gate-core > gate-api                               | gate-core → gate-api",
            "gate-policy > gate-store                           | gate-policy → gate-store",
            "gate-policy > jiff, jiff > tokio                   | gate-policy → jiff → tokio",
            "gate-policy > x, x > hyper                         | gate-policy → x → hyper",
            "gate-stripe > gate-store                           | gate-stripe → gate-store",
            "gate-stripe > gate-burnbound                       | gate-stripe → gate-burnbound",
            "gate-burnbound > gate-http, gate-http > gate-stripe| gate-burnbound → gate-http → gate-stripe",
            "gate-burnbound > gate-store                        | gate-burnbound → gate-store",
            "gate-store > gate-stripe                           | gate-store → gate-stripe",
            "gate-store > gate-burnbound                        | gate-store → gate-burnbound",
            "gate-store > gate-http                             | gate-store → gate-http",
            "gate-store > deadpool, deadpool > hyper            | gate-store → deadpool → hyper",
            "gate-tools > gate-store                            | gate-tools → gate-store",
            "gate-console > gate-store                          | gate-console → gate-store",
            "gate-console > gate-stripe                         | gate-console → gate-stripe",
            "gate-server > gate-sim                             | gate-server → gate-sim",
            "gate-core dev> gate-sim                            | gate-core → gate-sim",
            "gate-server > rmcp                                 | gate-server → rmcp",
            "gate-authority > gate-server                       | gate-authority → gate-server",
            "gate-http > rustls, rustls > aws-lc-rs             | aws-lc-rs is in the build",
            "gate-http > tls, tls > native-tls                  | native-tls is in the build",
            "gate-http > openssl, openssl > openssl-sys         | openssl-sys is in the build",
            "gate-stripe dev> reqwest                           | reqwest is in the build",
            "gate-http > a, a > bytes@1, gate-http > bytes@2    | bytes is built as 1 and 2",
            "gate-http > syn@2                                  | syn has one version now",
        ];
        for row in table {
            let (more, said) = row.split_once('|').unwrap();
            let broken = broken(&world(more));
            assert!(
                broken.iter().any(|line| line.starts_with(said.trim())),
                "{row} gave {broken:?}"
            );
        }
    }

    #[test]
    fn what_is_allowed_passes() {
        #[rustfmt::skip]
        let table = [
            "tests bring what they like  | gate-core dev> tokio, gate-core dev> proptest, gate-money dev> serde",
            "a feature that is off       | rust_decimal ?> serde",
            "one door to MCP             | gate-tools > rmcp, gate-server > gate-tools",
            "through the authority       | gate-console > gate-authority, gate-authority > gate-store",
            "tests of the whole          | gate-tests dev> gate-server, gate-tests dev> gate-sim",
            "two versions, in tests only | gate-http > base64@1, gate-http dev> base64@2",
            "an allowed duplicate        | gate-http > syn@2, gate-api > syn@3",
        ];
        for row in table {
            let (_, more) = row.split_once('|').unwrap();
            let broken = broken(&world(more));
            assert!(broken.is_empty(), "{row} gave {broken:?}");
        }
    }

    #[test]
    fn absent_crates_are_named() {
        let absent = absent(&fake::graph("gate-money > rust_decimal"));
        assert!(absent.contains(&"gate-core") && !absent.contains(&"gate-money"), "{absent:?}");
    }

    /// A workspace that keeps every rule, and these edges.
    fn world(more: &str) -> Graph {
        const GOOD: &str = "
            gate-money > rust_decimal, rust_decimal > arrayvec, gate-core > gate-money,
            gate-policy > gate-core, gate-stripe > hyper, gate-server > gate-core,";
        fake::graph(&format!("{GOOD} {more}"))
    }
}
