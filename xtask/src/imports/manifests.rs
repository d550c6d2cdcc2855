//! What every member's `Cargo.toml` must say: the workspace's lints, version, edition, licence,
//! and each dependency by the workspace's one version.
//!
//! Cargo's own answer has the inherited values filled in, so the text is read, line by line: the
//! subset of TOML that cargo's own formatting gives.

/// Keys of `[package]` that are the workspace's business.
const INHERITED: [&str; 3] = ["version", "edition", "license"];

/// What is wrong with this file, when it is a member's manifest.
pub(crate) fn broken(path: &str, body: &str) -> Vec<String> {
    let Some(folder) = path.strip_suffix("/Cargo.toml") else {
        return Vec::new();
    };
    let manifest = Manifest::read(body);
    let mut missing: Vec<String> = INHERITED
        .iter()
        .filter(|key| !manifest.has("package", &format!("{key}.workspace"), "true"))
        .map(|key| format!("`{key}.workspace = true` under [package]"))
        .collect();
    if !manifest.has("lints", "workspace", "true") {
        missing.push("`workspace = true` under [lints]".to_owned());
    }
    if let Some(name) = folder.strip_prefix("crates/")
        && !manifest.has("package", "name", &format!("\"{name}\""))
    {
        missing.push(format!("`name = \"{name}\"`, as its folder"));
    }
    let own = manifest.own_versions();
    missing
        .extend(own.iter().map(|name| format!("`{name}.workspace = true` under its dependencies")));
    missing.iter().map(|what| format!("{path}: lacks {what}")).collect()
}

/// Every `key = value` with the table that it stands in.
struct Manifest<'a> {
    entries: Vec<(&'a str, &'a str, &'a str)>,
}

impl<'a> Manifest<'a> {
    fn read(body: &'a str) -> Self {
        let mut table = "";
        let mut depth = 0_usize;
        let mut entries = Vec::new();
        for line in body.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let header = line.strip_prefix('[').map(|rest| rest.trim_matches(['[', ']']));
            if let Some(header) = header.filter(|_| depth == 0) {
                table = header;
                continue;
            }
            if let Some((key, value)) = line.split_once('=').filter(|_| depth == 0) {
                entries.push((table, key.trim(), value.trim()));
            }
            let opened = line.matches(['[', '{']).count();
            depth = depth.saturating_add(opened).saturating_sub(line.matches([']', '}']).count());
        }
        Self { entries }
    }

    fn has(&self, table: &str, key: &str, value: &str) -> bool {
        self.entries.contains(&(table, key, value))
    }

    /// Dependencies that bring a version or a path of their own.
    fn own_versions(&self) -> Vec<&'a str> {
        let mut own = Vec::new();
        for (table, key, value) in &self.entries {
            let name = if table.ends_with("dependencies") {
                let inherits = *value == "true" && key.ends_with(".workspace")
                    || value.replace(' ', "").contains("workspace=true");
                (!inherits).then_some(*key)
            } else {
                // `[dependencies.tokio]`: the table is the dependency.
                let name = table.rsplit_once("dependencies.").map(|(_, name)| name);
                name.filter(|_| !self.has(table, "workspace", "true"))
            };
            own.extend(name.filter(|name| !own.contains(name)));
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[package]
name = \"gate-x\"
version.workspace = true
edition.workspace = true
license.workspace = true

[lints]
workspace = true

[dependencies]
bytes.workspace = true
tokio = { workspace = true, features = [
    \"net\",
] }

[dev-dependencies.proptest]
workspace = true
";

    #[test]
    fn every_line_is_needed() {
        assert_eq!(broken("crates/gate-x/Cargo.toml", GOOD), Vec::<String>::new());
        let dev = "[dev-dependencies.proptest]\n";
        #[rustfmt::skip]
        let table = [
            // change this                   into this                         and it lacks
            ("version.workspace = true",     "version = \"1.0.0\"",            "`version.workspace"),
            ("edition.workspace = true",     "",                               "`edition.workspace"),
            ("license.workspace = true",     "license = \"MIT\"",              "`license.workspace"),
            ("[lints]\nworkspace",           "[lints]\nworkspaces",            "`workspace = true` under [lints]"),
            ("\"gate-x\"",                   "\"gate-y\"",                     "`name = \"gate-x\"`"),
            ("bytes.workspace = true",       "bytes = \"1\"",                  "`bytes.workspace"),
            ("bytes.workspace = true",       "bytes = { path = \"b\" }",       "`bytes.workspace"),
            ("{ workspace = true, ",         "{ version = \"1\", ",            "`tokio.workspace"),
            (&format!("{dev}workspace = true"), &format!("{dev}version = \"1\""), "`proptest.workspace"),
        ];
        for (from, to, lacks) in table {
            let found = broken("crates/gate-x/Cargo.toml", &GOOD.replace(from, to));
            let [one] = found.as_slice() else { panic!("{to:?} gave {found:?}") };
            assert!(one.contains(&format!("lacks {lacks}")), "{to:?} gave {one}");
        }
    }

    #[test]
    fn other_files_are_left_alone() {
        for path in ["Cargo.toml", "crates/gate-x/src/lib.rs", "README.md"] {
            assert_eq!(broken(path, "[workspace]\n"), Vec::<String>::new(), "{path}");
        }
    }
}
