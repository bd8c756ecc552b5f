"""Python's garbage collector, which is off while a function's process imports."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Import without collections, which would walk everything imported so far and find nothing. Imported
    objects live as long as the process, so later collections skip them. Only the processes of functions are
    affected."""
    if "AWS_LAMBDA_FUNCTION_NAME" not in os.environ or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
