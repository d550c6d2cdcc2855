//! One composition root: only gate-server reads the environment, ends the process or sets the
//! process's subscriber. Everybody else is handed what they need and answers with a value.

use crate::source::{self, Part};

/// The crate that may.
const COMPOSITION_ROOT: &str = "crates/gate-server/";

/// Calls that reach past the caller, each by the texts that give it away.
const REACHING: [(&str, &[&str]); 3] = [
    ("reads the environment", &["std::env", "env::var", "env::args", "env::temp_dir"]),
    ("ends the process", &["process::exit", "process::abort"]),
    (
        "sets the process's subscriber",
        &["set_global_default", "tracing_subscriber::fmt::init", "SubscriberInitExt"],
    ),
];

/// What is wrong with this file, when it is product code of another crate.
pub(crate) fn broken(path: &str, body: &str) -> Vec<String> {
    let is_product = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    if !is_product || path.starts_with(COMPOSITION_ROOT) {
        return Vec::new();
    }
    let mut broken = Vec::new();
    for (number, line, part) in source::lines(path, body) {
        if part == Part::Test || source::is_comment(line) {
            continue;
        }
        for (deed, signs) in REACHING {
            if let Some(sign) = signs.iter().find(|sign| line.contains(**sign)) {
                broken.push(format!("{path}:{number}: `{sign}` {deed}; only gate-server may"));
            }
        }
        // `.init()` alone means something only beside the crate that it belongs to.
        if body.contains("tracing_subscriber")
            && [".init()", ".try_init()"].iter().any(|sign| line.contains(sign))
        {
            broken.push(format!(
                "{path}:{number}: `.init()` sets the process's subscriber; only gate-server may"
            ));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_composition_root_reaches_out() {
        #[rustfmt::skip]
        let table = [
            // path                           body                                                 found
            ("crates/gate-core/src/lib.rs",   "let a = std::env::var(\"A\");",                     1),
            ("crates/gate-core/src/a/b.rs",   "use std::env;",                                     1),
            ("crates/gate-core/src/lib.rs",   "std::process::exit(1);",                            1),
            ("crates/gate-core/src/lib.rs",   "tracing::subscriber::set_global_default(s);",       1),
            ("crates/gate-core/src/lib.rs",   "tracing_subscriber::fmt().init();",                 1),
            ("crates/gate-core/src/lib.rs",   "machine.init();",                                   0),
            ("crates/gate-core/src/lib.rs",   "const V: &str = env!(\"CARGO_PKG_VERSION\");",      0),
            ("crates/gate-core/src/lib.rs",   "/// Never reads `std::env`.",                       0),
            ("crates/gate-core/src/lib.rs",   "#[cfg(test)]\nmod tests {\n    std::env::x\n}",     0),
            ("crates/gate-server/src/lib.rs", "let a = std::env::var(\"A\");",                     0),
            ("tests/main.rs",                 "std::env::temp_dir();",                             0),
            ("xtask/src/main.rs",             "std::env::args();",                                 0),
        ];
        for (path, body, found) in table {
            assert_eq!(broken(path, body).len(), found, "{path}: {body}");
        }
    }
}
