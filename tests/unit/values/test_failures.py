"""What people are told of a failure: owners in our words, operators in the provider's, without secrets."""

from typing import Any

import pytest

from layover import Agent
from layover.errors import ModelError, RunFailed
from layover.inmemory.model import fail, say
from layover.plugins.models.faults import from_status
from layover.values.runs.failures import MAX_WORDS, detail_of, is_of_code, without_secrets
from layover.values.runs.run import Status
from support.worlds.runs import Bench

KEY = "sk-proj-Abc123Def456"
SAID = f"Incorrect API key provided: {KEY}, at http://10.0.0.7/v1"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 429, 500, 529])
async def test_owner_reads_no_word_of_a_provider_and_what_to_do(status: int) -> None:
    bench = Bench(Agent("helper", model="m"), [fail(SAID, status=status)])
    run = await bench.go()
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.id in run.error.message
    shown = [run.model_dump_json(), *(e.model_dump_json() for e in await bench.events(run.id))]
    for word in ("Incorrect", KEY, "10.0.0.7"):
        assert not any(word in text for text in shown)


async def test_operators_read_what_the_provider_said_without_its_key() -> None:
    bench = Bench(Agent("helper", model="openai/m"), [fail(SAID, status=401)])
    run = await bench.go()
    detail = (await bench.meta(run.id)).error_detail
    assert detail is not None
    assert (detail.provider, detail.model, detail.status) == ("openai", "openai/m", 401)
    assert detail.message == "Incorrect API key provided: [hidden], at http://10.0.0.7/v1"


async def test_owner_reads_no_word_of_an_exception_and_operators_do() -> None:
    def instructions(ctx: Any) -> str:
        raise LookupError("no row for ann@example.com")

    bench = Bench(Agent("helper", model="m", instructions=instructions), [say("hi")])
    run = await bench.go()
    assert run.error is not None
    assert run.error.type == "LookupError"
    assert run.error.message.startswith("The agent's own code failed.")
    detail = (await bench.meta(run.id)).error_detail
    assert detail is not None
    assert detail.message.endswith("no row for ann@example.com")
    assert is_of_code(run.error.type, detail)


def test_a_failure_that_its_author_names_says_what_they_said() -> None:
    failure = RunFailed("the answer names no item", type="NoItem")
    assert detail_of(failure) is None


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Incorrect API key: sk-ab*****wxyz.", "Incorrect API key: [hidden]"),
        ("key AIzaSyD4x_abcdefghij is wrong", "key [hidden] is wrong"),
        ("Authorization: Bearer abc.def-ghi refused", "Authorization: [hidden] [hidden] refused"),
        ('{"api_key": "q1w2e3r4t5"}', '{"api_key": "[hidden]"}'),
        ("https://ann:pw@host.example/v1?key=1 fails", "https://host.example/v1 fails"),
        ("no model anthropic.claude-3-5-sonnet-20241022-v2:0", None),
        ("request 0b5a7e0c-1111-4222-8333-444455556666 failed", None),
        ("token: 0123456789abcdef0123456789abcdef", "token: [hidden]"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(said: str, left: str | None) -> None:
    assert without_secrets(said) == (left or said)


def test_words_are_cut() -> None:
    assert len(without_secrets("no " * MAX_WORDS)) == MAX_WORDS


@pytest.mark.parametrize("name", ["x-request-id", "request-id", "x-amzn-requestid"])
def test_providers_id_of_the_request_is_kept(name: str) -> None:
    fault = from_status(500, {"error": {"message": "no"}}, {name: "req_1"})
    detail = detail_of(fault.error)
    assert detail is not None
    assert (detail.request_id, detail.status) == ("req_1", 500)


def test_a_failure_without_a_named_provider_has_that_of_its_models_name() -> None:
    error = ModelError("no", status=500, type="InternalServerError")
    error.model = "router/large"
    detail = detail_of(error)
    assert detail is not None
    assert detail.provider == "router"
