"""The numbers of the queue before `notify`. With them a busy channel puts no event aside
(tests/torture/test_many_requests.py)."""

from datetime import timedelta

NOTIFY = "notify"
BATCH = 5
"""Events of one invocation, each with some messages to send in its time."""
AT_ONCE = 2
"""Invocations side by side, the least that Lambda takes: services slow down whoever sends fast."""
PAUSE_FACTOR = 4
"""A message that was not handled comes back after this many times the function's time."""
ATTEMPTS = 30
"""With pauses of two minutes, a service may be away for an hour before an event is put aside."""
KEPT = timedelta(days=14)
"""The longest that SQS keeps a message: somebody has to look at it."""
