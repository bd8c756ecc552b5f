"""The table of what works with each provider: the adapters do what it says, and its page is made of it."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from layover.adapters.aws.services import AwsServices
from layover.adapters.http.client import Response
from layover.adapters.http.request import Url
from layover.desk.cli.models.table import FEATURES, SUPPORT, Feature, Support
from layover.errors import ModelError
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.plugins.models.openai_chat import OPENAI_BASE_URL, OpenAIChat
from layover.plugins.models.providers import Providers
from layover.values.message import FilePart, Message, Role, TextPart
from layover.values.prompt import OutputSpec, Prompt, Reply, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from support.models_page import PAGE, page
from support.providers import converse
from support.providers.answers import document
from support.providers.odd import ClientOfFake, OddResponse
from support.providers.zoo.fakes import BEDROCK, ZOO, Answer, Fake, Visit, addresses
from support.recordings.files import Exchange, recordings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = {
    "type": "object",
    "properties": {"nights": {"type": "integer"}},
    "required": ["nights"],
    "additionalProperties": False,
}
LOOK = ToolSpec(name="look", description="Look.", parameters=SCHEMA, strict=True)
OUTPUT = OutputSpec(name="Trip", json_schema=SCHEMA, strict=True)
DATA = "QUJDREVGR0g="
KINDS = {"images": "image/png", "PDF": "application/pdf", "audio": "audio/mpeg"}
CACHES = ("prompt_cache_key", "cache_control", "cachePoint")
BY_NAME = {row.name: row for row in SUPPORT}
THINKS_IN_PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
    {"type": "text", "text": "So."},
]
"""Mistral's form of a thought (`recorded/mistral/thinking_blocks.json`)."""


class Door(ClientOfFake):
    """One fake that answers every request in the same way."""

    def __init__(self, fake: Fake, answer: Answer) -> None:
        self.visit = Visit(fake)
        self.answer = answer
        self.bodies: list[Any] = []

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        request = json.loads(body)
        self.bodies.append(request)
        raw = self.visit.refusal(request)
        if raw is None:
            streams = url.path.endswith("-stream") or bool(request.get("stream"))
            raw = self.visit.answer(self.answer, streams=streams)
            if self.visit.fake.name == "mistral" and not streams and not self.answer.calls:
                message = {"role": "assistant", "content": THINKS_IN_PARTS}
                usage = {"prompt_tokens": 9, "completion_tokens": 3}
                raw = document({"choices": [{"index": 0, "message": message}], "usage": usage})
        kind = raw.headers.get("content-type", "")
        return OddResponse(raw.status, kind, list(raw.chunks))


def providers(door: Door) -> Providers:
    aws = AwsServices(converse.variables_of(f"https://{BEDROCK.host}/v1"))
    return Providers(
        OpenAIChat("key", OPENAI_BASE_URL, make_client=lambda: door),
        addresses(),
        lambda name: "key",
        lambda: BedrockChat(aws, make_client=lambda: door),
        lambda: door,
    )


class Probe:
    """What became of one prompt."""

    def __init__(self, fake: Fake, answer: Answer, **prompt: Any) -> None:
        self.door = Door(fake, answer)
        content = prompt.pop("content", (TextPart(text="hi"),))
        message = Message(id="m", thread_id="t", role=Role.USER, content=content, created_at=NOW)
        self.prompt = Prompt(model=fake.model, messages=(message,), api=fake.api, **prompt)
        self.deltas: list[Any] = []

    async def ask(self) -> Reply | None:
        """Return the reply; None: it is refused."""
        try:
            return await providers(self.door).complete(self.prompt, self.deltas.append)
        except ModelError:
            return None

    @property
    def sent(self) -> str:
        """The last request."""
        return json.dumps(self.door.bodies[-1]) if self.door.bodies else ""


async def works(fake: Fake, feature: Feature) -> bool:
    """Whether a feature reaches the model, and comes back from it."""
    call = ("look", {"nights": 1})
    if feature in ("tools", "parallel", "strict"):
        number = 2 if feature == "parallel" else 1
        probe = Probe(fake, Answer(1, "", (call,) * number), tools=(LOOK,))
        reply = await probe.ask()
        if feature == "strict":
            return '"strict": true' in probe.sent
        return reply is not None and len(reply.calls) == number and '"look"' in probe.sent
    if feature == "structured":
        said = (
            Answer(1, "", (("Trip", {"nights": 1}),))
            if fake is BEDROCK
            else Answer(1, '{"nights": 1}')
        )
        probe = Probe(fake, said, output=OUTPUT)
        return await probe.ask() is not None and '"nights"' in probe.sent
    if feature in KINDS:
        part = FilePart(url=f"data:{KINDS[feature]};base64,{DATA}", mime_type=KINDS[feature])
        settings = ModelSettings(inputs=("audio",))
        probe = Probe(
            fake, Answer(1, "So."), content=(part, TextPart(text="hi")), settings=settings
        )
        return await probe.ask() is not None and DATA in probe.sent
    if feature == "caching":
        probe = Probe(fake, Answer(1, "So."), cache_key="k", system="You help.")
        return await probe.ask() is not None and any(name in probe.sent for name in CACHES)
    probe = Probe(fake, Answer(1, "So."), stream=feature == "streams")
    reply = await probe.ask()
    assert reply is not None
    if feature == "streams":
        return any(delta.kind == "text" for delta in probe.deltas)
    if feature == "usage":
        return reply.usage.total_tokens > 0
    # Gemini's thoughts are signatures of its calls.
    calling = await Probe(fake, Answer(1, "", (call,)), tools=(LOOK,)).ask()
    assert calling is not None
    return bool(reply.reasoning or calling.calls[0].state)


def test_every_fake_has_a_row() -> None:
    assert [(row.name, row.example) for row in SUPPORT] == [(f.name, f.model) for f in ZOO]
    own = {row.name: (row.base_url, row.api) for row in SUPPORT if row.base_url and row.key}
    fakes = {name: (a.base_url, a.api) for name, a in addresses().items() if name in own}
    assert own == fakes


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("fake", ZOO, ids=lambda fake: fake.name)
async def test_a_feature_works_where_the_table_says_so_and_nowhere_else(
    fake: Fake, feature: Feature
) -> None:
    assert await works(fake, feature) == (BY_NAME[fake.name].evidence[feature] != "no")


def names_in(value: Any) -> set[str]:
    return set(value) if isinstance(value, dict) else set()


@pytest.mark.parametrize("row", SUPPORT, ids=lambda row: row.name)
async def test_what_a_provider_refuses_once_is_what_the_table_says(row: Support) -> None:
    fake = next(fake for fake in ZOO if fake.name == row.name)
    settings = ModelSettings(max_tokens=9_000, stop=("END",), reasoning="low")
    probe = Probe(fake, Answer(1, "So."), settings=settings, cache_key="k")
    assert await probe.ask() is not None
    first, last = probe.door.bodies[0], probe.door.bodies[-1]
    assert names_in(first) - names_in(last) == set(row.left_out) - {"files"}
    no_file = not await works(fake, "images") and not await works(fake, "PDF")
    assert ("files" in row.left_out) is no_file


OF_ROW = {
    "openai": ("openai", "chat"),
    "openai-responses": ("responses", "responses"),
    "anthropic": ("anthropic", "anthropic"),
    "bedrock": ("bedrock", "converse"),
    "mistral": ("mistral", "chat"),
    "deepseek": ("deepseek", "chat"),
    "groq": ("groq", "chat"),
    "ollama": ("ollama", "chat"),
    "openrouter": ("openrouter", "chat"),
}
"""The folder and the API of a row's recordings."""
WITHOUT_REQUEST = {"openai/plain_image#0": "images"}
"""Recordings whose requests were not kept, and the feature that they are of."""


def shown_by(exchange: Exchange) -> set[str]:
    """Return the features that a recorded exchange has."""
    if not exchange.has_answer:
        return set()
    expect, sent = exchange.expect, json.dumps(exchange.request)
    forms = [exchange.request.get(n, {}) for n in ("response_format", "text", "output_config")]
    usage = expect["usage"]
    shows = {
        "tools": bool(expect["calls"]),
        "parallel": len(expect["calls"]) > 1,
        "strict": '"strict": true' in sent and bool(expect["calls"]),
        "structured": "json_schema" in json.dumps(forms),
        "streams": exchange.is_stream,
        "reasoning": bool(expect["reasoning"]),
        "images": "image_url" in sent or "input_image" in sent or '"image"' in sent,
        "PDF": "application/pdf" in sent or '"pdf"' in sent,
        "audio": "input_audio" in sent,
        "caching": bool(usage["cached"] or usage["cache_written"]),
        "usage": bool(usage["input"]),
    }
    known = WITHOUT_REQUEST.get(exchange.name)
    return {name for name, is_shown in shows.items() if is_shown or name == known}


@pytest.mark.parametrize("row", SUPPORT, ids=lambda row: row.name)
def test_what_the_table_calls_recorded_is_what_recordings_have(row: Support) -> None:
    folder, api = OF_ROW.get(row.name, ("none", ""))
    of_row = [r for r in recordings() if r.api == api and r.name.startswith(f"{folder}/")]
    shown = {name for r in of_row for exchange in r.exchanges for name in shown_by(exchange)}
    # That a request is taken does not say that its strict schemas are heeded.
    doubtful = {name for name, evidence in row.evidence.items() if evidence in ("unknown", "no")}
    assert shown - doubtful == {n for n, e in row.evidence.items() if e == "recorded"}


def test_the_page_of_models_is_generated_from_the_table() -> None:
    path = Path(__file__).parents[4] / PAGE
    again = "write it again: PYTHONPATH=tests:. .venv/bin/python -m support.models_page"
    assert path.read_text("utf-8") == page(), again
