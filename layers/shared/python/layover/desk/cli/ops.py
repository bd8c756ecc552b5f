"""`layover ops`: runs of all users, from the command line."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from layover.desk.cli.client import NO_ANSWER, REFUSED, Api
from layover.desk.failures import report_failure

Who = Callable[[], tuple[str, str]]
"""URL and token."""
_PAGE = 100


@report_failure
def list_runs(who: Who, filters: Mapping[str, str], limit: int, *, as_json: bool) -> int:
    """Print up to `limit` runs, the newest first, a line each. The exit code."""
    wishes: dict[str, object] = {name: value for name, value in filters.items() if value}
    api, items, cursor = Api(*who()), list[dict[str, Any]](), ""
    while len(items) < limit:
        wishes["limit"] = min(_PAGE, limit - len(items))
        page = api.get("/operate/runs", **wishes, **({"cursor": cursor} if cursor else {}))
        items += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    for run in items:
        print(json.dumps(run) if as_json else _line(run))
    if not items and not as_json:
        print("no such runs")
    return 0


@report_failure
def summarise(who: Who, since: str, *, as_json: bool) -> int:
    """Print counts of all users' runs. The exit code."""
    summary = Api(*who()).get("/operate/summary", **({"since": since} if since else {}))
    if as_json:
        print(json.dumps(summary))
        return 0
    more = "" if summary["complete"] else " (and more than one request counts)"
    print(f"runs that are not over, and those since {summary['since']}{more}:")
    for each in summary["runs"]:
        print(f"  {each['count']:>6}  {each['status']:<10} {each['agent']}")
    for at, some in groupby(summary["over_time"], itemgetter("at")):
        counts = ", ".join(f"{each['count']} {each['status']}" for each in some)
        print(f"accepted in the {summary['period']} of {at}: {counts}")
    if (wait := summary["oldest_wait"]) is not None:
        since_when = f"since {wait['waiting_since']}"
        print(f"oldest wait: {wait['run_id']} of {wait['agent']} ({wait['owner']}) {since_when}")
    for each in summary["errors"]:
        print(f"failed: {each['count']:>6}  {each['error']}, for example {each['newest_run_id']}")
    for each in summary["spent"]:
        unpriced = f", {each['unpriced']} without a price" if each["unpriced"] else ""
        spent = f"{each['cost_usd']:.4f} USD, {each['tokens']} tokens, {each['runs']} runs"
        print(f"spent today: {each['agent']}: {spent}{unpriced}")
    return 0


@report_failure
def show(who: Who, run_id: str, *, content: bool, as_json: bool) -> int:
    """Print a run step by step. The exit code."""
    query = {"content": "true"} if content else {}
    run = Api(*who()).get(f"/operate/runs/{quote(run_id, safe='')}", **query)
    if as_json:
        print(json.dumps(run))
        return 0
    print(_line(run))
    for name, value in ((run["error"] or {}).get("detail") or {}).items():
        if value is not None:
            print(f"    {name}: {value}")
    for step in run["timeline"]:
        inside = f" in {step['parent_call']}" if step["parent_call"] else ""
        tokens = f"{step['usage']['total_tokens']} tokens"
        print(f"{step['at']}  step {step['n']}{inside}: {step['agent']}, {step['model']}, {tokens}")
        for call in step["calls"]:
            print(f"    {_call(call)}")
    if content:
        for message in run["content"]["messages"]:
            print(json.dumps(message, ensure_ascii=False))
    return 0


@report_failure
def act(who: Who, what: str, run_ids: Sequence[str], reason: str) -> int:
    """Cancel, redrive or deny runs, and print what became of each. The exit code."""
    more = {"reason": reason} if reason else {}
    answer = Api(*who()).post(f"/operate/runs/{what}", ids=list(run_ids), **more)
    worst = 0
    for item in answer["items"]:
        problem = item.get("problem")
        if problem is None:
            print(f"{item['id']}: {_DONE[what]}")
            continue
        print(f"layover: {item['id']}: {problem['detail']} ({item['status']})", file=sys.stderr)
        may_work_later = item["status"] >= 500 or item["status"] == 429
        worst = max(worst, NO_ANSWER if may_work_later else REFUSED)
    return worst


_DONE = {
    "cancel": "cancelled",
    "redrive": "a fresh execution drives it",
    "deny": "what waited is denied",
}


def _line(run: Mapping[str, Any]) -> str:
    waits = f", waits since {run['waiting_since']}" if run["waiting_since"] else ""
    error = run["error"]
    # Of one run, the failure comes with its detail.
    error = f", {error['type'] if isinstance(error, dict) else error}" if error else ""
    counts = f"{run['steps']} steps, {run['calls']} calls"
    about = f"{run['agent']} of {run['owner']}: {run['status']}{error}{waits}, {counts}"
    return f"{run['created_at']}  {run['id']}  {about}"


def _call(call: Mapping[str, Any]) -> str:
    name = call["tool_name"] or "(no tool's name)"
    words = [f"{call['tool_call_id']} {name}: {call['state']}"]
    if call["requested_at"]:
        words.append(f"asked at {call['requested_at']} for {call['kind']}")
    words += [f"{each['decision']} by {each['decided_by']}" for each in call["decisions"]]
    words += [f"{each['hook']}: {each['decision']}" for each in call["hooks"]]
    if call["settled_at"]:
        words.append(f"settled at {call['settled_at']}" + (", an error" * call["is_error"]))
    return ", ".join([*words, f"{call['args_bytes']} B in, {call['result_bytes']} B out"])
