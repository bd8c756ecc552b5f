"""The contract of models as somebody else runs it, and the models that it catches."""

import pytest

from support.strangers import Outcomes, outcomes_of

TESTS = '''
import asyncio
import itertools
import json

import pytest
from layover import ModelError, Usage
from layover.models import ContextLengthExceeded, Delta, Model, Reply, RequestedCall, send_deltas
from layover.testing.contracts import ModelContract


class Sound(Model):
    """A model whose provider is a list."""

    name = "stranger/large"
    too_long = ContextLengthExceeded

    def __init__(self, plans):
        self.plans = list(plans)

    async def complete(self, prompt, on_delta=None):
        plan = self.plans.pop(0)
        if plan.status == 400 and "context" in plan.message:
            raise self.too_long(plan.message, status=400)
        if plan.status != 200:
            raise ModelError(plan.message, status=plan.status, retry_after=plan.retry_after)
        await send_deltas(on_delta, *self.pieces(plan))
        await asyncio.sleep(0)
        if plan.hangs:
            await self.hang()
        if plan.breaks:
            raise ConnectionError("gone")
        return self.reply(plan)

    def pieces(self, plan):
        return [Delta("text", plan.text)] if plan.text else []

    async def hang(self):
        await asyncio.Event().wait()

    def reply(self, plan):
        calls = [RequestedCall(id="", name=n, args=json.dumps(a)) for n, a, _ in plan.calls]
        return Reply(
            text=plan.text,
            calls=tuple(calls),
            finish_reason="tool-calls" if calls else "stop",
            usage=Usage(input_tokens=3, output_tokens=2),
        )


class Renamed(Sound):
    numbers = itertools.count()

    def __init__(self, plans):
        super().__init__(plans)
        self.name = f"stranger/{next(self.numbers)}"


class Blunt(Sound):
    too_long = ModelError


class Stubborn(Sound):
    retries = True


class Deaf(Sound):
    async def hang(self):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                raise ModelError("cancelled") from None


class Garbled(Sound):
    def pieces(self, plan):
        return [Delta("text", plan.text[:-1])] if plan.text else []


class Wordy(Sound):
    def reply(self, plan):
        return super().reply(plan).model_copy(update={"calls": ()})


class Free(Sound):
    def reply(self, plan):
        return super().reply(plan).model_copy(update={"usage": Usage()})


class Mixed(Sound):
    async def complete(self, prompt, on_delta=None):
        self.last = self.plans[0].text
        reply = await super().complete(prompt, on_delta)
        return reply.model_copy(update={"text": self.last})


@pytest.fixture
def make(request):
    return lambda *plans: request.cls.model(plans)
'''
CLASS = """
class Test{name}(ModelContract):
    model = {name}
"""
CAUGHT = {
    "Renamed": "test_name_is_the_same_each_time",
    "Blunt": "test_prompt_that_is_too_long_is_its_own_error",
    "Stubborn": "test_fault_that_passes_is_asked_for_again",
    "Deaf": "test_model_works_again_after_a_cancel",
    "Garbled": "test_pieces_add_up_to_the_answer",
    "Wordy": "test_answer_with_calls",
    "Free": "test_answer_in_words",
    "Mixed": "test_answers_at_the_same_time_stay_apart",
}
"""Broken models, with a test that has to fail."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    classes = [CLASS.format(name=name) for name in ("Sound", *CAUGHT)]
    return outcomes_of(tmp_path_factory.mktemp("stranger"), TESTS + "".join(classes))


@pytest.mark.parametrize(("name", "test"), CAUGHT.items(), ids=CAUGHT)
def test_model_that_breaks_a_promise_is_caught(outcomes: Outcomes, name: str, test: str) -> None:
    failed = {case.partition("[")[0] for case, message in outcomes[name].items() if message}
    assert test in failed
    assert failed < {case.partition("[")[0] for case in outcomes["Sound"]}


def test_model_that_keeps_every_promise_passes(outcomes: Outcomes) -> None:
    assert {case: message for case, message in outcomes["Sound"].items() if message} == {}
    assert len(outcomes["Sound"]) > 10
