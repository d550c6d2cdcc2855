//! Webhook deliveries: which are due, what they carry, and what becomes of them.
//!
//! Nothing is sent from here. Whoever has sockets, or plays them, takes what is due and reports
//! how it went. An event is due until one of its attempts is reported as received or the retries
//! are used up; a delivery that was taken and never reported counts as failed, so a sender that
//! crashes loses nothing.

use std::collections::VecDeque;

use ring::hmac;
use serde_json::{Map, Value, json};

use crate::{
    account::Account,
    clock::Moment,
    events::{self, Event},
    faults::{Faults, Kind},
    ids::Random,
    list::Object,
};

/// Seconds from a failed attempt to the next. Stripe's test mode tries three times more within
/// hours as well.
pub const WEBHOOK_RETRY_SECS: [i64; 3] = [60, 30 * 60, 2 * 60 * 60];
/// How many events may wait for delivery; older ones are given up first.
pub const WEBHOOKS_WAITING_MAX: usize = 5_000;
/// How many of the latest deliveries `GET /_sandbox/deliveries` shows.
pub const DELIVERIES_SHOWN_MAX: usize = 100;

/// What sets the ids made here apart from all others of the same seed.
const EVENT_SEED: u64 = 0x6576_656e_7473;
/// What forged deliveries are signed with.
const FORGED_SECRET: &[u8] = b"whsec_of_somebody_else";

/// One attempt to tell an endpoint of an event: a POST of `body` to `url`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookDelivery {
    /// The endpoint.
    pub url: String,
    /// Headers to send, `Content-Type` and `Stripe-Signature`; the length is left to the socket
    /// layer.
    pub headers: Vec<(String, String)>,
    /// The event as JSON; the signature is over exactly these bytes.
    pub body: Vec<u8>,
    /// `evt_…`.
    pub event_id: String,
    /// 1 for the first attempt of this event, and one more with each.
    pub attempt: u32,
}

/// Why something happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cause<'a> {
    /// The call that did it, for the faults that name it; empty when time alone did.
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// What the event says of it; a control call stays unmentioned.
    pub(crate) request_id: Option<&'a str>,
    pub(crate) idempotency_key: Option<&'a str>,
    /// Milliseconds that the deliveries wait, so that the answer goes out first.
    pub(crate) wait_ms: i64,
}

/// The endpoint, and the deliveries to it.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// The account whose events do not name it.
    own_account: String,
    /// For events and whatever else comes about by itself: the ids of what is asked for must not
    /// depend on when deliveries are asked for.
    pub(crate) random: Random,
    endpoint: Option<Endpoint>,
    waiting: VecDeque<Waiting>,
    /// The rank of the next event; see [`Waiting::rank`].
    rank: i64,
    counts: Counts,
    sent: VecDeque<Sent>,
}

/// Where deliveries go. The secret is kept only as the key it makes.
#[derive(Clone, Debug)]
struct Endpoint {
    url: String,
    key: hmac::Key,
}

/// How the attempts went that were reported, and how many events were given up.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    delivered: u64,
    failed: u64,
    given_up: u64,
}

/// An event that the endpoint has not received.
#[derive(Clone, Debug)]
struct Waiting {
    event_id: String,
    body: Vec<u8>,
    due_ms: i64,
    /// Of those that are due, the lowest goes first. Reordered ones count down, so that they
    /// overtake everything that was there before them.
    rank: i64,
    attempts: u32,
    /// Whether the next attempt has a wrong signature.
    forged: bool,
    /// Whether the next attempt is made twice.
    twice: bool,
}

/// A delivery that was handed out, and whether it was received, once that is known.
#[derive(Clone, Debug)]
struct Sent {
    delivery: WebhookDelivery,
    received: Option<bool>,
}

impl Outbox {
    pub(crate) fn new(seed: u64, own_account: String) -> Self {
        Self {
            own_account,
            random: Random::new(seed ^ EVENT_SEED),
            endpoint: None,
            waiting: VecDeque::new(),
            rank: 1,
            counts: Counts::default(),
            sent: VecDeque::new(),
        }
    }

    /// Sends to `url` from now on, signed with `secret`.
    pub(crate) fn open(&mut self, url: String, secret: &str) {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        self.endpoint = Some(Endpoint { url, key });
    }

    /// Sends nowhere from now on; what waits is dropped.
    pub(crate) fn close(&mut self) {
        self.endpoint = None;
        self.waiting.clear();
    }

    /// Makes events of what happened to `account`, and deliveries of the events.
    pub(crate) fn publish(
        &mut self,
        account: &mut Account,
        cause: Cause<'_>,
        now: Moment,
        faults: &mut Faults,
    ) {
        let happenings = std::mem::take(&mut account.happenings);
        if happenings.is_empty() {
            return;
        }
        let fault =
            self.endpoint.as_ref().and_then(|_| faults.take_for_webhook(cause.method, cause.path));
        let kind = fault.as_ref().map(|fault| fault.kind);
        let late_ms = fault.filter(|fault| fault.kind == Kind::WebhookLate);
        let late_ms = late_ms.map_or(0, |fault| i64::try_from(fault.delay_ms).unwrap_or(i64::MAX));
        let due_ms = now.ms.saturating_add(cause.wait_ms).saturating_add(late_ms);
        for happening in happenings {
            let connected = (account.id != self.own_account).then(|| account.id.clone());
            let request = (cause.request_id, cause.idempotency_key);
            let request = (request.0.map(str::to_owned), request.1.map(str::to_owned));
            let mut event = Event::new(self.random.id("evt_", 24), connected, happening, request);
            if self.endpoint.is_some() {
                event.pending_webhooks = 1;
                self.wait(&event, due_ms, kind);
            }
            account.events.add(event);
        }
        events::forget_old(&mut account.events, now.secs);
    }

    fn wait(&mut self, event: &Event, due_ms: i64, fault: Option<Kind>) {
        if self.waiting.len() >= WEBHOOKS_WAITING_MAX {
            self.waiting.pop_front();
            self.counts.given_up = self.counts.given_up.saturating_add(1);
        }
        let rank = self.rank;
        self.rank = rank.saturating_add(1);
        self.waiting.push_back(Waiting {
            event_id: event.id.clone(),
            // Stripe's own bodies are laid out for reading too, so nobody gets by with parsing
            // and writing them again.
            body: format!("{:#}", event.render()).into_bytes(),
            due_ms,
            rank: if fault == Some(Kind::WebhookReorder) { rank.saturating_neg() } else { rank },
            attempts: 0,
            forged: fault == Some(Kind::WebhookForged),
            twice: fault == Some(Kind::WebhookTwice),
        });
    }

    /// Hands out what is due; each is due again later unless it is reported as received.
    pub(crate) fn take(&mut self, now: Moment) -> Vec<WebhookDelivery> {
        let Some(endpoint) = &self.endpoint else {
            return Vec::new();
        };
        let before = self.waiting.len();
        self.waiting.retain(|event| event.due_ms > now.ms || event.retry_secs().is_some());
        let given_up = before.saturating_sub(self.waiting.len());
        let given_up = u64::try_from(given_up).unwrap_or(u64::MAX);
        self.counts.given_up = self.counts.given_up.saturating_add(given_up);
        let mut due: Vec<&mut Waiting> =
            self.waiting.iter_mut().filter(|event| event.due_ms <= now.ms).collect();
        due.sort_by_key(|event| event.rank);
        let mut taken = Vec::new();
        for event in due {
            let twice = event.twice;
            for _ in 0..if twice { 2 } else { 1 } {
                taken.push(endpoint.delivery(event, now));
                event.attempts = event.attempts.saturating_add(1);
            }
            event.twice = false;
            event.forged = false;
            event.wait_again(now);
        }
        for delivery in &taken {
            if self.sent.len() >= DELIVERIES_SHOWN_MAX {
                self.sent.pop_front();
            }
            self.sent.push_back(Sent { delivery: delivery.clone(), received: None });
        }
        taken
    }

    /// Takes note of how an attempt went; answers whether the event has now been received.
    pub(crate) fn delivered(&mut self, id: &str, attempt: u32, ok: bool, now: Moment) -> bool {
        let of_this =
            |sent: &&mut Sent| sent.delivery.event_id == id && sent.delivery.attempt == attempt;
        if let Some(sent) = self.sent.iter_mut().find(of_this) {
            sent.received = Some(ok);
        }
        let count = if ok { &mut self.counts.delivered } else { &mut self.counts.failed };
        *count = count.saturating_add(1);
        let Some(place) = self.waiting.iter().position(|event| event.event_id == id) else {
            return ok;
        };
        if ok {
            self.waiting.remove(place);
            return true;
        }
        let Some(event) = self.waiting.get_mut(place) else {
            return false;
        };
        // When a later attempt is under way already, that one decides.
        if event.attempts <= attempt {
            event.wait_again(now);
            if event.retry_secs().is_none() {
                self.waiting.remove(place);
                self.counts.given_up = self.counts.given_up.saturating_add(1);
            }
        }
        false
    }

    /// When the next delivery is due, in the sandbox's milliseconds.
    pub(crate) fn next_due_ms(&self) -> Option<i64> {
        self.endpoint.as_ref()?;
        self.waiting.iter().map(|event| event.due_ms).min()
    }

    /// The endpoint, without its secret, and the counts.
    pub(crate) fn shown(&self) -> Value {
        let Counts { delivered, failed, given_up } = self.counts;
        json!({
            "url": self.endpoint.as_ref().map(|endpoint| &endpoint.url),
            "waiting": self.waiting.len(),
            "delivered": delivered,
            "failed": failed,
            "givenUp": given_up,
        })
    }

    /// The latest deliveries, oldest first, and after them those that are due and not yet taken.
    pub(crate) fn deliveries(&self, now: Moment) -> Value {
        let sent = self.sent.iter().map(|sent| {
            let state = match sent.received {
                None => "sent",
                Some(true) => "received",
                Some(false) => "failed",
            };
            sent.delivery.shown(state)
        });
        let due = self.waiting.iter().filter(|event| event.due_ms <= now.ms);
        let due = due
            .take(DELIVERIES_SHOWN_MAX)
            .filter_map(|event| Some(self.endpoint.as_ref()?.delivery(event, now).shown("due")));
        sent.chain(due).collect()
    }
}

impl Endpoint {
    /// The next attempt, stamped with the real time, by which receivers judge its age.
    fn delivery(&self, event: &Waiting, now: Moment) -> WebhookDelivery {
        let stamp = now.real_ms.div_euclid(1000);
        let forged = hmac::Key::new(hmac::HMAC_SHA256, FORGED_SECRET);
        let key = if event.forged { &forged } else { &self.key };
        let signed = [format!("{stamp}.").as_bytes(), &event.body].concat();
        let hex: String =
            hmac::sign(key, &signed).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let headers = [
            ("Content-Type", "application/json; charset=utf-8".to_owned()),
            ("Stripe-Signature", format!("t={stamp},v1={hex}")),
        ];
        WebhookDelivery {
            url: self.url.clone(),
            headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
            body: event.body.clone(),
            event_id: event.event_id.clone(),
            attempt: event.attempts.saturating_add(1),
        }
    }
}

impl Waiting {
    /// Seconds until the next attempt after those that were made; none when they are used up.
    fn retry_secs(&self) -> Option<i64> {
        match usize::try_from(self.attempts).unwrap_or(usize::MAX).checked_sub(1) {
            None => Some(0),
            Some(retry) => WEBHOOK_RETRY_SECS.get(retry).copied(),
        }
    }

    /// After the last attempt this is how long its report is waited for.
    fn wait_again(&mut self, now: Moment) {
        let [.., longest] = WEBHOOK_RETRY_SECS;
        let secs = self.retry_secs().unwrap_or(longest);
        self.due_ms = now.ms.saturating_add(secs.saturating_mul(1000));
    }
}

impl WebhookDelivery {
    fn shown(&self, state: &str) -> Value {
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), json!(value)));
        json!({
            "eventId": self.event_id,
            "attempt": self.attempt,
            "state": state,
            "url": self.url,
            "headers": headers.collect::<Map<String, Value>>(),
            "body": String::from_utf8_lossy(&self.body),
        })
    }
}
