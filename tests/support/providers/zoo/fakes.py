"""Fakes of providers: each refuses what breaks its rules, and answers in its own form."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from layover.values.deployment.providers import ProviderAddress
from layover.values.prompt import Api
from support.providers import converse, messages, responses
from support.providers.answers import Json, Raw, Request, Response, document
from support.providers.openai import stream
from support.providers.zoo import blocks, rules
from support.providers.zoo.rules import Rule

USAGE = {"prompt_tokens": 90, "completion_tokens": 30, "total_tokens": 120}


@dataclass(frozen=True)
class Answer:
    """A model's nth answer: a text, calls as (name, arguments), and whether it is `cut`, or `refused` by the
    provider's filter."""

    n: int
    text: str = ""
    calls: tuple[tuple[str, Json], ...] = ()
    cut: bool = False
    refused: bool = False


Refuse = Callable[[str], Raw]


@dataclass(frozen=True)
class Fake:
    """A provider. `model`: as an agent names it; `host`: where its requests go; `write`: an answer as a body,
    which later requests are compared with; `send`: that body, streamed or not, as bytes."""

    name: str
    model: str
    host: str
    rules: Sequence[Rule]
    write: Callable[[Answer], Json]
    send: Callable[[Json, Answer, bool], Raw]
    refuse: Refuse
    api: Api = "chat"
    address: ProviderAddress | None = None
    """None: the deployment's own provider, or Bedrock."""

    def broken(self, body: Json, given: Sequence[Json]) -> Rule | None:
        """Return the first rule that a request breaks. `given`: the bodies of its own answers."""
        return next((rule for rule in self.rules if rule.breaks(body, given)), None)


def _refuse(status: int) -> Refuse:
    def refuse(says: str) -> Raw:
        error = {"message": says, "type": "invalid_request_error", "code": None}
        return document({"error": error}, status=status)

    return refuse


# Chat Completions


def _nothing(answer: Answer) -> Json:
    return {}


def _message(
    answer: Answer,
    ids: Callable[[int, int], str],
    of_message: Callable[[Answer], Json],
    of_call: Callable[[Answer, int], Json],
) -> Json:
    said: Json = {"role": "assistant", "content": answer.text or None, **of_message(answer)}
    if answer.calls:
        said["tool_calls"] = [
            {
                "id": ids(answer.n, at),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(args)},
                **of_call(answer, at),
            }
            for at, (name, args) in enumerate(answer.calls)
        ]
    return said


def _finish(answer: Answer) -> str:
    if answer.cut or answer.refused:
        return "length" if answer.cut else "content_filter"
    return "tool_calls" if answer.calls else "stop"


def _send_chat(message: Json, answer: Answer, streams: bool) -> Raw:
    if not streams:
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
        return document({"choices": [choice], "usage": USAGE})
    calls = [
        {"index": at, **call, "function": {**call["function"], "arguments": ""}}
        for at, call in enumerate(message.get("tool_calls", ()))
    ]
    rest = [
        {"index": at, "function": {"arguments": call["function"]["arguments"]}}
        for at, call in enumerate(message.get("tool_calls", ()))
    ]
    deltas: list[Json] = [{n: v for n, v in message.items() if n != "tool_calls"}]
    deltas += [{"tool_calls": [piece]} for pair in zip(calls, rest, strict=True) for piece in pair]
    events = [{"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": _finish(answer)}]}
    return stream(*events, last, {"choices": [], "usage": USAGE})


def _chat(
    name: str,
    model: str,
    host: str,
    of: Sequence[Rule],
    *,
    ids: Callable[[int, int], str] = "call_{}_{}".format,
    of_message: Callable[[Answer], Json] = _nothing,
    of_call: Callable[[Answer, int], Json] = lambda answer, at: {},
    status: int = 400,
    path: str = "/v1",
) -> Fake:
    is_own = host == "api.openai.com"
    return Fake(
        name=name,
        model=f"{name}/{model}",
        host=host,
        rules=of,
        write=lambda answer: _message(answer, ids, of_message, of_call),
        send=_send_chat,
        refuse=_refuse(status),
        address=None if is_own else ProviderAddress(base_url=f"https://{host}{path}"),
    )


def _signature(answer: Answer, at: int) -> Json:
    """Parallel calls have one signature, at the first."""
    if at:
        return {}
    return {"extra_content": {"google": {"thought_signature": f"sig{answer.n}/+=="}}}


def _long_id(n: int, at: int) -> str:
    return f"tool_look_at_all_the_levels_there_are_{n}_{at}_3ZiChYzj8xER"


def _details(answer: Answer) -> Json:
    text = {"type": "reasoning.text", "text": f"Hm {answer.n}.", "signature": f"sig{answer.n}=="}
    return {"reasoning_details": [{**text, "format": "anthropic-claude-v1", "index": 0}]}


def _reasoning(answer: Answer) -> Json:
    return {"reasoning": f"Hm {answer.n}."}


def _reasoning_content(answer: Answer) -> Json:
    return {"reasoning_content": f"Hm {answer.n}."}


# The other APIs


def _response(answer: Answer) -> Json:
    items = [responses.thought(f"rs_{answer.n}", "Hm.", encrypted=f"enc{answer.n}")]
    if answer.text:
        phase = "commentary" if answer.calls else "final_answer"
        items.append(responses.said(answer.text, id=f"msg_{answer.n}", phase=phase))
    for at, (name, args) in enumerate(answer.calls):
        items.append(responses.call(f"call_{answer.n}_{at}", name, json.dumps(args)))
    if not answer.cut and not answer.refused:
        return responses.response(*items)
    reason = "max_output_tokens" if answer.cut else "content_filter"
    return responses.response(*items, status="incomplete", incomplete_details={"reason": reason})


def _send_response(body: Json, answer: Answer, streams: bool) -> Raw:
    return responses.stream(*responses.events(body)) if streams else document(body)


def _claude_blocks(answer: Answer) -> list[Json]:
    found: list[Json] = [{"type": "thinking", "thinking": "Hm.", "signature": f"sig{answer.n}"}]
    found += [{"type": "text", "text": answer.text}] if answer.text else []
    for at, (name, args) in enumerate(answer.calls):
        use = {"type": "tool_use", "id": f"toolu_{answer.n}_{at}", "name": name, "input": args}
        found.append(use)
    return found


def _claude_reason(answer: Answer) -> str:
    if answer.cut or answer.refused:
        return "max_tokens" if answer.cut else "refusal"
    return "tool_use" if answer.calls else "end_turn"


def _claude(answer: Answer) -> Json:
    return messages.message(*_claude_blocks(answer), reason=_claude_reason(answer))


def _send_claude(body: Json, answer: Answer, streams: bool) -> Raw:
    if not streams:
        return document(body)
    return messages.stream(*messages.events(*body["content"], reason=body["stop_reason"]))


def _converse(answer: Answer) -> Json:
    signed = {"text": "Hm.", "signature": f"sig{answer.n}"}
    content: list[Json] = [{"reasoningContent": {"reasoningText": signed}}]
    content += [{"text": answer.text}] if answer.text else []
    for at, (name, args) in enumerate(answer.calls):
        use = {"toolUseId": f"tooluse_{answer.n}_{at}", "name": name, "input": args}
        content.append({"toolUse": use})
    return {"output": {"message": {"role": "assistant", "content": content}}}


def _send_converse(body: Json, answer: Answer, streams: bool) -> Raw:
    calls = tuple(
        (f"tooluse_{answer.n}_{at}", name, json.dumps(args))
        for at, (name, args) in enumerate(answer.calls)
    )
    reason = "length" if answer.cut else "content_filter" if answer.refused else None
    said = Response(answer.text, "Hm.", f"sig{answer.n}", calls, reason, usage=converse.counted())
    path = "/converse-stream" if streams else "/converse"
    return converse.rendered(said, Request(path, {}, {}, 1))


OPENAI = Fake(
    name="openai",
    model="openai/gpt-4o",
    host="api.openai.com",
    rules=rules.OPENAI,
    write=lambda answer: _message(answer, "call_{}_{}".format, _nothing, lambda answer, at: {}),
    send=_send_chat,
    refuse=_refuse(400),
)
RESPONSES = Fake(
    name="openai-responses",
    model="openai/gpt-5.5",
    host="api.openai.com",
    rules=blocks.RESPONSES,
    write=_response,
    send=_send_response,
    refuse=_refuse(400),
    api="responses",
)
ANTHROPIC = Fake(
    name="anthropic",
    model="anthropic/claude-sonnet-4-5",
    host="api.anthropic.com",
    rules=blocks.ANTHROPIC,
    write=_claude,
    send=_send_claude,
    refuse=lambda says: messages.refuse(400, "invalid_request_error", says),
    address=ProviderAddress(base_url="https://api.anthropic.com", api="anthropic"),
)
BEDROCK = Fake(
    name="bedrock",
    model="bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    host="bedrock-runtime.eu-central-1.amazonaws.com",
    rules=blocks.CONVERSE,
    write=_converse,
    send=_send_converse,
    refuse=lambda says: converse.refuse(400, "ValidationException", says),
)
ZOO = (
    OPENAI,
    RESPONSES,
    ANTHROPIC,
    BEDROCK,
    _chat(
        "mistral",
        "mistral-large-2512",
        "api.mistral.ai",
        rules.MISTRAL,
        ids="{:04}{:05}".format,
        status=422,
    ),
    _chat(
        "deepseek",
        "deepseek-v4-pro",
        "api.deepseek.com",
        rules.DEEPSEEK,
        of_message=_reasoning_content,
    ),
    _chat(
        "groq",
        "openai/gpt-oss-120b",
        "api.groq.com",
        rules.GROQ,
        of_message=_reasoning,
        path="/openai/v1",
    ),
    _chat(
        "gemini",
        "gemini-3-pro-preview",
        "generativelanguage.googleapis.com",
        rules.GEMINI,
        of_call=_signature,
        path="/v1beta/openai",
    ),
    _chat("ollama", "qwen3.5:27b", "127.0.0.1", rules.LLAMA, of_message=_reasoning),
    _chat(
        "openrouter",
        "anthropic/claude-sonnet-4.5",
        "openrouter.ai",
        rules.OPENROUTER,
        ids=_long_id,
        of_message=_details,
        path="/api/v1",
    ),
    _chat("xai", "grok-4", "api.x.ai", rules.XAI),
    _chat(
        "moonshot",
        "kimi-k2-thinking",
        "api.moonshot.ai",
        rules.KIMI,
        ids=lambda n, at: f"functions.look:{n * 10 + at}",
        of_message=_reasoning_content,
    ),
)
NAMES = tuple(fake.name for fake in ZOO)


def addresses() -> Mapping[str, ProviderAddress]:
    """Return the zoo as `LAYOVER_PROVIDERS` has it."""
    return {fake.name: fake.address for fake in ZOO if fake.address is not None}


def fake_of(host: str, path: str) -> Fake:
    """Return the provider that a request goes to."""
    wants_responses = path.endswith("/responses")
    return next(f for f in ZOO if f.host == host and (f.api == "responses") is wants_responses)


@dataclass
class Visit:
    """A fake during one conversation."""

    fake: Fake
    given: list[Json] = field(default_factory=list)
    broken: list[Rule] = field(default_factory=list)

    def refusal(self, body: Any) -> Raw | None:
        """Return the refusal of a request; None: it is taken."""
        rule = self.fake.broken(body, self.given)
        if rule is None:
            return None
        self.broken.append(rule)
        return self.fake.refuse(rule.says)

    def answer(self, answer: Answer, *, streams: bool) -> Raw:
        """Return an answer, which the provider wants back as it is."""
        body = self.fake.write(answer)
        self.given.append(body)
        return self.fake.send(body, answer, streams)
