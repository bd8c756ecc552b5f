"""`layover ops show`: one run of any user, step by step, and what it says."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from layover.desk.cli.client import USAGE, Api
from layover.desk.cli.ops.asking import Json, Who, second_of
from layover.desk.cli.ops.runs import line_of
from layover.desk.failures import CommandFailed, report_failure
from layover.values.text import reveal


@report_failure
def show(who: Who, run_id: str, *, content: bool, step: int | None, as_json: bool) -> int:
    """Print a run step by step, with `content` what it says: input, replies, tools, error, and the prompt of
    `step` (None: the newest). The exit code."""
    if step is not None and not content:
        raise CommandFailed("--step shows a step's prompt, which is content: add --content", USAGE)
    api, path = Api(*who()), f"/operate/runs/{quote(run_id, safe='')}"
    run = api.get(path, **({"content": "true"} if content else {}))
    if not content:
        lines = [json.dumps(run)] if as_json else _timeline(run)
        print_lines(lines)
        return 0
    if not as_json:
        # Before the prompt: that needs the database, which may sleep, and what the journal says does not.
        print_lines((*_timeline(run), *_content_lines(run["content"])))
    prompt = api.get(f"{path}/steps/{step or newest_step(run)}")
    print_lines([json.dumps({**run, "prompt": prompt})] if as_json else _prompt_lines(prompt))
    return 0


def newest_step(run: Json) -> int:
    """Return the newest step of the run's own. Of one that failed, the step without a reply."""
    count = sum(1 for step in run["timeline"] if not step["parent_call"])
    return count + 1 if run["status"] == "failed" else max(count, 1)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines that models, tools and people wrote, each character seen."""
    for line in lines:
        print(reveal(line))


def _timeline(run: Json) -> Iterator[str]:
    yield line_of(run)
    facts = {
        "updated": second_of(run["updated_at"]),
        "attempts": run["attempts"],
        "executions": run["executions"],
        "model": run["model"],
        "ended": run["finish_reason"],
        "redriven": run["redriven_at"] and second_of(run["redriven_at"]),
        "lost": run["lost_at"] and second_of(run["lost_at"]),
        "definition": run["definition"],
    }
    yield ", ".join(f"{name} {value}" for name, value in facts.items() if value)
    for step in run["timeline"]:
        yield from _step(step)
    if (error := run["error"]) is not None:
        yield f"{second_of(run['updated_at'])}  {run['status']}: {error['type']}"
        detail = error["detail"] or {}
        yield from (f"    {name}: {value}" for name, value in detail.items() if value is not None)


def _step(step: Json) -> Iterator[str]:
    inside = f" in {step['parent_call']}" if step["parent_call"] else ""
    facts = [step["agent"], step["model"], f"{step['usage']['total_tokens']} tokens"]
    facts.append(step["finish_reason"])
    if step["fell_back_to"]:
        facts.append(f"those before {step['fell_back_to']} did not answer")
    if step["hook"]:
        facts.append(f"the hook {step['hook']} replied")
    about = ", ".join(filter(None, facts))
    yield f"{second_of(step['at'])}  step {step['n']}{inside}: {about}"
    for call in step["calls"]:
        yield f"    {_call(call)}"


def _call(call: Mapping[str, Any]) -> str:
    name = call["tool_name"] or "(no tool's name)"
    words = [f"{call['tool_call_id']} {name}: {call['state']}"]
    if call["attempt"] > 1:
        words.append(f"attempt {call['attempt']}")
    if call["requested_at"]:
        words.append(f"asked at {second_of(call['requested_at'])} for {call['kind']}")
    words += [f"{each['decision']} by {each['decided_by']}" for each in call["decisions"]]
    words += [f"{each['hook']}: {each['decision']}" for each in call["hooks"]]
    if call["settled_at"]:
        failed = ", an error" if call["is_error"] else ""
        words.append(f"settled at {second_of(call['settled_at'])}{failed}")
    if (child := call["child"]) is not None:
        error = f" ({child['error']})" if child["error"] else ""
        words.append(f"sub-agent {child['agent']}: {child['status']}{error}")
    return ", ".join([*words, f"{call['args_bytes']} B in, {call['result_bytes']} B out"])


def _content_lines(run: Json) -> Iterator[str]:
    """Yield what the run says: its input first, its failure last."""
    for message in (run["input"], *run["messages"]):
        yield from _message(message)
    for child in run["children"]:
        yield f"--- sub-agent {child['agent']}"
        yield from _content_lines(child)
    if run["output"] is not None:
        yield "--- output"
        yield _json(run["output"])
    if run["error"] is not None:
        yield f"--- error {run['error']['type']}"
        yield run["error"]["message"]


def _message(message: Json) -> Iterator[str]:
    refused = ", refused by a hook" if message.get("refused") else ""
    yield f"--- {message['role']}{refused}"
    yield from part_lines(message["content"])


def part_lines(parts: Iterable[Json]) -> Iterator[str]:
    """Return the parts of a message, one a line."""
    return map(_part, parts)


def _part(part: Json) -> str:
    kind = part["type"]
    if kind == "text":
        return str(part["text"])
    if kind == "reasoning":
        return f"(reasoning) {part['text']}"
    if kind == "tool_call":
        return f"{part['tool_call_id']} {part['tool_name']} {_json(part['args'])}"
    if kind == "tool_result":
        error = " (an error)" if part["is_error"] else ""
        return f"{part['tool_call_id']} {part['tool_name']}{error}: {_text(part['result'])}"
    return _json(part)


def _prompt_lines(step: Json) -> Iterator[str]:
    prompt = step["prompt"]
    if prompt is None:
        yield f"--- the prompt of step {step['n']} cannot be made again: {step['problem']}"
        return
    how = "as it was sent" if step["as_sent"] else f"not exactly as it was sent: {step['problem']}"
    yield f"--- the prompt of step {step['n']} to {prompt['model']}, {how}"
    if prompt["system"]:
        yield "--- system"
        yield prompt["system"]
    for message in prompt["messages"]:
        yield from _message(message)
    yield from _offer(prompt["tools"])


def _offer(tools: Sequence[Json]) -> Iterator[str]:
    if tools:
        yield f"--- tools: {', '.join(tool['name'] for tool in tools)}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
