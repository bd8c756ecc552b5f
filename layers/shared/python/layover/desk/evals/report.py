"""The results of the cases: as lines, as JSON, and as JUnit's XML."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from math import sqrt
from statistics import NormalDist
from typing import Any
from xml.etree import ElementTree

from layover.desk.evals.cases import Case
from layover.desk.evals.outcome import Outcome
from layover.desk.evals.runs_file import Setup, keys_of
from layover.values.base import Value
from layover.values.message import TextPart

_Z = NormalDist().inv_cdf(0.975)
VERSION = 1
"""The form of the JSON, in its `layover_eval`. The console reads it, in `console/page/evaluation.js`."""
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Head(Value):
    """The circumstances of an evaluation. `file`: the cases' file, as the command named it.
    `commit`: of the folder of that file, None without one. `setup.model`: None if only scripts answered."""

    file: str
    ended_at: datetime
    commit: str | None
    setup: Setup


def interval(holding: int, total: int) -> tuple[float, float]:
    """Return the bounds of the share of `holding` in `total` runs (at least 1), at 95 %: Wilson's score
    interval (E. B. Wilson, Journal of the American Statistical Association 22, 1927, pages 209 to 212)."""
    share, z2 = holding / total, _Z**2
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z * sqrt(share * (1 - share) / total + z2 / (4 * total**2)) / (1 + z2 / total)
    return max(0.0, middle - half), min(1.0, middle + half)


def by_case(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the runs of each case, in the order of the file."""
    runs: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        runs.setdefault(outcome.case, []).append(outcome)
    return runs


def lines_of(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the report for people."""
    cases = by_case(outcomes)
    for name, runs in cases.items():
        holding = sum(run.holds for run in runs)
        word = "held" if holding == len(runs) else "failed"
        yield f"{word:<7} {name}{share_of(holding, len(runs))}"
        for failure in _failures(runs):
            yield f"        {failure}"
    whole = sum(all(run.holds for run in runs) for runs in cases.values())
    tokens = sum(run.tokens for run in outcomes)
    yield f"{whole} of {len(cases)} cases held, {len(outcomes)} runs, {tokens:,} tokens"


def share_of(holding: int, total: int) -> str:
    """Return the share with its interval, of a case that ran more than once; else nothing."""
    if total == 1:
        return ""
    low, high = interval(holding, total)
    return f": {holding} of {total}, {holding / total:.0%} (95 % interval {low:.0%} to {high:.0%})"


def json_of(head: Head, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> str:
    """Return everything, as JSON. `outcomes` are runs of these cases. The share of the whole counts cases, of
    which one holds if all its runs did; `cost_usd` is without the judges, and null if a price is unknown."""
    keys, results = keys_of(cases), by_case(outcomes)
    inputs = {
        # Without files and data.
        case.name: "\n".join(part.text for part in case.input if isinstance(part, TextPart))
        for case in cases
    }
    listed = [
        {
            "name": name,
            "key": keys[name],
            "input": inputs[name],
            "holds": all(run.holds for run in runs),
            **_shares(sum(run.holds for run in runs), len(runs)),
            "runs": [{**run.model_dump(mode="json"), "holds": run.holds} for run in runs],
        }
        for name, runs in results.items()
    ]
    costs = [run.cost_usd for run in outcomes]
    whole = {
        "layover_eval": VERSION,
        **head.model_dump(mode="json"),
        "held": sum(case["holds"] for case in listed),
        **_shares(sum(case["holds"] for case in listed), len(listed)),
        "tokens": sum(run.tokens for run in outcomes),
        "cost_usd": None if None in costs else str(sum(cost for cost in costs if cost is not None)),
        "seconds": round(sum(run.seconds for run in outcomes), 3),
        "cases": listed,
    }
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def _shares(holding: int, total: int) -> dict[str, Any]:
    return {"share": holding / total, "interval": list(interval(holding, total))}


def junit_of(outcomes: Sequence[Outcome], suite: str, agent: str) -> str:
    """Return JUnit's XML: a test case for each case, named as the case is."""
    cases = by_case(outcomes)
    bad = {name: list(_failures(runs)) for name, runs in cases.items()}
    seconds = sum(run.seconds for run in outcomes)
    counts = {"tests": str(len(cases)), "failures": str(sum(map(bool, bad.values())))}
    facts = {
        "name": _clean(suite),
        "errors": "0",
        "skipped": "0",
        "time": f"{seconds:.3f}",
        **counts,
    }
    root = ElementTree.Element("testsuite", facts)
    for name, runs in cases.items():
        case = ElementTree.SubElement(
            root,
            "testcase",
            name=_clean(name),
            classname=_clean(agent),
            time=f"{sum(run.seconds for run in runs):.3f}",
        )
        if bad[name]:
            holding = sum(run.holds for run in runs)
            message = f"{bad[name][0]}{share_of(holding, len(runs))}"
            failure = ElementTree.SubElement(case, "failure", message=_clean(message))
            failure.text = _clean("\n".join(bad[name]))
    suites = ElementTree.Element("testsuites")
    suites.append(root)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _failures(runs: Sequence[Outcome]) -> Iterator[str]:
    for run in runs:
        which = f"run {run.repeat}: " if len(runs) > 1 else ""
        for failure in run.failures:
            yield f"{which}{failure}"


def _clean(text: str) -> str:
    """Return the text without characters that XML 1.0 cannot have."""
    return _NOT_XML.sub("\ufffd", text)
