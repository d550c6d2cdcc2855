//! Intents as they are written and found again.

use gate_core::{
    AccountId, Approval, ApprovalState, Approver, Channel, Charge, ChargeFacts, ChargeId,
    ChargeStatus, CustomerFact, CustomerId, DecisionReason, Denier, Dispute, Failure, FailureCode,
    FixedRequest, HoldId, HoldUrl, Intent, KeyMark, OnApproval, PaymentIntentId, ReasonCode,
    Refund, RefundId, RefundReason, RefundStatus, Requirement, State, TeamName, Tool, UserName,
    Valuation, Vote, Wanted,
};
use gate_money::{Amount, Currency, MicroUsd, Rate, parse_figure};
use gate_store::{IntentBy, Reads, Write};

use crate::world::{
    World, approval, approval_id, at, cell, idempotency_key, insert, intent, intent_id,
    intent_with, update,
};

/// A charge with every field that it can have.
fn seen() -> Charge {
    let euros = |minor| Amount::from_stripe(minor, Currency::EUR).unwrap();
    Charge {
        id: ChargeId::parse("ch_1").unwrap(),
        payment_intent: Some(PaymentIntentId::parse("pi_1").unwrap()),
        amount: euros(5000),
        amount_captured: euros(4000),
        amount_refunded: euros(1500),
        captured: true,
        status: ChargeStatus::Succeeded,
        dispute: Dispute::Refundable,
        customer: CustomerFact::Known {
            id: CustomerId::parse("cus_1").unwrap(),
            created_at: at(-5),
        },
        created_at: at(-4),
        facts: ChargeFacts {
            payment_method_type: Some("card".to_owned()),
            card_country: Some("DE".to_owned()),
            risk_level: Some("elevated".to_owned()),
            risk_score: Some(61),
            refund_count: Some(2),
            metadata: [("order".to_owned(), "\"4711\"".to_owned())].into(),
        },
        channel: Channel {
            account: Some(AccountId::parse("acct_1").unwrap()),
            livemode: true,
            version: "2026-09-30".to_owned(),
            key: Some(KeyMark::parse("key_5").unwrap()),
            agent_tagged: true,
        },
    }
}

/// An intent with every field that it can have.
fn full(id: &str) -> Intent {
    let figure = |text| parse_figure(text).unwrap();
    Intent {
        team: Some(TeamName::parse("support").unwrap()),
        tool: Tool::FinanceRefund,
        seen: Some(Box::new(seen())),
        reason: Some(RefundReason::Fraudulent),
        wanted: Wanted::Minor(1000),
        worth: Some(Valuation {
            usd: MicroUsd::new(11_172_000).unwrap(),
            rate: Rate::from_feed(Currency::EUR, figure("1"), figure("1.11720")).unwrap(),
            date: Some("2026-10-30".to_owned()),
        }),
        livemode: true,
        account: Some(AccountId::parse("acct_1").unwrap()),
        denied_by: Some(Denier::Person),
        reasons: vec![
            DecisionReason {
                code: ReasonCode::DailyCap,
                message: "\"Zu viel\" für heute.\n".to_owned(),
                limit: Some(MicroUsd::new(i64::MAX).unwrap()),
                left: Some(MicroUsd::ZERO),
                count_limit: Some(20),
                resets_at: Some(at(5)),
                rule: Some("night".to_owned()),
                unknown_fact: Some("riskScore".to_owned()),
                requires: Some(Requirement { roles: vec!["risk".to_owned()], people: 2 }),
            },
            DecisionReason::plain(ReasonCode::ApprovalThreshold, "Ask.".to_owned()),
        ],
        policy_version: 7,
        approval: Some(Approval {
            state: ApprovalState::Approved,
            approver: Approver::Stripe,
            digest: "ff".to_owned(),
            votes: vec![Vote {
                by: UserName::parse("ada").unwrap(),
                roles: vec!["risk".to_owned()],
                at: at(6),
                note: None,
            }],
            decided_at: Some(at(6)),
            decided_by: Some(UserName::parse("ada").unwrap()),
            note: Some("gut".to_owned()),
            justifications: vec!["eins".to_owned(), "zwei; DROP TABLE".to_owned()],
            on_approval: OnApproval::Agent,
            hold_id: Some(HoldId::parse("apreq_1").unwrap()),
            hold_url: Some(HoldUrl::parse("https://dashboard.stripe.com/x").unwrap()),
            ..approval(&format!("apr_{id}"))
        }),
        refund: Some(Refund {
            id: RefundId::parse("re_1").unwrap(),
            status: RefundStatus::Open("requires_action".to_owned()),
            intent: Some(intent_id("int_9")),
        }),
        failure: Some(Failure {
            code: Some(FailureCode::RefundFailed),
            message: "It failed.".to_owned(),
        }),
        needs_person: true,
        request: Some(FixedRequest {
            form: "charge=ch_1&amount=1000".to_owned(),
            account: Some(AccountId::parse("acct_1").unwrap()),
            version: "2026-09-30".to_owned(),
        }),
        submitted_at: Some(at(7)),
        fence: 3,
        lease_until: Some(at(8)),
        created_at: at(9),
        updated_at: at(10),
        settled_at: Some(at(11)),
        ..intent(id)
    }
}

pub(crate) async fn every_field_of_an_intent_comes_back(world: World) {
    type Change = fn(&mut Intent);
    let world = world.with_agents().await;
    let pinned = |intent: &mut Intent| {
        let rate = Rate::pinned(Currency::ISK, parse_figure("0.0072000").unwrap()).unwrap();
        intent.amount = Amount::new(500, Currency::ISK).unwrap();
        intent.worth = Some(Valuation { usd: MicroUsd::new(36_000).unwrap(), rate, date: None });
    };
    let dollars = |intent: &mut Intent| {
        intent.amount = Amount::new(1, Currency::USD).unwrap();
        let usd = MicroUsd::new(10_000).unwrap();
        intent.worth = Some(Valuation { usd, rate: Rate::usd(), date: None });
    };
    let refused = |intent: &mut Intent| intent.failure.as_mut().unwrap().code = None;
    let someone = |intent: &mut Intent| intent.refund.as_mut().unwrap().intent = None;
    let stranger = |intent: &mut Intent| {
        let seen = intent.seen.as_mut().unwrap();
        let id = CustomerId::parse("cus_2").unwrap();
        **seen = Charge {
            payment_intent: None,
            status: ChargeStatus::Pending,
            dispute: Dispute::Open,
            customer: CustomerFact::Unreadable { id },
            facts: ChargeFacts::default(),
            ..(**seen).clone()
        };
        seen.channel.account = None;
    };
    let nobody = |intent: &mut Intent| {
        let seen = intent.seen.as_mut().unwrap();
        seen.customer = CustomerFact::None;
        (seen.status, seen.dispute) = (ChargeStatus::Failed, Dispute::None);
    };
    let ours = |intent: &mut Intent| intent.request.as_mut().unwrap().account = None;
    let table: [(&str, Change); 14] = [
        ("int_full", |_| {}),
        ("int_bare", |full| *full = intent(full.id.as_str())),
        ("int_keyless", |intent| intent.keyless = true),
        ("int_pinned", pinned),
        ("int_dollars", dollars),
        ("int_worthless", |intent| intent.worth = None),
        ("int_unpaid", |intent| intent.payment_intent = None),
        ("int_refused", refused),
        ("int_someone", someone),
        ("int_stranger", stranger),
        ("int_nobody", nobody),
        ("int_ours", ours),
        ("int_policy", |intent| intent.denied_by = Some(Denier::Policy)),
        ("int_made", |intent| intent.refund.as_mut().unwrap().status = RefundStatus::Succeeded),
    ];
    for (id, change) in table {
        let mut inserted = full(id);
        change(&mut inserted);
        world.write(vec![insert(inserted.clone())]).await;
        let found = world.intent(id).await.unwrap();
        assert_eq!(format!("{found:?}"), format!("{inserted:?}"), "{id} inserted");

        let bare = intent(id);
        world.write(vec![update(State::Denied, bare.clone())]).await;
        let found = world.intent(id).await.unwrap();
        assert_eq!(format!("{found:?}"), format!("{bare:?}"), "{id} emptied");

        world.write(vec![update(State::Denied, inserted.clone())]).await;
        let found = world.intent(id).await.unwrap();
        assert_eq!(format!("{found:?}"), format!("{inserted:?}"), "{id} updated");
    }
    for state in State::STORED {
        let id = format!("int_state_{}", state.as_str());
        world.write(vec![insert(intent_with(&id, state, |_| {}))]).await;
        assert_eq!(world.intent(&id).await.unwrap().state, state);
    }
    assert!(world.intent("int_none").await.is_none());
}

pub(crate) async fn an_intent_changes_only_from_the_state_it_is_in(world: World) {
    let world = world.with_agents().await;
    world.write(vec![insert(intent_with("int_1", State::Submitted, |_| {}))]).await;
    let table = [
        // intent, said to be in, becomes; and what comes of it
        ("int_1", State::Approved, State::Settled, "conflict", State::Submitted),
        ("int_1", State::Submitted, State::Settled, "done", State::Settled),
        ("int_1", State::Submitted, State::Failed, "conflict", State::Settled),
        ("int_1", State::Settled, State::Settled, "done", State::Settled),
        ("int_2", State::Settled, State::Settled, "conflict", State::Settled),
    ];
    for (id, was, becomes, expected, state) in table {
        let found = world.try_write(vec![update(was, intent_with(id, becomes, |_| {}))]).await;
        assert_eq!(cell(found), expected, "{id} from {was:?}");
        assert_eq!(world.intent("int_1").await.unwrap().state, state, "{id} from {was:?}");
    }
    assert!(world.intent("int_2").await.is_none());
    type Change = fn(&mut Intent);
    let others: [(&str, Change); 3] = [
        ("agent", |intent| intent.agent = crate::world::agent_id(2)),
        ("key", |intent| intent.key = idempotency_key("other")),
        ("charge", |intent| intent.charge = gate_core::ChargeId::parse("ch_2").unwrap()),
    ];
    for (name, change) in others {
        let other = intent_with("int_1", State::Settled, change);
        let found = world.try_write(vec![update(State::Settled, other)]).await;
        assert_eq!(cell(found), "conflict", "another {name}");
    }
}

pub(crate) async fn a_key_has_one_holder_until_it_is_surrendered(world: World) {
    let world = world.with_agents().await;
    let keyed = |id: &str, agent: u8, key: &str| {
        let key = idempotency_key(key);
        intent_with(id, State::Denied, |intent| {
            intent.agent = crate::world::agent_id(agent);
            intent.key = key;
        })
    };
    let surrender = |id: &str| Write::SurrenderKey(intent_id(id));
    let table: [(&str, Vec<Write>, &str); 10] = [
        ("first", vec![insert(keyed("int_1", 1, "k"))], "done"),
        ("its id again", vec![insert(keyed("int_1", 1, "l"))], "conflict"),
        ("its key again", vec![insert(keyed("int_2", 1, "k"))], "conflict"),
        ("another's key", vec![insert(keyed("int_2", 2, "k"))], "done"),
        ("another key", vec![insert(keyed("int_3", 1, "l"))], "done"),
        (
            "taken over in the wrong order",
            vec![insert(keyed("int_4", 1, "k")), surrender("int_1")],
            "conflict",
        ),
        ("taken over", vec![surrender("int_1"), insert(keyed("int_4", 1, "k"))], "done"),
        ("surrendered again", vec![surrender("int_1"), surrender("int_none")], "done"),
        ("the new holder's key", vec![insert(keyed("int_5", 1, "k"))], "conflict"),
        (
            "twice in one plan",
            vec![insert(keyed("int_6", 1, "m")), insert(keyed("int_7", 1, "m"))],
            "conflict",
        ),
    ];
    for (name, writes, expected) in table {
        assert_eq!(cell(world.try_write(writes).await), expected, "{name}");
    }
    let stranger = keyed("int_8", 3, "k");
    assert_eq!(cell(world.try_write(vec![insert(stranger)]).await), "conflict", "no such agent");
    // Without its key an intent goes on as before.
    let moved = keyed("int_1", 1, "k");
    world.write(vec![update(State::Denied, moved)]).await;
    assert_eq!(cell(world.try_write(vec![insert(keyed("int_9", 1, "k"))]).await), "conflict");
}

pub(crate) async fn writes_are_made_in_their_order(world: World) {
    let world = world.with_agents().await;
    let step = |state| intent_with("int_1", state, |_| {});
    let steps = vec![
        insert(step(State::Submitted)),
        update(State::Submitted, step(State::NotExecuted)),
        update(State::NotExecuted, step(State::Submitted)),
        update(State::Submitted, step(State::Settled)),
    ];
    world.write(steps).await;
    assert_eq!(world.intent("int_1").await.unwrap().state, State::Settled);
    let skipped = vec![
        update(State::Settled, step(State::Reversed)),
        update(State::Settled, step(State::Reversed)),
    ];
    assert_eq!(cell(world.try_write(skipped).await), "conflict");
    assert_eq!(world.intent("int_1").await.unwrap().state, State::Settled);
}

pub(crate) async fn an_approval_is_found_by_its_id_and_stays_with_its_intent(world: World) {
    let world = world.with_agents().await;
    let with = |id: &str, approvals: &str, state: ApprovalState| {
        let approval = Approval { state, ..approval(approvals) };
        intent_with(id, State::PendingApproval, |intent| intent.approval = Some(approval))
    };
    world.write(vec![insert(with("int_1", "apr_1", ApprovalState::Pending))]).await;
    let decided = with("int_1", "apr_1", ApprovalState::Canceled);
    world.write(vec![update(State::PendingApproval, decided)]).await;
    let second = with("int_1", "apr_2", ApprovalState::Pending);
    world.write(vec![update(State::PendingApproval, second)]).await;
    for (id, expected) in [
        ("apr_1", Some(("apr_1", ApprovalState::Canceled))),
        ("apr_2", Some(("apr_2", ApprovalState::Pending))),
        ("apr_3", None),
    ] {
        let by = Some(IntentBy::Approval(approval_id(id)));
        let found = world.read(Reads { intent: by, ..Reads::default() }).await.intent;
        let found = found.map(|intent| {
            assert_eq!(intent.id.as_str(), "int_1", "{id}");
            intent.approval.unwrap()
        });
        let found = found.as_ref().map(|approval| (approval.id.as_str(), approval.state));
        assert_eq!(found, expected, "{id}");
    }
    let current = world.intent("int_1").await.unwrap().approval.unwrap();
    assert_eq!(current.id.as_str(), "apr_2", "the newest is the intent's own");
    let thief = with("int_2", "apr_2", ApprovalState::Approved);
    assert_eq!(cell(world.try_write(vec![insert(thief)]).await), "conflict");
    let current = world.intent("int_1").await.unwrap().approval.unwrap();
    assert_eq!(current.state, ApprovalState::Pending, "nobody else's news reach it");
}
