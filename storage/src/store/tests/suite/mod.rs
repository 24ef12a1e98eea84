//! Scenarios that hold on every engine.

mod faults;
mod gates;
mod imports;
mod reads;
mod writes;

pub(super) use faults::*;
pub(super) use gates::*;
pub(super) use imports::*;
pub(super) use reads::*;
pub(super) use writes::*;

/// Runs every scenario on the fixture that the expression makes.
macro_rules! on_engine {
    ($fixture:expr) => {
        $crate::store::tests::suite::on_engine!($fixture;
            writes_have_the_outcome_that_their_preconditions_say
            a_write_that_cannot_be_stored_refuses_no_other
            a_closed_gate_takes_no_writes
            concurrent_writes_are_ordered_and_each_is_answered
            one_key_written_at_once_by_many_has_one_winner
            a_watch_sees_what_comes_and_its_position_follows
            a_watch_ends_when_the_gate_closes_and_when_the_server_stops
            old_versions_are_expired_once_compacted
            the_counter_never_goes_back
            versions_wait_to_be_reached
            gate_and_definitions_survive_a_restart
            only_the_newest_fencing_token_moves_a_gate
            what_is_released_is_closed_and_never_opened
            a_watch_is_told_of_milestones_and_ends_with_all_there_was
            copies_that_were_written_back_are_marked
            a_resource_keeps_its_shape
            a_mirror_is_idempotent_and_keeps_versions
            a_listing_does_not_undo_what_is_newer
            replayed_events_are_logged_without_undoing_the_listing
            a_mirror_is_refused_once_the_resource_was_served
            a_reset_forgets_everything
            stragglers_give_way_to_our_writes
            pruned_marks_are_forgotten
            a_digest_is_of_one_moment
            labels_are_found_by_index
            a_list_continues_anywhere_in_key_order
            a_log_that_is_too_large_is_cut_before_its_time
            a_write_that_failed_is_not_visible
            a_write_that_was_made_after_all_is_seen_by_all
            orders_that_were_carried_out_after_all_are_in_force
            reads_go_on_while_the_database_is_down
        );
    };
    ($fixture:expr; $($name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::store::tests::suite::$name(&$fixture).await;
            }
        )*
    };
}
pub(super) use on_engine;
