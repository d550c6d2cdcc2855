//! `cargo xtask install-tools`: what the checks need besides cargo. Nothing is skipped in
//! silence: what is missing is installed, or the command that a person must run is said.

use crate::fault::{Fault, Outcome};
use crate::workspace::{self, Workspace};

/// A program that some step needs.
struct Tool {
    name: &'static str,
    /// Succeeds when the tool is there and whole.
    probe: &'static [&'static str],
    from: From,
}

enum From {
    /// A component of the Rust toolchain.
    Component(&'static str),
    /// Debian packages.
    Packages(&'static [&'static str]),
}

const POSTGRESQL: &str = "postgresql";

/// Debian makes and starts a server of its own with the package, which no test needs.
const NO_SERVER: &str = "mkdir -p /etc/postgresql-common/createcluster.d && echo \"create_main_cluster = \
                         false\" > /etc/postgresql-common/createcluster.d/no-main.conf";

const TOOLS: [Tool; 6] = [
    Tool {
        name: "rustfmt",
        probe: &["cargo", "fmt", "--version"],
        from: From::Component("rustfmt"),
    },
    Tool {
        name: "clippy",
        probe: &["cargo", "clippy", "--version"],
        from: From::Component("clippy"),
    },
    Tool {
        name: "a C compiler with headers (for SQLite and ring)",
        probe: &["cc", "-E", "-include", "stdio.h", "-x", "c", "/dev/null", "-o", "/dev/null"],
        from: From::Packages(&["gcc", "libc6-dev"]),
    },
    Tool {
        name: "PostgreSQL (for tests, which run a throwaway server of their own)",
        // Debian keeps the server's programs off the path.
        probe: &["sh", "-c", "ls /usr/lib/postgresql/*/bin/initdb"],
        from: From::Packages(&[POSTGRESQL]),
    },
    Tool {
        name: "npm (for other people's MCP clients; Node itself comes as a package)",
        probe: &["npm", "--version"],
        from: From::Packages(&["npm"]),
    },
    Tool {
        name: "Python 3 with venv (for other people's clients)",
        // Debian ships `venv` without the part that makes it work.
        probe: &["python3", "-c", "import venv, ensurepip"],
        from: From::Packages(&["python3", "python3-venv"]),
    },
];

/// Finds or installs every tool.
///
/// # Errors
///
/// Names what is missing and the command that installs it.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let mut packages = Vec::new();
    for tool in TOOLS.iter().filter(|tool| !tool.is_there(workspace)) {
        println!("tools: {} is missing", tool.name);
        match tool.from {
            From::Component(name) => {
                let mut rustup = workspace.command("rustup");
                workspace::run(rustup.args(["component", "add", name])).map_err(|fault| {
                    fault.or(&format!("install {name} for this Rust toolchain and try again"))
                })?;
            }
            From::Packages(names) => packages.extend(names),
        }
    }
    if !packages.is_empty() {
        for words in installation(&packages, Machine::look(workspace))? {
            let (program, arguments) = words.split_first().unwrap_or((&"true", &[]));
            workspace::run(workspace.command(program).args(arguments))?;
        }
    }
    let still: Vec<_> = TOOLS.iter().filter(|tool| !tool.is_there(workspace)).collect();
    if let [tool, ..] = still.as_slice() {
        return Err(Fault::new(
            format!("{} is still missing: `{}` fails", tool.name, tool.probe.join(" ")),
            "install it by hand and try again",
        ));
    }
    println!("tools: {}", TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", "));
    Ok(())
}

impl Tool {
    fn is_there(&self, workspace: &Workspace) -> bool {
        self.probe.split_first().is_some_and(|(program, arguments)| {
            workspace::succeeds(workspace.command(program).args(arguments))
        })
    }
}

/// Whether and how this user may install packages.
#[derive(Clone, Copy, Debug)]
enum Machine {
    /// Not a Debian.
    Foreign,
    /// The user is root.
    Root,
    /// `sudo` asks for no password.
    Sudo,
    /// Only a person can.
    User,
}

impl Machine {
    fn look(workspace: &Workspace) -> Self {
        if !workspace::succeeds(workspace.command("apt-get").arg("--version")) {
            Self::Foreign
        } else if workspace::capture(workspace.command("id").arg("-u")).is_ok_and(|id| id == b"0\n")
        {
            Self::Root
        } else if workspace::succeeds(workspace.command("sudo").args(["-n", "true"])) {
            Self::Sudo
        } else {
            Self::User
        }
    }
}

/// The commands that install `packages`, or the one that a person must run.
fn installation<'a>(packages: &[&'a str], machine: Machine) -> Outcome<Vec<Vec<&'a str>>> {
    let names = packages.join(" ");
    let before: &[&str] = match machine {
        Machine::Root => &[],
        Machine::Sudo => &["sudo", "-n"],
        Machine::Foreign => {
            return Err(Fault::new(
                "this machine has no apt-get",
                format!("install what Debian calls `{names}` and try again"),
            ));
        }
        Machine::User => {
            return Err(Fault::new(
                format!("this user may not install {names}"),
                format!("run: sudo apt-get update && sudo apt-get install -y {names}"),
            ));
        }
    };
    let apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    let install = ["install", "-y", "--no-install-recommends"];
    let quiet = packages.contains(&POSTGRESQL).then(|| [before, &["sh", "-c", NO_SERVER]].concat());
    let apt = [[before, &apt, &["update"]].concat(), [before, &apt, &install, packages].concat()];
    Ok(quiet.into_iter().chain(apt).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installs_or_says_how() {
        let apt = "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends";
        #[rustfmt::skip]
        let table = [
            (Machine::Root,    format!("{apt} gcc libc6-dev")),
            (Machine::Sudo,    format!("sudo -n {apt} gcc libc6-dev")),
            (Machine::User,    "run: sudo apt-get update && sudo apt-get install -y gcc libc6-dev".to_owned()),
            (Machine::Foreign, "install what Debian calls `gcc libc6-dev`".to_owned()),
        ];
        for (machine, said) in table {
            let found = match installation(&["gcc", "libc6-dev"], machine) {
                Ok(commands) => commands.last().unwrap().join(" "),
                Err(fault) => fault.to_string(),
            };
            assert!(found.contains(&said), "{machine:?}: {found}");
        }
    }

    #[test]
    fn debian_starts_no_server_of_its_own() {
        let commands = installation(&["gcc", POSTGRESQL], Machine::Sudo).unwrap();
        let [first, .., last] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(first.join(" "), format!("sudo -n sh -c {NO_SERVER}"));
        assert_eq!(last.last(), Some(&"postgresql"));
    }
}
