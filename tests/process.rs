//! The real binary as child processes: started, read, killed and always reaped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Answer, Call};
use crate::world::{REFUND, remote};

/// The Stripe key that gateways are given.
pub(crate) const KEY: &str = "rk_test_51KeyOfTheProcess9876";
/// A policy under which the agent may refund 100.00 USD a day.
pub(crate) const POLICY: &str = "[organization]\n\n[agents.support-bot]\n\
    methods = [\"stripe_refund\"]\nallowed_hosts = [\"stripe-refund.action\"]\n\
    daily_cap = \"100.00\"\n";

/// The binary, with nothing of this process's environment.
fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway-under-test"));
    command.env_clear();
    command
}

/// A server that runs.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    /// The first line that it printed.
    pub(crate) first_line: String,
    child: Child,
    log: PathBuf,
    stdout: BufReader<ChildStdout>,
    /// Holds the log of a server without a home.
    _dir: Option<TempDir>,
}

/// How a server ended.
pub(crate) struct Ended {
    /// The exit code; none after a signal.
    pub(crate) code: Option<i32>,
    /// Everything that it printed or logged.
    pub(crate) words: String,
}

impl Server {
    fn start(mut command: Command, log: PathBuf, dir: Option<TempDir>) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first_line = String::new();
        stdout.read_line(&mut first_line).unwrap();
        let at = first_line.trim_end().trim_end_matches("\"}").rsplit("http://").next();
        let Some(at) = at.and_then(|at| at.parse().ok()) else {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{first_line:?} {}", std::fs::read_to_string(&log).unwrap());
        };
        Self { at, first_line, child, log, stdout, _dir: dir }
    }

    /// A server that needs no data directory.
    pub(crate) fn of(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = binary();
        command.args(arguments);
        Self::start(command, dir.path().join("log"), Some(dir))
    }

    pub(crate) fn sandbox() -> Self {
        Self::of(&["stripe-sandbox", "--port", "0"])
    }

    /// What it prints after its first line, up to a line with this in it.
    pub(crate) fn printed(&mut self, last: &str) -> String {
        let mut words = String::new();
        while !words.contains(last) {
            let read = self.stdout.read_line(&mut words).unwrap();
            assert!(read > 0, "it never printed {last}: {words}");
        }
        words
    }

    /// Ends it as a crash would, at once.
    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.end()
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let mut words = self.first_line.clone();
        self.stdout.read_to_string(&mut words).unwrap();
        let code = self.child.wait().unwrap().code();
        words.push_str(&std::fs::read_to_string(&self.log).unwrap());
        Ended { code, words }
    }

    // The sandbox's control interface.

    pub(crate) async fn control(&self, path: &str, body: &Value) -> Value {
        let answer = Call::post(path, body).send(self.at).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.json);
        answer.json
    }

    /// Has the calls that make refunds go wrong.
    pub(crate) async fn fault(&self, kind: &str, times: u32, delay_millis: u64) {
        let mut fault =
            json!({ "method": "POST", "path": "/v1/refunds", "kind": kind, "times": times });
        if delay_millis > 0 {
            fault["delayMs"] = json!(delay_millis);
        }
        self.control("/_sandbox/faults", &fault).await;
    }

    /// The attempts at a refund that the sandbox received.
    pub(crate) async fn attempts(&self) -> Vec<Value> {
        let seen = Call::get("/_sandbox/requests").send(self.at).await.json;
        let refund = |call: &&Value| call["method"] == "POST" && call["path"] == "/v1/refunds";
        seen.as_array().unwrap().iter().filter(refund).cloned().collect()
    }

    /// Returns once it received so many attempts.
    pub(crate) async fn attempted(&self, count: usize) {
        for _ in 0..100_000 {
            if self.attempts().await.len() >= count {
                return;
            }
        }
        panic!("Stripe was never asked");
    }

    /// Returns once it received such a call.
    pub(crate) async fn received(&self, method: &str, path: &str) {
        for _ in 0..100_000 {
            let seen = Call::get("/_sandbox/requests").send(self.at).await.json;
            let mut calls = seen.as_array().unwrap().iter();
            if calls.any(|call| call["method"] == method && call["path"] == path) {
                return;
            }
        }
        panic!("Stripe never received {method} {path}");
    }

    /// The refunds of a charge, or of all, up to 100.
    pub(crate) async fn refunds(&self) -> Vec<Value> {
        let page = Call::get("/v1/refunds?limit=100").key("sk_test_tests").send(self.at).await;
        page.json["data"].as_array().unwrap().clone()
    }

    // The gateway's interface.

    /// What it says of itself, once that has this status.
    pub(crate) async fn ready(&self, status: u16) -> Value {
        let mut last = Value::Null;
        for _ in 0..10_000 {
            let answer = Call::get("/readyz").send(self.at).await;
            if answer.status == status {
                return answer.json;
            }
            last = answer.json;
        }
        panic!("never {status}: {last}");
    }

    pub(crate) async fn ask(&self, key: &str, body: &Value) -> Answer {
        Call::post(REFUND, body).key(key).send(self.at).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A data directory, and what is run over it.
pub(crate) struct Home {
    dir: TempDir,
    /// Where the records are, when not in a file in the directory.
    database: Option<String>,
    /// Where gateways ask over the network: the authority's process, and their credential.
    fleet: Mutex<Option<Fleet>>,
}

/// An authority that runs, and one gateway's credential for it.
struct Fleet {
    authority: Server,
    id: String,
    secret: String,
}

/// Variables that are the authority's where it runs alone.
const THE_AUTHORITYS: [&str; 4] =
    ["FIAT_USD_RATES", "GATEWAY_DATABASE", "GATEWAY_FX_URL", "GATEWAY_FX_MAX_AGE"];

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), database: None, fleet: Mutex::default() }
    }

    /// A data directory whose records are in the PostgreSQL database of this address.
    pub(crate) fn on(database: &str) -> Self {
        let home = Self { database: Some(database.to_owned()), ..Self::new() };
        std::fs::write(home.path("shared.key"), "0123456789abcdef".repeat(4)).unwrap();
        home
    }

    /// A data directory with a policy, a reviewer and an agent, whose key comes with it.
    pub(crate) fn with_agent(policy: &str) -> (Self, String) {
        let home = Self::new();
        let key = home.furnish(policy);
        (home, key)
    }

    /// Applies a policy, makes a reviewer and an agent, and answers with its key.
    pub(crate) fn furnish(&self, policy: &str) -> String {
        std::fs::write(self.path("policy.toml"), policy).unwrap();
        let file = self.path("policy.toml");
        self.done(&["policy", "apply", file.to_str().unwrap()]);
        self.done(&["user", "create", "maria", "--role", "reviewer"]);
        let made = self.done(&["agent", "create", "support-bot", "--json"]).json();
        made["key"].as_str().unwrap().to_owned()
    }

    /// Where the records are, as variables.
    fn records(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.database.iter().flat_map(|url| {
            let key = self.path("shared.key").display().to_string();
            [("GATEWAY_DATABASE", url.clone()), ("GATEWAY_MASTER_KEY_FILE", key)]
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.data().join("gateway.db")
    }

    /// Runs a command over the data directory, with more variables.
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let output = binary()
            .args(arguments)
            .env("GATEWAY_DATA_DIR", self.data())
            .envs(self.records())
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Ran::of(output)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[])
    }

    /// Has a shell run commands as the manual has them, over the data directory; each must end
    /// with 0.
    pub(crate) fn shell(&self, commands: &str) {
        let (bin, link) = (self.path("bin"), self.path("bin").join("action-gateway"));
        if !link.exists() {
            std::fs::create_dir(&bin).unwrap();
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gateway-under-test"), link).unwrap();
        }
        let output = Command::new("/bin/sh")
            .args(["-euxc", commands])
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", bin)
            .env("GATEWAY_DATA_DIR", self.data())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a command that must end with 0.
    pub(crate) fn done(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}{}", ran.out, ran.err);
        ran
    }

    /// Starts a gateway on a port of its own, over this data directory and that Stripe.
    pub(crate) fn serve(&self, sandbox: &Server, variables: &[(&str, &str)]) -> Server {
        let key = [("STRIPE_SECRET_KEY", KEY)];
        self.serve_without_key(sandbox, &[&key, variables].concat())
    }

    /// The same without a Stripe key, unless the variables give one.
    pub(crate) fn serve_without_key(&self, sandbox: &Server, variables: &[(&str, &str)]) -> Server {
        if remote() {
            return self.remote_gateway(sandbox, variables);
        }
        self.gateway_with_authority(sandbox, variables)
    }

    /// Starts a gateway with the authority in it, however the tests are run.
    pub(crate) fn serve_embedded(&self, sandbox: &Server, variables: &[(&str, &str)]) -> Server {
        let key = [("STRIPE_SECRET_KEY", KEY)];
        self.gateway_with_authority(sandbox, &[&key, variables].concat())
    }

    fn gateway_with_authority(&self, sandbox: &Server, variables: &[(&str, &str)]) -> Server {
        let stripe = format!("http://{}", sandbox.at);
        let mut command = binary();
        command
            .arg("serve")
            .env("GATEWAY_PORT", "0")
            .env("GATEWAY_DATA_DIR", self.data())
            .envs(self.records())
            .env("GATEWAY_EPHEMERAL", "1")
            .env("GATEWAY_FX_URL", format!("{stripe}/_sandbox/rates/eurofxref-daily.xml"))
            .env("STRIPE_API_BASE", stripe)
            .envs(variables.iter().copied());
        Server::start(command, self.path("log"), None)
    }

    /// Starts a gateway that asks this data directory's authority, which is started when it does
    /// not run yet. The gateway has no directory.
    pub(crate) fn serve_remote(&self, sandbox: &Server, variables: &[(&str, &str)]) -> Server {
        let key = [("STRIPE_SECRET_KEY", KEY)];
        self.remote_gateway(sandbox, &[&key, variables].concat())
    }

    fn remote_gateway(&self, sandbox: &Server, variables: &[(&str, &str)]) -> Server {
        let mut fleet = self.fleet.lock().unwrap();
        let fleet = fleet.get_or_insert_with(|| {
            let authority = self.serve_authority(sandbox, "127.0.0.1:0", variables);
            let made = self.done(&["gateway", "create", "east", "--json"]).json();
            let text = |name: &str| made[name].as_str().unwrap().to_owned();
            Fleet { authority, id: text("id"), secret: text("secret") }
        });
        let mut command = binary();
        let gateways = |(name, _): &&(&str, &str)| !THE_AUTHORITYS.contains(name);
        command
            .arg("serve")
            .env("GATEWAY_PORT", "0")
            .env("BURNBOUND_API", format!("http://{}", fleet.authority.at))
            .env("BURNBOUND_GATEWAY_ID", &fleet.id)
            .env("BURNBOUND_GATEWAY_SECRET", &fleet.secret)
            .env("GATEWAY_RECONCILE_INTERVAL", "1s")
            .env("STRIPE_API_BASE", format!("http://{}", sandbox.at))
            .envs(variables.iter().filter(gateways).copied());
        let log = self.path(&format!("log-{}", self.dir.path().read_dir().unwrap().count()));
        Server::start(command, log, None)
    }

    /// Runs `check --online` as that gateway.
    pub(crate) fn check_remote(&self, sandbox: &Server) -> Ran {
        let fleet = self.fleet.lock().unwrap();
        let Fleet { authority, id, secret } = fleet.as_ref().unwrap();
        let (api, stripe) = (format!("http://{}", authority.at), format!("http://{}", sandbox.at));
        let output = binary()
            .args(["check", "--online"])
            .envs([("BURNBOUND_API", &api), ("BURNBOUND_GATEWAY_ID", id)])
            .envs([("BURNBOUND_GATEWAY_SECRET", secret), ("STRIPE_API_BASE", &stripe)])
            .env("STRIPE_SECRET_KEY", KEY)
            .output()
            .unwrap();
        Ran::of(output)
    }

    /// Starts the authority alone.
    pub(crate) fn serve_authority(
        &self,
        sandbox: &Server,
        listen: &str,
        variables: &[(&str, &str)],
    ) -> Server {
        let rates = format!("http://{}/_sandbox/rates/eurofxref-daily.xml", sandbox.at);
        let mut command = binary();
        let not_stripes = |(name, _): &&(&str, &str)| !name.starts_with("STRIPE_");
        command
            .args(["authority"])
            .env("AUTHORITY_LISTEN", listen)
            .env("GATEWAY_DATA_DIR", self.data())
            .env("GATEWAY_EPHEMERAL", "1")
            .env("GATEWAY_FX_URL", rates)
            .envs(variables.iter().filter(not_stripes).copied());
        Server::start(command, self.path("log-authority"), None)
    }

    /// Where the authority listens.
    pub(crate) fn authority_at(&self) -> SocketAddr {
        self.fleet.lock().unwrap().as_ref().unwrap().authority.at
    }

    /// The gateways' secret, and what the authority logged.
    pub(crate) fn secret_and_log(&self) -> (String, String) {
        let secret = self.fleet.lock().unwrap().as_ref().unwrap().secret.clone();
        (secret, std::fs::read_to_string(self.path("log-authority")).unwrap())
    }

    /// Kills the authority, and starts it anew on the same port.
    pub(crate) fn kill_authority(&self, sandbox: &Server, variables: &[(&str, &str)]) {
        let mut fleet = self.fleet.lock().unwrap();
        let Fleet { authority, id, secret } = fleet.take().unwrap();
        let at = authority.at.to_string();
        assert_eq!(authority.kill().code, None);
        let authority = self.serve_authority(sandbox, &at, variables);
        *fleet = Some(Fleet { authority, id, secret });
    }
}
