"""Random conversations with the zoo: runs whose models change between the runs and within them.

`tests/property/test_zoo.py` plays some. This plays more, and goes on behind one that fails:

PYTHONPATH=tests:. .venv/bin/python -m support.providers.zoo.conversations 0 5000
"""

import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from pydantic import BaseModel

from layover import Agent, Memory, ModelSettings, ObservationalMemory, tool
from layover.adapters.aws.services import AwsServices
from layover.adapters.http.client import Client, Response
from layover.adapters.http.request import Url
from layover.files.store import Files
from layover.inmemory.model import BACKGROUND
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.plugins.models.openai_chat import OPENAI_BASE_URL, OpenAIChat
from layover.plugins.models.providers import Providers
from layover.runs.cancel import cancel
from layover.values.file import FileFacts
from layover.values.message import FilePart, InputPart, TextPart
from layover.values.prompt import Api
from layover.values.runs.run import Status
from support.providers import converse
from support.providers.answers import Json, Raw, document
from support.providers.odd import ClientOfFake, OddResponse
from support.providers.zoo.fakes import BEDROCK, ZOO, Answer, Fake, Visit, addresses, fake_of
from support.worlds.loops import played
from support.worlds.runs import ANN, Bench

FILES = {
    "a.png": ("image/png", bytes.fromhex("89504e470d0a1a0a")),
    "Bericht (M\u00e4rz)  v1.2.pdf": ("application/pdf", b"%PDF-1.4\n"),
    "b.pdf": ("application/pdf", b"%PDF-1.7\n"),
    "c.csv": ("text/csv", b"a;b\n"),
    "d.mp3": ("audio/mpeg", b"ID3"),
}
LINK = FilePart(url="https://files.example/b.jpg", name="b.jpg", mime_type="image/jpeg")
TEXTS = ("Hi.", "Look again, please.", "Grüße 😀\n\nund mehr", " and blanks \n")
SAYS = ("So.", "Done, as you see.", "Grüße 😀  \n", "   ", "One.\n\nTwo.")


class Trip(BaseModel):
    """An answer in a form."""

    city: str
    nights: int = 1
    stops: list[str] = []


@tool
def look(n: int) -> str:
    """Look at something."""
    return f"seen {n}"


@tool
def fail(n: int, why: str | None = None) -> str:
    """Fail."""
    raise ValueError(f"no {n}, {why}")


@tool
def rest() -> str:
    """Rest, and say nothing."""
    return ""


@tool
def find(query: str, filters: dict[str, Any] | None = None, limit: int = 3) -> list[str]:
    """Find something. """ + "It says a lot about itself. " * 50
    return [query] * limit


@tool(needs_approval=True)
def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"


TOOLS = (look, fail, rest, find, pay)


class Zoo(ClientOfFake):
    """All providers in one conversation, answering at random."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.visits = {fake.name: Visit(fake) for fake in ZOO}
        self.answered: list[str] = []
        """Names of the fakes that answered turns, in order."""
        self.seen: Counter[str] = Counter()
        self.last: Fake | None = None
        """The last model in the list of the current run, which is never away."""
        self._n = 0

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        fake = fake_of(url.host, url.path)
        request = json.loads(body)
        refusal = self.visits[fake.name].refusal(request)
        if refusal is not None:
            return _response(refusal)
        named = {name.lower(): value for name, value in headers.items()}
        if (task := named.get("x-layover-task", "turn")) != "turn":
            self.seen[task] += 1
            streams = _streams(fake, url, request)
            text = BACKGROUND.get(task) or "They talked."
            self._n += 1
            return _response(
                fake.send(fake.write(Answer(self._n, text)), Answer(self._n, text), streams)
            )
        if fake is not self.last and self.random.random() < 0.3:
            self.seen["away"] += 1
            return _response(document({"error": {"message": "unpaid"}}, status=402))
        self.answered.append(fake.name)
        answer = self._answer(fake, request)
        return _response(
            self.visits[fake.name].answer(answer, streams=_streams(fake, url, request))
        )

    def _answer(self, fake: Fake, request: Json) -> Answer:
        self._n += 1
        kind = self.random.choices(
            ("calls", "text", "both", "cut", "refused", "empty"), (5, 5, 2, 0.5, 0.4, 0.3)
        )[0]
        self.seen[kind] += 1
        text = self.random.choice(SAYS)
        if kind == "cut":
            return Answer(self._n, self.random.choice(("", "So far")), cut=True)
        if kind == "refused":
            return Answer(self._n, self.random.choice(("", "I cannot.")), refused=True)
        if kind == "empty":
            return Answer(self._n)
        if kind == "text":
            return self._final(fake, request, text)
        calls = tuple(self._call() for _ in range(self.random.choice((1, 1, 2, 3))))
        return Answer(self._n, text if kind == "both" else "", calls)

    def _final(self, fake: Fake, request: Json, text: str) -> Answer:
        if "nights" not in json.dumps(request):
            return Answer(self._n, text)
        self.seen["structured"] += 1
        trip = {"city": "Köln", "nights": 2, "stops": []}
        if fake is BEDROCK:
            return Answer(self._n, "", (("Trip", trip),))
        return Answer(self._n, json.dumps(trip))

    def _call(self) -> tuple[str, Json]:
        n = self.random.randint(0, 99)
        return self.random.choice(
            (
                ("look", {"n": n}),
                ("look", {"n": n}),
                ("fail", {"n": n}),
                ("fail", {"n": n, "why": None}),
                ("rest", {}),
                ("find", {"query": f"q{n}", "filters": {"b": 1, "a": [2]}}),
                ("pay", {"n": n}),
                ("look", {"m": "wrong"}),
                ("no such.tool!", {"n": n}),
            )
        )


def _streams(fake: Fake, url: Url, request: Json) -> bool:
    return url.path.endswith("-stream") if fake is BEDROCK else bool(request.get("stream"))


def _response(raw: Raw) -> Response:
    return OddResponse(raw.status, raw.headers.get("content-type", ""), list(raw.chunks))


class Conversation:
    """One thread, and the agents that it has one after the other."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.zoo = Zoo(self.random)
        aws = AwsServices(converse.variables_of("https://" + BEDROCK.host + "/v1"))
        client: Callable[[], Client] = lambda: self.zoo  # noqa: E731
        self.model = Providers(
            OpenAIChat("key", OPENAI_BASE_URL, make_client=client),
            addresses(),
            lambda name: "key",
            lambda: BedrockChat(aws, make_client=client),
            client,
        )
        self.bench = Bench(self._agent(), self.model)
        self.ends: Counter[str] = Counter()
        self._uploads = 0

    def _agent(self) -> Agent:
        """Return an agent with other models, tools and settings, as another deployment has it."""
        r = self.random
        fakes = r.sample(ZOO, r.choice((1, 2, 2, 3)))
        api: Api = r.choice(("chat", "responses"))
        fakes = [f for f in fakes if f.host != "api.openai.com" or f.api == api] or [ZOO[2]]
        self.zoo.last = fakes[-1]
        cut = r.choice((1, 2, 4, 20))
        compaction = ObservationalMemory(message_tokens=60) if r.random() < 0.2 else None
        settings = ModelSettings(
            reasoning=r.choice((None, None, "low", "high")),
            max_tokens=r.choice((None, None, 900, 8_000)),
            temperature=r.choice((None, None, 0.2)),
            parallel_tool_calls=r.choice((None, None, False)),
            stop=r.choice((None, None, None, "END")),
        )
        return Agent(
            "zoo",
            model=[fake.model for fake in fakes],
            api=api,
            instructions=r.choice(("You help.", "")),
            tools=r.sample(TOOLS, r.choice((0, 2, 5, 5))),
            output=Trip if r.random() < 0.2 else None,
            memory=Memory(last_messages=cut, compaction=compaction),
            model_settings=settings,
            max_iterations=r.choice((1, 3, 6)),
        )

    async def play(self) -> None:
        """Have a few runs."""
        for _ in range(self.random.choice((2, 3, 4, 5))):
            agent = self._agent()
            self.bench.agent = self.bench.agents["zoo"] = agent
            run = await self.bench.go(await self._input(), stream=self.random.random() < 0.5)
            run = await self._decide(run)
            if self.random.random() < 0.5:
                await self.bench.remember()
            self.ends[f"{run.status.value} {run.finish_reason}"] += 1
            if run.status is Status.FAILED:
                assert run.error is not None
                self.ends[run.error.type] += 1
        await self.model.aclose()

    async def _input(self) -> Sequence[InputPart]:
        r = self.random
        parts: list[InputPart] = []
        if r.random() < 0.3:
            parts = [LINK] if r.random() < 0.3 else [await self._file()]
            parts += [await self._file()] if r.random() < 0.3 else []
        if parts and r.random() < 0.2:
            return parts
        return [*parts, TextPart(text=r.choice(TEXTS))]

    async def _file(self) -> FilePart:
        """Return a file that the user has uploaded."""
        name = self.random.choice(list(FILES))
        kind, data = FILES[name]
        self._uploads += 1
        facts = FileFacts(
            id=f"f{self._uploads}",
            name=name,
            mime_type=kind,
            size=len(data),
            created_at=self.bench.clock.now(),
            thread_ids=("t1",),
        )
        await Files(self.bench.plain.blobs, ANN).keep(facts, data)
        return FilePart(file_id=facts.id, name=name, mime_type=kind)

    async def _decide(self, run: Any) -> Any:
        """Answer all calls that wait, or cancel the run."""
        for _ in range(20):
            if run.status.over:
                return run
            if self.random.random() < 0.15:
                await cancel(self.bench.plain, ANN, run.id, holder_has_s=0)
                await self.bench.drive(run.id)
                self.ends["cancelled"] += 1
            else:
                verdict = self.random.choice(("approve", "deny"))
                self.ends[verdict] += 1
                await self.bench.answer(run.id, run.pending[0].tool_call_id, verdict)
            run = await self.bench.run(run.id)
        return run

    def refusals(self) -> list[str]:
        """Return the refusals by rules that a client can know."""
        return [
            f"{visit.fake.name}: {rule.says}"
            for visit in self.zoo.visits.values()
            for rule in visit.broken
            if not rule.is_learned
        ]


def play(seed: int) -> Counter[str]:
    """Play a conversation; count what happened in it. Raises AssertionError for a refusal."""
    conversation = Conversation(seed)
    played(conversation.play())
    refusals = conversation.refusals()
    assert not refusals, f"conversation {seed}: {refusals}"
    zoo = conversation.zoo
    switches = zip(zoo.answered, zoo.answered[1:], strict=False)
    pairs = Counter(f"{a} > {b}" for a, b in switches if a != b)
    learned = Counter(
        f"learned {visit.fake.name}: {rule.says}"
        for visit in zoo.visits.values()
        for rule in visit.broken
    )
    return zoo.seen + conversation.ends + pairs + learned + Counter(requests=len(zoo.answered))


def main(first: int, end: int) -> int:
    """Play the conversations from `first` to before `end`, and print what happened and which failed."""
    total: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    logging.getLogger("layover").setLevel(logging.CRITICAL)
    for seed in range(first, end):
        try:
            total += play(seed)
        except Exception as error:
            failures[str(error)[:200]] += 1
            print(f"conversation {seed}: {type(error).__name__}: {error}"[:600], flush=True)
        if (done := seed + 1 - first) % 100 == 0 or seed + 1 == end:
            pairs = sum(" > " in name for name in total)
            bad = failures.total()
            print(f"{done} conversations, {bad} with refusals, {pairs} pairs", flush=True)
    print({name: n for name, n in sorted(total.items()) if " > " not in name})
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
