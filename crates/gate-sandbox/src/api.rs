//! One request to the Stripe API, from the ordered fault to the answer.
//!
//! The order is Stripe's: key, rate limit, permission, idempotency, parameters, execution. Answers
//! are kept under the idempotency key from the moment that execution began.

use serde_json::Value;

use crate::{
    Delivery, Reply, Request, Sandbox,
    account::{Account, Call},
    clock::{self, Moment},
    expand,
    failure::Failure,
    faults::Kind,
    form::Params,
    holds,
    idempotency::{KEY_CHARS_MAX, Record},
    keys::Caller,
    route::{self, Route},
    webhook::Cause,
};

/// The version whose shapes the sandbox speaks, whatever version a request names.
pub(crate) const VERSION: &str = "2025-09-30.clover";

/// An answer before it is dressed with headers.
struct Answer {
    status: u16,
    body: Vec<u8>,
    headers: Vec<(&'static str, String)>,
}

/// What an ordered fault does to the execution.
#[derive(Clone, Copy)]
enum Execution {
    /// Executed; the answer is under way for so many milliseconds, and so are the events.
    Answered { answer_ms: i64, events_ms: i64 },
    /// Executed, but answered with a 500.
    LostInside,
    /// Not executed, but answered with a 500.
    Skipped,
}

impl Answer {
    fn failure(failure: &Failure, request_id: &str) -> Self {
        let body = failure.body(request_id).to_string().into_bytes();
        Self { status: failure.status, body, headers: Vec::new() }
    }

    fn rate_limited(reason: &str, request_id: &str) -> Self {
        let mut answer = Self::failure(&Failure::rate_limited(), request_id);
        answer.headers.push(("Stripe-Rate-Limited-Reason", reason.to_owned()));
        answer
    }
}

impl Sandbox {
    /// Answers a request outside `/_sandbox/`.
    pub(crate) fn answer_api(&mut self, now: Moment, request: &Request) -> Reply {
        let second = request.path.starts_with("/v2/");
        let params = match second {
            true => holds::params(&request.query, &request.body),
            false => Params::parse(&request.query, &request.body),
        };
        let request_id = self.random.id("req_", 14);
        let fault = self.faults.take(&request.method, &request.path);
        let delay_ms = fault.as_ref().map_or(0, |fault| fault.delay_ms);
        let answer_ms = i64::try_from(delay_ms).unwrap_or(i64::MAX);
        let kind = fault.map(|fault| fault.kind);
        let answered = match kind {
            Some(Kind::DropBefore | Kind::Reset) => None,
            Some(Kind::Status409) => {
                let key = request.header("idempotency-key").unwrap_or_default();
                Some(Answer::failure(&Failure::key_in_use(key), &request_id))
            }
            Some(Kind::Status429) => {
                let mut answer = Answer::rate_limited("endpoint-rate", &request_id);
                let wait = (delay_ms > 0).then(|| delay_ms.div_ceil(1000).to_string());
                answer.headers.extend(wait.map(|secs| ("Retry-After", secs)));
                Some(answer)
            }
            Some(Kind::Status500Done) => {
                Some(self.answer(now, request, &params, &request_id, Execution::LostInside))
            }
            Some(Kind::Status500Stored) => {
                Some(self.answer(now, request, &params, &request_id, Execution::Skipped))
            }
            Some(Kind::Delay) => {
                let execution = Execution::Answered { answer_ms, events_ms: answer_ms };
                Some(self.answer(now, request, &params, &request_id, execution))
            }
            Some(Kind::WebhookBeforeAnswer) => {
                let execution = Execution::Answered { answer_ms, events_ms: 0 };
                Some(self.answer(now, request, &params, &request_id, execution))
            }
            None
            | Some(
                Kind::DropAfter
                | Kind::Malformed
                | Kind::SlowBody
                | Kind::WebhookForged
                | Kind::WebhookLate
                | Kind::WebhookReorder
                | Kind::WebhookTwice,
            ) => {
                let execution = Execution::Answered { answer_ms: 0, events_ms: 0 };
                Some(self.answer(now, request, &params, &request_id, execution))
            }
        };
        self.remember(request, &params, answered.as_ref().map(|answer| answer.status));
        let delivery = match kind {
            Some(Kind::Delay | Kind::WebhookBeforeAnswer) => Delivery::Delay { ms: delay_ms },
            Some(Kind::DropAfter | Kind::DropBefore) => Delivery::Drop,
            Some(Kind::Reset) => Delivery::Reset,
            Some(Kind::SlowBody) => Delivery::SlowBody { ms: delay_ms },
            None
            | Some(
                Kind::Malformed
                | Kind::Status409
                | Kind::Status429
                | Kind::Status500Done
                | Kind::Status500Stored
                | Kind::WebhookForged
                | Kind::WebhookLate
                | Kind::WebhookReorder
                | Kind::WebhookTwice,
            ) => Delivery::Normal,
        };
        // What is never sent still has the form of an answer.
        let mut answer = answered.unwrap_or(Answer { status: 500, body: vec![], headers: vec![] });
        if kind == Some(Kind::Malformed) {
            answer.body.truncate(answer.body.len() / 2);
        }
        dressed(answer, delivery, now, request, request_id)
    }

    /// Finds out who calls and what for, then executes or repeats.
    fn answer(
        &mut self,
        now: Moment,
        request: &Request,
        params: &Params,
        request_id: &str,
        execution: Execution,
    ) -> Answer {
        let (caller, route, id) = match self.admit(request) {
            Ok(admitted) => admitted,
            Err(failure) => return Answer::failure(&failure, request_id),
        };
        let account = self
            .accounts
            .entry(caller.account.clone())
            .or_insert_with(|| Account::new(&caller.account));
        if self.settings.rate_limits
            && let Err(reason) = account.rates.count(now.ms, request.path.ends_with("/search"))
        {
            return Answer::rate_limited(reason, request_id);
        }
        account.settle(now.secs, &mut self.outbox.random);
        self.outbox.publish(account, Cause::default(), now, &mut self.faults);
        let key = request.header("idempotency-key").filter(|_| request.method == "POST");
        let endpoint = format!("{} {}", request.method, request.path);
        if let Some(key) = key {
            match kept_answer(account, key, &endpoint, params, now) {
                Ok(None) => {}
                Ok(Some(answer)) => return answer,
                Err(failure) => return Answer::failure(&failure, request_id),
            }
        }
        let call = Call {
            account: &mut *account,
            random: &mut self.random,
            now_secs: now.secs,
            settings: &self.settings,
            params,
            caller: &caller,
        };
        let outcome = execution.of(call, &route, id);
        let cause = Cause {
            method: &request.method,
            path: &request.path,
            request_id: Some(request_id),
            idempotency_key: request.header("idempotency-key"),
            wait_ms: execution.events_ms(),
        };
        self.outbox.publish(account, cause, now, &mut self.faults);
        let begun = outcome.as_ref().map_or_else(|failure| failure.begun, |_| true);
        let mut answer = match outcome {
            Ok(value) => Answer { status: 200, body: value.to_string().into(), headers: vec![] },
            Err(failure) => Answer::failure(&failure, request_id),
        };
        if let Some(key) = key.filter(|_| begun) {
            answer.headers.push(("Original-Request", request_id.to_owned()));
            let record = Record {
                endpoint,
                params: params.sorted(),
                status: answer.status,
                body: answer.body.clone(),
                request_id: request_id.to_owned(),
                kept_secs: now.secs,
                in_flight_until_ms: execution.until_ms(now),
            };
            account.kept.keep(key, record);
        }
        answer
    }

    /// Who calls, and where the call goes, if the key may go there.
    fn admit<'c, 'p>(&self, request: &'p Request) -> Result<(Caller, Route<'c>, &'p str), Failure> {
        let caller = self.keys.caller(request, &self.own_account)?;
        // What lies behind a preview is not there for other versions.
        let preview = request.header("stripe-version").is_some_and(|it| it.ends_with(".preview"));
        let (route, id) = route::find(&request.method, &request.path)
            .filter(|_| preview || !request.path.starts_with("/v2/"))
            .ok_or_else(|| Failure::unrecognized_url(&request.method, &request.path))?;
        caller.require(route.answer.resource(), route.access)?;
        Ok((caller, route, id))
    }
}

impl Execution {
    fn of<'c>(self, call: Call<'c>, route: &Route<'c>, id: &str) -> Result<Value, Failure> {
        match self {
            Self::Answered { .. } => execute(call, route, id),
            Self::LostInside => match execute(call, route, id) {
                // What was never begun cannot be lost.
                Err(failure) if !failure.begun => Err(failure),
                Ok(_) | Err(_) => Err(Failure::internal()),
            },
            Self::Skipped => Err(Failure::internal()),
        }
    }

    const fn until_ms(self, now: Moment) -> i64 {
        match self {
            Self::Answered { answer_ms, .. } => now.real_ms.saturating_add(answer_ms),
            Self::LostInside | Self::Skipped => now.real_ms,
        }
    }

    const fn events_ms(self) -> i64 {
        match self {
            Self::Answered { events_ms, .. } => events_ms,
            Self::LostInside | Self::Skipped => 0,
        }
    }
}

fn execute<'c>(mut call: Call<'c>, route: &Route<'c>, id: &str) -> Result<Value, Failure> {
    let expansions = expand::plan(route.answer, call.params, call.caller)?;
    let mut value = (route.run)(&mut call, id)?;
    expand::apply(call.account, route.answer, &mut value, &expansions);
    Ok(value)
}

/// The answer that this request has already had under its idempotency key.
fn kept_answer(
    account: &mut Account,
    key: &str,
    endpoint: &str,
    params: &Params,
    now: Moment,
) -> Result<Option<Answer>, Failure> {
    let length = key.chars().count();
    if length == 0 || length > KEY_CHARS_MAX {
        return Err(Failure::invalid(format!(
            "Idempotency keys must be between 1 and {KEY_CHARS_MAX} characters long; this one has \
             {length}."
        )));
    }
    let Some(record) = account.kept.find(key, endpoint, &params.sorted(), now)? else {
        return Ok(None);
    };
    Ok(Some(Answer {
        status: record.status,
        body: record.body.clone(),
        headers: vec![
            ("Idempotent-Replayed", "true".to_owned()),
            ("Original-Request", record.request_id.clone()),
        ],
    }))
}

/// The reply with the headers that every answer of Stripe has.
fn dressed(
    answer: Answer,
    delivery: Delivery,
    now: Moment,
    request: &Request,
    request_id: String,
) -> Reply {
    let version = request.header("stripe-version").unwrap_or(VERSION).to_owned();
    let mut headers = vec![
        ("Content-Type", "application/json".to_owned()),
        ("Date", clock::http_date(now.secs)),
        ("Request-Id", request_id),
        ("Stripe-Version", version),
    ];
    if let Some(key) = request.header("idempotency-key") {
        headers.push(("Idempotency-Key", key.to_owned()));
    }
    headers.extend(answer.headers);
    let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Reply { status: answer.status, headers, body: answer.body, delivery }
}
