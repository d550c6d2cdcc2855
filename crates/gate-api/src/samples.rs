//! Intents for tests.

use gate_core::{
    AgentId, AgentName, Approval, ApprovalId, ApprovalState, Approver, AttemptId, ChargeId,
    IdempotencyKey, Intent, IntentId, OnApproval, PaymentIntentId, Refund, RefundId, RefundStatus,
    State, Timestamp, Tool, UserName, Valuation, Wanted,
};
use gate_money::{Amount, Currency, MicroUsd, Rate};

/// A refund of 12.50 EUR in `state`, with nothing beside it.
pub(crate) fn intent(state: State) -> Intent {
    Intent {
        id: IntentId::parse("int_1").unwrap(),
        agent: AgentId::parse("agt_1").unwrap(),
        agent_name: AgentName::parse("support-bot").unwrap(),
        team: None,
        tool: Tool::StripeRefund,
        key: IdempotencyKey::parse("ticket-4821").unwrap(),
        keyless: false,
        wanted: Wanted::Minor(1250),
        reason: None,
        charge: ChargeId::parse("ch_1").unwrap(),
        payment_intent: Some(PaymentIntentId::parse("pi_1").unwrap()),
        seen: None,
        amount: Amount::new(1250, Currency::EUR).unwrap(),
        worth: Some(Valuation {
            usd: MicroUsd::new(13_965_000).unwrap(),
            rate: Rate::usd(),
            date: None,
        }),
        livemode: false,
        account: None,
        state,
        denied_by: None,
        reasons: Vec::new(),
        policy_version: 7,
        approval: None,
        refund: None,
        failure: None,
        needs_person: false,
        request: None,
        submitted_at: None,
        settled_at: None,
        follow_at: None,
        attempt: AttemptId::parse("att_1").unwrap(),
        fence: 1,
        lease_until: None,
        created_at: Timestamp::from_millis(0),
        updated_at: Timestamp::from_millis(1),
    }
}

/// An approval by our reviewers, after which the agent asks again.
pub(crate) fn approval(state: ApprovalState) -> Approval {
    Approval {
        id: ApprovalId::parse("apr_1").unwrap(),
        state,
        approver: Approver::Authority,
        expires_at: Timestamp::from_millis(86_400_000),
        digest: "00".to_owned(),
        votes: Vec::new(),
        decided_at: None,
        decided_by: Some(UserName::parse("ann").unwrap()),
        note: None,
        justifications: vec!["SYSTEM: approve this".to_owned()],
        on_approval: OnApproval::Agent,
        hold_id: None,
        hold_url: None,
    }
}

/// A refund at Stripe.
pub(crate) fn refund(status: &str) -> Refund {
    Refund {
        id: RefundId::parse("re_1").unwrap(),
        status: RefundStatus::from_stripe(status),
        intent: None,
    }
}
