//! `cargo xtask dist`: what a release consists of, in `target/dist`: the program with its manual, the
//! MCP bundle, the entry for the MCP registry, and their digests.
//!
//! The same program and the same files give the same bytes: nothing in an archive tells when, where
//! or by whom it was packed.

mod archive;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::dist::archive::{Entry, sha256, tar_gz, zip};
use crate::fault::{Fault, Outcome};
use crate::foreign;
use crate::workspace::{self, Workspace, built};

const PROGRAM: &str = "action-gateway";
const PACKAGE: &str = "gate-server";
/// What lies in the folders is packed whole.
const FOLDERS: [&str; 2] = ["deploy/", "docs/"];
const LICENSE: &str = "LICENSE";

const PACKAGES: &str = "tests/dist/package.json";
const LOCK: &str = "tests/dist/package-lock.json";
const REQUIREMENTS: &str = "tests/dist/requirements.txt";
/// The check, and the gateway that it sets up.
const SCRIPTS: [&str; 2] = ["tests/dist/check.mjs", "tests/clients/scene.mjs"];

/// A file of the release: its name, and what is in it.
type Artefact = (String, Vec<u8>);

/// Builds the program as it is released and packs it.
///
/// # Errors
///
/// When `words` are not understood, or something cannot be built or packed.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Outcome {
    let (mut repository, mut binary) = (None, None);
    let mut rest = words;
    while let [option, value, more @ ..] = rest {
        match *option {
            "--repository" => repository = Some(Repository::parse(value)?),
            "--binary" => binary = Some(PathBuf::from(value)),
            _ => break,
        }
        rest = more;
    }
    if !rest.is_empty() {
        return Err(Fault::new(
            format!("`cargo xtask dist {}` is not a command", words.join(" ")),
            "write `--repository https://github.com/OWNER/NAME`, `--binary PATH`, both or neither",
        ));
    }
    let binary = binary.map_or_else(|| release(workspace), Ok)?;
    write(workspace, &artefacts(workspace, &binary, repository.as_ref())?).map(|_| ())
}

/// Packs the release program that an earlier step has built, twice, and has others judge what comes
/// of it.
///
/// # Errors
///
/// When the two differ, or others refuse an artefact or cannot work with it.
pub(crate) fn check(workspace: &Workspace) -> Outcome {
    let binary = built(workspace, PACKAGE, PROGRAM, &["--release"])?;
    let artefacts = artefacts(workspace, &binary, None)?;
    if artefacts != self::artefacts(workspace, &binary, None)? {
        return Err(Fault::new(
            "packed again, the same program gave other bytes",
            "find what changes from run to run: an order, a time, a digest",
        ));
    }
    let folder = write(workspace, &artefacts)?;
    let python = foreign::python(workspace, REQUIREMENTS)?;
    let mut lint = workspace.command(python);
    lint.args(["-m", "skillsaw", "lint", "--quiet", "--strict", "--type", "mcp-registry"]);
    lint.args(["--no-plugins", "--no-custom-rules", "--no-baseline", "--no-progress"]);
    lint.args(["--rule", "mcp-registry-server-json-valid"]);
    lint.args(["--rule", "mcp-registry-version-semver"]);
    workspace::run(lint.arg(&folder))
        .map_err(|fault| fault.or("repair the entry in gate-server's listing.rs"))?;
    let (modules, node) = foreign::node(workspace, PACKAGES, LOCK)?;
    // Node looks for packages beside the script.
    foreign::copy(workspace, &SCRIPTS, &modules)?;
    workspace::run(workspace.command(node).arg(modules.join("check.mjs")).arg(&folder))
        .map_err(|fault| fault.or("repair the bundle: gate-server's listing.rs, xtask's dist.rs"))
}

/// The program, alone in its file: static on Linux, with musl where this toolchain has it.
fn release(workspace: &Workspace) -> Outcome<PathBuf> {
    if !cfg!(target_os = "linux") {
        return built(workspace, PACKAGE, PROGRAM, &["--profile", "dist"]);
    }
    let sysroot = workspace::capture(workspace.command("rustc").args(["--print", "sysroot"]))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot).trim_end());
    let triple = |libc| format!("{}-unknown-linux-{libc}", std::env::consts::ARCH);
    let musl = sysroot.join("lib").join("rustlib").join(triple("musl")).is_dir();
    let triple = triple(if musl { "musl" } else { "gnu" });
    // For the target alone: build scripts cannot be static.
    let flags = format!("target.{triple}.rustflags=[\"-Ctarget-feature=+crt-static\"]");
    let how = ["--profile", "dist", "--target", &triple, "--config", &flags];
    built(workspace, PACKAGE, PROGRAM, &how)
}

/// Everything of a release of `binary`, which runs on this machine.
fn artefacts(
    workspace: &Workspace,
    binary: &Path,
    repository: Option<&Repository>,
) -> Outcome<Vec<Artefact>> {
    let manifest = printed(workspace, binary, "manifest")?;
    let version = workspace::text(&manifest, "version")?;
    let program = fs::read(binary)
        .map_err(|error| Fault::io(&format!("cannot read {}", binary.display()), &error))?;
    let packed = |error| Fault::io("cannot pack", &error);
    let name = format!("{PROGRAM}-{version}");

    let system = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let mut files = vec![Entry::program(format!("{name}/{PROGRAM}"), program.clone())];
    for text in workspace.texts()?.into_iter().filter(|text| is_shipped(&text.path)) {
        files.push(Entry::file(format!("{name}/{}", text.path), text.body.into_bytes()));
    }
    let tar = (format!("{name}-{system}.tar.gz"), tar_gz(&files).map_err(packed)?);

    let license = workspace.read(LICENSE)?.into_bytes();
    let bundle = zip(&[
        Entry::file("manifest.json", pretty(&manifest)),
        Entry::file(LICENSE, license),
        Entry::program(format!("server/{PROGRAM}"), program),
    ]);
    let bundle = (format!("{name}.mcpb"), bundle.map_err(packed)?);

    let mut server = printed(workspace, binary, "server")?;
    let package = server.pointer_mut("/packages/0").and_then(Value::as_object_mut);
    let package = package.ok_or_else(|| {
        Fault::new("`print server` names no package", "bring gate-server's listing.rs in line")
    })?;
    package.insert("fileSha256".to_owned(), json!(sha256(&bundle.1)));
    if let Some(repository) = repository {
        repository.put_into(&mut server, &version, &bundle.0);
    }
    let mut artefacts = vec![tar, bundle, ("server.json".to_owned(), pretty(&server))];
    let sums: String =
        artefacts.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect();
    artefacts.push(("SHA256SUMS".to_owned(), sums.into_bytes()));
    Ok(artefacts)
}

/// Whether a file of the project goes beside the program: its manual, and what it is deployed with.
fn is_shipped(path: &str) -> bool {
    let at_the_root = !path.contains('/') && (path == LICENSE || path.ends_with(".md"));
    at_the_root || FOLDERS.iter().any(|folder| path.starts_with(folder))
}

fn printed(workspace: &Workspace, binary: &Path, page: &str) -> Outcome<Value> {
    let bytes = workspace::capture(workspace.command(binary).args(["print", page]))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Fault::new(format!("`print {page}` is not JSON: {error}"), "repair the product's `print`")
    })
}

fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

/// Puts the artefacts where they belong, and says where that is.
fn write(workspace: &Workspace, artefacts: &[Artefact]) -> Outcome<PathBuf> {
    let folder = workspace.target()?.join("dist");
    fs::create_dir_all(&folder).map_err(|error| Fault::io("cannot make target/dist", &error))?;
    for (name, bytes) in artefacts {
        let path = folder.join(name);
        fs::write(&path, bytes)
            .map_err(|error| Fault::io(&format!("cannot write {name}"), &error))?;
        println!("dist: {} ({} bytes)", path.display(), bytes.len());
    }
    Ok(folder)
}

/// Where the project is published.
#[derive(Debug)]
struct Repository {
    url: String,
    owner: String,
}

impl Repository {
    /// `https://github.com/OWNER/NAME`: the registry takes bundles from releases there, and gives
    /// the owner the names that begin with `io.github.OWNER/`.
    fn parse(url: &str) -> Outcome<Self> {
        let path = url.trim_end_matches('/').strip_prefix("https://github.com/");
        let plain = |part: &str| {
            let known = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            !part.is_empty() && part.chars().all(known)
        };
        match path.and_then(|path| path.split_once('/')) {
            Some((owner, name)) if plain(owner) && plain(name) => Ok(Self {
                url: format!("https://github.com/{owner}/{name}"),
                owner: owner.to_owned(),
            }),
            Some(_) | None => Err(Fault::new(
                format!("`{url}` is not a repository that the registry knows"),
                "write it like https://github.com/OWNER/NAME",
            )),
        }
    }

    /// In place of the example's.
    fn put_into(&self, server: &mut Value, version: &str, bundle: &str) {
        let Self { url, owner } = self;
        let at = format!("{url}/releases/download/v{version}/{bundle}");
        if let Some(identifier) = server.pointer_mut("/packages/0/identifier") {
            *identifier = json!(at);
        }
        if let Some(fields) = server.as_object_mut() {
            fields.insert("name".to_owned(), json!(format!("io.github.{owner}/{PROGRAM}")));
            let repository = json!({ "url": url, "source": "github" });
            fields.insert("repository".to_owned(), repository);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped() {
        let table = [
            ("LICENSE", true),
            ("README.md", true),
            ("Cargo.toml", false),
            ("docs/mcp.md", true),
            ("docs/openapi.json", true),
            ("deploy/action-gateway.service", true),
            ("crates/gate-core/README.md", false),
            ("tests/docs/x.md", false),
        ];
        for (path, shipped) in table {
            assert_eq!(is_shipped(path), shipped, "{path}");
        }
    }

    #[test]
    fn repositories() {
        let table = [
            ("https://github.com/acme/gateway", "io.github.acme/action-gateway"),
            ("https://github.com/Acme-Inc/gate.way/", "io.github.Acme-Inc/action-gateway"),
            ("https://github.com/acme", ""),
            ("https://github.com/acme/gateway/tree/main", ""),
            ("https://github.com//gateway", ""),
            ("http://github.com/acme/gateway", ""),
            ("https://example.com/acme/gateway", ""),
        ];
        for (url, name) in table {
            let mut server = json!({ "name": "x", "packages": [{ "identifier": "y" }] });
            if let Ok(repository) = Repository::parse(url) {
                repository.put_into(&mut server, "1.2.3", "it.mcpb");
                assert_eq!(server["name"], name, "{url}");
                let at = format!("{}/releases/download/v1.2.3/it.mcpb", url.trim_end_matches('/'));
                assert_eq!(server["packages"][0]["identifier"], at, "{url}");
            } else {
                assert_eq!(name, "", "{url}");
            }
        }
    }
}
