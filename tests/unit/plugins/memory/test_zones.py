"""The time zone of a user, as the page, the thread or the profile names it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from layover.plugins.memory.learns.zones import zone_of
from layover.values.message import CONTEXT, DataPart, Message, Role, TextPart

NOW = datetime(2026, 11, 27, 15, 3, tzinfo=UTC)


def said(*context: Any) -> Message:
    data = [DataPart(name=CONTEXT, data=list(context))] if context else []
    parts = (*data, TextPart(text="hello"))
    return Message(id="m", thread_id="t", role=Role.USER, content=parts, created_at=NOW)


@pytest.mark.parametrize(
    "item",
    [
        {"time_zone": "America/Halifax"},
        {"timeZone": "America/Halifax"},
        {"timezone": "America/Halifax"},
        {"Time Zone": "America/Halifax"},
        {"TIME-ZONE": "America/Halifax"},
        {"tz": "America/Halifax"},
        {"description": "The user's time zone", "value": "America/Halifax"},
        {"description": "The user's time zone", "value": '"America/Halifax"'},
        {"description": "Local time", "value": "Saturday 22:30 (UTC-4, America/Halifax)"},
        {"description": "The user's clock", "value": {"timeZone": "America/Halifax"}},
        "Time zone: America/Halifax",
    ],
)
def test_a_page_may_name_the_zone_in_many_ways(item: Any) -> None:
    assert str(zone_of(said(item))) == "America/Halifax"
    assert str(zone_of(said({"description": "The page", "value": "/orders"}, item))) == (
        "America/Halifax"
    )


@pytest.mark.parametrize(
    "known",
    [{"time_zone": "Pacific/Auckland"}, {"shop": "Bonn", "timeZone": "Pacific/Auckland (NZDT)"}],
)
def test_metadata_and_profiles_name_it_in_their_fields(known: dict[str, Any]) -> None:
    assert str(zone_of(said(), None, known)) == "Pacific/Auckland"


def test_the_page_goes_before_the_thread_and_the_thread_before_the_profile() -> None:
    thread, profile = {"timezone": "Europe/Bern"}, {"time_zone": "Asia/Tokyo"}
    page = said({"time_zone": "America/Halifax"})
    assert str(zone_of(page, {"timezone": "Europe/Zurich"}, profile)) == "America/Halifax"
    assert str(zone_of(said(), {"timezone": "Europe/Zurich"}, profile)) == "Europe/Zurich"
    assert str(zone_of(said(), thread, profile)) == "Asia/Tokyo", "there is no Europe/Bern"


@pytest.mark.parametrize(
    "name", ["", "Mars/Base", "America", "../../etc/passwd", "x/" * 500, "A/\x00", 5, None, [], {}]
)
def test_a_wrong_name_is_utc(name: Any) -> None:
    assert zone_of(said({"time_zone": name}), {"time_zone": name}, name) is UTC


def test_another_text_with_a_zones_name_is_no_zone() -> None:
    server = {"description": "Region of the server", "value": "America/Halifax"}
    assert zone_of(said(server, "see America/Halifax"), {"city": "Europe/Zurich"}) is UTC
