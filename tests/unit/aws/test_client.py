"""The client of AWS's services against a server that answers late, half, wrong, or not at all."""

import asyncio
import json
import os
import socket
import subprocess
import sys

import pytest

from layover.adapters.aws.retries import CAPACITY, COST, NoAnswer, RetryRules, ServiceError
from support.aws.loopback import CLOSE, HANG, KEYS, answer, bench, error

HOUR_S = 3600.0
OK = answer({"Item": {"n": {"N": "1"}}})
FOUND = {"Item": {"n": {"N": "1"}}}
HALF = OK[:-5] + CLOSE
PASSING = {
    "throttled": error("ProvisionedThroughputExceededException"),
    "throttled-by-name": error("ThrottlingException", 400),
    "internal": error("InternalServerError", 500),
    "unavailable-page": b"HTTP/1.1 503 Busy\r\nContent-Length: 6\r\n\r\n<html>",
    "closed": CLOSE,
    "half-a-head": b"HTTP/1.1 200 OK\r\nConte" + CLOSE,
    "half-a-body": HALF,
    "no-http": b"SSH-2.0-OpenSSH\r\n\r\n",
    "wrong-checksum": answer({"Item": 1}, x_amz_crc32="1"),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
async def test_what_passes_is_asked_again(fault: bytes) -> None:
    async with bench(fault, fault, OK) as it:
        assert await it.ask() == FOUND
        assert len(it.served.requests) == 3
        assert len({r.body for r in it.served.requests}) == 1


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
async def test_what_does_not_pass_ends_after_four_attempts(fault: bytes) -> None:
    async with bench(fault) as it:
        with pytest.raises((NoAnswer, ServiceError)):
            await it.ask()
        assert len(it.served.requests) == 4


@pytest.mark.parametrize("code", ["ValidationException", "AccessDeniedException"])
async def test_refusal_is_not_repeated(code: str) -> None:
    async with bench(error(code)) as it:
        with pytest.raises(ServiceError, match=code):
            await it.ask()
        assert len(it.served.requests) == 1


async def test_service_is_told_which_attempt_it_is() -> None:
    async with bench(CLOSE, OK) as it:
        await it.ask()
        told = [r.headers["amz-sdk-request"] for r in it.served.requests]
        assert told == ["attempt=1; max=4", "attempt=2; max=4"]
        assert all("amz-sdk" not in r.headers["authorization"] for r in it.served.requests)


async def test_error_carries_what_the_service_says() -> None:
    document = {"__type": "a.b#ConditionalCheckFailedException", "Item": {"n": {"N": "1"}}}
    async with bench(answer(document, 400)) as it:
        with pytest.raises(ServiceError) as caught:
            await it.ask()
        assert (caught.value.code, caught.value.status) == ("ConditionalCheckFailedException", 400)
        assert caught.value.document == document


async def test_error_of_a_rest_service_is_named_by_its_header() -> None:
    gone = b"HTTP/1.1 410 Gone\r\nx-amzn-ErrorType: GoneException:http://x\r\nContent-Length: 0\r\n\r\n"
    async with bench(gone) as it:
        with pytest.raises(ServiceError) as caught:
            await it.client.send("POST", "/@connections/c", {}, b"")
        assert caught.value.code == "GoneException"


async def test_silence_ends_in_a_time_out_and_the_late_answer_reaches_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    async with bench(HANG, OK, timeout_s=HOUR_S) as it:
        asking = asyncio.ensure_future(it.ask())
        await it.served.arrived.wait()
        later = loop.time() + HOUR_S
        monkeypatch.setattr(loop, "time", lambda: later)
        assert await asking == FOUND
        first, second = it.served.requests
        assert first.connection != second.connection


async def test_nobody_listens() -> None:
    async with bench(OK) as it:
        pass
    with pytest.raises(NoAnswer, match="ConnectionRefusedError"):
        await it.ask()
    assert len(it.pauses) == 3


# Pauses


async def test_pauses_double_and_are_fully_jittered() -> None:
    async with bench(error("InternalServerError", 500)) as it:
        with pytest.raises(ServiceError):
            await it.ask()
        assert it.pauses == [0.025, 0.05, 0.1]
    async with bench(error("ThrottlingException"), dice=lambda: 0.5) as it:
        with pytest.raises(ServiceError):
            await it.ask()
        assert it.pauses == [0.5, 1.0, 2.0]


async def test_service_may_ask_for_a_longer_pause_within_bounds() -> None:
    busy = error("InternalServerError", 503, x_amz_retry_after="1500")
    long = error("InternalServerError", 503, x_amz_retry_after="900000")
    async with bench(busy, long, OK) as it:
        await it.ask()
        assert it.pauses == [1.5, 5.05]


def test_service_that_is_down_is_asked_less_and_less() -> None:
    rules = RetryRules()
    fault = NoAnswer("x")
    repeated = [rules.pause_s(1, fault) for _ in range(CAPACITY)]
    assert sum(pause is not None for pause in repeated) == CAPACITY // COST
    for _ in range(COST):
        rules.count_success(1)
    assert rules.pause_s(1, fault) is not None
    assert rules.pause_s(1, fault) is None


async def test_client_that_repeats_nothing() -> None:
    async with bench(CLOSE, OK, max_attempts=1) as it:
        with pytest.raises(NoAnswer):
            await it.ask()
        assert len(it.served.requests) == 1


# Connections


async def test_connection_serves_one_request_after_another() -> None:
    async with bench(OK) as it:
        for _ in range(3):
            await it.ask()
        assert [r.connection for r in it.served.requests] == [1, 1, 1]


async def test_requests_at_once_have_connections_of_their_own_up_to_a_limit() -> None:
    async with bench(OK, max_connections=3) as it:
        assert await asyncio.gather(*(it.ask() for _ in range(9))) == [FOUND] * 9
        assert {r.connection for r in it.served.requests} == {1, 2, 3}


async def test_cancelled_request_takes_its_connection_along() -> None:
    mine = answer({"Item": "another's"})
    async with bench(HANG, OK) as it:
        lost = asyncio.create_task(it.ask())
        await asyncio.wait_for(it.served.arrived.wait(), 60)
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        it.served.open[0].write(mine)  # The answer to a request that was given up.
        assert await it.ask() == FOUND
        assert [r.connection for r in it.served.requests] == [1, 2]


async def test_cancelled_requests_leave_room_for_others() -> None:
    async with bench(HANG, HANG, OK, max_connections=2) as it:
        lost = [asyncio.create_task(it.ask()) for _ in range(5)]
        while len(it.served.requests) < 2:
            await asyncio.sleep(0)
        for task in lost:
            task.cancel()
        await asyncio.wait(lost)
        assert await asyncio.wait_for(it.ask(), 60) == FOUND


async def test_connection_that_was_closed_while_idle_is_not_used() -> None:
    async with bench(OK + CLOSE, OK) as it:
        await it.ask()
        await asyncio.sleep(0.05)
        assert await it.ask() == FOUND
        assert (len(it.served.requests), it.pauses) == (2, [])


async def test_end_that_came_while_the_process_was_frozen_is_seen() -> None:
    async with bench(OK) as it:
        await it.ask()
        it.served.open[0].get_extra_info("socket").shutdown(socket.SHUT_WR)
        # The loop has not run since; only the kernel knows.
        assert await it.ask() == FOUND
        assert [r.connection for r in it.served.requests] == [1, 2]
        assert it.pauses == []


async def test_answer_that_says_so_ends_its_connection() -> None:
    async with bench(answer(FOUND, Connection="close"), OK) as it:
        assert [await it.ask(), await it.ask()] == [FOUND, FOUND]
        assert [r.connection for r in it.served.requests] == [1, 2]


async def test_more_than_an_answer_ends_its_connection() -> None:
    async with bench(OK + answer({"Item": "another's"}), OK) as it:
        assert [await it.ask(), await it.ask()] == [FOUND, FOUND]
        assert [r.connection for r in it.served.requests] == [1, 2]


BODY = json.dumps(FOUND).encode()
FORMS = {
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n"
    % (BODY[:5], len(BODY) - 5, BODY[5:]),
    "trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\na: b\r\n\r\n"
    % (len(BODY), BODY),
    "until-the-end": b"HTTP/1.1 200 OK\r\n\r\n" + BODY + CLOSE,
    "interim": b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    "old": b"HTTP/1.0 200 OK\r\ncontent-LENGTH:%d\r\n\r\n%b" % (len(BODY), BODY),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
async def test_every_form_of_an_answer_is_read(form: bytes) -> None:
    async with bench(form) as it:
        assert [await it.ask(), await it.ask()] == [FOUND, FOUND]
        assert it.pauses == []


async def test_answer_that_comes_byte_by_byte_is_read() -> None:
    async with bench(HANG) as it:
        asked = asyncio.create_task(it.ask())
        await asyncio.wait_for(it.served.arrived.wait(), 60)
        for i in range(len(FORMS["trailer"])):
            it.served.open[0].write(FORMS["trailer"][i : i + 1])
            await asyncio.sleep(0)
        assert await asyncio.wait_for(asked, 60) == FOUND


async def test_every_loop_has_connections_of_its_own() -> None:
    async with bench(OK) as it:
        await it.ask()

        async def elsewhere() -> object:
            found = await it.ask()
            await it.client.aclose()
            return found

        assert await asyncio.to_thread(asyncio.run, elsewhere()) == FOUND
        assert await it.ask() == FOUND
        assert [r.connection for r in it.served.requests] == [1, 2, 1]


# Credentials


async def test_renewed_credentials_are_used_at_once() -> None:
    variables = {**KEYS, "AWS_SESSION_TOKEN": "old"}
    async with bench(HANG, OK, variables=variables) as it:
        found = asyncio.create_task(it.ask())
        await asyncio.wait_for(it.served.arrived.wait(), 60)
        variables["AWS_SESSION_TOKEN"] = "new"
        it.served.open[0].write(error("ExpiredTokenException"))
        assert await found == FOUND
        assert [r.headers["x-amz-security-token"] for r in it.served.requests] == ["old", "new"]
        assert it.pauses == []


async def test_expired_credentials_without_others_are_an_error() -> None:
    async with bench(error("ExpiredTokenException")) as it:
        with pytest.raises(ServiceError, match="ExpiredToken"):
            await it.ask()
        assert len(it.served.requests) == 1


def test_neither_boto3_nor_an_http_library_is_imported() -> None:
    code = (
        "import sys, layover.adapters.aws.services as s, layover.adapters.journal.items.dynamodb\n"
        "s.AwsServices({'AWS_REGION': 'eu-west-1'}).client('dynamodb')\n"
        "print(*{'boto3', 'botocore', 'httpx2', 'h11', 'urllib3'} & sys.modules.keys())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout.split() == []
