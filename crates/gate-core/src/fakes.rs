//! Fakes of the ports, by meaning and not by wire: a processor that follows a script, an authority
//! that keeps one intent, a clock that jumps when somebody sleeps.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gate_money::{Amount, Currency, Rate};

use crate::ask::{Ask, Justification, Target, Wanted};
use crate::charge::{Channel, Charge};
use crate::ids::{
    AgentId, AgentKey, AgentName, ApprovalId, AttemptId, ChargeId, HoldId, IdempotencyKey,
    IntentId, RefundId,
};
use crate::intent::{Failure, Intent, ListedRefund, Refund, RefundStatus, Valuation};
use crate::permit::{Claim, Lease, Ticket};
use crate::ports::{
    Agent, Authority, AuthorityError, Budget, Decided, HoldSeen, IntentFilter, Outcome, Page,
    Preview, Processor, ReadError, Records, SendError, Work,
};
use crate::request::{FixedRequest, RequestParts};
use crate::state::{Event, State};
use crate::time::{Clock, Deadline, Ids, Timestamp};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) fn channel() -> Channel {
    Channel {
        account: None,
        livemode: false,
        version: "2025-09-30.clover".to_owned(),
        key: None,
        agent_tagged: false,
    }
}

/// A succeeded, captured charge of `minor` that nothing was refunded of.
pub(crate) fn charge(id: &str, minor: i64, currency: &str) -> Charge {
    let currency = Currency::parse(currency).unwrap();
    let amount = Amount::from_stripe(minor, currency).unwrap();
    Charge::paid(ChargeId::parse(id).unwrap(), amount, channel()).unwrap()
}

pub(crate) fn ask(target: &str, wanted: Wanted) -> Ask {
    let key = Some(IdempotencyKey::parse("k").unwrap());
    Ask { key, ..Ask::new(Target::parse(target).unwrap(), wanted) }
}

pub(crate) fn refund_of(intent: &IntentId, status: &str) -> Refund {
    Refund {
        id: RefundId::parse("re_1").unwrap(),
        status: RefundStatus::from_stripe(status),
        intent: Some(intent.clone()),
    }
}

/// An allowed, submitted intent for `amount` of `charge`.
pub(crate) fn submitted(charge: &Charge, amount: Amount, now: Timestamp) -> Intent {
    let id = IntentId::parse("int_1").unwrap();
    let agent = AgentId::parse("agt_1").unwrap();
    let worth = Valuation {
        usd: Rate::usd().to_micro_usd(Amount::new(1000, Currency::USD).unwrap()).unwrap(),
        rate: Rate::usd(),
        date: None,
    };
    let request = FixedRequest::build(&RequestParts {
        intent: &id,
        agent: &agent,
        charge: &charge.id,
        amount,
        reason: None,
        key_hash: "00",
        usd_micros: worth.usd.micros(),
        audit_head: "00",
        channel: &charge.channel,
    });
    Intent {
        id,
        agent,
        agent_name: AgentName::parse("bot").unwrap(),
        team: None,
        tool: crate::Tool::StripeRefund,
        key: IdempotencyKey::parse("k").unwrap(),
        keyless: false,
        wanted: Wanted::Full,
        reason: None,
        charge: charge.id.clone(),
        payment_intent: None,
        seen: None,
        amount,
        worth: Some(worth),
        livemode: false,
        account: None,
        state: State::Submitted,
        denied_by: None,
        reasons: Vec::new(),
        policy_version: 1,
        approval: None,
        refund: None,
        failure: None,
        needs_person: false,
        request: Some(request),
        submitted_at: Some(now),
        attempt: AttemptId::parse("att_1").unwrap(),
        fence: 1,
        lease_until: Some(now.after(LEASE)),
        created_at: now,
        updated_at: now,
        settled_at: None,
        follow_at: None,
    }
}

/// A clock that stands still until somebody sleeps, and then is there at once.
#[derive(Default)]
pub(crate) struct JumpClock(Mutex<Duration>);

impl JumpClock {
    pub(crate) fn advance(&self, span: Duration) {
        *self.0.lock().unwrap() += span;
    }
}

impl Clock for JumpClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000).after(self.uptime())
    }
    fn uptime(&self) -> Duration {
        *self.0.lock().unwrap()
    }
    fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut now = self.0.lock().unwrap();
        *now = at.uptime().max(*now);
        Box::pin(std::future::ready(()))
    }
}

pub(crate) struct SameBytes;

impl Ids for SameBytes {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

/// One step of a processor's script, and whether the refund exists afterwards.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Made(&'static str),
    Says(SendError),
    /// The refund is made and the answer lost.
    MadeAndSays(SendError),
}

/// A processor that answers attempts as scripted and lists what it made.
pub(crate) struct Scripted {
    pub(crate) charge: Charge,
    pub(crate) steps: Mutex<VecDeque<Step>>,
    pub(crate) listing_fails: bool,
    pub(crate) made: Mutex<Vec<Refund>>,
    pub(crate) sent: Mutex<Vec<(String, FixedRequest)>>,
    /// What it says of an approval of its own; nothing, when it cannot be read.
    pub(crate) says: Mutex<Option<HoldSeen>>,
    /// What it was told of the agent's words.
    pub(crate) heard: Mutex<Vec<String>>,
}

impl Scripted {
    pub(crate) fn new(charge: Charge, steps: &[Step]) -> Self {
        Self {
            charge,
            steps: Mutex::new(steps.iter().cloned().collect()),
            listing_fails: false,
            made: Mutex::default(),
            sent: Mutex::default(),
            says: Mutex::default(),
            heard: Mutex::default(),
        }
    }
}

#[async_trait]
impl Processor for Scripted {
    async fn channel(&self) -> Result<Channel, ReadError> {
        Ok(self.charge.channel.clone())
    }
    async fn charge(&self, _: &Target, _: Deadline) -> Result<Charge, ReadError> {
        Ok(self.charge.clone())
    }
    async fn refund(&self, ticket: &Ticket, _: Deadline) -> Result<Refund, SendError> {
        self.sent.lock().unwrap().push((ticket.idempotency_key(), ticket.request().clone()));
        let made = |status| {
            let refund = refund_of(ticket.intent(), status);
            *self.made.lock().unwrap() = vec![refund.clone()];
            refund
        };
        match self.steps.lock().unwrap().pop_front().expect("an attempt too many") {
            Step::Made(status) => Ok(made(status)),
            Step::Says(error) => Err(error),
            Step::MadeAndSays(error) => {
                made("succeeded");
                Err(error)
            }
        }
    }
    async fn refunds_of(&self, _: &ChargeId, _: Deadline) -> Result<Vec<ListedRefund>, ReadError> {
        if self.listing_fails {
            return Err(ReadError::Unavailable { after: None });
        }
        let listed = |refund: &Refund| ListedRefund {
            refund: refund.clone(),
            minor: self.charge.amount.minor(),
            created_at: Timestamp::from_millis(1_000_000),
            audit_head: None,
        };
        Ok(self.made.lock().unwrap().iter().map(listed).collect())
    }
    async fn hold(&self, _: &HoldId, _: Deadline) -> Result<HoldSeen, ReadError> {
        self.says.lock().unwrap().clone().ok_or(ReadError::Unreadable)
    }
    async fn justify(&self, id: &HoldId, words: &str, _: Deadline) {
        self.heard.lock().unwrap().push(format!("{id}: {words}"));
    }
}

/// An authority that keeps one intent and can be made to fail.
pub(crate) struct OneIntent {
    pub(crate) intent: Mutex<Option<Intent>>,
    /// What `decide` submits.
    pub(crate) to_submit: Mutex<Option<Intent>>,
    pub(crate) stopped: bool,
    pub(crate) agent_tagged: bool,
    pub(crate) decide_answers_lost: Mutex<u32>,
    pub(crate) record_fails: AtomicBool,
    clock: Arc<JumpClock>,
}

impl OneIntent {
    pub(crate) fn holding(intent: Option<Intent>, clock: &Arc<JumpClock>) -> Self {
        Self {
            intent: Mutex::new(intent),
            to_submit: Mutex::default(),
            stopped: false,
            agent_tagged: false,
            decide_answers_lost: Mutex::new(0),
            record_fails: AtomicBool::new(false),
            clock: Arc::clone(clock),
        }
    }
    fn lease() -> Lease {
        Lease { fence: 1, span: LEASE }
    }
    fn held(&self) -> Result<Intent, AuthorityError> {
        let intent = self.intent.lock().unwrap().clone();
        intent.ok_or(AuthorityError::Asked(crate::ActionError::IntentNotFound))
    }
}

#[async_trait]
impl Authority for OneIntent {
    async fn agent(&self, _: &AgentKey) -> Result<Agent, AuthorityError> {
        let (id, name) = (AgentId::parse("agt_1").unwrap(), AgentName::parse("bot").unwrap());
        Ok(Agent { id, name, sources: Vec::new() })
    }
    async fn find(&self, _: &AgentKey, ask: &Ask) -> Result<Option<Intent>, AuthorityError> {
        let found = self.intent.lock().unwrap().clone();
        if let Some(intent) = &found {
            intent.same_as(ask).map_err(AuthorityError::Asked)?;
        }
        Ok(found)
    }
    async fn decide(
        &self,
        _: &AgentKey,
        _: &Ask,
        _: &Charge,
        _: &AttemptId,
    ) -> Result<Decided, AuthorityError> {
        let intent = self.to_submit.lock().unwrap().clone().expect("nothing to decide");
        *self.intent.lock().unwrap() = Some(intent.clone());
        let mut lost = self.decide_answers_lost.lock().unwrap();
        if *lost > 0 {
            *lost -= 1;
            return Err(AuthorityError::Unavailable("lost".to_owned()));
        }
        Ok(Decided { intent, lease: Some(Self::lease()), replayed: false })
    }
    async fn preview(&self, _: &AgentKey, _: &Ask, _: &Charge) -> Result<Preview, AuthorityError> {
        Err(AuthorityError::Broken("not in these tests".to_owned()))
    }
    async fn execute(&self, _: &Claim, _: &Charge) -> Result<Decided, AuthorityError> {
        let mut intent = self.held()?;
        intent.state = intent.state.after(Event::Allow).unwrap();
        *self.intent.lock().unwrap() = Some(intent.clone());
        Ok(Decided { intent, lease: Some(Self::lease()), replayed: false })
    }
    async fn claim(&self, work: Work, _: u16) -> Result<Vec<Claim>, AuthorityError> {
        let wanted: &[State] = match work {
            Work::Approved => &[State::Approved],
            Work::AwaitingStripe(_) => &[State::AwaitingStripe],
            Work::One(_) => &[State::Approved, State::Submitted],
            Work::Settled => &[State::Settled],
            Work::GivenUp(_) | Work::Submitted => &[State::Submitted],
        };
        let intent = self.held()?;
        Ok(if wanted.contains(&intent.state) {
            let (lease, at) = (Self::lease(), self.clock.now());
            vec![Claim {
                intent,
                lease,
                stopped: self.stopped,
                agent_tagged: self.agent_tagged,
                at,
            }]
        } else {
            Vec::new()
        })
    }
    async fn record(&self, _: &IntentId, _: u64, news: &Outcome) -> Result<Intent, AuthorityError> {
        if self.record_fails.load(Ordering::SeqCst) {
            return Err(AuthorityError::Unavailable("down".to_owned()));
        }
        let mut intent = self.held()?;
        if let Some(event) = news.event() {
            intent.state = intent.state.after(event).unwrap();
        }
        match news {
            Outcome::Named { refund, .. } | Outcome::Seen(refund) => {
                intent.refund = Some(refund.clone());
            }
            Outcome::Refused(refusal) => {
                intent.failure = Some(Failure { code: Some(refusal.code), message: String::new() });
            }
            Outcome::NeedsPerson => intent.needs_person = true,
            Outcome::Held(_) | Outcome::NotExecuted(_) => {}
        }
        *self.intent.lock().unwrap() = Some(intent.clone());
        Ok(intent)
    }
    async fn justify(
        &self,
        _: &AgentKey,
        _: &IntentId,
        _: &Justification,
    ) -> Result<Intent, AuthorityError> {
        self.held()
    }
}

#[async_trait]
impl Records for OneIntent {
    async fn intent(
        &self,
        _: &AgentKey,
        _: &IntentId,
        _: Duration,
    ) -> Result<Intent, AuthorityError> {
        self.held()
    }
    async fn intents(&self, _: &AgentKey, _: &IntentFilter) -> Result<Page, AuthorityError> {
        Ok(Page::default())
    }
    async fn approval(
        &self,
        _: &AgentKey,
        _: &ApprovalId,
        _: Duration,
    ) -> Result<Intent, AuthorityError> {
        self.held()
    }
    async fn cancel(&self, _: &AgentKey, _: &IntentId) -> Result<Intent, AuthorityError> {
        self.held()
    }
    async fn budget(&self, _: &AgentKey) -> Result<Budget, AuthorityError> {
        Err(AuthorityError::Broken("not in these tests".to_owned()))
    }
}
