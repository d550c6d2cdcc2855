//! Where the project is, how its tools are started, and what files it has.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::fault::{Fault, Outcome};

/// What holds nothing of the project's own, besides folders that carry a cache's mark. Beside a
/// second checkout `.git` is a file.
const FOREIGN: [&str; 3] = [".git", "node_modules", "__pycache__"];

/// The mark of a folder that a tool can make again, such as cargo's own.
const CACHE_MARK: &str = "CACHEDIR.TAG";

/// The root of the project.
pub(crate) struct Workspace {
    root: PathBuf,
}

/// One text file: its path from the root with `/` between the parts, and what it says.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) body: String,
}

impl Workspace {
    /// The workspace that this program was built from, or where cargo says that it is now.
    pub(crate) fn find() -> Outcome<Self> {
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
        let root = Path::new(&package).parent().filter(|root| root.join("Cargo.toml").is_file());
        root.map(|root| Self { root: root.to_owned() }).ok_or_else(|| {
            Fault::new(
                "the workspace is not where it was built",
                "run `cargo xtask` inside the project",
            )
        })
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    pub(crate) fn read(&self, relative: &str) -> Outcome<String> {
        fs::read_to_string(self.path(relative))
            .map_err(|error| Fault::io(&format!("cannot read {relative}"), &error))
    }

    /// A program to be started at the root.
    ///
    /// What `cargo run` told this program about *its* package is taken away: build scripts such
    /// as ring's watch those names and would build again on every change of command.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        if std::env::var_os("CI").is_some_and(|value| value == "true") {
            command.env("CARGO_INCREMENTAL", "0");
        }
        command
    }

    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("cargo");
        command.args(arguments);
        command
    }

    /// What cargo knows about the workspace: packages, resolved dependencies, folders.
    pub(crate) fn metadata(&self) -> Outcome<Value> {
        let mut command = self.cargo(&["metadata", "--quiet", "--format-version", "1", "--locked"]);
        serde_json::from_slice(&capture(&mut command)?).map_err(|error| {
            Fault::new(format!("cargo metadata is not JSON: {error}"), "update the toolchain")
        })
    }

    /// Where cargo builds, and where everything else that can be made again goes.
    pub(crate) fn target(&self) -> Outcome<PathBuf> {
        text(&self.metadata()?, "target_directory").map(PathBuf::from)
    }

    /// Every text file of the project, in the order of their paths.
    pub(crate) fn texts(&self) -> Outcome<Vec<Text>> {
        let mut texts = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            let doing = format!("cannot list {}", folder.display());
            for entry in fs::read_dir(&folder).map_err(|error| Fault::io(&doing, &error))? {
                let entry = entry.map_err(|error| Fault::io(&doing, &error))?;
                let kind = entry.file_type().map_err(|error| Fault::io(&doing, &error))?;
                if is_foreign(&entry.path()) {
                    continue;
                }
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    texts.extend(self.text(&entry.path())?);
                }
            }
        }
        texts.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(texts)
    }

    /// The file as text, or nothing when it holds something else.
    fn text(&self, path: &Path) -> Outcome<Option<Text>> {
        let bytes = fs::read(path)
            .map_err(|error| Fault::io(&format!("cannot read {}", path.display()), &error))?;
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        let parts: Vec<_> = relative.iter().map(OsStr::to_string_lossy).collect();
        Ok(String::from_utf8(bytes).ok().map(|body| Text { path: parts.join("/"), body }))
    }
}

fn is_foreign(path: &Path) -> bool {
    path.file_name().is_some_and(|name| FOREIGN.iter().any(|foreign| name == *foreign))
        || path.join(CACHE_MARK).exists()
}

/// Runs a program to its end, in sight of whoever watches.
///
/// # Errors
///
/// When it cannot start or does not succeed.
pub(crate) fn run(command: &mut Command) -> Outcome {
    println!("$ {}", shown(command));
    let status = command.status().map_err(|error| Fault::io(&unstarted(command), &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Fault::new(
        format!("`{}` failed ({status})", shown(command)),
        "read its messages above, repair that, and try again",
    ))
}

/// Runs a program to its end and hands back what it wrote; its messages stay in sight.
///
/// # Errors
///
/// When it cannot start or does not succeed.
pub(crate) fn capture(command: &mut Command) -> Outcome<Vec<u8>> {
    let ran = command.stderr(Stdio::inherit()).output();
    let Output { status, stdout, .. } =
        ran.map_err(|error| Fault::io(&unstarted(command), &error))?;
    if status.success() {
        return Ok(stdout);
    }
    Err(Fault::new(
        format!("`{}` failed ({status})", shown(command)),
        "read its messages above, repair that, and try again",
    ))
}

/// Builds a program, with `how` as further arguments for cargo, and says where it is.
///
/// # Errors
///
/// When it does not build.
pub(crate) fn built(
    workspace: &Workspace,
    package: &str,
    program: &str,
    how: &[&str],
) -> Outcome<PathBuf> {
    let build = ["build", "--locked", "--package", package, "--bin", program];
    let mut command = workspace.cargo(&build);
    command.args(how).arg("--message-format=json-render-diagnostics");
    let messages = capture(&mut command)?;
    let messages = String::from_utf8_lossy(&messages);
    let mut programs = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    programs.next_back().ok_or_else(|| {
        Fault::new(format!("cargo built no `{program}`"), format!("give {package} its binary back"))
    })
}

/// Whether a program starts and succeeds, out of sight.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The text under `key`.
///
/// # Errors
///
/// When cargo's answer has none: to read it as empty would pass every rule in silence.
pub(crate) fn text(value: &Value, key: &str) -> Outcome<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| missing(key))
}

/// The list under `key`.
///
/// # Errors
///
/// As [`text`].
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> Outcome<&'a [Value]> {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| missing(key))
}

fn missing(key: &str) -> Fault {
    Fault::new(
        format!("cargo's answer has no `{key}`"),
        "bring xtask in line with the format of this toolchain",
    )
}

fn unstarted(command: &Command) -> String {
    format!("cannot start `{}`", shown(command))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
