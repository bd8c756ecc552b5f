"""A model that an author brings, as the engine asks it: what goes wrong with it, and what it need not do."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from layover import ModelSettings, RetryableError
from layover.errors import ContentFiltered, ContextLengthExceeded, DefinitionError, ModelError
from layover.models import (
    ChatReply,
    Delta,
    OnDelta,
    OpenAIModel,
    Prompt,
    Reply,
    RequestedCall,
    send_deltas,
)
from layover.plugins.models.own import OwnModel

PROMPT = Prompt(model="acme/large")
STREAM = PROMPT.model_copy(update={"stream": True})
Step = Callable[[OnDelta | None], Awaitable[Any]]


class Acme:
    """A model that does what it is told to, one step for each attempt."""

    name = "acme/large"

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        reply: Reply = await self.steps.pop(0)(on_delta)
        return reply


class Waits:
    """Notes the seconds between attempts."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def says(text: str, **more: Any) -> Step:
    async def step(_: OnDelta | None) -> Reply:
        return Reply(text=text, **more)

    return step


def raises(error: BaseException, *told: Delta) -> Step:
    async def step(on_delta: OnDelta | None) -> Reply:
        await send_deltas(on_delta, *told)
        raise error

    return step


def asked(*steps: Step) -> tuple[OwnModel, Waits]:
    waits = Waits()
    return OwnModel(Acme(*steps), waits), waits


def status_error(status: int, text: str, **headers: str) -> httpx2.HTTPStatusError:
    request = httpx2.Request("POST", "https://acme.example/v1/answers")
    response = httpx2.Response(status, text=text, headers=headers, request=request)
    return httpx2.HTTPStatusError("an error of httpx2's", request=request, response=response)


class ApiError(Exception):
    """An error as the clients of Anthropic, Google and others have it."""

    def __init__(self, **fields: Any) -> None:
        super().__init__("the words of the exception")
        vars(self).update(fields)


BOTOCORE = {
    "ResponseMetadata": {"HTTPStatusCode": 403},
    "Error": {"Code": "AccessDenied", "Message": "not you"},
}


@pytest.mark.parametrize(
    ("error", "status", "type", "message"),
    [
        (
            status_error(401, '{"error": {"message": "bad key"}}'),
            401,
            "AuthenticationError",
            "bad key",
        ),
        (ApiError(status_code=404, body={"message": "no model"}), 404, "NotFoundError", "no model"),
        (ApiError(code=400), 400, "BadRequestError", "the words of the exception"),
        (ApiError(response=BOTOCORE), 403, "PermissionDeniedError", "not you"),
        (KeyError("answer"), None, "KeyError", "the model acme/large failed: KeyError: 'answer'"),
        (ModelError("no", status=402, type="Unpaid"), 402, "Unpaid", "no"),
    ],
)
async def test_any_exception_is_a_model_error(
    error: Exception, status: int | None, type: str, message: str
) -> None:
    model, waits = asked(raises(error))
    with pytest.raises(ModelError) as caught:
        await model.complete(PROMPT)
    assert (caught.value.status, caught.value.type) == (status, type)
    assert message in caught.value.message
    assert waits.seconds == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            status_error(400, "prompt is too long: 210000 tokens > 200000 maximum"),
            ContextLengthExceeded,
        ),
        (ApiError(status_code=400, body={"code": "content_filter"}), ContentFiltered),
        (ContextLengthExceeded("too long", status=500), ContextLengthExceeded),
    ],
)
async def test_a_prompt_that_cannot_be_read_is_its_own_error_at_once(
    error: Exception, kind: type[ModelError]
) -> None:
    model, waits = asked(raises(error))
    with pytest.raises(kind):
        await model.complete(PROMPT)
    assert waits.seconds == []


@pytest.mark.parametrize(
    "error",
    [
        status_error(503, "overloaded"),
        ApiError(status_code=529),
        ModelError("slow down", status=429),
        ModelError("gone", type="APIConnectionError"),
        ConnectionResetError("gone"),
        TimeoutError(),
        httpx2.ReadTimeout("silent"),
        httpx2.RemoteProtocolError("half an answer"),
    ],
)
async def test_a_fault_that_passes_is_repeated(error: Exception) -> None:
    model, waits = asked(raises(error), says("fine"))
    assert (await model.complete(PROMPT)).text == "fine"
    assert len(waits.seconds) == 1


@pytest.mark.parametrize(
    "error",
    [
        status_error(429, "slow down", **{"Retry-After": "7"}),
        ModelError("no", status=429, retry_after=7),
    ],
)
async def test_the_wait_is_the_one_that_the_provider_asks_for(error: Exception) -> None:
    model, waits = asked(raises(error), says("fine"))
    await model.complete(PROMPT)
    assert waits.seconds == [7]


async def test_a_fault_that_does_not_pass_ends_after_six_attempts() -> None:
    model, _ = asked(*[raises(ModelError("down", status=503))] * 9)
    with pytest.raises(ModelError, match=r"down \(attempt 6\)"):
        await model.complete(PROMPT)


async def test_it_ends_earlier_if_the_step_has_fewer_requests_left() -> None:
    model, _ = asked(*[raises(ModelError("down", status=503))] * 9)
    with pytest.raises(ModelError, match="down") as caught:
        await model.complete(PROMPT.model_copy(update={"max_requests": 2}))
    assert caught.value.requests == 2


async def test_a_reply_says_how_many_attempts_it_took() -> None:
    model, _ = asked(raises(ModelError("down", status=503)), says("fine"))
    assert (await model.complete(PROMPT)).requests == 2


async def test_a_model_that_retries_says_it_itself() -> None:
    model, _ = asked(says("fine", requests=4))
    model._model.retries = True  # type: ignore[attr-defined]
    assert (await model.complete(PROMPT)).requests == 4


async def test_a_model_that_retries_is_asked_once() -> None:
    model, waits = asked(raises(ModelError("down", status=503)), says("fine"))
    model._model.retries = True  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match="down"):
        await model.complete(PROMPT)
    assert waits.seconds == []


async def test_an_error_of_layovers_that_is_no_models_passes_through() -> None:
    model, _ = asked(raises(RetryableError("in a moment")))
    with pytest.raises(RetryableError, match="in a moment"):
        await model.complete(PROMPT)


async def test_a_cancel_is_not_an_error() -> None:
    async def hangs(_: OnDelta | None) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    model, _ = asked(hangs)
    task = asyncio.create_task(model.complete(PROMPT))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_answer_that_is_no_reply_says_so() -> None:
    async def text(_: OnDelta | None) -> str:
        return "Hello"

    model, _ = asked(text)
    with pytest.raises(ModelError, match="acme/large answered str, not a Reply"):
        await model.complete(PROMPT)


async def test_an_attempt_has_the_time_that_the_settings_give_it() -> None:
    async def hangs(_: OnDelta | None) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    model, _ = asked(hangs, says("fine"))
    prompt = PROMPT.model_copy(update={"settings": ModelSettings(timeout=0.01)})
    assert (await model.complete(prompt)).text == "fine"


async def test_a_mistake_of_the_authors_is_logged_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, _ = asked(raises(AttributeError("no such field")))
    with caplog.at_level(logging.WARNING, "layover"), pytest.raises(ModelError):
        await model.complete(PROMPT)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is AttributeError


CALL = RequestedCall(id="c_1", name="look", args='{"at": 1}')


async def test_an_answer_that_was_not_streamed_is_told_whole() -> None:
    model, _ = asked(says("Hello", reasoning="Hm.", calls=(CALL,)))
    deltas: list[Delta] = []
    await model.complete(STREAM, deltas.append)
    assert [(d.kind, d.text) for d in deltas] == [
        ("reasoning", "Hm."),
        ("text", "Hello"),
        ("tool-call", '{"at": 1}'),
    ]


async def test_calls_behind_a_streamed_text_are_told_and_earlier_thoughts_are_not() -> None:
    async def streams(on_delta: OnDelta | None) -> Reply:
        assert on_delta is not None
        on_delta(Delta("text", "Hel"))  # An author may await it, or not.
        answer = on_delta(Delta("text", "lo"))
        assert answer is not None
        await answer
        return Reply(text="Hello", reasoning="Hm.", calls=(CALL,))

    model, _ = asked(streams)
    deltas: list[Delta] = []
    await model.complete(STREAM, deltas.append)
    assert [(d.kind, d.text) for d in deltas] == [
        ("text", "Hel"),
        ("text", "lo"),
        ("tool-call", '{"at": 1}'),
    ]


async def test_an_attempt_that_was_told_begins_again_aloud() -> None:
    model, _ = asked(raises(ConnectionResetError(), Delta("text", "Hel")), says("Hello"))
    deltas: list[Delta] = []
    await model.complete(STREAM, deltas.append)
    assert [(d.kind, d.text) for d in deltas] == [
        ("text", "Hel"),
        ("restart", ""),
        ("text", "Hello"),
    ]


async def test_without_a_stream_a_model_has_no_listener() -> None:
    heard: list[Any] = []

    async def looks(on_delta: OnDelta | None) -> Reply:
        heard.append(on_delta)
        return Reply(text="Hello")

    model, _ = asked(looks, looks)
    await model.complete(PROMPT, heard.append)
    await model.complete(STREAM)
    assert heard == [None, None]


async def test_a_reply_without_a_models_name_has_that_of_the_model() -> None:
    model, _ = asked(says("Hello"), says("Hello", model="large-2026"))
    assert (await model.complete(PROMPT)).model == "acme/large"
    assert (await model.complete(PROMPT)).model == "large-2026"


async def test_an_error_in_a_chat_reply_is_read_as_a_providers() -> None:
    async def reads(_: OnDelta | None) -> Reply:
        answer = ChatReply(PROMPT)
        answer.add({"error": {"message": "overloaded", "code": 503}})
        return answer.reply()

    model, waits = asked(reads, says("fine"))
    assert (await model.complete(PROMPT)).text == "fine"
    assert len(waits.seconds) == 1


def test_openai_is_imported_by_those_who_bring_a_client_alone() -> None:
    code = (
        "import sys, layover.wiring\n"
        "from layover.models import Model, OpenAIModel, chat_request\n"
        "import layover.plugins.models.own\n"
        "print('openai' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert run.stdout == "False\n"


def test_without_the_package_a_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    client: Any = object()
    with pytest.raises(
        DefinitionError, match=r"install `layover\[openai\]`; for AWS, list `openai`"
    ):
        OpenAIModel(client, "large")
