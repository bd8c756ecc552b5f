"""Records of other releases stay readable."""

from datetime import UTC, datetime

from layover.adapters.journal.items.records import run_from, run_item
from layover.keys import Keys
from layover.values.message import Message, Role
from layover.values.runs.run import RunMeta, Status

AT = datetime(2026, 1, 1, tzinfo=UTC)
INPUT = Message(id="m", thread_id="t", role=Role.USER, created_at=AT)
RUN = RunMeta(
    id="r",
    owner="ann",
    thread_id="t",
    agent="shop",
    status=Status.RUNNING,
    input=INPUT,
    created_at=AT,
    updated_at=AT,
)


def test_a_run_with_the_attribute_that_earlier_releases_left_empty_is_read() -> None:
    item = {**run_item(Keys("ann"), RUN), "fingerprint": None}
    assert run_from("ann", item, INPUT.model_dump_json(), None, None) == RUN


def test_a_run_with_an_attribute_of_a_later_release_is_read() -> None:
    item = {**run_item(Keys("ann"), RUN), "fingerprint": "0123456789abcdef"}
    assert run_from("ann", item, INPUT.model_dump_json(), None, None) == RUN
