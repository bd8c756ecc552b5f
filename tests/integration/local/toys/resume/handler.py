"""Await hands the token to the test, or answers it before it returns; Resume settles."""

import json
import os
from pathlib import Path
from typing import Any


def handler(event: dict[str, Any], context: Any) -> Any:
    """Both operations of the real function."""
    folder = Path(os.environ["LAYOVER_TOYS"])
    with (folder / event["run_id"]).open("a") as file:
        file.write(event["op"] + "\n")
    if event["op"] == "await":
        _await(event, folder)
        return {}
    with (folder / f"{event['run_id']}-outputs").open("a") as file:
        file.write(json.dumps(event["output"]) + "\n")
    return event["call"] | {"status": "done", "pause_s": 0}


def _await(event: dict[str, Any], folder: Path) -> None:
    if event["owner"] == "answered-at-once":
        import boto3

        states = boto3.client("stepfunctions")
        states.send_task_success(taskToken=event["token"], output='{"layover":"decided"}')
    else:
        (folder / f"{event['run_id']}-token-{event['call']['key']}").write_text(event["token"])
