//! Events: what happened to an account's objects, as Stripe tells it by webhook and in a list.
//!
//! Whatever changes an object that refunds are about notes it here, as the object is right after;
//! [`Outbox::publish`](crate::webhook::Outbox::publish) makes the notes of one call into events.

use serde_json::{Map, Value, json};

use crate::{
    account::{Account, Call},
    api::VERSION,
    clock,
    failure::Failure,
    list::{Object, PAGE_PARAMS, Shelf},
};

/// How long an event can be read, in seconds of the sandbox's clock: thirty days, as on Stripe.
const EVENT_KEPT_SECS: i64 = 30 * 24 * 60 * 60;
/// How many events of an account can be read; older ones are forgotten first.
pub const EVENTS_KEPT_MAX: usize = 5_000;
/// How many types `types[]` may list.
const TYPES_MAX: usize = 20;

/// Something that happened and is not an event yet.
#[derive(Clone, Debug)]
pub(crate) struct Happening {
    at_secs: i64,
    /// Stripe's type of the event.
    kind: &'static str,
    object: Value,
    /// The former values of the fields that changed; absent for something new.
    previous: Option<Map<String, Value>>,
}

/// An event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: String,
    /// The connected account that it happened in; absent for the platform's own.
    account: Option<String>,
    happening: Happening,
    /// How many endpoints have not been told.
    pub(crate) pending_webhooks: u8,
    /// The id and the idempotency key of the request that did it, if any did.
    request: (Option<String>, Option<String>),
}

impl Event {
    pub(crate) fn new(
        id: String,
        account: Option<String>,
        happening: Happening,
        request: (Option<String>, Option<String>),
    ) -> Self {
        Self { id, account, happening, pending_webhooks: 0, request }
    }
}

impl Object for Event {
    const NOUN: &'static str = "event";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.happening.at_secs
    }

    fn render(&self) -> Value {
        let Happening { at_secs, kind, object, previous } = &self.happening;
        if self.is_thin() {
            return self.render_thin();
        }
        let mut data = Map::from_iter([("object".to_owned(), object.clone())]);
        if let Some(previous) = previous {
            data.insert("previous_attributes".to_owned(), json!(previous));
        }
        let (request_id, idempotency_key) = &self.request;
        let mut rendered = json!({
            "id": self.id,
            "object": "event",
            "api_version": VERSION,
            "created": at_secs,
            "data": data,
            "livemode": false,
            "pending_webhooks": self.pending_webhooks,
            "request": { "id": request_id, "idempotency_key": idempotency_key },
            "type": kind,
        });
        if let (Some(account), Some(fields)) = (&self.account, rendered.as_object_mut()) {
            fields.insert("account".to_owned(), json!(account));
        }
        rendered
    }
}

impl Event {
    /// Whether it only names its object, as events of the second version of Stripe's interface do.
    fn is_thin(&self) -> bool {
        self.happening.kind.starts_with("v2.")
    }

    fn render_thin(&self) -> Value {
        let Happening { at_secs, kind, object, .. } = &self.happening;
        let text = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let (request_id, idempotency_key) = &self.request;
        let request = json!({ "id": request_id, "idempotency_key": idempotency_key });
        json!({
            "id": self.id,
            "object": "v2.core.event",
            "context": self.account,
            "created": clock::rfc3339(*at_secs),
            "livemode": false,
            "reason": request_id.as_ref().map(|_| json!({ "type": "request", "request": request })),
            "related_object": {
                "id": text("id"),
                "type": text("object"),
                "url": format!("/v2/core/approval_requests/{}", text("id")),
            },
            "type": kind,
        })
    }
}

impl Account {
    /// Notes that `kind` happened to `object`, which was `before` until then; `None` for a new one.
    pub(crate) fn note(
        &mut self,
        at_secs: i64,
        kind: &'static str,
        object: &Value,
        before: Option<&Value>,
    ) {
        let previous = before.map(|before| former_values(before, object));
        self.happenings.push(Happening { at_secs, kind, object: object.clone(), previous });
    }
}

/// Forgets what Stripe would not show any more.
pub(crate) fn forget_old(events: &mut Shelf<Event>, now_secs: i64) {
    events.forget(now_secs.saturating_sub(EVENT_KEPT_SECS), EVENTS_KEPT_MAX);
}

/// What the fields that differ were before; null for those that were not there.
fn former_values(before: &Value, after: &Value) -> Map<String, Value> {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
        return Map::new();
    };
    let gone = before.iter().filter(|(name, _)| !after.contains_key(*name));
    let gone = gone.map(|(name, old)| (name.clone(), old.clone()));
    let changed = after.iter().filter(|(name, new)| before.get(*name) != Some(*new));
    let changed =
        changed.map(|(name, _)| (name.clone(), before.get(name).cloned().unwrap_or_default()));
    gone.chain(changed).collect()
}

impl Call<'_> {
    pub(crate) fn read_event(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[])?;
        Ok(self.account.events.need(id, "id")?.render())
    }

    /// Lists events, those of one `type` or of several `types[]`; `charge.*` stands for all that
    /// begin so.
    pub(crate) fn list_events(&mut self, _id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[&PAGE_PARAMS[..], &["type", "types[]"]].concat())?;
        let mut wanted = self.params.list("types")?;
        if let Some(one) = self.params.text("type")? {
            if !wanted.is_empty() {
                let text = "You may only specify one of these parameters: type, types.";
                return Err(Failure::invalid(text).code("parameters_exclusive").param("types"));
            }
            wanted.push(one);
        }
        if wanted.len() > TYPES_MAX {
            let text = format!("You may list at most {TYPES_MAX} types.");
            return Err(Failure::invalid(text).param("types"));
        }
        self.account.events.page("/v1/events", self.params, |event| {
            let kind = event.happening.kind;
            let is = |pattern: &&str| match pattern.strip_suffix('*') {
                Some(prefix) => kind.starts_with(prefix),
                None => kind == *pattern,
            };
            // Thin events are not in this list.
            !event.is_thin() && (wanted.is_empty() || wanted.iter().any(is))
        })
    }
}
