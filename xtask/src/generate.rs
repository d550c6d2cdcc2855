//! `cargo xtask gen`: files that the product writes about itself, so that no page can disagree
//! with the program.

use std::fs;

use crate::fault::{Fault, Outcome};
use crate::workspace::{self, Workspace};

/// What `action-gateway print` is asked for, and the file that keeps the answer.
const FILES: [(&str, &str); 4] = [
    ("config", "docs/configuration.md"),
    ("errors", "docs/errors.md"),
    ("openapi", "docs/openapi.json"),
    ("server", "server.json"),
];

/// Writes every generated file.
pub(crate) fn write(workspace: &Workspace) -> Outcome {
    for (page, file) in FILES {
        let path = workspace.path(file);
        let doing = format!("cannot write {file}");
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| Fault::io(&doing, &error))?;
        }
        fs::write(&path, print(workspace, page)?).map_err(|error| Fault::io(&doing, &error))?;
        println!("gen: {file}");
    }
    Ok(())
}

/// Compares every generated file with what would be written.
///
/// # Errors
///
/// Names the files that differ and the first line in which they do.
pub(crate) fn check(workspace: &Workspace) -> Outcome {
    let mut findings = Vec::new();
    for (page, file) in FILES {
        let fresh = print(workspace, page)?;
        let kept =
            if workspace.path(file).exists() { workspace.read(file)? } else { String::new() };
        findings
            .extend(difference(&kept, &fresh).map(|line| format!("{file}:{line}: out of date")));
    }
    Fault::unless_empty(&findings, "run `cargo xtask gen` and commit what it writes")?;
    println!("gen: {} files are up to date", FILES.len());
    Ok(())
}

fn print(workspace: &Workspace, page: &str) -> Outcome<String> {
    let product = ["run", "--quiet", "--locked", "--package", "gate-server", "--"];
    let mut command = workspace.cargo(&product);
    let bytes = workspace::capture(command.args(["print", page]))?;
    let text = String::from_utf8(bytes).ok().filter(|text| !text.is_empty());
    text.ok_or_else(|| {
        Fault::new(format!("`print {page}` wrote no text"), "repair the product's `print`")
    })
}

/// The first line, from 1, in which two texts differ.
fn difference(kept: &str, fresh: &str) -> Option<usize> {
    if kept == fresh {
        return None;
    }
    let same = kept.lines().zip(fresh.lines()).take_while(|(a, b)| a == b).count();
    Some(same.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        #[rustfmt::skip]
        let table = [
            // kept    fresh        line
            ("a\nb\n", "a\nb\n",    None),
            ("a\nb\n", "a\nc\n",    Some(2)),
            ("",       "a\n",       Some(1)),
            ("a\n",    "a\nb\n",    Some(2)),
            ("a\n",    "a",         Some(2)),
        ];
        for (kept, fresh, line) in table {
            assert_eq!(difference(kept, fresh), line, "{kept:?} {fresh:?}");
        }
    }
}
