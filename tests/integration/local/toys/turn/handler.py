"""Does what its event says; as the state machine's Turn it suspends once and is then over."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from layover.clock import SystemClock

CALLS: list[Any] = []


def handler(event: dict[str, Any], context: Any) -> Any:
    """Answers of the tests' own making."""
    CALLS.append(event)
    if event.get("op") == "turn":
        done = _turn(event)
        _record(f"{event['run_id']}-turns", json.dumps(event))
        return done
    if event.get("child"):
        _record(event["child"], str(subprocess.Popen(["sleep", "60"]).pid))
    if "sleep" in event:
        time.sleep(event["sleep"])
    if event.get("exit") is not None:
        os._exit(event["exit"])
    if event.get("fail"):
        raise ValueError("no")
    if event.get("record"):
        _record(event["record"], "called")
        raise ValueError("again")
    if event.get("variables"):
        return dict(os.environ)
    if event.get("size"):
        return "x" * event["size"]
    return event | {
        "pid": os.getpid(),
        "calls": len(CALLS),
        "left_ms": context.get_remaining_time_in_millis(),
        "now": SystemClock().now().timestamp(),
        "arn": context.invoked_function_arn,
    }


def _turn(event: dict[str, Any]) -> dict[str, Any]:
    seen = _record(event["run_id"], "turn")
    scenario = event["owner"]
    if scenario == "crash-once" and seen == 1:
        os._exit(1)
    if scenario == "never-heals":
        raise ValueError("broken for good")
    if scenario.startswith("alone") and seen < 3:
        # After the first answer the call waits again, after a rest.
        pause_s = 1 if scenario == "alone-rests" and seen == 2 else 0
        if seen == 2 and not pause_s:
            return _answer("done")
        item = {"key": f"c{seen}", "attempt": 1, "timeout_s": 30, "pause_s": pause_s}
        return _answer("rest" if pause_s else "await", "suspended", waiting=[item], call=item)
    if scenario in ("walk", "brief", "answered-at-once") and seen == 1:
        first = 1 if scenario == "brief" else 30
        waiting = [
            {"key": key, "attempt": 1, "timeout_s": timeout_s, "status": "waiting"}
            for key, timeout_s in (("c1", first), ("c2", 30))
        ]
        return _answer("await_all", "suspended", waiting=waiting)
    if scenario == "away" and seen == 1:
        return _answer("away", pause_s=3_600)
    ways = {"walk": "condense", "learn": "learn", "fails": "fail"}
    way = {**ways, "fails-and-learns": "learn_then_fail"}.get(scenario, "done")
    return _answer(way)


def _answer(way: str, status: str = "over", **facts: Any) -> dict[str, Any]:
    """Return what a turn answers that knows no field but these: the state machine may be newer than it."""
    return {"status": status, **facts, "next": way}


def _record(run_id: str, line: str) -> int:
    """Write down that it was called; answers how often `line` has been."""
    path = Path(os.environ["LAYOVER_TOYS"]) / run_id
    with path.open("a") as file:
        file.write(f"{line}\n")
    return path.read_text().splitlines().count(line)
