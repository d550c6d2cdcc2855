INSERT INTO intents (
    agent_name, team, tool, keyless, wanted_minor, reason, payment_intent_id, customer_id, seen,
    currency, amount_minor, usd_micros, rate_kind, rate_units_per_eur, rate_usd_per_eur,
    rate_usd_per_unit, rate_date, livemode, account_id, state, denied_by, reasons,
    policy_version, approval_id, refund_id, refund_status, refund_intent_id, failure_code,
    failure_message, needs_person, request_form, request_account_id, request_version,
    submitted_at, attempt_id, fence, lease_until, created_at, updated_at, settled_at, follow_at,
    id, agent_id, idempotency_key, charge_id, holds_key
)
VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
    $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38,
    $39, $40, $41, $42, $43, $44, $45, 1
);
