//! What every store must do, held against the one in memory, the one in a SQLite file and the one in
//! PostgreSQL; then all against each other; then what only a file or only a server can do.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs,
    reason = "tests unwrap and compute freely"
)]

mod audit;
mod commits;
mod differential;
mod intents;
mod lookups;
mod postgres;
mod races;
mod records;
mod sqlite;
mod work;
mod world;

/// Runs each test against each store.
macro_rules! conformance {
    ($($module:ident :: $test:ident,)*) => {
        mod memory {
            $(#[test]
            fn $test() {
                crate::world::run(crate::$module::$test(crate::world::World::memory()));
            })*
        }
        mod sqlite_file {
            $(#[test]
            fn $test() {
                crate::world::run(crate::$module::$test(crate::world::World::sqlite()));
            })*
        }
        mod postgres_database {
            $(#[test]
            fn $test() {
                crate::world::run(async {
                    crate::$module::$test(crate::world::World::postgres().await).await;
                });
            })*
        }
    };
}

conformance! {
    audit::a_field_is_emptied_and_the_chain_holds,
    audit::the_chain_is_read_in_parts,
    commits::a_conflict_leaves_nothing_behind,
    commits::a_plan_without_writes_commits_nothing,
    commits::commits_are_counted_and_wake_whoever_waits,
    commits::the_audit_chain_holds_and_its_head_is_read_inside,
    commits::the_judge_is_told_the_time,
    commits::what_was_not_asked_for_is_not_read,
    intents::a_key_has_one_holder_until_it_is_surrendered,
    intents::an_approval_is_found_by_its_id_and_stays_with_its_intent,
    intents::an_intent_changes_only_from_the_state_it_is_in,
    intents::every_field_of_an_intent_comes_back,
    intents::writes_are_made_in_their_order,
    lookups::a_key_finds_its_holder_of_the_same_agent,
    lookups::a_refusal_is_found_by_amount_and_time,
    lookups::a_request_without_a_key_finds_its_twin,
    lookups::lists_are_newest_first_and_filtered,
    lookups::the_newest_twin_wins,
    records::agents_are_found_by_key_name_id_and_intent,
    records::events_are_noted_once_and_forgotten_when_old,
    records::gateways_are_kept_with_their_keys,
    records::nonces_are_used_once_and_forgotten_when_old,
    records::names_and_keys_belong_to_one_agent,
    records::policies_count_up_one_by_one,
    records::rates_are_those_of_the_newest_day,
    records::stops_are_put_replaced_and_lifted,
    records::users_are_listed_by_name_and_added_once,
    records::every_version_of_a_policy_is_kept,
    records::webhooks_are_put_replaced_and_listed_by_name,
    records::tagged_keys_are_remembered_once,
    work::recent_refunds_are_those_that_may_have_left,
    work::teams_and_customers_count_beside_the_agent,
    work::approved_work_is_due_while_it_is_usable,
    work::one_intent_is_due_when_nobody_holds_it,
    work::spend_counts_in_open_windows,
    work::spend_is_given_back_once_to_where_it_was_reserved,
    work::spend_neither_overflows_nor_falls_below_nothing,
    work::submitted_work_is_due_when_its_lease_ends,
    work::a_stop_holds_what_is_approved_and_nothing_else,
    work::what_is_not_decided_or_used_in_time_expires,
    work::what_is_followed_is_due_from_its_time_on,
    work::what_stripe_holds_is_found_by_its_request,
    work::the_books_show_all_that_is_counted_and_held,
    work::work_is_of_one_account_and_mode,
    work::work_is_handed_out_oldest_first_up_to_the_limit,
}
