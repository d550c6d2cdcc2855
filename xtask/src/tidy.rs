//! `cargo xtask tidy`: the house rules that neither rustfmt nor clippy knows.
//!
//! Each finding names the file, the line and what to do. A long file is only remarked on.

mod links;

use crate::fault::{Fault, Outcome};
use crate::source::{self, Part};
use crate::workspace::{Text, Workspace};

/// Files longer than this are remarked on.
const FILE_LINES_REMARKED: usize = 600;

/// Files that people write, by the end of their names.
const WRITTEN: [&str; 13] = [
    ".css", ".html", ".js", ".json", ".md", ".py", ".rs", ".sh", ".sql", ".toml", ".txt", ".yaml",
    ".yml",
];

/// Texts that stand nowhere, and what to do instead; in pieces, so that this is not a finding.
#[rustfmt::skip]
const BANNED: [(&str, Scope, &str); 10] = [
    (concat!("db", "g!("),         Scope::Rust,     "remove the debugging"),
    (concat!("to", "do!("),        Scope::Rust,     "finish it or take it out"),
    (concat!("FIX", "ME"),         Scope::Rust,     "repair it now"),
    (concat!("// XX", "X"),        Scope::Rust,     "repair it now, or say why not"),
    (concat!("#[ig", "nore"),      Scope::Rust,     "run it or delete it"),
    (concat!("time::", "sleep"),   Scope::Test,     "wait for the event"),
    (concat!("thread::", "sleep"), Scope::Test,     "wait for the event"),
    (concat!("..", "/shared"),     Scope::All,      "the project stands alone"),
    (concat!("/ro", "ot/"),        Scope::Absolute, "the project stands alone"),
    (concat!("/wo", "rk/"),        Scope::Absolute, "the project stands alone"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Every text.
    All,
    /// Every text, where a path begins.
    Absolute,
    /// Every Rust file.
    Rust,
    /// Tests in Rust.
    Test,
}

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let texts = workspace.texts()?;
    let mut findings: Vec<String> = texts.iter().flat_map(broken).collect();
    findings.extend(links::broken(&texts, |path| workspace.path(path).exists()));
    for text in texts.iter().filter(|text| is_rust(&text.path)) {
        let lines = text.body.lines().count();
        if lines > FILE_LINES_REMARKED {
            println!("tidy: {} has {lines} lines: does it hold two ideas?", text.path);
        }
    }
    Fault::unless_empty(&findings, "change these lines; the rules are in CONTRIBUTING.md")?;
    println!("tidy: {} files", texts.len());
    Ok(())
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// What is wrong with one file.
fn broken(text: &Text) -> Vec<String> {
    let Text { path, body } = text;
    let mut broken = Vec::new();
    if is_rust(path) && !body.starts_with("//!") {
        broken.push(format!("{path}:1: open with `//!`: what the module is for and promises"));
    }
    let is_written = WRITTEN.iter().any(|end| path.ends_with(end));
    if is_written && !body.is_empty() && !body.ends_with('\n') {
        broken.push(format!("{path}: end the last line"));
    }
    // The indent of a table that rustfmt is told to leave alone, while inside one.
    for (number, line, part) in source::lines(path, body) {
        let mut say = |what: &str| broken.push(format!("{path}:{number}: {what}"));
        if is_written && line.ends_with([' ', '\t']) {
            say("remove the space at the end of the line");
        }
        if is_rust(path) && line.contains('\t') {
            say("write spaces instead of tabs");
        }
        for (sign, scope, remedy) in BANNED {
            if scope.holds(sign, path, line, part) {
                say(&format!("`{sign}`: {remedy}"));
            }
        }
    }
    broken
}

impl Scope {
    /// Whether this line has the sign and is one of those that must not.
    fn holds(self, sign: &str, path: &str, line: &str, part: Part) -> bool {
        match self {
            Self::All => line.contains(sign),
            Self::Absolute => line.match_indices(sign).any(|(at, _)| {
                // `https://host/a/` and `./a/` go on from what stands before.
                let before = line.get(..at).and_then(|before| before.chars().next_back());
                !before.is_some_and(|c| c.is_alphanumeric() || "_-./}$".contains(c))
            }),
            Self::Rust => is_rust(path) && line.contains(sign),
            Self::Test => is_rust(path) && part == Part::Test && line.contains(sign),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_can_fail() {
        #[rustfmt::skip]
        let table: [(&str, &str, &str); 18] = [
            // path                 body                                                    what is said, if anything
            ("crates/a/src/lib.rs", "//! What it is for.\n",                                ""),
            ("crates/a/src/lib.rs", "fn main() {}\n",                                       "lib.rs:1: open with"),
            ("tests/main.rs",       "\n//! Late.\n",                                        "main.rs:1: open with"),
            ("xtask/src/main.rs",   "//! Cut",                                              "end the last line"),
            ("xtask/src/main.rs",   "//! Spaces \n",                                        "remove the space"),
            ("README.md",           "Spaces \n",                                            "remove the space"),
            ("crates/a/src/lib.rs", "//! A.\n\tfn a() {}\n",                                "lib.rs:2: write spaces"),
            ("crates/a/src/lib.rs", concat!("//! A.\ndb", "g!(1);\n"),                      "remove the debugging"),
            ("crates/a/src/lib.rs", concat!("//! A.\nto", "do!()\n"),                       "finish it"),
            ("crates/a/src/lib.rs", concat!("//! A.\n// FIX", "ME later\n"),                "repair it now"),
            ("crates/a/src/lib.rs", concat!("//! A.\n// XX", "X later\n"),                  "or say why not"),
            ("crates/a/src/lib.rs", concat!("//! A.\n#[ig", "nore]\n"),                     "run it"),
            ("tests/main.rs",       concat!("//! A.\nstd::thread::", "sleep(x);\n"),        "wait for the event"),
            ("tests/main.rs",       concat!("//! A.\ntokio::time::", "sleep(x).await;\n"),  "wait for the event"),
            ("crates/a/src/lib.rs", concat!("//! A.\ntokio::time::", "sleep(x).await;\n"),  ""),
            ("README.md",           concat!("see ..", "/shared/x\n"),                       "stands alone"),
            ("deploy/x.yaml",       concat!("a: /ro", "ot/.cargo\n"),                       "stands alone"),
            (".ci/run",             concat!("cd /wo", "rk/main\n"),                         "stands alone"),
        ];
        for (path, body, said) in table {
            let found = broken(&Text { path: path.to_owned(), body: body.to_owned() });
            match found.as_slice() {
                [] => assert_eq!(said, "", "{path}: {body:?} passed"),
                [one] => assert!(!said.is_empty() && one.contains(said), "{path}: {body:?}: {one}"),
                more => panic!("{path}: {body:?}: {more:?}"),
            }
        }
    }
}
