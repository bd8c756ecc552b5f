"""Bootstrap of one execution environment.

`python -m layover.desk.local.functions.environment HANDLER CLOCK_FILE PARENT_PID` ties the process to its
runner, installs the movable clock and the package `functions`, and becomes AWS's own runtime client, or
Layover's if the function streams its responses. From there on nothing is local: the handler sees only the
Runtime API and its environment variables.

If LAYOVER_LOCAL_PRELOAD names a module, the process first imports it and calls its `install()`: tests of
crashes decide there at which point the process is to die.
"""

import ctypes
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from layover.clock import install_offset
from layover.desk.local.functions.clock_file import ClockFile
from layover.desk.local.functions.package import install_package
from layover.desk.local.output import keep_output_harmless

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent dies, even by SIGKILL (Linux only). Elsewhere only the
    runner's own stop ends it. Exits at once if the parent is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    # After the request to the kernel, not before: a parent that died between the two is seen here.
    if os.getppid() != parent:
        raise SystemExit(1)


def _report_below_the_path() -> None:
    """Have AWS's client report a handler that cannot be loaded below the path of the Runtime API's address.
    It does so for all its other requests, and takes the address for host and port here."""
    from awslambdaric.lambda_runtime_client import BaseLambdaRuntimeClient as Client

    send = Client.call_rapid

    def call_rapid(client: Any, method: str, endpoint: str, *rest: Any, **more: Any) -> None:
        address, _, path = client.lambda_runtime_address.partition("/")
        send(Client(address), method, f"/{path}{endpoint}", *rest, **more)

    Client.call_rapid = call_rapid


def main(arguments: list[str]) -> None:
    """Serve invocations of `arguments[0]` until the runner ends this process."""
    handler, clock, parent = arguments
    die_with(int(parent))
    # What a handler or a tool prints goes to a log; a disk that is full must fail neither.
    keep_output_harmless()
    install_offset(ClockFile(Path(clock)).offset)
    install_package(Path(os.environ["LAMBDA_TASK_ROOT"]))
    if preload := os.environ.get("LAYOVER_LOCAL_PRELOAD"):
        importlib.import_module(preload).install()
    if os.environ.get("AWS_LAMBDA_EXEC_WRAPPER"):
        # On Lambda the wrapper script starts this client instead of AWS's.
        from layover.runtime_client import main as stream

        stream()
        return
    from awslambdaric.__main__ import main as serve

    _report_below_the_path()
    serve(["awslambdaric", handler])


if __name__ == "__main__":
    main(sys.argv[1:])
