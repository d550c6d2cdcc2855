//! Reading the files that settings name, with help for whoever must make them readable.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    fault::shown,
    lookup::{FileAccess, Lookup},
};

/// Reads the file that a setting names.
///
/// # Errors
///
/// What is wrong and what to do, as the end of a sentence that starts with the setting.
pub(super) fn read(lookup: &dyn Lookup, path: &Path) -> Result<Vec<u8>, String> {
    let facts = lookup.facts(path);
    if facts.as_ref().is_ok_and(|facts| facts.directory) {
        return Err(format!(
            "names {}, which is a directory: name a file (Docker makes a directory of a mount \
             whose file is missing on the host)",
            named(path)
        ));
    }
    lookup.read_file(path).map_err(|error| {
        let access = facts.ok().and_then(|facts| facts.access);
        unreadable(path, &error, access, lookup.user())
    })
}

/// A warning when users other than the owner and its group can read the file of a secret.
pub(super) fn readable_by_others(lookup: &dyn Lookup, path: &Path) -> Option<String> {
    let access = lookup.facts(path).ok()?.access?;
    access.others_read().then(|| {
        format!(
            "names {}, which everyone can read (its mode is {:04o}): run `chmod o-r {}`",
            named(path),
            access.mode,
            path.display()
        )
    })
}

/// The path as a message may show it. Some put a key where the path of its file should be.
fn named(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.starts_with(['/', '.']) { format!("{text:?}") } else { shown(&text) }
}

fn unreadable(
    path: &Path,
    error: &io::Error,
    access: Option<FileAccess>,
    user: Option<u32>,
) -> String {
    let name = named(path);
    if error.kind() == io::ErrorKind::NotFound {
        return format!("names {name}, which does not exist: give the path of a file that does");
    }
    if error.kind() == io::ErrorKind::FileTooLarge {
        return format!("names {name}, which is larger than 1 MiB: name the right file");
    }
    let Some(FileAccess { mode, owner }) = access else {
        return format!(
            "names {name}, which cannot be read ({error}): let this process into the directories \
             above it"
        );
    };
    let reader = user.map_or_else(|| "USER".to_owned(), |user| user.to_string());
    let path = PathBuf::from(path);
    format!(
        "names {name}, which cannot be read ({error}): user {owner} owns it, its mode is \
         {mode:04o}, and this process runs as user {reader}; run `chown {reader} {path}`, or let \
         everyone read it with `chmod o+r {path}`",
        path = path.display()
    )
}
