//! The product's processes: started, listened to, ended at once, and always reaped. Nothing is
//! ever ended that was not started here.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

/// How long a server may take to say where it listens.
const START_SECS_MAX: u64 = 60;

/// The product, with the variables that it is run with and nothing of this process's environment.
pub(crate) struct Product {
    pub(crate) binary: PathBuf,
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Where what its processes log is added.
    pub(crate) log: PathBuf,
}

impl Product {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        let variables = self.variables.iter().map(|(name, value)| (*name, value));
        command.env_clear().envs(variables).args(arguments).stdin(Stdio::null());
        command
    }

    fn log(&self) -> Result<File, String> {
        let opened = OpenOptions::new().create(true).append(true).open(&self.log);
        opened.map_err(|error| format!("cannot open {}: {error}", self.log.display()))
    }

    /// Starts a server.
    pub(crate) fn start(&self, arguments: &[&str]) -> Result<Server, String> {
        let mut command = self.command(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(self.log()?)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.binary.display()))?;
        let (said, lines) = sync_channel(1);
        let reader = child.stdout.take().map(|stdout| {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // Only the first line is waited for; the others flow away.
                    let _ = said.try_send(line);
                }
            })
        });
        Ok(Server { child, lines: Mutex::new(lines), reader })
    }

    /// Starts a server and waits until it says where it listens.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Result<(Server, SocketAddr), String> {
        let server = self.start(arguments)?;
        let line = server.line(START_SECS_MAX * 1_000).unwrap_or_default();
        match line.rsplit("http://").next().and_then(|at| at.parse().ok()) {
            Some(at) => Ok((server, at)),
            None => Err(format!("{arguments:?} did not begin to serve: it said {line:?}")),
        }
    }

    /// Runs a command that must end well, and answers what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Value, String> {
        let ran = self.command(arguments).output();
        let ran = ran.map_err(|error| format!("cannot run {arguments:?}: {error}"))?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr);
            return Err(format!("{arguments:?} ended with {}: {said}", ran.status));
        }
        serde_json::from_slice(&ran.stdout)
            .map_err(|error| format!("{arguments:?} printed no JSON: {error}"))
    }

    /// Runs a command whose words are not needed.
    pub(crate) fn done(&self, arguments: &[&str]) -> Result<(), String> {
        self.run(&[arguments, &["--json"]].concat()).map(drop)
    }

    pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
        fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

/// A process that serves; dropped, it is ended as a crash would end it (SIGKILL), and reaped.
pub(crate) struct Server {
    child: Child,
    /// What it says; the end of it is the end of the process.
    lines: Mutex<Receiver<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Waits so long; whether the process ended by itself meanwhile.
    pub(crate) fn ended_within(&self, millis: u64) -> bool {
        self.line(millis) == Err(RecvTimeoutError::Disconnected)
    }

    fn line(&self, millis: u64) -> Result<String, RecvTimeoutError> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.recv_timeout(Duration::from_millis(millis))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
