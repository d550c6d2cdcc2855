SELECT
    id, agent_id, agent_name, team, tool, idempotency_key, keyless, wanted_minor, reason, charge_id,
    payment_intent_id, customer_id, seen, currency, amount_minor, usd_micros, rate_kind, rate_units_per_eur,
    rate_usd_per_eur, rate_usd_per_unit, rate_date, livemode, account_id, state, denied_by,
    reasons, policy_version, approval_id, refund_id, refund_status, refund_intent_id,
    failure_code, failure_message, needs_person, request_form, request_account_id,
    request_version, submitted_at, attempt_id, fence, lease_until, created_at, updated_at,
    settled_at, follow_at
FROM intents WHERE id = $1;
