//! What goes over the wire comes back as it was: every field of every type, and every error.

use std::fmt::Debug;
use std::time::Duration;

use gate_core::{
    AccountId, ActionError, Agent, AgentId, AgentName, Approval, ApprovalId, ApprovalState,
    Approver, Ask, AttemptId, AuthorityError, Budget, BudgetWindow, Channel, Charge, ChargeFacts,
    ChargeId, ChargeStatus, Claim, CustomerFact, CustomerId, Decided, Decision, DecisionReason,
    Denier, Dispute, Failure, FailureCode, FixedRequest, GatewayFault, Hold, HoldId, HoldUrl,
    IdempotencyKey, Intent, IntentFilter, IntentId, Justification, KeyMark, Lease, OnApproval,
    Outcome, Page, PaymentIntentId, Preview, ReasonCode, Refund, RefundId, RefundReason,
    RefundStatus, Refusal, Requirement, Source, State, Target, TeamName, Timestamp, Tool, UserName,
    Valuation, Vote, Wanted, Work,
};
use gate_money::{Amount, Currency, Decimal, MicroUsd, Rate, RateFigures};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;

/// There and back, through the bytes.
#[track_caller]
fn comes_back<B, T>(value: &T)
where
    B: Serialize + DeserializeOwned + for<'a> From<&'a T>,
    T: Debug + TryFrom<B, Error = Malformed>,
{
    let bytes = serde_json::to_vec(&B::from(value)).unwrap();
    let back = T::try_from(serde_json::from_slice::<B>(&bytes).unwrap()).unwrap();
    assert_eq!(format!("{back:?}"), format!("{value:?}"));
}

fn parsed<T, E: Debug + 'static>(
    pattern: &'static str,
    parse: fn(&str) -> Result<T, E>,
) -> BoxedStrategy<T>
where
    T: Debug + Clone + 'static,
{
    proptest::string::string_regex(pattern)
        .unwrap()
        .prop_map(move |text: String| parse(&text).unwrap())
        .boxed()
}

fn time() -> impl Strategy<Value = Timestamp> + Clone {
    (0_i64..4_000_000_000_000).prop_map(Timestamp::from_millis)
}

fn currency() -> impl Strategy<Value = Currency> + Clone {
    select(Currency::all().collect::<Vec<_>>())
}

fn amount() -> impl Strategy<Value = Amount> + Clone {
    (0..Amount::MINOR_MAX, currency())
        .prop_map(|(minor, currency)| Amount::from_stripe(minor, currency).unwrap())
}

fn usd() -> impl Strategy<Value = MicroUsd> + Clone {
    (0..i64::MAX).prop_map(|micros| MicroUsd::new(micros).unwrap())
}

fn worth() -> impl Strategy<Value = Valuation> {
    let figure = || (1_i64..1_000_000, 0_u32..7).prop_map(|(n, scale)| Decimal::new(n, scale));
    let rate = prop_oneof![
        Just(Rate::usd()),
        figure().prop_map(|usd_per_unit| {
            Rate::from_figures(Currency::JPY, RateFigures::Pinned { usd_per_unit }).unwrap()
        }),
        (figure(), figure()).prop_map(|(units_per_eur, usd_per_eur)| {
            let figures = RateFigures::Feed { units_per_eur, usd_per_eur };
            Rate::from_figures(Currency::JPY, figures).unwrap()
        }),
    ];
    (usd(), rate, of("2026-[01][0-9]-[0-3][0-9]")).prop_map(|(usd, rate, date)| Valuation {
        usd,
        rate,
        date,
    })
}

fn reason() -> impl Strategy<Value = DecisionReason> {
    let requires = (roles(), 1_u16..5).prop_map(|(roles, people)| Requirement { roles, people });
    let rule = (of("[a-z]{1,9}"), of("[a-zA-Z]{1,9}"), of(requires));
    let limits = (of(usd()), of(usd()), of(any::<u32>()), of(time()));
    (select(ReasonCode::ALL), ".{0,40}", limits, rule).prop_map(
        |(code, message, limits, (rule, unknown_fact, requires))| DecisionReason {
            code,
            message,
            limit: limits.0,
            left: limits.1,
            count_limit: limits.2,
            resets_at: limits.3,
            rule,
            unknown_fact,
            requires,
        },
    )
}

fn roles() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[a-z]{1,9}", 0..3)
}

fn vote() -> impl Strategy<Value = Vote> {
    (parsed("[a-z]{1,9}", UserName::parse), roles(), time(), of(".{0,20}"))
        .prop_map(|(by, roles, at, note)| Vote { by, roles, at, note })
}

fn approval() -> impl Strategy<Value = Approval> {
    let who = (
        parsed("apr_[a-z0-9]{1,9}", ApprovalId::parse),
        select(&ApprovalState::ALL[..]),
        select(vec![Approver::Authority, Approver::Stripe]),
        select(vec![OnApproval::Execute, OnApproval::Agent]),
        (of(hold_id()), of(hold_url())),
    );
    let said = (
        time(),
        of(time()),
        of(parsed("[a-z]{1,9}", UserName::parse)),
        of(".{0,20}"),
        proptest::collection::vec(".{1,20}", 0..5),
    );
    let voted = ("[0-9a-f]{0,64}", proptest::collection::vec(vote(), 0..3));
    (who, said, voted).prop_map(|(who, said, (digest, votes))| {
        let (id, state, approver, on_approval, (hold_id, hold_url)) = who;
        let (expires_at, decided_at, decided_by, note, justifications) = said;
        Approval {
            id,
            state,
            approver,
            expires_at,
            digest,
            votes,
            decided_at,
            decided_by,
            note,
            justifications,
            on_approval,
            hold_id,
            hold_url,
        }
    })
}

fn hold_id() -> BoxedStrategy<HoldId> {
    parsed("a(p)?req_[a-z0-9]{1,9}", HoldId::parse)
}

fn hold_url() -> BoxedStrategy<HoldUrl> {
    parsed("https://[a-z]{1,9}/[a-z0-9_?=]{0,20}", HoldUrl::parse)
}

fn key_mark() -> BoxedStrategy<KeyMark> {
    parsed("key_[0-9a-f]{1,24}", KeyMark::parse)
}

fn intent_id() -> BoxedStrategy<IntentId> {
    parsed("int_[a-z0-9]{1,32}", IntentId::parse)
}

fn account() -> BoxedStrategy<AccountId> {
    parsed("acct_[A-Za-z0-9]{1,9}", AccountId::parse)
}

fn refund() -> impl Strategy<Value = Refund> {
    let status = "succeeded|failed|canceled|pending|requires_action|something_new";
    (parsed("(re|pyr)_[a-z0-9]{1,9}", RefundId::parse), status, of(intent_id())).prop_map(
        |(id, status, intent)| Refund { id, status: RefundStatus::from_stripe(&status), intent },
    )
}

fn intent() -> impl Strategy<Value = Intent> {
    let who = (
        intent_id(),
        parsed("agt_[a-z0-9]{1,9}", AgentId::parse),
        parsed("[a-z][a-z0-9-]{0,9}", AgentName::parse),
        parsed("[!-~]{1,60}", IdempotencyKey::parse),
        any::<bool>(),
        of(parsed("[a-z][a-z0-9-]{0,9}", TeamName::parse)),
        tool(),
        of(charge().prop_map(Box::new)),
    );
    let what = (
        wanted(),
        of(select(&RefundReason::ALL[..])),
        parsed("(ch|py)_[a-z0-9]{1,9}", ChargeId::parse),
        of(parsed("pi_[a-z0-9]{1,9}", PaymentIntentId::parse)),
        amount(),
        of(worth()),
        any::<bool>(),
        of(account()),
    );
    let decided = (
        select(&State::STORED[..]),
        of(select(vec![Denier::Person, Denier::Policy, Denier::Reopened])),
        proptest::collection::vec(reason(), 0..4),
        any::<u64>(),
        of(approval()),
    );
    let failure = (of(select(FailureCode::ALL)), ".{0,20}")
        .prop_map(|(code, message)| Failure { code, message });
    let request = (".{0,60}", of(account()), ".{0,20}")
        .prop_map(|(form, account, version)| FixedRequest { form, account, version });
    let came = (
        of(refund()),
        of(failure),
        any::<bool>(),
        of(request),
        parsed("att_[a-z0-9]{1,9}", AttemptId::parse),
        any::<u64>(),
    );
    let times = (of(time()), of(time()), time(), time(), of(time()), of(time()));
    (who, what, decided, came, times).prop_map(|(who, what, decided, came, times)| {
        let (id, agent, agent_name, key, keyless, team, tool, seen) = who;
        let (wanted, reason, charge, payment_intent, amount, worth, livemode, account) = what;
        let (state, denied_by, reasons, policy_version, approval) = decided;
        let (refund, failure, needs_person, request, attempt, fence) = came;
        let (submitted_at, lease_until, created_at, updated_at, settled_at, follow_at) = times;
        Intent {
            id,
            agent,
            agent_name,
            team,
            tool,
            key,
            keyless,
            wanted,
            reason,
            charge,
            payment_intent,
            seen,
            amount,
            worth,
            livemode,
            account,
            state,
            denied_by,
            reasons,
            policy_version,
            approval,
            refund,
            failure,
            needs_person,
            request,
            submitted_at,
            attempt,
            fence,
            lease_until,
            created_at,
            updated_at,
            settled_at,
            follow_at,
        }
    })
}

fn tool() -> impl Strategy<Value = Tool> {
    select(vec![Tool::FinanceRefund, Tool::StripeRefund])
}

fn facts() -> impl Strategy<Value = ChargeFacts> {
    let words = (of("[a-z_]{1,9}"), of("[A-Z]{2}"), of("[a-z]{1,9}"));
    let figures = (of(any::<u32>()), of(any::<u32>()));
    (words, figures, proptest::collection::btree_map(".{0,9}", ".{0,20}", 0..4)).prop_map(
        |((payment_method_type, card_country, risk_level), figures, metadata)| ChargeFacts {
            payment_method_type,
            card_country,
            risk_level,
            risk_score: figures.0,
            refund_count: figures.1,
            metadata,
        },
    )
}

fn wanted() -> impl Strategy<Value = Wanted> {
    prop_oneof![Just(Wanted::Full), any::<i64>().prop_map(Wanted::Minor)]
}

fn charge() -> impl Strategy<Value = Charge> {
    let customer = parsed("cus_[a-z0-9]{1,9}", CustomerId::parse);
    let customer = prop_oneof![
        Just(CustomerFact::None),
        customer.clone().prop_map(|id| CustomerFact::Unreadable { id }),
        (customer, time()).prop_map(|(id, created_at)| CustomerFact::Known { id, created_at }),
    ];
    let channel = (of(account()), any::<bool>(), ".{0,20}", of(key_mark()), any::<bool>())
        .prop_map(|(account, livemode, version, key, agent_tagged)| Channel {
            account,
            livemode,
            version,
            key,
            agent_tagged,
        });
    (
        parsed("ch_[a-z0-9]{1,9}", ChargeId::parse),
        of(parsed("pi_[a-z0-9]{1,9}", PaymentIntentId::parse)),
        (amount(), amount(), amount()),
        any::<bool>(),
        select(vec![ChargeStatus::Failed, ChargeStatus::Pending, ChargeStatus::Succeeded]),
        select(vec![Dispute::None, Dispute::Open, Dispute::Refundable]),
        customer,
        (time(), facts()),
        channel,
    )
        .prop_map(
            |(id, payment_intent, amounts, captured, status, dispute, customer, at, channel)| {
                let paid = Charge::paid(id, amounts.0, channel).unwrap();
                Charge {
                    payment_intent,
                    amount_captured: amounts.1,
                    amount_refunded: amounts.2,
                    captured,
                    status,
                    dispute,
                    customer,
                    created_at: at.0,
                    facts: at.1,
                    ..paid
                }
            },
        )
}

fn ask() -> impl Strategy<Value = Ask> {
    (
        parsed("(ch|pi)_[a-z0-9]{1,9}", Target::parse),
        wanted(),
        of(currency()),
        of(select(&RefundReason::ALL[..])),
        of(parsed(".{1,60}", Justification::parse)),
        of(parsed("[!-~]{1,60}", IdempotencyKey::parse)),
        any::<bool>(),
    )
        .prop_map(|(target, wanted, currency, reason, words, key, dry_run)| Ask {
            believed_currency: currency,
            reason,
            justification: words,
            key,
            dry_run,
            ..Ask::new(target, wanted)
        })
}

fn lease() -> impl Strategy<Value = Lease> {
    (any::<u64>(), 0_u64..10_000_000)
        .prop_map(|(fence, millis)| Lease { fence, span: Duration::from_millis(millis) })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        (of(hold_id()), of(hold_url()), of(time()), of(key_mark())).prop_map(
            |(id, url, expires_at, key)| Outcome::Held(Hold { id, url, expires_at, key })
        ),
        Just(Outcome::NeedsPerson),
        ".{0,20}".prop_map(Outcome::NotExecuted),
        (select(FailureCode::ALL), ".{0,20}")
            .prop_map(|(code, message)| Outcome::Refused(Refusal { code, message })),
        (parsed("(ch|py)_[a-z0-9]{1,9}", ChargeId::parse), any::<i64>(), refund())
            .prop_map(|(charge, minor, refund)| Outcome::Named { charge, minor, refund }),
        refund().prop_map(Outcome::Seen),
    ]
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        Just(Work::Approved),
        of(hold_id()).prop_map(Work::AwaitingStripe),
        Just(Work::Settled),
        Just(Work::Submitted),
        intent_id().prop_map(Work::One),
        parsed("att_[a-z0-9]{1,9}", AttemptId::parse).prop_map(Work::GivenUp),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn intents_come_back(intent in intent(), lease in of(lease()), replayed: bool, at in time()) {
        comes_back::<IntentBody, Intent>(&intent);
        let claimed = lease.unwrap_or(Lease { fence: 0, span: Duration::ZERO });
        comes_back::<ClaimBody, Claim>(
            &Claim { intent: intent.clone(), lease: claimed, stopped: replayed, agent_tagged: !replayed, at },
        );
        comes_back::<PageBody, Page>(&Page { intents: vec![intent.clone()], more: replayed });
        comes_back::<DecidedBody, Decided>(&Decided { intent, lease, replayed });
    }

    #[test]
    fn charges_and_previews_come_back(
        charge in charge(),
        reasons in proptest::collection::vec(reason(), 0..3),
        decision in select(vec![Decision::Allow, Decision::Deny, Decision::RequireApproval]),
        amount in amount(),
        worth in of(worth()),
        policy_version: u64,
    ) {
        comes_back::<ChannelBody, Channel>(&charge.channel);
        comes_back::<ChargeBody, Charge>(&charge);
        comes_back::<PreviewBody, Preview>(
            &Preview { decision, reasons, charge, amount, worth, policy_version },
        );
    }

    #[test]
    fn asks_come_back(ask in ask()) {
        comes_back::<AskBody, Ask>(&ask);
    }

    #[test]
    fn news_and_work_come_back(news in outcome(), work in work()) {
        comes_back::<outcome::OutcomeBody, Outcome>(&news);
        comes_back::<WorkBody, Work>(&work);
    }

    #[test]
    fn budgets_come_back(
        stopped in of(select(ReasonCode::ALL)),
        max_per_payment in of(usd()),
        approval_threshold in of(usd()),
        windows in proptest::collection::vec((select(ReasonCode::ALL), usd(), usd(), time()), 0..3),
    ) {
        let window = |(code, limit, spent, resets_at)| BudgetWindow { code, limit, spent, resets_at };
        let windows = windows.into_iter().map(window).collect();
        comes_back::<BudgetBody, Budget>(
            &Budget { stopped, max_per_payment, approval_threshold, windows },
        );
    }

    #[test]
    fn filters_come_back(
        key in of(parsed("[!-~]{1,60}", IdempotencyKey::parse)),
        state in of(select(&State::STORED[..])),
        limit in 1_u16..=100,
        before in of(intent_id()),
    ) {
        let filter = IntentFilter { idempotency_key: key, state, limit, before };
        prop_assert_eq!(filter_from(&filter_query(&filter)), Ok(filter));
    }

    /// Whatever comes as a body is read to an end.
    #[test]
    fn any_body_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = serde_json::from_slice::<DecideAsk>(&bytes).map(|body| Charge::try_from(body.charge));
        let _ = serde_json::from_slice::<IntentBody>(&bytes).map(Intent::try_from);
        let _ = serde_json::from_slice::<ProblemBody>(&bytes).map(|body| body.error());
        let _ = filter_from(&String::from_utf8_lossy(&bytes));
        let _ = wait_from(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn agents_come_back() {
    let agent = Agent {
        id: AgentId::parse("agt_1").unwrap(),
        name: AgentName::parse("bot").unwrap(),
        sources: vec![Source::parse("10.1.0.0/16").unwrap()],
    };
    let body = AgentBody::new(&agent, Vec::new(), Some(ReasonCode::AgentStopped));
    assert_eq!(Agent::try_from(body), Ok(agent));
}

#[test]
fn every_error_comes_back() {
    let eur = |minor| Amount::new(minor, Currency::EUR).unwrap();
    let intent = IntentId::parse("int_1").unwrap();
    let (left, by) = (eur(5), Some(intent.clone()));
    let money = Amount::new(0, Currency::EUR).unwrap_err();
    let asked = [
        ActionError::AmountOverRefundable { asked: eur(9), left },
        ActionError::ApprovalNotFound,
        ActionError::ChargeAlreadyRefunded { by: None },
        ActionError::ChargeAlreadyRefunded { by },
        ActionError::ChargeDisputed,
        ActionError::ChargeNotCaptured,
        ActionError::ChargeNotFound { livemode: true, account: Some("acct_1".to_owned()) },
        ActionError::ChargeNotFound { livemode: false, account: None },
        ActionError::ChargeNotPaid,
        ActionError::ChargeNotReady,
        ActionError::ChargeNotRefundable,
        ActionError::CurrencyMismatch { believed: Currency::USD, charged: Currency::JPY },
        ActionError::IdempotencyKeyReused { argument: "amountMinor", intent },
        ActionError::IntentNotFound,
        ActionError::InvalidAmount(money),
        ActionError::LivemodeMismatch,
        ActionError::NotCancelable { state: State::Settled },
        ActionError::StripeError { detail: "the charge's figures contradict" },
        ActionError::StripeKeyMissing,
        ActionError::StripePermission { permission: "Charges: Read".to_owned() },
        ActionError::StripeUnavailable,
    ];
    let gateway = GatewayFault::ALL.iter().map(|fault| AuthorityError::Gateway(*fault));
    let errors = asked.map(AuthorityError::Asked).into_iter().chain(gateway).chain([
        AuthorityError::Broken("canary".to_owned()),
        AuthorityError::Stale,
        AuthorityError::StoreUnavailable("canary".to_owned()),
        AuthorityError::Unauthenticated,
        AuthorityError::Unavailable("canary".to_owned()),
    ]);
    for error in errors {
        let bytes = serde_json::to_vec(&ProblemBody::new(&error, "req_1")).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("canary"), "a detail is for the log");
        let back: ProblemBody = serde_json::from_slice(&bytes).unwrap();
        assert!((400..600).contains(&back.status), "{back:?}");
        let back = back.error();
        match (&error, &back) {
            (AuthorityError::Asked(there), AuthorityError::Asked(here)) => assert_eq!(there, here),
            (AuthorityError::Gateway(there), AuthorityError::Gateway(here)) => {
                assert_eq!(there, here);
            }
            _ => assert_eq!(
                std::mem::discriminant(&error),
                std::mem::discriminant(&back),
                "{error:?} {back:?}"
            ),
        }
    }
    for code in ["invalid_request", "not_found", "tool_not_granted", "", "amount_over_refundable"] {
        let error = ProblemBody::plain(400, code, "x", "req_1").error();
        assert!(matches!(error, AuthorityError::Broken(_)), "{code}: {error:?}");
    }
}
