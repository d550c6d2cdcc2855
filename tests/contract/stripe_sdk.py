"""The sandbox, as Stripe's official Python SDK sees it.

Usage: stripe_sdk.py BASE_URL

The SDK is a client that nobody here wrote, so what it can read is what Stripe would send. Each
case prints `ok NAME` or `FAILED NAME`; the last line is `N passed, N failed`, and the exit status
is 1 when a case failed. The cases make their own charges and may run against a used sandbox.
"""

import json
import sys
import traceback
import urllib.request
import uuid

import stripe

BASE = sys.argv[1].rstrip("/") if len(sys.argv) == 2 else sys.exit(__doc__)

stripe.api_base = BASE
stripe.api_key = "sk_test_contract"
stripe.max_network_retries = 0


def control(path, body=None):
    """Posts to the sandbox's control API, or gets without a body, and answers the parsed reply."""
    request = urllib.request.Request(
        f"{BASE}/_sandbox/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


def charge(amount=1000, **params):
    params = {"currency": "usd", "source": "tok_visa", **params}
    return stripe.Charge.create(amount=amount, **params)


def intent(amount=1000, **params):
    params = {"currency": "usd", "payment_method": "pm_card_visa", "confirm": True, **params}
    return stripe.PaymentIntent.create(amount=amount, **params)


def refused(kind, call, status, code=None, text="", param=None):
    """Asserts that `call` raises this error of the SDK, with this status, code and text."""
    try:
        answer = call()
    except stripe.StripeError as error:
        assert type(error) is kind, f"{type(error).__name__}: {error}"
        assert error.http_status == status, error.http_status
        assert error.code == code, error.code
        assert text in error.user_message, error.user_message
        assert error.request_id.startswith("req_"), error.request_id
        if param is not None:
            assert error.param == param, error.param
        return error
    raise AssertionError(f"not refused: {answer}")


def charge_is_created_and_read():
    made = charge(1234, description="Lamp", metadata={"order": "7"})
    read = stripe.Charge.retrieve(made.id)
    assert read == made
    assert (read.amount, read.amount_captured, read.amount_refunded) == (1234, 1234, 0)
    assert (read.captured, read.refunded, read.disputed, read.paid) == (True, False, False, True)
    assert (read.status, read.currency, read.livemode) == ("succeeded", "usd", False)
    assert read.metadata == {"order": "7"} and read.description == "Lamp"
    assert "refunds" not in read


def charge_shows_refunds_when_expanded():
    made = charge()
    stripe.Refund.create(charge=made.id, amount=10)
    stripe.Refund.create(charge=made.id, amount=20)
    read = stripe.Charge.retrieve(made.id, expand=["refunds"])
    assert [refund.amount for refund in read.refunds.data] == [20, 10]
    assert read.refunds.has_more is False


def payment_intent_is_read_with_its_charge():
    customer = stripe.Customer.create(email="jo@example.com")
    made = intent(customer=customer.id)
    assert made.status == "succeeded" and isinstance(made.latest_charge, str)
    expand = ["latest_charge", "latest_charge.customer", "customer"]
    read = stripe.PaymentIntent.retrieve(made.id, expand=expand)
    assert read.latest_charge.id == made.latest_charge
    assert read.latest_charge.payment_intent == made.id
    assert read.latest_charge.customer.created == customer.created
    assert read.customer.email == "jo@example.com"


def payment_intent_is_confirmed_later():
    made = intent(confirm=False)
    assert (made.status, made.latest_charge) == ("requires_confirmation", None)
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(payment_intent=made.id),
        400,
        text="does not have a successful charge to refund.",
    )
    assert made.confirm().status == "succeeded"


def customer_is_read_and_expanded():
    customer = stripe.Customer.create(name="Jo", source="tok_visa")
    assert stripe.Customer.retrieve(customer.id).name == "Jo"
    made = charge(customer=customer.id, source=None)
    read = stripe.Charge.retrieve(made.id, expand=["customer"])
    assert read.customer.id == customer.id and read.customer.created == customer.created


def declined_card():
    error = refused(
        stripe.CardError,
        lambda: charge(source="tok_chargeDeclined"),
        402,
        "card_declined",
        "Your card was declined.",
    )
    assert error.json_body["error"]["decline_code"] == "generic_decline"


def refund_in_full():
    made = charge()
    refund = stripe.Refund.create(charge=made.id, reason="requested_by_customer")
    assert (refund.amount, refund.status, refund.charge) == (1000, "succeeded", made.id)
    assert refund.reason == "requested_by_customer"
    read = stripe.Charge.retrieve(made.id)
    assert (read.amount_refunded, read.refunded) == (1000, True)
    assert stripe.Refund.retrieve(refund.id) == refund


def refund_in_parts_by_payment_intent():
    made = intent()
    first = stripe.Refund.create(payment_intent=made.id, amount=300)
    second = stripe.Refund.create(payment_intent=made.id)
    assert (first.amount, second.amount) == (300, 700)
    assert first.payment_intent == made.id and first.charge == made.latest_charge


def refund_metadata_is_updated():
    refund = stripe.Refund.create(charge=charge().id, metadata={"a": "1", "b": "2"})
    changed = stripe.Refund.modify(refund.id, metadata={"b": "", "c": "3"})
    assert changed.metadata == {"a": "1", "c": "3"}
    changed = stripe.Refund.modify(refund.id, metadata="")
    assert changed.metadata == {}


def refund_over_the_charge():
    made = charge(700)
    error = refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(charge=made.id, amount=3000),
        400,
        text="Refund amount ($30.00) is greater than charge amount ($7.00)",
        param="amount",
    )
    assert error.json_body["error"]["type"] == "invalid_request_error"
    stripe.Refund.create(charge=made.id, amount=600)
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(charge=made.id, amount=101),
        400,
        text="Refund amount ($1.01) is greater than unrefunded amount on charge ($1.00)",
        param="amount",
    )


def refund_twice():
    made = charge()
    stripe.Refund.create(charge=made.id)
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(charge=made.id),
        400,
        "charge_already_refunded",
        f"Charge {made.id} has already been refunded.",
    )


def refund_of_an_uncaptured_payment():
    made = intent(capture_method="manual")
    assert (made.status, made.amount_capturable) == ("requires_capture", 1000)
    assert stripe.Charge.retrieve(made.latest_charge).captured is False
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(payment_intent=made.id),
        400,
        "payment_intent_unexpected_state",
    )
    assert made.cancel().status == "canceled"


def refund_of_something_unknown():
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(charge="ch_unknown"),
        404,
        "resource_missing",
        "No such charge: 'ch_unknown'",
        param="id",
    )
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.retrieve("re_unknown"),
        404,
        "resource_missing",
        "No such refund: 're_unknown'",
    )


def refund_amounts_and_reasons_are_checked():
    made = charge()
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(charge=made.id, amount=0),
        400,
        "parameter_invalid_integer",
        "This value must be greater than or equal to 1.",
        param="amount",
    )
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(charge=made.id, reason="angry"),
        400,
        text="Invalid reason: must be one of duplicate, fraudulent, or requested_by_customer",
    )
    whole = charge(10000, currency="ugx")
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(charge=whole.id, amount=550),
        400,
        text="Currency UGX has become effectively zero-decimal",
    )


def unknown_parameter():
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(charge=charge().id, colour="red"),
        400,
        "parameter_unknown",
        "Received unknown parameter: colour",
        param="colour",
    )


def idempotent_replay_and_mismatch():
    made = charge()
    key = f"contract-{uuid.uuid4()}"
    first = stripe.Refund.create(charge=made.id, amount=100, idempotency_key=key)
    again = stripe.Refund.create(charge=made.id, amount=100, idempotency_key=key)
    assert again.id == first.id
    assert "Idempotent-Replayed" not in first.last_response.headers
    assert again.last_response.headers["Idempotent-Replayed"] == "true"
    assert again.last_response.headers["Original-Request"] == first.last_response.request_id
    assert stripe.Charge.retrieve(made.id).amount_refunded == 100
    refused(
        stripe.IdempotencyError,
        lambda: stripe.Refund.create(charge=made.id, amount=101, idempotency_key=key),
        400,
        text="can only be used with the same parameters",
    )


def lost_answer_is_repaired_by_the_sdk():
    made = charge()
    control("faults", {"method": "POST", "path": "/v1/refunds", "kind": "drop_after"})
    client = stripe.StripeClient(
        "sk_test_contract", base_addresses={"api": BASE}, max_network_retries=2
    )
    refund = client.v1.refunds.create({"charge": made.id, "amount": 100})
    listed = stripe.Refund.list(charge=made.id)
    assert [held.id for held in listed.data] == [refund.id]


def rate_limit():
    control("faults", {"path": "/v1/balance", "kind": "status_429"})
    error = refused(stripe.RateLimitError, stripe.Balance.retrieve, 429)
    # This class of the SDK does not carry the code over.
    assert error.json_body["error"]["code"] == "rate_limit"
    assert stripe.Balance.retrieve().livemode is False


def partial_capture():
    made = intent(capture_method="manual")
    captured = made.capture(amount_to_capture=700)
    assert (captured.status, captured.amount_received) == ("succeeded", 700)
    read = stripe.Charge.retrieve(made.latest_charge)
    assert (read.amount, read.amount_captured, read.amount_refunded) == (1000, 700, 300)
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(payment_intent=made.id, amount=701),
        400,
        text="greater than unrefunded amount on charge ($7.00)",
    )
    assert stripe.Refund.create(payment_intent=made.id).amount == 700


def dispute_is_refused_and_inquiry_is_not():
    made = charge(source="tok_createDispute")
    assert stripe.Charge.retrieve(made.id).disputed is True
    dispute = stripe.Dispute.list(charge=made.id).data[0]
    assert (dispute.status, dispute.is_charge_refundable) == ("needs_response", False)
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(charge=made.id),
        400,
        "charge_disputed",
        f"Charge {made.id} has been charged back; cannot issue a refund.",
    )
    asked = control("charges", {"dispute": {"status": "warning_needs_response"}})
    assert stripe.Refund.create(charge=asked["id"]).status == "succeeded"


def failed_refund_gives_back():
    made = charge()
    refund = stripe.Refund.create(charge=made.id)
    control(f"refunds/{refund.id}", {"status": "failed", "failure_reason": "lost_or_stolen_card"})
    read = stripe.Refund.retrieve(refund.id)
    assert (read.status, read.failure_reason) == ("failed", "lost_or_stolen_card")
    assert read.failure_balance_transaction.startswith("txn_")
    assert stripe.Charge.retrieve(made.id).amount_refunded == 0


def pending_refund():
    made = charge(source="tok_pendingRefund")
    refund = stripe.Refund.create(charge=made.id)
    assert (refund.status, refund.pending_reason) == ("pending", "processing")


def restricted_key():
    customer = stripe.Customer.create()
    made = charge(customer=customer.id)
    key = f"rk_test_contract{uuid.uuid4().hex}"
    control("keys", {"key": key, "permissions": {"charges": "read", "refunds": "read"}})
    stripe.Charge.retrieve(made.id, api_key=key)
    permission = "Having the 'rak_{}' permission would allow this request to continue."
    for name, call in [
        ("refund_write", lambda: stripe.Refund.create(charge=made.id, api_key=key)),
        (
            "customer_read",
            lambda: stripe.Charge.retrieve(made.id, expand=["customer"], api_key=key),
        ),
    ]:
        error = refused(stripe.PermissionError, call, 403, text=permission.format(name))
        assert key not in str(error), "the key is masked"
    refused(
        stripe.AuthenticationError,
        lambda: stripe.Charge.retrieve(made.id, api_key="sk_live_contract"),
        401,
    )


def accounts_are_apart():
    made = charge(stripe_account="acct_contract")
    assert stripe.Charge.retrieve(made.id, stripe_account="acct_contract").id == made.id
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Charge.retrieve(made.id),
        404,
        "resource_missing",
        "No such charge",
    )
    refund = stripe.Refund.create(charge=made.id, stripe_account="acct_contract")
    assert refund.amount == 1000


def approval_required():
    made = charge()
    key = f"rk_test_contract{uuid.uuid4().hex}"
    control("keys", {"key": key, "agentTagged": True})
    error = refused(
        stripe.InvalidRequestError,
        lambda: stripe.Refund.create(charge=made.id, api_key=key),
        400,
        "approval_required",
    )
    request = error.json_body["error"]["approval_request"]
    assert (request["action"], request["status"]) == ("create_refund", "pending")
    assert stripe.Charge.retrieve(made.id).amount_refunded == 0


def all_pages_of_refunds():
    made = charge()
    ids = [stripe.Refund.create(charge=made.id, amount=1).id for _ in range(25)]
    page = stripe.Refund.list(charge=made.id, limit=10)
    assert (len(page.data), page.has_more) == (10, True)
    assert [refund.id for refund in page.auto_paging_iter()] == ids[::-1]
    oldest = stripe.Refund.list(charge=made.id, limit=10, ending_before=ids[0])
    assert [refund.id for refund in oldest.auto_paging_iter()] == ids[1:]
    since = stripe.Refund.list(charge=made.id, created={"gte": made.created}, limit=100)
    assert (len(since.data), since.has_more) == (25, False)


def events_are_listed_and_read():
    made = charge()
    key = f"contract-{uuid.uuid4()}"
    refund = stripe.Refund.create(charge=made.id, amount=100, idempotency_key=key)
    of_this = [
        event
        for event in stripe.Event.list(type="refund.*", limit=100).data
        if event.data.object.id == refund.id
    ]
    assert [event.type for event in of_this] == ["refund.created"]
    event = stripe.Event.retrieve(of_this[0].id)
    assert event == of_this[0]
    assert (event.object, event.livemode, event.api_version) == ("event", False, stripe.api_version)
    # By name, as the SDK's events have a method `request`.
    assert event["request"] == {
        "id": refund.last_response.request_id,
        "idempotency_key": key,
    }
    assert event.data.object == refund
    types = ["charge.refunded", "charge.dispute.created"]
    newest = stripe.Event.list(types=types, limit=1).data[0]
    assert (newest.type, newest.data.object.id) == ("charge.refunded", made.id)
    assert newest.data.previous_attributes == {"amount_refunded": 0}
    older = stripe.Event.list(starting_after=event.id, limit=100)
    assert event.id not in [held.id for held in older.data]
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Event.retrieve("evt_unknown"),
        404,
        "resource_missing",
        "No such event: 'evt_unknown'",
    )


def refund_that_fails_later_is_seen():
    made = charge(1000)
    stripe.Refund.create(charge=made.id, amount=300)
    refund = stripe.Refund.create(charge=made.id, amount=500)
    assert stripe.Charge.retrieve(made.id).amount_refunded == 800
    order = {"status": "failed", "failure_reason": "expired_or_canceled_card"}
    control(f"refunds/{refund.id}", order)
    read = stripe.Refund.retrieve(refund.id)
    assert (read.status, read.failure_reason) == ("failed", "expired_or_canceled_card")
    assert stripe.Charge.retrieve(made.id).amount_refunded == 300
    event = stripe.Event.list(type="refund.failed", limit=1).data[0]
    assert event.data.object == read
    assert event.data.previous_attributes["status"] == "succeeded"
    # What has come back can be refunded again.
    assert stripe.Refund.create(charge=made.id).amount == 700


def refund_starts_as_ordered():
    orders = [
        {"status": "pending", "pending_reason": "insufficient_funds"},
        {"status": "requires_action"},
    ]
    try:
        for order in orders:
            control("settings", {"newRefunds": order})
            refund = stripe.Refund.create(charge=charge().id)
            assert refund.status == order["status"]
            assert refund.get("pending_reason") == order.get("pending_reason")
    finally:
        control("settings", {"newRefunds": None})
    assert refund.next_action.type == "display_details"
    assert stripe.Refund.cancel(refund.id).status == "canceled"


def webhook_signature_is_accepted():
    secret = "whsec_contract"
    control("webhook", {"url": "http://127.0.0.1:9/webhooks", "secret": secret})
    try:
        refund = stripe.Refund.create(charge=charge().id, metadata={"name": "Zoë"})
        event = next(
            event
            for event in stripe.Event.list(type="refund.created", limit=100).data
            if event.data.object.id == refund.id
        )
        delivery = next(it for it in control("deliveries") if it["eventId"] == event.id)
    finally:
        control("webhook", {"url": None})
    body, signature = delivery["body"], delivery["headers"]["Stripe-Signature"]
    told = stripe.Webhook.construct_event(body.encode(), signature, secret)
    assert (told.id, told.type, told.data.object) == (event.id, "refund.created", refund)
    for altered, under in [(body.replace("succeeded", "failed"), secret), (body, "whsec_other")]:
        try:
            stripe.Webhook.construct_event(altered.encode(), signature, under)
        except stripe.SignatureVerificationError:
            continue
        raise AssertionError("a wrong signature was accepted")


def customers_are_searched():
    mark = uuid.uuid4().hex
    names = [f'Ann "Annie" O\'Neil {mark}', f"back\\slash {mark}", f"name:'x' OR {mark}"]
    ids = [
        stripe.Customer.create(name=name, email=f"{n}@{mark}.example", metadata={"n": str(n)}).id
        for n, name in enumerate(names)
    ]

    def search(query, **params):
        page = stripe.Customer.search(query=query, **params)
        assert page.object == "search_result" and page.url == "/v1/customers/search"
        return page

    for customer, name in zip(ids, names):
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        for query in (f'name~"{quoted}"', f'name:"{quoted}"'):
            assert [found.id for found in search(query).data] == [customer], query
    assert [found.id for found in search(f"email:'1@{mark}.example'").data] == [ids[1]]
    both = f"name~'{mark}' -metadata['n']:'0'"
    assert [found.id for found in search(both).data] == [ids[2], ids[1]]
    page = search(f"name~'{mark}'", limit=1)
    assert page.has_more is True and page.next_page
    assert [found.id for found in page.auto_paging_iter()] == ids[::-1]
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Customer.search(query="asdf"),
        400,
        text="We were unable to parse your search query.",
    )
    refused(
        stripe.InvalidRequestError,
        lambda: stripe.Customer.search(query="foo:'bar'"),
        400,
        text="Field `foo` is an unsupported search field for resource `customers`.",
    )


def seeded_payments_and_disputes_are_listed():
    account = f"acct_{uuid.uuid4().hex}"
    request = urllib.request.Request(
        f"{BASE}/_sandbox/seed",
        data=b'{"payments":250,"disputes":130,"customers":5}',
        headers={"Stripe-Account": account},
    )
    urllib.request.urlopen(request, timeout=10).close()
    disputes = list(
        stripe.Dispute.list(limit=100, stripe_account=account).auto_paging_iter()
    )
    assert len({dispute.id for dispute in disputes}) == len(disputes) == 130
    statuses = {dispute.status for dispute in disputes}
    assert {"needs_response", "warning_closed", "prevented", "appeal_under_review"} <= statuses
    for dispute in disputes:
        assert dispute.evidence_details.due_by > dispute.created
        assert dispute.charge.startswith("ch_") and dispute.payment_intent.startswith("pi_")
    intents = list(
        stripe.PaymentIntent.list(limit=100, stripe_account=account).auto_paging_iter()
    )
    assert len({intent.id for intent in intents}) == len(intents) == 250
    created = [intent.created for intent in intents]
    assert created == sorted(created, reverse=True)
    since = {"gte": created[99], "lte": created[50]}
    some = stripe.PaymentIntent.list(created=since, limit=100, stripe_account=account)
    assert [intent.id for intent in some.data] == [intent.id for intent in intents[50:100]]
    of_customer = intents[0].customer
    some = stripe.PaymentIntent.list(customer=of_customer, limit=100, stripe_account=account)
    assert {intent.customer for intent in some.data} == {of_customer} and len(some.data) == 50
    newer = stripe.PaymentIntent.list(
        limit=3, ending_before=intents[10].id, stripe_account=account
    )
    assert [intent.id for intent in newer.data] == [intent.id for intent in intents[7:10]]
    balance = stripe.Balance.retrieve(stripe_account=account)
    assert {entry.currency for entry in balance.available} == {"usd", "eur", "jpy", "kwd"}
    assert (balance.object, balance.livemode) == ("balance", False)


def permissions_of_the_reading_tools():
    key = f"rk_test_contract{uuid.uuid4().hex}"
    calls = {
        "balance": lambda: stripe.Balance.retrieve(api_key=key),
        "payment_intents": lambda: stripe.PaymentIntent.list(api_key=key),
        "customers": lambda: stripe.Customer.search(query="name:'x'", api_key=key),
        "disputes": lambda: stripe.Dispute.list(api_key=key),
    }
    for missing in calls:
        control("keys", {"key": key, "permissions": {it: "read" for it in calls if it != missing}})
        for resource, call in calls.items():
            if resource == missing:
                refused(stripe.PermissionError, call, 403, text=f"'rak_{missing.rstrip('s')}_read'")
            else:
                call()


CASES = [
    charge_is_created_and_read,
    charge_shows_refunds_when_expanded,
    payment_intent_is_read_with_its_charge,
    payment_intent_is_confirmed_later,
    customer_is_read_and_expanded,
    declined_card,
    refund_in_full,
    refund_in_parts_by_payment_intent,
    refund_metadata_is_updated,
    refund_over_the_charge,
    refund_twice,
    refund_of_an_uncaptured_payment,
    refund_of_something_unknown,
    refund_amounts_and_reasons_are_checked,
    unknown_parameter,
    idempotent_replay_and_mismatch,
    lost_answer_is_repaired_by_the_sdk,
    rate_limit,
    partial_capture,
    dispute_is_refused_and_inquiry_is_not,
    failed_refund_gives_back,
    pending_refund,
    restricted_key,
    accounts_are_apart,
    approval_required,
    all_pages_of_refunds,
    events_are_listed_and_read,
    refund_that_fails_later_is_seen,
    refund_starts_as_ordered,
    webhook_signature_is_accepted,
    customers_are_searched,
    seeded_payments_and_disputes_are_listed,
    permissions_of_the_reading_tools,
]


def main():
    failed = 0
    for case in CASES:
        try:
            case()
            print(f"ok {case.__name__}")
        except Exception:
            failed += 1
            print(f"FAILED {case.__name__}\n{traceback.format_exc()}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
