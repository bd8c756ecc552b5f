"""A model that does not answer, as one process knows it: one request at a time asks whether it is back
(docs/outages.md#requests)."""

from layover.clock import loop_time
from layover.errors import ModelError
from layover.plugins.models.faults import ProviderFault

REST_S = 16.0
"""Seconds without a request after one has given up."""


class Circuit:
    """Open while a model's provider is away. Then one request asks it again, and the others fail as that one
    did, without asking. Each still waits as long as it would have: they go on once it has an answer."""

    def __init__(self) -> None:
        self.is_open = False
        self._prober: object | None = None
        self._last: object | None = None
        self._rests_until = 0.0
        self._problem = ModelError("")

    def enter(self, request: object) -> None:
        """Let a request ask. Raises ProviderFault, the last one, if another does that or has just given up.
        One that has given up may ask in another form."""
        if self._prober is request:
            return
        rests = loop_time() < self._rests_until and self._last is not request
        if self._prober is not None or rests:
            last = self._problem
            error = ModelError(last.message, status=last.status, type=last.type)
            raise ProviderFault(error, is_transient=True)
        self._prober = request

    def fail(self, request: object, problem: ModelError) -> None:
        """Note that a request has met a fault that passes."""
        if not self.is_open:
            self.is_open, self._prober = True, request
        message = problem.message
        self._problem = ModelError(message, status=problem.status, type=problem.type)

    def leave(self, request: object) -> None:
        """Note that a request has given up, or was cancelled."""
        if self._prober is request:
            self._prober, self._last = None, request
            self._rests_until = loop_time() + REST_S

    def close(self) -> None:
        """Note that the model has answered."""
        self.is_open, self._prober, self._last, self._rests_until = False, None, None, 0.0
