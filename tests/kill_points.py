"""Preload of execution environments (LAYOVER_LOCAL_PRELOAD): where a process may be made to die.

Every piece of I/O that Layover does, and every tool, is traced by the owner of the run that it is for:
`<hash>.trace` in LAYOVER_TORTURE_FOLDER gets a line when it begins and one when it is through. If
`<hash>.kill` names the point that is reached, the process kills itself, once.

Only the lowest I/O methods are wrapped, in this process alone; what they do is not changed. Reading
requests are left out: they change nothing, and how often a client asks is its own affair."""

import fcntl
import functools
import json
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

_OWNED = re.compile(r"^(?:U#|u/)([0-9a-f]{32})")
_IDS = re.compile(r"/(threads|runs|tool-calls)/[^/?]+")
_last_owner = ""
_request = ""


def install() -> None:
    """Wrap what does I/O; send what goes over the network through the test's proxies, if it has some."""
    for name, proxy in json.loads(os.environ.get("LAYOVER_TORTURE_PROXIES", "{}")).items():
        _put(_folder() / f"behind-{name}", os.environ.get(name, ""))
        os.environ[name] = proxy
    from layover.adapters.blobs.s3 import S3Blobs
    from layover.adapters.callbacks.stepfunctions import StepFunctions
    from layover.adapters.journal.dynamodb import DynamoTable
    from layover.adapters.models.openai_chat import OpenAIChat
    from layover.adapters.store.postgres.database import Database
    from layover.declare.tool import Tool

    for name in ("get", "query"):
        _wrap(DynamoTable, name, lambda pk, sk, *_: (_hash(pk), _shown(sk)))
    _wrap(DynamoTable, "query_index", lambda pk, prefix: (_hash(pk), prefix.partition("#")[0]))
    _wrap(DynamoTable, "write", lambda action: (_hash(action.pk), _written(action)))
    _wrap(DynamoTable, "transact", _transaction)
    _wrap(Database, "run", lambda owner, *all_: (_of(owner), "+".join(s.query.name for s in all_)))
    for name in ("get", "put", "delete_prefix"):
        _wrap(S3Blobs, name, lambda key, *_: (_hash(key), ""))
    _wrap(StepFunctions, "start", lambda owner, run_id, n: (_of(owner), str(n)))
    for name in ("wake", "stop", "alive", "publish_approval"):
        _wrap(StepFunctions, name, lambda *_: ("", ""))
    _wrap(OpenAIChat, "complete", lambda prompt, *_: ("", prompt.task))
    _wrap(Tool, "invoke", lambda args, ctx: (_of(ctx.resource_id), ctx.tool_call_id))
    if _function() == "api":
        _name_requests()


Describe = Callable[..., tuple[str, str]]
"""Arguments -> (hash of the owner or "", what it is about)."""


def _wrap(owner: type, name: str, describe: Describe) -> None:
    work = getattr(owner, name)

    @functools.wraps(work)
    async def traced(self: Any, *args: Any, **more: Any) -> Any:
        global _last_owner
        found, about = describe(*args)
        _last_owner = found or _last_owner
        if not _last_owner or _request.startswith("GET "):
            return await work(self, *args, **more)
        trace = _Trace(_last_owner)
        point = " ".join(filter(None, [_request, f"{owner.__name__}.{name}", about]))
        k = trace.begin(point)
        trace.die_if_asked(point, k, "before")
        result = await work(self, *args, **more)
        trace.die_if_asked(point, k, "after")
        trace.note("<", point, k)
        return result

    setattr(owner, name, traced)


class _Trace:
    """The control files of one owner."""

    def __init__(self, owner: str) -> None:
        self._stem = _folder() / owner

    def begin(self, point: str) -> int:
        """Note that the point is reached; the how-manieth time in this function it is."""
        with self._stem.with_suffix(".trace").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            start = f">\t{_function()}\t{point}\t"
            k = 1 + sum(line.startswith(start) for line in file)
            file.write(f"{start}{k}\t{os.getpid()}\t{time.time():.3f}\n")
        return k

    def note(self, mark: str, point: str, k: int) -> None:
        """One more line."""
        line = f"{mark}\t{_function()}\t{point}\t{k}\t{os.getpid()}\t{time.time():.3f}\n"
        file = os.open(self._stem.with_suffix(".trace"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)

    def die_if_asked(self, point: str, k: int, when: str) -> None:
        """Die here, if the file says so and as often as it says."""
        try:
            wanted = json.loads(self._stem.with_suffix(".kill").read_text())
        except FileNotFoundError:
            return
        times = wanted.pop("times", 1)
        if not wanted["k"] <= k < wanted["k"] + times:
            return
        if wanted != {"function": _function(), "point": point, "k": wanted["k"], "when": when}:
            return
        try:
            marker = ".killed" if times == 1 else f".killed-{k}"
            self._stem.with_suffix(marker).touch(exist_ok=False)
        except FileExistsError:
            return
        self.note("x" if when == "before" else "X", point, k)
        _die()


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _folder() -> Path:
    return Path(os.environ["LAYOVER_TORTURE_FOLDER"])


def _put(path: Path, text: str) -> None:
    """Write a file that is never seen half written."""
    made = path.with_name(f"{path.name}.{os.getpid()}")
    made.write_text(text)
    made.rename(path)


def _function() -> str:
    return os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "")


def _hash(key: str) -> str:
    found = _OWNED.match(key)
    return found[1] if found else ""


def _of(owner: str) -> str:
    from layover.keys import Keys

    return Keys(owner).hash


def _shown(sort_key: str) -> str:
    """A sort key without what differs from run to run."""
    return re.sub(r"EVENT#.*", "EVENT", sort_key)


def _written(action: Any) -> str:
    """The sort key, and the state that a call gets."""
    state = getattr(action, "item", {}).get("state") or ("decided" if _decides(action) else "")
    return _shown(action.sk) + (f"={state}" if state else "")


def _decides(action: Any) -> bool:
    return "#CALL#" in action.sk and "decision" in getattr(action, "set", {})


def _transaction(actions: Sequence[Any], *_: Any) -> tuple[str, str]:
    return _hash(actions[0].pk), " ".join(_written(a) for a in actions)


def _name_requests() -> None:
    """Points of `api` begin with the request that they are part of."""
    import api.app

    answer = api.app.answer

    def named(event: Any, *rest: Any) -> Any:
        global _request, _last_owner
        http = event["requestContext"]["http"]
        path = _IDS.sub(r"/\1", event.get("rawPath", ""))
        _request = f"{http['method']} {path}"
        _last_owner = ""
        return answer(event, *rest)

    api.app.answer = named
