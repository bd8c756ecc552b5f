"""Each fault that stories and histories found, put back: its short test has to fail."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from layover.adapters.store.chains import UnknownParent
from simulation import test_found
from simulation.put_back import PUT_BACK
from unit.metering import test_quota
from unit.plugins.reach.connections import test_waiting_calls

SHORT: Mapping[str, Callable[[], Any]] = {
    "a cancelled run denies a payment that was made": (
        test_found.test_a_cancelled_run_denies_no_payment_that_was_made
    ),
    "a thread loses its history behind a cancelled run": (
        test_found.test_a_thread_keeps_its_history_if_the_run_before_is_cancelled
    ),
    "an approved result is beside the branch": (
        test_found.test_the_next_model_knows_what_an_approved_call_has_done
    ),
    "a run at work is set aside": test_found.test_a_run_that_answers_a_message_is_not_set_aside,
    "an edit runs with arguments that nobody was shown": (
        test_found.test_no_edit_runs_with_arguments_that_nobody_was_shown
    ),
    "the sweeper looks at the same hundred items": (
        test_found.test_the_sweeper_looks_at_runs_behind_connections_that_do_not_close
    ),
    "a vote covers the outcome": (
        test_found.test_a_vote_that_arrives_late_does_not_cover_the_outcome
    ),
    "a call waits for an account that is connected": lambda: (
        test_waiting_calls.test_a_call_that_the_consent_did_not_see_goes_on_with_the_sweepers_next_look(
            False
        )
    ),
    "the bus is never told of a decision": lambda: (
        test_found.test_the_bus_learns_of_a_decision_that_it_refused_for_a_moment("a turn")
    ),
    "a plain write takes its own repetition for another's": (
        test_found.test_a_press_counts_although_the_answer_of_its_write_was_lost
    ),
    "a message withdraws the call that answers it": (
        test_found.test_a_message_withdraws_only_what_waited_when_it_was_sent
    ),
    "a message to a cancelled run is lost": lambda: (
        test_found.test_a_message_to_a_run_that_is_then_cancelled_stays_in_the_thread(
            "ask send cancel answer"
        )
    ),
    "retention deletes a thread that was just written in": (
        test_found.test_retention_leaves_a_thread_that_was_just_written_in
    ),
    "the sweeper puts off a call that was just decided": (
        test_found.test_a_decided_call_whose_decider_dies_is_woken_within_minutes
    ),
    "two cancels fence each other off": (
        test_found.test_of_two_who_cancel_at_once_one_ends_the_run
    ),
    "a decision beside a deletion is an error of the server": (
        test_found.test_a_decision_in_a_thread_that_is_being_deleted_finds_no_call
    ),
    "a reader sees what is left of a log behind a gap": (
        test_found.test_a_reader_of_a_thread_that_is_being_deleted_sees_no_gap
    ),
    "room in a day stays held after the end": (
        lambda: test_quota.test_a_step_that_began_after_the_end_of_its_run_holds_no_room("over")
    ),
    "room in a day stays held by a run that is being ended": (
        lambda: test_quota.test_a_step_that_began_after_the_end_of_its_run_holds_no_room(
            "being ended"
        )
    ),
    "room in a day is held by a reservation that comes late": (
        test_quota.test_a_reservation_that_comes_after_the_end_of_its_run_holds_no_room
    ),
    "room in a day is held by a reservation that came between": (
        test_quota.test_a_reservation_that_comes_while_its_room_is_released_holds_none
    ),
    "a run that is redriven at its beginning begins twice": (
        test_found.test_a_run_that_is_redriven_at_its_beginning_begins_once
    ),
    "a message that is cancelled in the queue stops its thread": (
        test_found.test_a_message_that_is_cancelled_in_the_queue_does_not_stop_its_thread
    ),
    "a run that was cancelled without the database stops its thread": (
        test_found.test_a_thread_goes_on_behind_a_run_that_was_cancelled_without_the_database
    ),
    "a branch goes back in time": (
        test_found.test_a_message_is_later_than_the_parent_that_it_names
    ),
}
"""The short test of each fault."""


FAILS = AssertionError, pytest.fail.Exception, UnknownParent


@pytest.mark.parametrize("name", PUT_BACK)
def test_a_fault_that_is_put_back_fails_its_short_test(name: str) -> None:
    with PUT_BACK[name](), pytest.raises(FAILS):
        _run(SHORT[name])


@pytest.mark.parametrize("name", PUT_BACK)
def test_the_short_test_holds_without_the_fault(name: str) -> None:
    """Also once the fault has been taken away again."""
    with PUT_BACK[name]():
        pass
    _run(SHORT[name])


def _run(test: Callable[[], Any]) -> None:
    outcome = test()
    if inspect.iscoroutine(outcome):
        asyncio.run(outcome)
