"""Python's garbage collector, which a function's process does without while it imports."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Import without collections: they go through all that is imported so far, and find nothing. It stays as
    long as the process, so later collections leave it out. A process that is no function's is left alone."""
    if "AWS_LAMBDA_FUNCTION_NAME" not in os.environ or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
