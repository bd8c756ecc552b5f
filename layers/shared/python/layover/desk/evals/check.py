"""A run against what its case expects, apart from the judges."""

import json
import re
from collections.abc import Iterator
from typing import Any

from layover.desk.evals.cases import Case, MaxExpectation, OutputExpectation, ToolExpectation
from layover.desk.evals.compare import is_equal, is_part
from layover.desk.evals.outcome import Call, Outcome

_SHOWN = 400


def failures_of(case: Case, outcome: Outcome) -> Iterator[str]:
    """Yield a sentence for each expectation that the run did not keep."""
    if case.expect.tools is not None:
        yield from _tools(case.expect.tools, outcome.calls)
    yield from _approvals(case, outcome)
    if case.expect.max is not None:
        yield from _max(case.expect.max, outcome)
    reason = case.expect.finish_reason
    if reason is not None and outcome.status == "success" and outcome.finish_reason != reason:
        yield f"finish_reason: expected {reason}, and it is {outcome.finish_reason}"
    if case.expect.output is not None and outcome.status == "success":
        yield from _output(case.expect.output, outcome)


def _tools(expected: tuple[ToolExpectation, ...], calls: tuple[Call, ...]) -> Iterator[str]:
    fits = len(expected) == len(calls) and all(
        e.name == c.name and is_part(e.args, c.args) for e, c in zip(expected, calls, strict=True)
    )
    if not fits:
        names = ", ".join(f"{e.name}({_brief(e.args) if e.args else '...'})" for e in expected)
        calls_text = ", ".join(f"{c.name}({_brief(c.args)})" for c in calls)
        yield f"tools: expected {names or 'no call'}, and the calls were {calls_text or 'none'}"


def _approvals(case: Case, outcome: Outcome) -> Iterator[str]:
    left = list(case.expect.approvals)
    for ask in outcome.approvals:
        what = f"{ask.tool}({_brief(ask.args)})"
        if ask.kind != "approval" and ask.decision is None:
            yield f"approvals: {what} waits for input: give the tool a stub, or expect to deny it"
        elif ask.decision is None:
            yield f"approvals: {what} asked for a person, and the case expects no such approval"
        else:
            match = next(
                e
                for e in left
                if e.tool == ask.tool and e.decide == ask.decision and is_part(e.args, ask.args)
            )
            left.remove(match)
    for each in left:
        yield f"approvals: no call of {each.tool} asked for a person, to {each.decide} it"


def _max(most: MaxExpectation, outcome: Outcome) -> Iterator[str]:
    for name in ("steps", "tokens", "seconds"):
        limit, used = getattr(most, name), getattr(outcome, name)
        if limit is not None and used > limit:
            yield f"max.{name}: it needed {used:g}, and {limit:g} is the most"
    if most.cost_usd is None:
        return
    if outcome.cost_usd is None:
        yield "max.cost_usd: the price of its model is unknown: remove the limit"
    elif float(outcome.cost_usd) > most.cost_usd:
        yield f"max.cost_usd: it cost {outcome.cost_usd}, and {most.cost_usd} is the most"


def _output(expected: OutputExpectation, outcome: Outcome) -> Iterator[str]:
    text = outcome.text
    for part in expected.contains or ():
        if part not in text:
            yield f"output.contains: {part!r} is not in {_brief(text)}"
    for pattern in expected.matches or ():
        if re.search(pattern, text) is None:
            yield f"output.matches: {pattern!r} does not match {_brief(text)}"
    if "equals" in expected.model_fields_set:
        value: Any = text if isinstance(expected.equals, str) else _value(outcome)
        if not is_equal(expected.equals, value):
            yield f"output.equals: expected {_brief(expected.equals)}, and it is {_brief(value)}"
    if expected.json_schema is not None:
        from jsonschema import Draft202012Validator

        errors = Draft202012Validator(expected.json_schema).iter_errors(_value(outcome))
        error = next(iter(errors), None)
        if error is not None:
            yield f"output.schema: at {error.json_path}: {error.message[:_SHOWN]}"


def _value(outcome: Outcome) -> Any:
    """Return the structured output; without one the text as JSON, or as it is."""
    if outcome.output is not None:
        return outcome.output
    try:
        return json.loads(outcome.text)
    except ValueError:
        return outcome.text


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
