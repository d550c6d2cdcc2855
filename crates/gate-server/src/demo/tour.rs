//! The guided tour: each step as it is asked, decided and done.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gate_authority::{Actor, Admin, LocalAuthority};
use gate_core::{ApprovalId, Clock, UserName};
use gate_http::{HeaderText, HyperTransport, Method, Request, Transport};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{REVIEWER, WEBHOOK_SECRET};
use crate::cli::{Output, SetUp, this_program};
use crate::stripe_sandbox::SharedSandbox;
use crate::system::SystemClock;

/// How long one call of the tour may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// What the tour is played on.
pub(super) struct Stage {
    pub(super) authority: Arc<LocalAuthority>,
    pub(super) sandbox: SharedSandbox,
    pub(super) sandbox_url: String,
    pub(super) url: String,
    pub(super) home: PathBuf,
    pub(super) agent_key: String,
}

/// One step: what is asked, and what must come of it.
struct Step {
    title: &'static str,
    /// What happens before the agent asks.
    before: Before,
    body: Value,
    status: &'static str,
    replayed: bool,
    /// What must stand in the answer's reasons.
    reason: Option<&'static str>,
}

/// What a step needs done first.
enum Before {
    Nothing,
    /// Stripe makes the refund, and its answer is lost on the way.
    LoseStripesAnswer,
    /// The reviewer approves what waits, and the gateway makes the refund.
    Approve,
}

/// The charges of the demo: id, amount in minor units, currency.
const CHARGES: [(&str, i64, &str); 5] = [
    ("ch_demo_shoes", 4990, "eur"),
    ("ch_demo_book", 1800, "jpy"),
    ("ch_demo_bike", 89_900, "usd"),
    ("ch_demo_chair", 6000, "usd"),
    ("ch_demo_lamp", 2500, "usd"),
];

fn steps() -> [Step; 8] {
    let ask = |target: &str, amount: Option<i64>, key: &str| match amount {
        Some(minor) => json!({ "target": target, "amountMinor": minor, "idempotencyKey": key }),
        None => json!({ "target": target, "idempotencyKey": key }),
    };
    let step = |title, body, status| Step {
        title,
        before: Before::Nothing,
        body,
        status,
        replayed: false,
        reason: None,
    };
    let held = json!({
        "target": "ch_demo_chair",
        "idempotencyKey": "ticket-4",
        "justification": "ticket 4: the chair arrived broken, photo attached",
    });
    [
        step(
            "A refund of 12.50 EUR, within the policy",
            ask("ch_demo_shoes", Some(1250), "ticket-1"),
            "refunded",
        ),
        Step {
            replayed: true,
            ..step(
                "The same request again: the agent forgot, or its connection broke",
                ask("ch_demo_shoes", Some(1250), "ticket-1"),
                "refunded",
            )
        },
        step(
            "A refund in yen, which have no cents",
            ask("ch_demo_book", Some(500), "ticket-2"),
            "refunded",
        ),
        Step {
            reason: Some("max_per_payment"),
            ..step(
                "A refund of 899.00 USD, over the most for one",
                ask("ch_demo_bike", None, "ticket-3"),
                "denied",
            )
        },
        Step {
            reason: Some("approval_threshold"),
            ..step(
                "A refund of 60.00 USD, which a person has to look at",
                held.clone(),
                "pending_approval",
            )
        },
        Step {
            before: Before::Approve,
            replayed: true,
            ..step("maria approves it; the gateway makes the refund", held, "refunded")
        },
        Step {
            before: Before::LoseStripesAnswer,
            ..step(
                "Stripe makes a refund, and its answer is lost: it is looked for, not sent again",
                ask("ch_demo_lamp", None, "ticket-5"),
                "refunded",
            )
        },
        Step {
            reason: Some("daily_cap"),
            ..step(
                "A refund of 49.00 USD, more than is left of the day's 150.00",
                ask("ch_demo_bike", Some(4900), "ticket-6"),
                "denied",
            )
        },
    ]
}

/// Plays the tour; an error says which step did not go as it must.
pub(super) async fn play(stage: &Stage, out: &Output) -> Result<(), String> {
    let caller = Caller::new(stage);
    make_charges(stage)?;
    let mut wrong = Vec::new();
    for (number, step) in (1_u32..).zip(steps()) {
        caller.before(&step).await?;
        let answer = caller.refund(&step.body).await?;
        let fits = fits(&step, &answer);
        tell(out, number, &step, &answer, fits);
        if !fits {
            wrong.push(number.to_string());
        }
    }
    let made = stage.sandbox.refunds().len();
    let expected = 4;
    out.say(&format!("\nStripe made {made} refunds, one for each that was allowed."));
    if made != expected {
        wrong.push(format!("the count of refunds ({made} instead of {expected})"));
    }
    if wrong.is_empty() {
        out.say("The tour went as it must.");
        Ok(())
    } else {
        Err(format!("the tour went wrong at {}", wrong.join(", ")))
    }
}

fn fits(step: &Step, answer: &Value) -> bool {
    text_at(answer, "/status") == step.status
        && is_replayed(answer) == step.replayed
        && step.reason.is_none_or(|code| reasons(answer).any(|reason| reason.0 == code))
}

fn text_at<'a>(answer: &'a Value, pointer: &str) -> &'a str {
    answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_replayed(answer: &Value) -> bool {
    answer.get("replayed").and_then(Value::as_bool).unwrap_or_default()
}

/// Code and message of each reason.
fn reasons(answer: &Value) -> impl Iterator<Item = (&str, &str)> {
    let reasons = answer.get("reasons").and_then(Value::as_array);
    let both = |reason| (text_at(reason, "/code"), text_at(reason, "/message"));
    reasons.into_iter().flatten().map(both)
}

fn tell(out: &Output, number: u32, step: &Step, answer: &Value, fits: bool) {
    let status = text_at(answer, "/status");
    let replayed = is_replayed(answer);
    let json = json!({
        "step": number,
        "title": step.title,
        "asked": step.body,
        "status": status,
        "replayed": replayed,
        "ok": fits,
        "answer": answer,
    });
    out.either(&json, || {
        let mut text = format!("\n{number}. {}\n   asked    {}", step.title, step.body);
        let mark = if replayed { " (replayed)" } else { "" };
        let amount = text_at(answer, "/amount/text");
        text.push_str(&format!("\n   decided  status {status}{mark}, {amount}"));
        for (code, message) in reasons(answer) {
            text.push_str(&format!("\n            {code}: {message}"));
        }
        let done = match text_at(answer, "/refund/id") {
            "" => "nothing was refunded".to_owned(),
            refund => format!("refund {refund} at Stripe"),
        };
        text.push_str(&format!("\n   done     {done}"));
        if !fits {
            text.push_str(&format!(
                "\n   WRONG    expected status {}, replayed {}, reason {:?}",
                step.status, step.replayed, step.reason
            ));
        }
        text
    });
}

/// Says how to play it by hand: lines that can be pasted, and comments between them.
pub(super) fn guide(stage: &Stage, out: &Output) {
    out.listening(&stage.url);
    if let Err(error) = connect_webhooks(stage).and_then(|()| make_charges(stage)) {
        out.say(&error);
        return;
    }
    let authorization = format!("-H 'authorization: Bearer {}'", stage.agent_key);
    let ask = |body: &Value| {
        format!(
            "curl -s {}/v1/actions/stripe.refund {authorization} \\\n  \
             -H 'content-type: application/json' -d '{body}'",
            stage.url
        )
    };
    let program = this_program();
    let admin =
        |command: &str| format!("'{program}' {command} --data-dir '{}'", stage.home.display());
    let first =
        json!({ "target": "ch_demo_shoes", "amountMinor": 1250, "idempotencyKey": "ticket-1" });
    let over = json!({ "target": "ch_demo_bike", "idempotencyKey": "ticket-3" });
    let held = json!({ "target": "ch_demo_chair", "idempotencyKey": "ticket-4" });
    let fail = json!({ "status": "failed" });
    let lose = json!({ "method": "POST", "path": "/v1/refunds", "kind": "drop_after", "times": 1 });
    let sandbox = &stage.sandbox_url;
    let waiting = format!("{} | head -1", admin("approval list"));
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "stripe_refund", "arguments": first },
    });
    let over_mcp = format!(
        "curl -s {}/mcp {authorization} -H 'content-type: application/json' \\\n  \
         -H 'accept: application/json, text/event-stream' -d '{call}'",
        stage.url
    );
    let key = Some(stage.agent_key.as_str());
    let clients = SetUp { url: &stage.url, program: program.clone(), key }.text("#   ");
    let newest = format!(
        "curl -s '{sandbox}/v1/refunds?limit=1' -u sk_test_demo: | grep -o 're_[A-Za-z0-9]*' | head -1"
    );
    let lines = [
        "# Everything runs on this machine, and nothing here moves real money.".to_owned(),
        "\n# Ask as the agent. Paste it twice: the second time it is replayed.".to_owned(),
        ask(&first),
        "\n# Ask for more than the policy lets through at once: denied, with the reason."
            .to_owned(),
        ask(&over),
        "\n# Ask for as much as a person has to look at: pending_approval.".to_owned(),
        ask(&held),
        "\n# See what waits for a person, and approve the first of it as maria.".to_owned(),
        admin("approval list"),
        admin(&format!("approval approve \"$({waiting} | cut -d' ' -f1)\" --as {REVIEWER}")),
        "\n# Ask as an agent behind MCP does: the same tool, the same answer as at first."
            .to_owned(),
        over_mcp,
        "\n# Connect a client of MCP: with a command, or with what it reads from a file."
            .to_owned(),
        format!("export BURNBOUND_KEY='{}'", stage.agent_key),
        clients,
        "\n# See what is left, what there was, and the policy.".to_owned(),
        format!("curl -s {}/v1/budget {authorization}", stage.url),
        admin("intent list"),
        admin("policy show"),
        "\n# Have the newest refund fail at Stripe: a webhook tells the gateway, and the intent is"
            .to_owned(),
        "# reversed.".to_owned(),
        format!("curl -s \"{sandbox}/_sandbox/refunds/$({newest})\" -d '{fail}'"),
        "\n# See what Stripe's stand-in received, and have it lose its next answer.".to_owned(),
        format!("curl -s {sandbox}/_sandbox/requests"),
        format!("curl -s {sandbox}/_sandbox/faults -d '{lose}'"),
    ];
    if !out.json {
        out.result(&lines.join("\n"));
    }
    out.say("\nCtrl-C ends it and forgets everything.");
}

/// Has the stand-in tell the gateway what happens.
fn connect_webhooks(stage: &Stage) -> Result<(), String> {
    let url = format!("{}/webhooks/stripe", stage.url);
    control(stage, "/_sandbox/webhook", &json!({ "url": url, "secret": WEBHOOK_SECRET }))
}

fn make_charges(stage: &Stage) -> Result<(), String> {
    for (id, amount, currency) in CHARGES {
        let charge = json!({ "id": id, "amount": amount, "currency": currency });
        control(stage, "/_sandbox/charges", &charge)?;
    }
    Ok(())
}

fn control(stage: &Stage, path: &str, body: &Value) -> Result<(), String> {
    let reply = stage.sandbox.handle(&gate_sandbox::Request {
        method: "POST".to_owned(),
        path: path.to_owned(),
        body: body.to_string().into_bytes(),
        ..gate_sandbox::Request::default()
    });
    match reply.status {
        200 => Ok(()),
        status => Err(format!(
            "the sandbox refused {path} with {status}: {}",
            String::from_utf8_lossy(&reply.body)
        )),
    }
}

struct Caller<'a> {
    stage: &'a Stage,
    clock: Arc<SystemClock>,
    transport: HyperTransport,
}

impl<'a> Caller<'a> {
    fn new(stage: &'a Stage) -> Self {
        let clock = Arc::new(SystemClock::start());
        let same: Arc<dyn Clock> = Arc::<SystemClock>::clone(&clock);
        Self { stage, clock, transport: HyperTransport::new(same) }
    }

    async fn refund(&self, body: &Value) -> Result<Value, String> {
        self.call(Method::Post, "/v1/actions/stripe.refund", body.to_string().into_bytes()).await
    }

    async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Value, String> {
        let key = SecretString::from(format!("Bearer {}", self.stage.agent_key));
        let request = Request {
            method,
            url: format!("{}{path}", self.stage.url),
            headers: vec![
                ("authorization", HeaderText::Secret(key)),
                ("content-type", "application/json".into()),
            ],
            body,
        };
        let by = self.clock.deadline(CALL_TIMEOUT);
        let response = self.transport.send(request, by).await.map_err(|e| e.to_string())?;
        serde_json::from_slice(&response.body)
            .map_err(|error| format!("the gateway's answer is no JSON: {error}"))
    }

    async fn before(&self, step: &Step) -> Result<(), String> {
        match step.before {
            Before::Nothing => Ok(()),
            Before::LoseStripesAnswer => {
                let fault = json!({
                    "method": "POST", "path": "/v1/refunds", "kind": "drop_after", "times": 1
                });
                control(self.stage, "/_sandbox/faults", &fault)
            }
            Before::Approve => self.approve().await,
        }
    }

    /// Approves as the command does, and waits until the gateway has made the refund.
    async fn approve(&self) -> Result<(), String> {
        let page = self.call(Method::Get, "/v1/intents?state=pending_approval", Vec::new()).await?;
        let approval = text_at(&page, "/data/0/approvalId");
        let intent = text_at(&page, "/data/0/intentId").to_owned();
        let id = ApprovalId::parse(approval).map_err(|error| error.to_string())?;
        let user = UserName::parse(REVIEWER).map_err(|error| error.to_string())?;
        let admin = Admin::new(&self.stage.authority, Actor::cli("demo", Some(&user)));
        let note = Some("photo looks right");
        admin.approve(&id, &user, note).await.map_err(|error| error.to_string())?;
        for _ in 0..3 {
            let path = format!("/v1/intents/{intent}?wait=10");
            if text_at(&self.call(Method::Get, &path, Vec::new()).await?, "/state") == "settled" {
                break;
            }
        }
        Ok(())
    }
}
