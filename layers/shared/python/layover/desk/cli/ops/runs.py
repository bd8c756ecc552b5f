"""`layover ops runs`, `summary`, `cancel`, `redrive`, `deny`: runs of all users."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from layover.desk.cli.client import NO_ANSWER, REFUSED, USAGE, Api
from layover.desk.cli.ops.asking import PAGE, Json, Who, confirm, items_of, moment_of, second_of
from layover.desk.failures import CommandFailed, report_failure

MAX_REDRIVEN = 1_000
"""Runs that one command redrives by their error."""
_DONE = {
    "cancel": "cancelled",
    "redrive": "a fresh execution drives it",
    "deny": "what waited is denied",
}


@report_failure
def list_runs(who: Who, filters: Mapping[str, str], limit: int, *, as_json: bool) -> int:
    """Print up to `limit` runs, the newest first, a line each. The exit code."""
    empty = True
    for run in items_of(Api(*who()), "/operate/runs", wishes_of(filters), limit):
        empty = False
        print(json.dumps(run) if as_json else line_of(run))
    if empty and not as_json:
        print("no such runs")
    return 0


def wishes_of(filters: Mapping[str, str]) -> dict[str, object]:
    """Return the filters that are given, as the API takes them. `since` and `until` may be `2h` (ago)."""
    times = {name: moment_of(filters[name]) for name in ("since", "until") if filters.get(name)}
    return {name: value for name, value in {**filters, **times}.items() if value}


@report_failure
def summarise(who: Who, since: str, *, as_json: bool) -> int:
    """Print counts of all users' runs. The exit code."""
    summary = Api(*who()).get("/operate/summary", **wishes_of({"since": since}))
    if as_json:
        print(json.dumps(summary))
        return 0
    for line in _summary_lines(summary):
        print(line)
    return 0


def _summary_lines(summary: Json) -> Iterator[str]:
    more = "" if summary["complete"] else " (and more than one request counts)"
    yield f"runs that are not over, and those since {second_of(summary['since'])}{more}:"
    for each in summary["runs"]:
        yield f"  {each['count']:>6}  {each['status']:<10} {each['agent']}"
    for at, some in groupby(summary["over_time"], itemgetter("at")):
        counts = ", ".join(f"{each['count']} {each['status']}" for each in some)
        yield f"accepted in the {summary['period']} of {second_of(at)}: {counts}"
    if (wait := summary["oldest_wait"]) is not None:
        since_when = f"since {second_of(wait['waiting_since'])}"
        yield f"oldest wait: {wait['run_id']} of {wait['agent']} ({wait['owner']}) {since_when}"
    for each in summary["errors"]:
        kind = f"{each['error']} of {each['provider']}" if each["provider"] else each["error"]
        yield f"failed: {each['count']:>6}  {kind}, for example {each['newest_run_id']}"
    for each in summary["spent"]:
        unpriced = f", {each['unpriced']} without a price" if each["unpriced"] else ""
        spent = f"{each['cost_usd']:.4f} USD, {each['tokens']} tokens, {each['runs']} runs"
        yield f"spent today: {each['agent']}: {spent}{unpriced}"


@report_failure
def act(who: Who, what: str, run_ids: Sequence[str], reason: str) -> int:
    """Cancel, redrive or deny runs, and print what became of each. The exit code."""
    return _act(Api(*who()), what, run_ids, reason)


def _act(api: Api, what: str, run_ids: Sequence[str], reason: str) -> int:
    more = {"reason": reason} if reason else {}
    worst = 0
    for start in range(0, len(run_ids), PAGE):
        answer = api.post(f"/operate/runs/{what}", ids=list(run_ids[start : start + PAGE]), **more)
        for item in answer["items"]:
            worst = max(worst, _say_outcome(what, item))
    return worst


def _say_outcome(what: str, item: Json) -> int:
    """Print what became of one run. Return the exit code that it asks for."""
    problem = item.get("problem")
    if problem is None:
        print(f"{item['id']}: {_DONE[what]}")
        return 0
    print(f"layover: {item['id']}: {problem['detail']} ({item['status']})", file=sys.stderr)
    may_work_later = item["status"] >= 500 or item["status"] == 429
    return NO_ANSWER if may_work_later else REFUSED


@report_failure
def redrive(
    who: Who, run_ids: Sequence[str], filters: Mapping[str, str], reason: str, *, yes: bool
) -> int:
    """Redrive these runs, or those that failed as `filters` (`error`, `agent`, `since`, `until`) say, after a
    question that names how many. The exit code."""
    wishes = {name: value for name, value in filters.items() if value}
    if run_ids and wishes:
        text = f"name runs, or say which failed ({', '.join(f'--{name}' for name in wishes)}): not both"
        raise CommandFailed(text, USAGE)
    if run_ids:
        return _act(Api(*who()), "redrive", run_ids, reason)
    if not ("since" in wishes and ("error" in wishes or "agent" in wishes)):
        text = "name runs, or say which failed: --error TYPE or --agent NAME, with --since 2h"
        raise CommandFailed(text, USAGE)
    return _redrive_failed(Api(*who()), wishes, reason, yes=yes)


def _redrive_failed(api: Api, wishes: Mapping[str, str], reason: str, *, yes: bool) -> int:
    failed = {**wishes_of(wishes), "status": "failed"}
    runs = list(items_of(api, "/operate/runs", failed, MAX_REDRIVEN))
    if not runs:
        print("no such runs failed")
        return 0
    counts = Counter((run["error"] or "no error", run["agent"]) for run in runs)
    for (error, agent), count in counts.most_common():
        print(f"{count:>6}  {error}  {agent}")
    span = (
        f"accepted from {second_of(runs[-1]['created_at'])} to {second_of(runs[0]['created_at'])}"
    )
    many = f"{len(runs)} runs" if len(runs) > 1 else f"1 run, {runs[0]['id']}"
    print(f"{many}, {span}")
    if len(runs) == MAX_REDRIVEN:
        print(f"these are the newest {MAX_REDRIVEN}: repeat the command for more")
    if len(runs) > 1:
        confirm(f"Redrive {many}?", yes=yes)
    return _act(api, "redrive", [run["id"] for run in runs], reason)


def line_of(run: Mapping[str, Any]) -> str:
    """Return a run as lists print it."""
    error = f", {kind}" if (kind := error_of(run)) else ""
    counts = f"{run['steps']} steps, {run['calls']} calls"
    about = f"{run['agent']} of {run['owner']}: {run['status']}{error}{waits_of(run)}, {counts}"
    return f"{second_of(run['created_at'])}  {run['id']}  {about}"


def error_of(run: Mapping[str, Any]) -> str:
    """Return the type of a run's failure; "" if it has none. Of one run by its id, the API tells more."""
    error = run["error"]
    return str(error["type"] if isinstance(error, dict) else error or "")


def waits_of(run: Mapping[str, Any]) -> str:
    """Return what a run waits for, as lines of runs end in it; "" if it waits for nothing."""
    since = f", waits since {second_of(run['waiting_since'])}" if run["waiting_since"] else ""
    # A deployment of an older release does not have the field.
    if (model := run.get("waiting_for")) is None:
        return since
    until = second_of(model["until"])
    return f"{since}, waits for {model['provider']} until {until} ({model['error']})"
