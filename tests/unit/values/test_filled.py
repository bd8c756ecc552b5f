"""What `support.filled` promises to the tests of every field."""

from collections.abc import Callable
from typing import Literal

import pytest

from layover.values.base import Value
from layover.values.message import Message
from layover.values.runs.run import CallRecord
from layover.values.runs.usage import Usage
from layover.values.runs.views import Run
from support.filled import UnknownType, filled, lost, not_shown


class Strange(Value):
    """A value with a field that nobody foresaw."""

    call: Callable[[], None]


class Fixed(Value):
    """A value whose field says one thing."""

    kind: Literal["fixed"] = "fixed"
    note: str = "none"


def test_a_field_of_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(UnknownType, match=r"Strange\.call"):
        filled(Strange)


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="has no field notes"):
        filled(Fixed, notes="x")


def test_a_field_that_is_given_may_have_its_default() -> None:
    assert filled(Fixed, note="none") == Fixed()


@pytest.mark.parametrize("kind", [Message, CallRecord, Run])
def test_no_field_is_at_its_default(kind: type[Value]) -> None:
    value, fields = filled(kind), kind.model_fields.items()
    defaults = {name: info.get_default(call_default_factory=True) for name, info in fields}
    assert {n for n in defaults if getattr(value, n) == defaults[n]} <= {"children"}


def test_two_values_that_count_from_elsewhere_differ_in_every_text_number_and_time() -> None:
    one, other = filled(Usage), filled(Usage, 5_000)
    assert lost(one, other) == set(Usage.model_fields)


def test_a_field_that_was_lost_is_named_with_its_path() -> None:
    call = filled(CallRecord)
    vote = call.votes[1].model_copy(update={"reason": None})
    changed = call.model_copy(update={"votes": (call.votes[0], vote), "retry": False})
    assert lost(call, call) == set()
    assert lost(call, changed) == {"votes.1.reason", "retry"}


def test_a_field_that_json_leaves_out_counts_as_lost() -> None:
    message = filled(Message)
    assert lost(message, message.model_copy(update={"token_count": None})) == {"token_count"}
    assert not_shown(message, message.model_dump(mode="json")) == set()
