"""The same recorded logs in every place that shows events: the AI SDK, AG-UI, the terminal and the console.
One invariant for each idea."""

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest

from layover.desk.cli.chat import answer
from layover.desk.cli.chat.calls import signature
from layover.plugins.fronts.protocols import ag_ui, ui_messages
from layover.plugins.fronts.protocols.changes import Change, Unknown, is_in_answer
from layover.plugins.fronts.protocols.event_json import EventJson
from layover.plugins.fronts.protocols.run_view import RunView
from layover.plugins.fronts.protocols.ui_history import running_answers
from layover.values.base import compact_json
from layover.values.runs.event import Event
from support.logs import LOGS, Json, Log, pictures
from support.logs.pictures import PLACES, UNKNOWN, Picture, truth
from support.logs.scenarios import SCENARIOS

TYPES = {each.model_fields["type"].default for each in get_args(get_args(Event)[0])}
CHANGES = set(get_args(Change))


def registered(place: type, method: str) -> set[type]:
    """The changes for which a place has a method of its own."""
    return set(vars(place)[method].dispatcher.registry) - {object}


TABLES: dict[str, tuple[Iterable[type], Iterable[type]]] = {
    "AI SDK": (registered(ui_messages.UiMessage, "chunks_of"), ui_messages.PASSED_OVER),
    "AG-UI": (registered(ag_ui.AgUiRun, "events_of"), ag_ui.PASSED_OVER),
    "terminal": (registered(answer.Answer, "show_change"), answer.PASSED_OVER),
}
"""What each place shows, and what it passes over."""

node = pytest.mark.skipif(shutil.which("node") is None, reason="the console's reducer needs node")
places = pytest.mark.parametrize(
    "place", [pytest.param(name, marks=node) if name == "console" else name for name in PLACES]
)


def shown(place: str) -> Iterator[tuple[Log, Picture, Picture]]:
    """Yield each log, what the place shows of it, and what it says itself."""
    for log in LOGS:
        yield log, PLACES[place](log), truth(log)


# The recordings


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_recording_is_what_the_engine_makes(name: str) -> None:
    """After a change of events: `PYTHONPATH=tests:. .venv/bin/python -m support.logs`."""
    (log,) = (log for log in LOGS if log.name == name)
    assert json.loads(json.dumps(await SCENARIOS[name]())) == list(log.items)
    assert log.about == SCENARIOS[name].__doc__


def test_every_type_of_event_is_recorded_and_so_is_every_log() -> None:
    assert {item["type"] for log in LOGS for item in log.items} == {*TYPES, *UNKNOWN}
    assert {log.name for log in LOGS} == set(SCENARIOS)


# What is shown


def said(result: Any) -> str:
    """Return a result as a text: places without structured results show that."""
    return result if isinstance(result, str) else compact_json(result)


def is_declined(result: Any) -> bool:
    """Return whether a person or a hook let the call not run."""
    return isinstance(result, dict) and "declined" in result


@places
def test_every_text_is_shown_once_and_in_order(place: str) -> None:
    """But for the console, no place can take back what a step had said before it began again."""
    for log, picture, true in shown(place):
        void = [] if place == "console" else pictures.voided(log)
        assert picture.texts == [*void, *true.texts], log.name


@places
def test_every_thought_is_shown_once_and_in_order(place: str) -> None:
    for log, picture, true in shown(place):
        # The terminal says that the model thinks, and not what.
        assert picture.thoughts == ([] if place == "terminal" else true.thoughts), log.name


@places
def test_the_same_calls_are_shown(place: str) -> None:
    for log, picture, true in shown(place):
        is_answer = place in ("AI SDK", "AG-UI")
        expected = pictures.calls_of_answer(log) if is_answer else set(true.calls)
        assert set(picture.calls) == expected, log.name


@places
def test_a_call_is_shown_with_the_arguments_that_it_waits_or_runs_with(place: str) -> None:
    for log, picture, true in shown(place):
        for id, call in picture.calls.items():
            name, inputs = true.calls[id].name, true.calls[id].inputs
            if place == "terminal":  # A call that never ran is there by its outcome.
                lines = {signature({"tool_name": name, "args": args}) for args in inputs}
                assert set(call.inputs) <= lines, (log.name, id)
                continue
            expected = {"AI SDK": inputs, "AG-UI": inputs[:1], "console": inputs[-1:]}[place]
            assert (call.name, call.inputs) == (name, expected), (log.name, id)


def test_pieces_of_arguments_are_those_of_the_step_that_counts() -> None:
    """A step that began again sends them from the beginning."""
    for log in LOGS:
        pieces: dict[str, str] = {}
        for chunk in pictures.ui_message(log)[1]:
            if chunk["type"] == "tool-input-start":
                pieces[chunk["toolCallId"]] = ""
            elif chunk["type"] == "tool-input-delta":
                pieces[chunk["toolCallId"]] += chunk["inputTextDelta"]
        args = pictures.asked_args(log)
        told = {id: json.loads(text) for id, text in pieces.items() if text}
        assert told == {id: args[id] for id in told}, log.name


@places
def test_a_call_is_shown_with_its_result(place: str) -> None:
    for log, picture, true in shown(place):
        # The console puts what came of a call in the background where the call is.
        later = pictures.background_results(log) if place == "console" else {}
        for id, call in picture.calls.items():
            expected = true.calls[id]
            assert call.has_result == expected.has_result, (log.name, id)
            if place == "AI SDK" and call.result is None:  # `tool-output-denied`, or no output yet
                assert is_declined(expected.result) or not expected.has_result, (log.name, id)
            else:
                assert said(call.result) == said(later.get(id, expected.result)), (log.name, id)


@places
def test_a_call_that_failed_looks_failed_and_no_other_does(place: str) -> None:
    for log, picture, true in shown(place):
        for id, call in picture.calls.items():
            if place == "AG-UI":
                assert call.is_error is None  # It does not tell.
            elif not is_declined(true.calls[id].result):
                assert call.is_error == true.calls[id].is_error, (log.name, id)


@places
def test_a_call_that_was_denied_or_expired_does_not_look_done(place: str) -> None:
    for log, picture, _ in shown(place):
        decided = [item for item in log.items if item["type"] == "tool-call-decided"]
        for item in decided:
            if item["decision"] in ("denied", "expired"):
                call = picture.calls[item["tool_call_id"]]
                assert call.is_error or "declined" in said(call.result), log.name


@places
def test_the_same_calls_wait(place: str) -> None:
    for log, picture, true in shown(place):
        assert picture.waiting == true.waiting, log.name


@places
def test_a_call_that_waits_is_shown_at_the_attempt_that_waits(place: str) -> None:
    for log, picture, true in shown(place):
        attempts = {id: picture.attempts[id] for id in picture.waiting}
        assert attempts == true.attempts, log.name


def decided_so_far(log: Log) -> list[Json]:
    """Return, after each event, the decisions on the newest attempts of the calls that have no result."""
    decisions: Json = {}
    found = []
    for event in log.items:
        match event["type"]:
            case "tool-call-decided":
                decisions[event["tool_call_id"]] = event["decision"]
            case "tool-call-suspended" | "tool-execution-end":
                decisions.pop(event["tool_call_id"], None)
        found.append(dict(decisions))
    return found


def test_a_page_that_is_loaded_shows_as_answered_only_the_attempt_that_it_shows() -> None:
    """An approval by its state, a form by its `decision`."""
    for log in LOGS:
        for n, decisions in enumerate(decided_so_far(log), 1):
            answer = running_answers(log.run_id, "t1", log.events[:n])[1]
            for part in answer.parts:
                if not part.get("state", "").startswith("approval-"):
                    continue
                answered = part["state"] == "approval-responded"
                decision = decisions.get(part["toolCallId"])
                assert answered == (decision in ("approved", "denied")), (log.name, n)
                if answered:
                    assert part["approval"]["approved"] == (decision == "approved"), (log.name, n)
            forms = [part for part in answer.parts if part["type"] == ui_messages.PENDING]
            waiting = truth(replace(log, items=log.items[:n])).attempts
            for part in forms:
                is_over = "decision" in part["data"]
                assert is_over == (part["id"] not in waiting), (log.name, n)
                assert is_over or part["data"]["attempt"] == waiting[part["id"]], (log.name, n)


@node
def test_the_console_shows_the_decision_on_the_attempt_that_it_shows() -> None:
    for log, picture in zip(LOGS, pictures.console()[1]["pictures"], strict=True):
        assert picture["decided"] == decided_so_far(log), log.name


def votes_of(place: str, log: Log) -> list[Json]:
    """Return the votes about the waiting call, without their times."""
    if place == "AG-UI":
        (interrupt,) = pictures.ag_ui(log)[1][-1]["outcome"]["interrupts"]
        given = interrupt["metadata"]["pending"]["approval"]["given"]
    elif place == "terminal":
        screen = answer.Answer(pictures.Screen())
        for item in log.items:
            screen.show(item)
        (pending,) = screen.waiting.values()
        given = pending["approval"]["given"]
    else:
        number = [each.name for each in LOGS].index(log.name)
        (given,) = pictures.console()[1]["pictures"][number]["votes"].values()
    return [{name: vote[name] for name in vote if name != "at"} for vote in given]


@pytest.mark.parametrize("place", ["AG-UI", "terminal", pytest.param("console", marks=node)])
def test_a_waiting_call_has_the_newest_vote_of_each_person(place: str) -> None:
    """As the API has them after the same votes. The AI SDK knows no votes."""
    (log,) = (log for log in LOGS if log.name == "votes_apart")
    assert votes_of(place, log) == [
        {"by": "shop", "on_behalf_of": "carl"},
        {"by": "bea", "args": {"amount": 700}},
        {"by": "shop", "on_behalf_of": "dora", "args": {"amount": 800}},
    ]


def test_the_terminal_counts_approvals_of_the_arguments_that_it_shows() -> None:
    (log,) = (log for log in LOGS if log.name == "votes_apart")
    lines = [line for lines in pictures.terminal(log)[1] for line in lines]
    count = "of 2 approvals of these arguments given"
    assert lines[-4:] == [
        f"bea approved pay_out(amount=800): it is enough; 0 {count}, 1 of 2 of others",
        f"carl approved pay_out; 1 {count}, 1 of 2 of others",
        f"bea approved pay_out(amount=700); 1 {count}, 1 of 2 of others",
        f"dora approved pay_out(amount=800); 1 {count}, 1 of 2 of others",
    ]


@places
def test_the_run_ends_in_the_same_way(place: str) -> None:
    for log, picture, true in shown(place):
        assert (picture.status, picture.error) == (true.status, true.error), log.name


@places
def test_what_is_unknown_is_visible_with_its_fields(place: str) -> None:
    for log, picture, true in shown(place):
        # A line has no room for where and when.
        hidden = answer.FRAME - {"type"} if place == "terminal" else frozenset()
        expected = [{k: v for k, v in item.items() if k not in hidden} for item in true.unknown]
        assert picture.unknown == expected, log.name


@node
def test_the_console_knows_when_a_run_only_waits() -> None:
    """It then asks before it cancels a request. The AI SDK's and AG-UI's answers end there."""
    printed = pictures.console()[1]["pictures"]
    for log, picture in zip(LOGS, printed, strict=True):
        view = RunView(log.run_id)
        expected = []
        for event in log.events:
            view.apply(event)
            expected.append(view.waits)
        assert picture["waits"] == expected, log.name


# Nothing is swallowed


@pytest.mark.parametrize("place", TABLES)
def test_each_change_is_shown_or_passed_over_for_a_reason(place: str) -> None:
    shows, passes_over = map(set, TABLES[place])
    assert shows | passes_over == CHANGES
    assert not shows & passes_over


def test_no_event_of_this_version_is_unknown_to_it() -> None:
    for log in LOGS:
        view = RunView(log.run_id)
        for event in log.events:
            is_unknown = any(isinstance(change, Unknown) for change in view.apply(event))
            assert is_unknown == (event.type in UNKNOWN), (log.name, event.type)


def changes_by_type(*, to_answer: bool) -> dict[str, set[type]]:
    """Return the changes that each type of event makes in any log; `to_answer`: to what users are shown."""
    found: dict[str, set[type]] = {kind: set() for kind in (*TYPES, *UNKNOWN)}
    for log in LOGS:
        view = RunView(log.run_id)
        for item, event in zip(log.items, log.events, strict=True):
            changes = view.apply(event if to_answer else EventJson(item))
            told = [change for change in changes if not to_answer or is_in_answer(change)]
            found[event.type] |= {type(change) for change in told}
    return found


@pytest.mark.parametrize("place", TABLES)
def test_each_type_of_event_is_shown_or_passed_over_for_a_reason(place: str) -> None:
    shows, passes_over = map(set, TABLES[place])
    for kind, changes in changes_by_type(to_answer=place != "terminal").items():
        assert changes, kind
        assert changes & shows or changes <= passes_over, kind


@node
def test_the_console_shows_each_type_of_event_or_passes_it_over_for_a_reason() -> None:
    printed = pictures.console()[1]
    shows = {kind for picture in printed["pictures"] for kind in picture["told"]}
    assert TYPES - shows == set(printed["passedOver"])
