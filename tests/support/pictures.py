"""Writes the pictures that pages mark as drawn: Mermaid and trees, made from the code.

PYTHONPATH=tests:. .venv/bin/python -m support.pictures
"""

import asyncio
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from layover import Agent
from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.approvals.token_answer import DECIDED
from layover.inmemory.model import call, say
from layover.values.deployment.access import Actor
from support.otlp import receiving
from support.pages import Page
from support.worlds.runs import Bench, suspended
from support.worlds.traced_run import ENDPOINT, NOTES, traced_run

ROOT = Path(__file__).parents[2]
PAGES = ("docs/how-it-works.md", "docs/architecture.md", "docs/guides/tracing.md")
_DRAWN = re.compile(r"(<!-- drawn: ([\w-]+) -->\n).*?(<!-- /drawn -->)", re.DOTALL)


def again(page: str) -> str:
    """Return the text of a page with every picture drawn anew. KeyError: nothing draws one of that name."""
    text = (ROOT / page).read_text("utf-8")

    def drawn(match: re.Match[str]) -> str:
        language = "text" if match[2] in TEXTS else "mermaid"
        return f"{match[1]}```{language}\n{PICTURES[match[2]]()}\n```\n{match[3]}"

    return _DRAWN.sub(drawn, text)


def state_machine() -> str:
    """Return the states of `infra/run.asl.json` with the words that lead from one to the next."""
    return "\n".join(["stateDiagram-v2", *_states(_machine())])


def branch() -> str:
    """Return the states of one branch of `Approvals`."""
    return "\n".join(
        ["stateDiagram-v2", *_states(_machine()["States"]["Approvals"]["ItemProcessor"])]
    )


def _machine() -> dict[str, Any]:
    machine: dict[str, Any] = json.loads((ROOT / "infra" / "run.asl.json").read_text())
    return machine


def _states(machine: dict[str, Any]) -> Iterator[str]:
    """Yield the ways from the first state on. What comes of an error is on the page of a run's life: here it
    would hide the rest."""
    states = machine["States"]
    reached = [machine["StartAt"]]
    yield f"    [*] --> {reached[0]}"
    for name in reached:
        for target, word in _ways(states[name]):
            if target == "UnknownStatus":
                continue
            yield f"    {name} --> {target}{f': {word}' if word else ''}"
            if target in states and target not in reached:
                reached.append(target)


def _ways(state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the states that may follow, with the word that chooses each."""
    for choice in state.get("Choices", ()):
        yield choice["Next"], str(choice.get("StringEquals", "")).replace("_", " ")
    for key in ("Default", "Next"):
        if key in state:
            yield state[key], ""
    if state.get("End") or state["Type"] in ("Succeed", "Fail"):
        yield "[*]", ""


def floors() -> str:
    """Return the floors of the import rules, from the top."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["name"] == "Imports point down")
    shown = [layer.replace(" | ", " · ") for layer in layers]
    names = [f'    f{at}["{layer}"]' for at, layer in enumerate(shown)]
    ways = [f"    f{at} --> f{at + 1}" for at in range(len(shown) - 1)]
    return "\n".join(["flowchart TD", *names, *ways])


ARROWS = {
    "agent-start": "api->>journal: the run, accepted",
    "turn-start": "turn->>model: step {step}",
    "message": "turn->>journal: {whose}",
    "tool-call-suspended": "turn->>journal: {tool_name} waits for two of finance",
    "tool-call-approval": "api->>journal: {by} approves, one of two",
    "tool-call-decided": "api->>journal: {decided_by} approves, so it is decided",
    "tool-execution-start": "turn->>journal: {tool_name} begins",
    "tool-execution-end": "turn->>journal: {tool_name} is done",
    "finish": "turn->>journal: the run is over",
}
"""The arrow of each kind of event."""
SILENT = {"turn-end", "agent-end"}
"""They say again what others have said."""
WHOSE = {"assistant": "the model's answer", "tool": "the result, for the model"}


def payout() -> str:
    """Return a run of the payout in the guide on approvals, by its events."""
    lines = ["sequenceDiagram"]
    lines += [f"    participant {name}" for name in ("api", "journal", "turn", "model")]
    for event in asyncio.run(_payout()):
        if event["type"] in SILENT:
            continue
        whose = WHOSE[event["message"]["role"]] if event["type"] == "message" else ""
        lines.append(f"    {ARROWS[event['type']].format_map({**event, 'whose': whose})}")
        if event["type"] == "tool-call-suspended":
            lines.append("    Note over api,model: nothing runs, for minutes or for a year")
    return "\n".join(lines)


async def _payout() -> list[dict[str, Any]]:
    """Return the events of the guide's agent, as two of finance approve its payout."""
    module: dict[str, Any] = {"__name__": "user_agents"}
    guide = Page(ROOT / "docs" / "guides" / "approvals.md")
    exec(guide.python[0].compiled, module)
    agent = module["payouts"]
    assert isinstance(agent, Agent)
    asks = call("pay_out", seller="Nora", euros=900)
    bench = Bench(agent, [asks, say("Nora has her money.")])
    run = await suspended(bench)
    await bench.wait(run.id, "call_1")
    for name in ("bea", "carl"):
        actor = Actor(sub=name, groups=frozenset({"finance"}))
        request = DecisionRequest(Verdict.APPROVE, reason="invoice 12")
        await decide(bench.plain, actor, run.id, "call_1", request)
    await bench.drive(run.id, call=await bench.item(run.id, "call_1"), output=DECIDED)
    return [event.model_dump(mode="json") for event in await bench.events(run.id)]


def trace() -> str:
    """Return the spans of one run as a receiver shows them, each with what a reader should know of it."""
    with receiving() as receiver:
        before = os.environ.get(ENDPOINT)
        os.environ[ENDPOINT] = receiver.url
        try:
            asyncio.run(traced_run())
        finally:
            os.environ.pop(ENDPOINT)
            if before is not None:
                os.environ[ENDPOINT] = before
        lines = receiver.tree()
    notes = dict(NOTES)
    pairs = zip(_branches(lines), lines, strict=True)
    return "\n".join(f"{line:<40}{notes.pop(name.strip(), '')}".rstrip() for line, name in pairs)


def _branches(lines: list[str]) -> Iterator[str]:
    """Yield lines that are indented by two blanks a level with the branches of a tree."""
    depths = [(len(line) - len(line.lstrip())) // 2 for line in lines]
    for at, (line, depth) in enumerate(zip(lines, depths, strict=True)):
        drawn = ""
        for level in range(1, depth + 1):
            later = next((d for d in depths[at + 1 :] if d <= level), 0)
            goes_on = later == level
            own = level == depth
            drawn += ("├─ " if goes_on else "└─ ") if own else ("│  " if goes_on else "   ")
        yield drawn + line.strip()


PICTURES: dict[str, Callable[[], str]] = {
    "branch": branch,
    "floors": floors,
    "payout": payout,
    "state-machine": state_machine,
    "trace": trace,
}
TEXTS = frozenset({"trace"})
"""Pictures that are plain text."""


def main() -> None:
    """Draw them all again."""
    for page in PAGES:
        (ROOT / page).write_text(again(page), "utf-8")


if __name__ == "__main__":
    main()
