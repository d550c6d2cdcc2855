//! A processor that keeps charges and refunds as Stripe does (by idempotency key, for 24 hours),
//! answers as it is told, and lets others run in the middle of each call.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use gate_core::{
    Channel, Charge, ChargeId, ChargeStatus, Clock, CustomerFact, Deadline, Dispute, Doubt,
    FailureCode, FixedRequest, Hold, IntentId, ListedRefund, PaymentIntentId, Processor, ReadError,
    Refund, RefundId, RefundStatus, Refusal, SendError, Target, Ticket, Timestamp,
};
use gate_money::{Amount, Currency};

use crate::world::FakeClock;

/// How long an idempotency key is kept.
const KEY_KEPT: Duration = Duration::from_secs(24 * 3600);

/// What an attempt comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// The refund is made, with this status.
    Made(&'static str),
    /// The refund is made, and the answer lost.
    MadeAndLost,
    /// The request is lost: nothing happened, and nobody can tell.
    Lost,
    /// An error stored under the key: nothing more comes of it.
    Stored,
    /// 429.
    NotStored,
    /// 403: nothing happened, and another attempt is pointless.
    Forbidden,
    /// Nothing moved, and never will.
    Refused,
    /// It waits for an approval of its own.
    Held,
}

/// A refund, as the till keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) refund: Refund,
    pub(crate) charge: ChargeId,
    pub(crate) minor: i64,
    /// The hash of agent and idempotency key, from the metadata.
    pub(crate) key_hash: String,
    /// The head of the audit chain, from the metadata.
    pub(crate) audit_head: String,
}

/// What is looked at when bytes are about to be sent.
type Watch = Box<dyn Fn(&Ticket) + Send + Sync>;

#[derive(Default)]
struct Drawer {
    charges: BTreeMap<String, Charge>,
    script: VecDeque<Step>,
    made: Vec<Made>,
    sent: Vec<(String, FixedRequest)>,
    /// By idempotency key: since when it is kept, and what it answers.
    answers: BTreeMap<String, (Timestamp, Result<Refund, SendError>)>,
    held: BTreeMap<String, (IntentId, FixedRequest)>,
    down: bool,
}

pub(crate) struct Till {
    clock: Arc<FakeClock>,
    drawer: Mutex<Drawer>,
    watch: Mutex<Option<Watch>>,
}

impl Till {
    pub(crate) fn new(clock: Arc<FakeClock>) -> Self {
        Self { clock, drawer: Mutex::default(), watch: Mutex::default() }
    }

    /// Adds a captured charge, made for the payment intent of the same number.
    pub(crate) fn add_charge(&self, id: &str, minor: i64, currency: &str) {
        let currency = Currency::parse(currency).unwrap();
        let amount = Amount::from_stripe(minor, currency).unwrap();
        let charge = Charge {
            id: ChargeId::parse(id).unwrap(),
            payment_intent: PaymentIntentId::parse(&id.replace("ch_", "pi_")).ok(),
            amount,
            amount_captured: amount,
            amount_refunded: Amount::from_stripe(0, currency).unwrap(),
            captured: true,
            status: ChargeStatus::Succeeded,
            dispute: Dispute::None,
            customer: CustomerFact::None,
            created_at: Timestamp::from_millis(0),
            facts: gate_core::ChargeFacts::default(),
            channel: channel(),
        };
        self.drawer.lock().unwrap().charges.insert(id.to_owned(), charge);
    }

    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut Charge)) {
        change(self.drawer.lock().unwrap().charges.get_mut(id).unwrap());
    }

    /// What the next attempts come to; after them, refunds are made.
    pub(crate) fn script(&self, steps: &[Step]) {
        self.drawer.lock().unwrap().script = steps.iter().copied().collect();
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.drawer.lock().unwrap().down = down;
    }

    pub(crate) fn watch(&self, watch: impl Fn(&Ticket) + Send + Sync + 'static) {
        *self.watch.lock().unwrap() = Some(Box::new(watch));
    }

    /// Changes what the till says of its refunds, behind everybody's back.
    pub(crate) fn forge(&self, change: impl FnOnce(&mut Vec<Made>)) {
        change(&mut self.drawer.lock().unwrap().made);
    }

    pub(crate) fn made(&self) -> Vec<Made> {
        self.drawer.lock().unwrap().made.clone()
    }

    pub(crate) fn sent(&self) -> Vec<(String, FixedRequest)> {
        self.drawer.lock().unwrap().sent.clone()
    }

    /// Fails the refund of an intent, if there is one that can fail.
    pub(crate) fn fail(&self, intent: &IntentId) {
        let mut drawer = self.drawer.lock().unwrap();
        let Drawer { made, charges, .. } = &mut *drawer;
        for made in made.iter_mut().filter(|made| made.refund.intent.as_ref() == Some(intent)) {
            if made.refund.status != RefundStatus::Failed {
                made.refund.status = RefundStatus::Failed;
                book(charges.get_mut(made.charge.as_str()).unwrap(), -made.minor);
            }
        }
    }

    /// Gives the processor's own approval to everything it holds.
    pub(crate) fn approve_held(&self) {
        let mut drawer = self.drawer.lock().unwrap();
        for (_, (intent, request)) in std::mem::take(&mut drawer.held) {
            let _ = drawer.make(&intent, &request, "succeeded");
        }
    }

    pub(crate) fn refund_of(&self, intent: &IntentId) -> Option<Refund> {
        let made = self.made();
        made.into_iter().map(|made| made.refund).find(|r| r.intent.as_ref() == Some(intent))
    }
}

impl Drawer {
    fn attempt(&mut self, ticket: &Ticket, now: Timestamp) -> Result<Refund, SendError> {
        let (key, request) = (ticket.idempotency_key(), ticket.request());
        if let Some((_, first)) = self.sent.iter().find(|(other, _)| *other == key) {
            assert_eq!(first, request, "other bytes under the key {key}");
        }
        self.sent.push((key.clone(), request.clone()));
        if let Some((since, answer)) = self.answers.get(&key)
            && now.since(*since) < KEY_KEPT
        {
            return answer.clone();
        }
        let step = self.script.pop_front().unwrap_or(Step::Made("succeeded"));
        let intent = ticket.intent();
        let (stored, answer) = match step {
            Step::Made(status) => {
                let made = self.make(intent, request, status);
                (Some(made.clone()), made)
            }
            Step::MadeAndLost => {
                let made = self.make(intent, request, "succeeded");
                (Some(made), Err(SendError::Unknown(doubt(false))))
            }
            Step::Lost => (None, Err(SendError::Unknown(doubt(false)))),
            Step::Stored => {
                let error = Err(SendError::Unknown(doubt(true)));
                (Some(error.clone()), error)
            }
            Step::NotStored => (None, Err(SendError::NotStored(doubt(false)))),
            Step::Forbidden => (None, Err(SendError::NotStored(doubt(true)))),
            Step::Refused => (Some(refused()), refused()),
            Step::Held => {
                self.held.insert(key.clone(), (intent.clone(), request.clone()));
                let held = Err(SendError::Held(Hold::default()));
                (Some(held.clone()), held)
            }
        };
        if let Some(stored) = stored {
            self.answers.insert(key, (now, stored));
        }
        answer
    }

    fn make(
        &mut self,
        intent: &IntentId,
        request: &FixedRequest,
        status: &str,
    ) -> Result<Refund, SendError> {
        let charge = self.charges.get_mut(field(request, "charge")).unwrap();
        let minor = field(request, "amount").parse().unwrap();
        if charge.left().unwrap().minor() < minor {
            return refused();
        }
        if !matches!(status, "failed" | "canceled") {
            book(charge, minor);
        }
        let refund = Refund {
            id: RefundId::parse(&format!("re_{}", self.made.len() + 1)).unwrap(),
            status: RefundStatus::from_stripe(status),
            intent: Some(intent.clone()),
        };
        self.made.push(Made {
            refund: refund.clone(),
            charge: charge.id.clone(),
            minor,
            key_hash: field(request, "metadata%5Bburnbound_key%5D").to_owned(),
            audit_head: field(request, "metadata%5Bburnbound_audit%5D").to_owned(),
        });
        Ok(refund)
    }
}

#[async_trait]
impl Processor for Till {
    async fn channel(&self) -> Result<Channel, ReadError> {
        Ok(channel())
    }

    async fn charge(&self, target: &Target, _: Deadline) -> Result<Charge, ReadError> {
        others_run().await;
        let drawer = self.drawer.lock().unwrap();
        if drawer.down {
            return Err(ReadError::Unavailable { after: None });
        }
        let means = |c: &&Charge| target.names(&c.id, c.payment_intent.as_ref());
        let missing = ReadError::NotFound { livemode: false, account: None };
        drawer.charges.values().find(means).cloned().ok_or(missing)
    }

    async fn refund(&self, ticket: &Ticket, _: Deadline) -> Result<Refund, SendError> {
        if let Some(watch) = self.watch.lock().unwrap().as_ref() {
            watch(ticket);
        }
        others_run().await;
        let answer = self.drawer.lock().unwrap().attempt(ticket, self.clock.now());
        others_run().await;
        answer
    }

    async fn refunds_of(
        &self,
        charge: &ChargeId,
        _: Deadline,
    ) -> Result<Vec<ListedRefund>, ReadError> {
        others_run().await;
        let drawer = self.drawer.lock().unwrap();
        if drawer.down {
            return Err(ReadError::Unavailable { after: None });
        }
        let of_charge = drawer.made.iter().filter(|made| made.charge == *charge);
        let listed = |made: &Made| ListedRefund {
            refund: made.refund.clone(),
            minor: made.minor,
            created_at: self.clock.now(),
            audit_head: Some(made.audit_head.clone()),
        };
        Ok(of_charge.map(listed).collect())
    }
}

fn channel() -> Channel {
    Channel {
        account: None,
        livemode: false,
        version: "2025-09-30.clover".to_owned(),
        key: None,
        agent_tagged: false,
    }
}

/// Books so much more (or less) as refunded.
pub(crate) fn book(charge: &mut Charge, minor: i64) {
    let refunded = charge.amount_refunded.minor() + minor;
    charge.amount_refunded = Amount::from_stripe(refunded, charge.amount.currency()).unwrap();
}

fn refused() -> Result<Refund, SendError> {
    let code = FailureCode::ChargeNotRefundable;
    Err(SendError::Refused(Refusal { code, message: "no".to_owned() }))
}

fn doubt(give_up: bool) -> Doubt {
    Doubt { message: "nobody knows".to_owned(), after: None, give_up }
}

fn field<'a>(request: &'a FixedRequest, name: &str) -> &'a str {
    let pairs = request.form.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(key, _)| *key == name).unwrap().1
}

/// Gives way once.
fn others_run() -> impl Future<Output = ()> + Send {
    let mut gave_way = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut gave_way, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
