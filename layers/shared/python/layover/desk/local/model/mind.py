"""The stand-in model's replies: plain rules, so the same input always gets the same reply. It calls a tool
whose name occurs in the user's words, repeats the result, and says openly what it is."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any

from layover.context.rendering import HEARD
from layover.context.result_files import BEHIND
from layover.desk.local.model.background import entries, observations, summary
from layover.desk.local.model.parse import arguments
from layover.inmemory.model import BACKGROUND

Json = Mapping[str, Any]

WHO = "I am Layover's built-in stand-in model: set OPENAI_API_KEY to talk to a real one."

_SYNONYMS = {
    "lookup": "look where find status track check",
    "refund": "refunded refunds reimburse money",
    "book": "reserve booking reservation",
    "table": "seat seats dinner lunch",
    "order": "orders parcel package delivery",
    "weather": "forecast temperature rain sunny",
}
_EMPTY_WORDS = frozenset(
    {"a", "an", "and", "at", "by", "do", "for", "from", "get", "in", "is", "it", "make", "my"}
    | {"of", "on", "or", "the", "to", "with"}
)
_OWN_TOOLS = frozenset({"plan", "read_messages", "recall_memory", "update_working_memory"})
_MEMORY = re.compile(
    r"\bremember\b|\brecall\b|\bdid i\b|\bhave i\b|\bi (?:said|told|mentioned)\b"
    r"|\bwhat(?:'s| is| was| are) my\b|\bwho am i\b",
    re.I,
)
_KEEP = re.compile(
    r"^\W*(?:please |can you |could you )?(?:remember|keep in mind|note)\b(?!.*\?)", re.I
)
_BLOCK = re.compile(r"<([a-z][\w-]*)[^<>]*>(.*?)</\1>", re.S | re.I)
_ASKING = "Before I can use"
_NAMED_ERROR = re.compile(
    r"(?:[A-Z]\w*(?:Error|Exception)|Invalid tool input|Tool \S+ not found)\b"
)


@dataclass(frozen=True)
class Thought:
    """The stand-in's decision: words, or one call."""

    text: str = ""
    tool: str = ""
    args: str = ""


@dataclass(frozen=True)
class _Choice:
    tool: Json
    score: float
    at: int
    description_hits: int


def think(body: Json, task: str, today: date) -> Thought:
    """Return the reply to a Chat Completions body for this task (`X-Layover-Task`)."""
    messages = [m for m in body.get("messages") or [] if isinstance(m, Mapping)]
    if task in _READERS:
        return Thought(_READERS[task](messages))
    if task != "turn":
        return Thought(BACKGROUND.get(task, ""))
    scene = _Scene(messages, [t.get("function") or {} for t in body.get("tools") or []])
    action = scene.next_call(today)
    if action is not None and action.tool:
        return action
    response_format = (body.get("response_format") or {}).get("json_schema") or {}
    if response_format.get("schema"):
        return Thought(json.dumps(arguments(response_format["schema"], scene.words(), today).args))
    text = scene.words() if action is None else action.text
    return Thought(text if scene.introduced else f"{text}\n\n({WHO})")


class _Scene:
    """A conversation as it stands: the user's wish, and the calls made for it."""

    def __init__(self, messages: Sequence[Json], tools: Sequence[Json]) -> None:
        messages = _in_the_order_of_the_run([m for m in messages if not _is_of_result(m)])
        question_at = max(
            (at for at, m in enumerate(messages) if m.get("role") == "user"), default=-1
        )
        self._messages = messages
        self._before = messages[: max(question_at, 0)]
        self._since = messages[question_at + 1 :]
        self._raw = _text(messages[question_at]) if question_at >= 0 else ""
        self._tools = [t for t in tools if t.get("name") not in _OWN_TOOLS]
        self._names = {c["id"]: c["function"]["name"] for c in _calls(messages)}
        self._done = {c["function"]["name"] for c in _calls(self._since)}
        answers = [_text(m) for m in self._before if m.get("role") == "assistant"]
        self.introduced = any(answers)
        self._was_asking = bool(answers) and answers[-1].startswith(_ASKING)

    @property
    def _wish(self) -> str:
        """The user's own words, after the earlier ones if they answer a question of ours."""
        wish = _bare(self._raw)
        if not self._was_asking:
            return wish
        earlier = [_bare(_text(m)) for m in self._before if m.get("role") == "user"]
        return f"{earlier[-1]} {wish}" if earlier else wish

    def next_call(self, today: date) -> Thought | None:
        """Return the call of a tool that fits and was not called yet, or a question about its missing
        arguments; None if no tool fits."""
        if _is_about_memory(self._wish):
            return None
        for choice in self._choices():
            fit = arguments(choice.tool.get("parameters") or {}, self._wish_in_context, today)
            if not fit.missing:
                args = json.dumps(fit.args, ensure_ascii=False)
                return Thought(tool=str(choice.tool["name"]), args=args)
            if not self._done:
                return Thought(_asking(choice.tool, fit.missing))
        return None

    def words(self) -> str:
        """Return the reply in words."""
        results = [m for m in self._since if m.get("role") == "tool"]
        if results:
            return " ".join(
                _state(self._names.get(m.get("tool_call_id"), "it"), m) for m in results
            )
        if _is_about_memory(self._wish):
            return self._recall()
        return self._help()

    @property
    def _wish_in_context(self) -> str:
        """The wish. If it says "it" or the like, the user's earlier words follow: one of them is meant."""
        earlier = [_bare(_text(m)) for m in self._before if m.get("role") == "user"]
        is_about_it = re.search(r"\b(it|that|this|them|same)\b", self._wish, re.I)
        return ". ".join([self._wish, *reversed(earlier)]) if is_about_it else self._wish

    def _choices(self) -> list[_Choice]:
        """Return the tools that fit, the best first; after the first call only those that are named in
        full."""
        least = 1.0 if self._done else 0.5
        choices = [_score(t, self._wish) for t in self._tools if t.get("name") not in self._done]
        candidates = [c for c in choices if c.score >= least]
        return sorted(candidates, key=lambda c: (-c.score, c.at, -c.description_hits))

    def _recall(self) -> str:
        if _KEEP.search(self._wish):
            fact = _KEEP.sub("", self._wish).strip(" :,.!")
            return f"I will keep that in mind: {fact.removeprefix('that ')}."
        facts = [f for f in self._facts() if f and f != self._wish]
        if not facts:
            return "I find nothing about that in what I can see of our conversations."
        stems = _stems(self._wish)
        facts.sort(key=lambda fact: -len(stems & _stems(fact)))
        return "You told me: " + " ".join(f"“{fact}”" for fact in facts[:3])

    def _facts(self) -> list[str]:
        """Return the facts in the prompt: the user's earlier words, and the lines of memory blocks."""
        own = [_bare(_text(m)) for m in self._before if m.get("role") == "user"]
        system = "\n".join(_text(m) for m in self._messages if m.get("role") == "system")
        return list(dict.fromkeys([*own, *_block_lines(self._raw), *_block_lines(system)]))

    def _help(self) -> str:
        names = [str(t.get("name")) for t in self._tools]
        if not names:
            return "This agent has no tools, and a stand-in cannot chat about everything."
        examples = ", ".join(f"`{name}`" for name in names[:4])
        return (
            "I follow a few plain rules and found no tool that fits that. "
            f'Name what you want from {examples}, for example: "{_example(names)}".'
        )


def _is_of_result(message: Json) -> bool:
    """Return whether a user's message only has files of results, which no user sent."""
    return message.get("role") == "user" and _text(message).startswith(BEHIND.partition("{")[0])


def _in_the_order_of_the_run(messages: Sequence[Json]) -> list[Json]:
    """Return the messages with what was said while a call waited before the wish that the call is for: that
    wish is to be answered now."""
    ordered: list[Json] = []
    for message in messages:
        if message.get("role") == "user" and _bare(_text(message)) == HEARD:
            ordered = _with_the_wish_last(ordered)
        else:
            ordered.append(message)
    return ordered


def _with_the_wish_last(messages: list[Json]) -> list[Json]:
    """Return the messages with the last wish at their end, with its calls, whose results nobody has put into
    words."""
    users = [at for at, m in enumerate(messages) if m.get("role") == "user"]
    for begin, end in reversed(list(pairwise(users))):
        if messages[end - 1].get("role") == "tool":
            return [*messages[:begin], *messages[end:], *messages[begin:end]]
    return messages


def _text(message: Json) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n\n".join(str(p.get("text") or "") for p in parts if isinstance(p, Mapping))


def _bare(text: str) -> str:
    """Return the text without blocks of memory and the like."""
    return _BLOCK.sub(" ", text).strip()


def _block_lines(text: str) -> Iterator[str]:
    for _, inside in _BLOCK.findall(text):
        bare = re.sub(r"<description>.*?</description>|</?[\w-]+[^>]*>", "", inside, flags=re.S)
        for line in bare.splitlines():
            if line := re.sub(r"^[\s*-]+|\s*\([^()]*\bago\)$|\s*\(today\)$", "", line).strip():
                yield line


def _calls(messages: Sequence[Json]) -> list[Json]:
    return [c for m in messages for c in m.get("tool_calls") or []]


def _is_about_memory(wish: str) -> bool:
    return _MEMORY.search(wish) is not None


def _stems(text: str) -> set[str]:
    return {w[:5] for w in re.findall(r"\w+", text.lower())} - _EMPTY_WORDS


def _score(tool: Json, wish: str) -> _Choice:
    """Return how many words of the tool's name the user said, and how early: the tool that is named first
    comes first."""
    words = [m.group() for m in re.finditer(r"\w+", wish.lower())]
    names = [w for w in re.split(r"[_\W]+", str(tool.get("name")).lower()) if w]
    names = [w for w in names if w not in _EMPTY_WORDS] or names
    hits = [at for name in names if (at := _first(name, words)) is not None]
    shared_stems = _stems(str(tool.get("description") or "")) & _stems(wish)
    at = min(hits, default=len(words))
    return _Choice(tool, len(hits) / len(names), at, len(shared_stems))


def _first(name: str, words: Sequence[str]) -> int | None:
    variants = {name, name + "s", *_SYNONYMS.get(name, "").split()}
    return next((at for at, word in enumerate(words) if word in variants), None)


def _asking(tool: Json, missing: Sequence[str]) -> str:
    parameters = " and the ".join(name.replace("_", " ") for name in missing)
    return f"{_ASKING} `{tool['name']}`, please tell me the {parameters}."


def _example(names: Sequence[str]) -> str:
    examples = {
        "lookup_order": "Where is order A-1002?",
        "refund": "Refund 40 euros for A-1001",
        "book_table": "Book a table for 4 people tomorrow",
    }
    return next((examples[n] for n in names if n in examples), names[0].replace("_", " "))


def _state(tool: str, message: Json) -> str:
    """Return one sentence about a tool's result."""
    text = _text(message).strip()
    try:
        result = json.loads(text)
    except ValueError:
        result = text
    if isinstance(result, Mapping):
        return _declined(tool, result) if result.get("declined") else _describe(tool, result)
    if isinstance(result, str) and text.startswith("Interrupted:"):
        return f"`{tool}` was interrupted: it may or may not have taken effect, so please check."
    if isinstance(result, str) and _NAMED_ERROR.match(text):
        return f"`{tool}` did not work. {_sentence(text)}"
    if isinstance(result, str):
        return _sentence(text) if text else f"`{tool}` is done; it had nothing to say."
    return _sentence(f"`{tool}` answered {_say(result)}")


def _declined(tool: str, result: Json) -> str:
    if result.get("expired"):
        return f"Nobody decided in time, so I did not use `{tool}`."
    because = f" ({reason})" if (reason := result.get("reason")) else ""
    what = "answered" if str(result.get("message")).endswith("was not answered") else "approved"
    return f"`{tool}` was not {what}{because}, so I left it undone."


def _describe(tool: str, result: Json) -> str:
    id_name = next((k for k in result if k == "id" or str(k).endswith("_id")), None)
    if id_name is None or "status" not in result:
        return _sentence(f"`{tool}` is done: {_list_fields(result)}")
    noun = str(id_name).removesuffix("id").strip("_") or tool.split("_")[-1]
    rest = {k: v for k, v in result.items() if k not in (id_name, "status")}
    more = f" ({_list_fields(rest)})" if rest else ""
    return f"{noun.capitalize()} {result[id_name]} is {result['status']}{more}."


def _list_fields(result: Json) -> str:
    return ", ".join(f"{str(k).replace('_', ' ')} {_say(v)}" for k, v in result.items())


def _say(value: object) -> str:
    if isinstance(value, Mapping):
        return f"({_list_fields(value)})"
    if isinstance(value, list):
        return ", ".join(map(_say, value))
    return str(value)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _title(messages: Sequence[Json]) -> str:
    first = next((_bare(_text(m)) for m in messages if m.get("role") == "user"), "")
    words = re.findall(r"[\w'\u2019-]+", first)[:6]
    title = " ".join(words)
    return title[:1].upper() + title[1:]


_READERS: Mapping[str, Callable[[Sequence[Json]], str]] = {
    "title": _title,
    "extractor": entries,
    "observer": observations,
    "summary": summary,
}
"""The replies to tasks that read a conversation."""
