"""The time that a provider asks to wait, wherever it says so."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from layover.adapters.http.retry_after import retry_after
from layover.plugins.models.faults import from_event, from_status
from layover.plugins.models.waits import seconds_of

GOOGLE = {
    "code": 429,
    "message": "Quota exceeded.",
    "status": "RESOURCE_EXHAUSTED",
    "details": [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.03s"},
    ],
}


def test_retry_after_is_read_in_each_of_its_forms() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    assert retry_after({"retry-after": "3"}) == 3
    assert retry_after({"retry-after-ms": "250", "retry-after": "3"}) == 0.25
    assert 15 < (retry_after({"retry-after": soon}) or 0) <= 20
    assert retry_after({"retry-after": "Mon, 01 Jan 2024 00:00:00 GMT"}) == 0
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({"retry-after": "nan"}) == 0
    assert retry_after({}) is None


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"error": GOOGLE}, 36.03),
        ([{"error": GOOGLE}], 36.03),
        ({"error": {"message": "Rate limit. Please try again in 36.2s. Visit a page."}}, 36.2),
        ({"error": {"message": "Please try again in 6m0.5s."}}, 360.5),
        ({"error": {"message": "Please try again in 250ms."}}, 0.25),
        ({"error": {"message": "Please retry after 26 seconds."}}, 26),
        ({"message": "Wait for 1 hour and 5 minutes"}, 3_900),
        ({"message": "Limit reached; resets in 12h0m0s"}, 43_200),
        ({"error": {"retry_after": 20, "message": "slow down"}}, 20),
        ({"retryAfter": "2 minutes"}, 120),
        ("Please retry in 3s", 3),
    ],
)
def test_wait_is_read_where_the_provider_says_it(body: Any, seconds: float) -> None:
    assert from_status(429, body, {}).retry_after == pytest.approx(seconds)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Limit 30000 tokens per minute, used 29000. Try again later."}},
        {"error": {"message": "Try again in a minute"}},
        {"error": {"message": "try again. 5s is the limit"}},
        {"error": {"retry_after": True, "retryDelay": "soon"}},
        {"error": {"retry_after": -1}},
        {"error": {"details": "retryDelay"}},
        {"error": {"details": [None, "x", {"retryDelay": None}]}},
        {"error": {"message": "wait " + "9" * 5_000}},
        None,
    ],
)
def test_wait_that_nobody_names_is_unknown(body: Any) -> None:
    assert from_status(429, body, {}).retry_after is None


def test_headers_count_before_fields_and_these_before_words() -> None:
    body = {"error": {"message": "try again in 5s", "retry_after": 4}}
    limits = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m"}
    assert from_status(429, body, {"retry-after": "3", **limits}).retry_after == 3
    assert from_status(429, body, limits).retry_after == 4
    assert from_status(429, {"message": "try again in 5s"}, limits).retry_after == 60


def test_limit_of_which_something_remains_is_waited_for_by_nobody() -> None:
    headers = {"x-ratelimit-remaining-requests": "7", "x-ratelimit-reset-requests": "6m0s"}
    assert from_status(429, {}, headers).retry_after is None
    headers["x-ratelimit-remaining-tokens"] = "0"
    headers["x-ratelimit-reset-tokens"] = "8.5s"
    assert from_status(429, {}, headers).retry_after == 8.5


def test_error_in_a_stream_says_it_as_well() -> None:
    fault = from_event({"error": {"code": "rate_limit", "message": "Try again in 2s"}})
    assert (fault.is_transient, fault.retry_after) == (True, 2)


def test_fault_that_does_not_pass_has_no_wait() -> None:
    fault = from_status(400, {"error": {"message": "no. try again in 2s"}}, {})
    assert (fault.is_transient, fault.retry_after) == (False, None)


@pytest.mark.parametrize("text", ["", "s", "5", "5 apples", "5s!", "in 5s", "5s5"])
def test_what_is_no_duration_is_none(text: str) -> None:
    assert seconds_of(text) is None
