"""Echoes the event, or answers what the query asks for."""

import json
import os
import time
from typing import Any


def handler(event: dict[str, Any], context: Any) -> Any:
    """An HTTP API response; `?answer=` is returned as it is."""
    query = event.get("queryStringParameters", {})
    if query.get("do") == "raise":
        raise RuntimeError("boom")
    if query.get("do") == "exit":
        os._exit(3)
    if query.get("do") == "hang":
        time.sleep(30)
    if query.get("do") == "print":
        print("what a tool prints", flush=True)
    if "answer" in query:
        return json.loads(query["answer"])
    return {"statusCode": 200, "body": json.dumps(event), "cookies": ["a=1", "b=2"]}
