//! A small authority that allows one refund, so that a real ticket reaches the client: tickets are
//! only made inside the core.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gate_core::{
    Actions, Agent, AgentId, AgentKey, AgentName, Answer, Ask, AttemptId, Authority,
    AuthorityError, Budget, Channel, Charge, ChargeId, ChargeStatus, Claim, Clock, CustomerFact,
    Deadline, Decided, Dispute, Doubt, FixedRequest, IdempotencyKey, Ids, Intent, IntentFilter,
    IntentId, Justification, Lease, ListedRefund, Outcome, Page, Preview, Processor, ReadError,
    Records, Refund, Refunds, RequestParts, SendError, Settings, State, Target, Ticket, Timestamp,
    Tool, Wanted, Work,
};
use gate_money::{Amount, Currency};
use gate_stripe::StripeClient;

use crate::world::{BY, JumpClock, SameBytes};

/// The form of that refund, written out.
pub(crate) const FORM: &str = "charge=ch_1&amount=300\
    &metadata%5Bburnbound_intent%5D=int_1&metadata%5Bburnbound_agent%5D=agt_1\
    &metadata%5Bburnbound_key%5D=00&metadata%5Bburnbound_usd_micros%5D=1\
    &metadata%5Bburnbound_audit%5D=00";

/// Asks for 3.00 EUR of `ch_1`, and gives the state of the intent in the end.
pub(crate) async fn ask(processor: Arc<dyn Processor>) -> State {
    let authority = Arc::new(Allows::default());
    let refunds = Refunds::new(
        Arc::clone(&authority) as Arc<dyn Authority>,
        authority as Arc<dyn Records>,
        processor,
        Arc::new(JumpClock::default()) as Arc<dyn Clock>,
        Arc::new(SameBytes) as Arc<dyn Ids>,
        Settings::default(),
    );
    let ask = Ask {
        tool: Tool::StripeRefund,
        target: Target::parse("ch_1").unwrap(),
        wanted: Wanted::Minor(300),
        believed_currency: None,
        reason: None,
        justification: None,
        key: Some(IdempotencyKey::parse("k").unwrap()),
        dry_run: false,
    };
    let key = AgentKey::new("bb_agent_x".to_owned());
    match refunds.refund(&key, ask).await.unwrap() {
        Answer::Intent { intent, .. } => intent.state,
        Answer::DryRun(_) => panic!("a dry run"),
    }
}

/// What one attempt of the client with a real ticket comes to.
pub(crate) async fn attempt(
    client: impl Into<Arc<StripeClient>>,
    channel: Channel,
) -> Result<Refund, SendError> {
    let once = Arc::new(Once { client: client.into(), channel, came_to: Mutex::default() });
    ask(Arc::clone(&once) as Arc<dyn Processor>).await;
    let came_to = once.came_to.lock().unwrap().take();
    came_to.unwrap_or_else(|| panic!("nothing was sent"))
}

/// Lets the client send once, and tells the core that nothing happened, so that it stops there.
struct Once {
    client: Arc<StripeClient>,
    channel: Channel,
    came_to: Mutex<Option<Result<Refund, SendError>>>,
}

#[async_trait]
impl Processor for Once {
    async fn channel(&self) -> Result<Channel, ReadError> {
        Ok(self.channel.clone())
    }
    async fn charge(&self, _: &Target, _: Deadline) -> Result<Charge, ReadError> {
        let amount = Amount::from_stripe(1000, Currency::EUR).unwrap();
        Ok(Charge {
            id: ChargeId::parse("ch_1").unwrap(),
            payment_intent: None,
            amount,
            amount_captured: amount,
            amount_refunded: Amount::from_stripe(0, Currency::EUR).unwrap(),
            captured: true,
            status: ChargeStatus::Succeeded,
            dispute: Dispute::None,
            customer: CustomerFact::None,
            created_at: Timestamp::default(),
            facts: gate_core::ChargeFacts::default(),
            channel: self.channel.clone(),
        })
    }
    async fn refund(&self, ticket: &Ticket, _: Deadline) -> Result<Refund, SendError> {
        let came_to = self.client.refund(ticket, BY).await;
        *self.came_to.lock().unwrap() = Some(came_to);
        Err(SendError::NotStored(Doubt { give_up: true, ..Doubt::default() }))
    }
    async fn refunds_of(&self, _: &ChargeId, _: Deadline) -> Result<Vec<ListedRefund>, ReadError> {
        Ok(Vec::new())
    }
}

/// Submits `int_1` for whatever charge was read, and records what became of it.
#[derive(Default)]
struct Allows(Mutex<Option<Intent>>);

impl Allows {
    fn held(&self) -> Result<Intent, AuthorityError> {
        let held = self.0.lock().unwrap().clone();
        held.ok_or_else(|| AuthorityError::Broken("nothing was decided".to_owned()))
    }
}

fn not_here<T>() -> Result<T, AuthorityError> {
    Err(AuthorityError::Broken("not in these tests".to_owned()))
}

fn submitted(charge: &Charge) -> Intent {
    let id = IntentId::parse("int_1").unwrap();
    let agent = AgentId::parse("agt_1").unwrap();
    let amount = Amount::new(300, charge.amount.currency()).unwrap();
    let request = FixedRequest::build(&RequestParts {
        intent: &id,
        agent: &agent,
        charge: &charge.id,
        amount,
        reason: None,
        key_hash: "00",
        usd_micros: 1,
        audit_head: "00",
        channel: &charge.channel,
    });
    Intent {
        id,
        agent,
        agent_name: AgentName::parse("bot").unwrap(),
        team: None,
        tool: Tool::StripeRefund,
        seen: None,
        key: IdempotencyKey::parse("k").unwrap(),
        keyless: false,
        wanted: Wanted::Minor(300),
        reason: None,
        charge: charge.id.clone(),
        payment_intent: None,
        amount,
        worth: None,
        livemode: charge.channel.livemode,
        account: charge.channel.account.clone(),
        state: State::Submitted,
        denied_by: None,
        reasons: Vec::new(),
        policy_version: 1,
        approval: None,
        refund: None,
        failure: None,
        needs_person: false,
        request: Some(request),
        submitted_at: Some(Timestamp::default()),
        settled_at: None,
        follow_at: None,
        attempt: AttemptId::parse("att_1").unwrap(),
        fence: 1,
        lease_until: None,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    }
}

#[async_trait]
impl Authority for Allows {
    async fn agent(&self, _: &AgentKey) -> Result<Agent, AuthorityError> {
        not_here()
    }
    async fn find(&self, _: &AgentKey, _: &Ask) -> Result<Option<Intent>, AuthorityError> {
        Ok(None)
    }
    async fn decide(
        &self,
        _: &AgentKey,
        _: &Ask,
        seen: &Charge,
        _: &AttemptId,
    ) -> Result<Decided, AuthorityError> {
        let intent = submitted(seen);
        *self.0.lock().unwrap() = Some(intent.clone());
        let lease = Some(Lease { fence: 1, span: Duration::from_secs(300) });
        Ok(Decided { intent, lease, replayed: false })
    }
    async fn preview(&self, _: &AgentKey, _: &Ask, _: &Charge) -> Result<Preview, AuthorityError> {
        not_here()
    }
    async fn execute(&self, _: &Claim, _: &Charge) -> Result<Decided, AuthorityError> {
        not_here()
    }
    async fn claim(&self, _: Work, _: u16) -> Result<Vec<Claim>, AuthorityError> {
        Ok(Vec::new())
    }
    async fn record(&self, _: &IntentId, _: u64, news: &Outcome) -> Result<Intent, AuthorityError> {
        let mut intent = self.held()?;
        if let Some(event) = news.event() {
            intent.state = intent.state.after(event).unwrap();
        }
        Ok(intent)
    }
    async fn justify(
        &self,
        _: &AgentKey,
        _: &IntentId,
        _: &Justification,
    ) -> Result<Intent, AuthorityError> {
        not_here()
    }
}

#[async_trait]
impl Records for Allows {
    async fn intent(
        &self,
        _: &AgentKey,
        _: &IntentId,
        _: Duration,
    ) -> Result<Intent, AuthorityError> {
        self.held()
    }
    async fn intents(&self, _: &AgentKey, _: &IntentFilter) -> Result<Page, AuthorityError> {
        not_here()
    }
    async fn approval(
        &self,
        _: &AgentKey,
        _: &gate_core::ApprovalId,
        _: Duration,
    ) -> Result<Intent, AuthorityError> {
        not_here()
    }
    async fn cancel(&self, _: &AgentKey, _: &IntentId) -> Result<Intent, AuthorityError> {
        not_here()
    }
    async fn budget(&self, _: &AgentKey) -> Result<Budget, AuthorityError> {
        not_here()
    }
}
