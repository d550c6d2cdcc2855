//! A throwaway PostgreSQL for tests: one cluster for each test process, a database for each test.
//!
//! The server runs as an unprivileged user, in a directory of its own under `/tmp`, and listens on
//! a Unix socket in it and on a free port of the loopback address. It ends with the test process,
//! however that ends, and its directory goes with it. Its language sorts otherwise than bytes do,
//! and it does not wait for the disk. It speaks TLS as `localhost`, vouched for by an authority of
//! its own ([`Cluster::authority`]); that key is in the repository and protects nothing.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot have its database ends at once, and says why"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// The name of the user, who may do everything and needs no password.
const USER: &str = "gate";
/// Who runs the server when the tests run as root: PostgreSQL refuses to. Debian's `nobody`.
const NOBODY: u32 = 65534;
/// What the server's log says once it can be used.
const READY: &str = "database system is ready to accept connections";
/// How often it is tried to start a server: the port may be taken in between.
const STARTS_MAX: usize = 5;
const MISSING: &str = "PostgreSQL is missing, and these tests need it. Run: cargo xtask \
                       install-tools (or: sudo apt-get install -y postgresql)";

/// A running server.
pub struct Cluster {
    directory: PathBuf,
    port: u16,
    programs: PathBuf,
    databases: AtomicU64,
    /// A line restarts the server, the end stops it; each start is told by the receiver.
    supervisor: Mutex<(ChildStdin, Receiver<()>)>,
}

/// A database of its own for one test.
#[derive(Clone, Debug)]
pub struct Database {
    /// Its name.
    pub name: String,
    /// Its address over the Unix socket, `postgres://…`.
    pub url: String,
    /// Its address over TCP on the loopback address.
    pub tcp_url: String,
}

impl Cluster {
    /// The cluster of this process, started when it is first asked for.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A cluster of the caller's own, which it may restart.
    #[must_use]
    pub fn start() -> Self {
        let programs = programs();
        for _ in 0..STARTS_MAX {
            if let Some(cluster) = Self::try_to_start(&programs) {
                return cluster;
            }
        }
        panic!("PostgreSQL did not start {STARTS_MAX} times; its log is above");
    }

    fn try_to_start(programs: &Path) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("gate-pg-").tempdir().unwrap().keep();
        // Socket and data are for whoever runs the server; what a test puts here, for anybody.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        if owner(&directory) == 0 {
            chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = directory.join("data");
        let made = unprivileged(&directory, &programs.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--username", USER])
            .args(["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US", "--pgdata"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let key = data.join("server.key");
        for (name, text) in [
            (data.join("server.crt"), include_str!("tls/server.pem")),
            (directory.join("ca.pem"), include_str!("tls/ca.pem")),
            (key.clone(), include_str!("tls/server.key")),
        ] {
            fs::write(name, text).unwrap();
        }
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&key, Some(owner(&data)), None).unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let server = unprivileged(&directory, &programs.join("postgres"));
        let mut supervisor = Command::new("sh")
            .args(["-c", include_str!("supervise.sh"), "supervise"])
            .arg(&directory)
            .arg(server.get_program())
            .args(server.get_args())
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&directory)
            .args(["-h", "127.0.0.1", "-p", &port.to_string()])
            .args([
                "-c",
                "ssl=on",
                "-c",
                "fsync=off",
                "-c",
                "full_page_writes=off",
                "-c",
                "max_connections=200",
            ])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (told, ready) = sync_channel(STARTS_MAX);
        let log = BufReader::new(supervisor.stderr.take().unwrap());
        // Ends with the log, and so with the server.
        thread::spawn(move || {
            let mut before = Vec::new();
            for line in log.lines().map_while(Result::ok) {
                if line.contains(READY) {
                    before.clear();
                    let _ = told.try_send(());
                } else {
                    before.push(line);
                }
                if let Some(fatal) = before.last().filter(|line| line.contains("FATAL:  could not"))
                {
                    eprintln!("{fatal}");
                }
            }
        });
        let commands = supervisor.stdin.take().unwrap();
        // Reaped in the background, so that no dead process is left behind.
        thread::spawn(move || supervisor.wait());
        ready.recv().ok()?;
        Some(Self {
            directory,
            port,
            programs: programs.to_owned(),
            databases: AtomicU64::new(0),
            supervisor: Mutex::new((commands, ready)),
        })
    }

    /// An empty database that nobody else uses.
    pub fn database(&self) -> Database {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        let socket = self.directory.to_str().unwrap().replace('/', "%2F");
        let url = format!("postgres://{USER}@{socket}:{}/{name}", self.port);
        let tcp_url = format!("postgres://{USER}@127.0.0.1:{}/{name}", self.port);
        Database { name, url, tcp_url }
    }

    /// Runs statements in a database, and answers with what `psql` prints of their rows.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        let port = self.port.to_string();
        let ran = Command::new(self.programs.join("psql"))
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", USER, "-p", &port, "-d", database, "-h"])
            .arg(&self.directory)
            .args(["-c", statements])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "psql: {said} after {statements}");
        String::from_utf8(ran.stdout).unwrap()
    }

    /// A directory that the server may read, which goes with the cluster.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file with the certificate that vouches for the server, as `localhost`.
    pub fn authority(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// The server's process.
    pub fn server(&self) -> u32 {
        let file = fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }

    /// Stops the server at once, as a crash would, and starts it anew; returns when it is back.
    pub fn restart(&self) {
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        supervisor.0.write_all(b"restart\n").unwrap();
        supervisor.1.recv().expect("PostgreSQL did not come back");
    }
}

/// `program`, run by a user whom PostgreSQL accepts: the one whose directory it is.
fn unprivileged(directory: &Path, program: &Path) -> Command {
    let mut command = if owner(directory) == NOBODY {
        let id = NOBODY.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/").env("LC_MESSAGES", "C");
    command
}

fn owner(directory: &Path) -> u32 {
    fs::metadata(directory).unwrap().uid()
}

/// Where the programs of the newest PostgreSQL are.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect(MISSING);
    let newest = versions
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
            let programs = path.join("bin");
            programs.join("initdb").is_file().then_some((version, programs))
        })
        .max();
    newest.expect(MISSING).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_serves_restarts_and_goes_away() {
        let cluster = Cluster::start();
        let database = cluster.database();
        cluster.sql(&database.name, "CREATE TABLE kept (n BIGINT)");
        let before = cluster.server();
        cluster.restart();
        assert_ne!(cluster.server(), before, "another process");
        assert_eq!(cluster.sql(&database.name, "SELECT COUNT(*) FROM kept"), "0\n");
        // Its language is no `C`: the tests would not notice an order that depends on it.
        assert_eq!(cluster.sql(&database.name, "SELECT 'a' < 'B'"), "t\n");
    }
}
