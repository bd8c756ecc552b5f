"""Waits for a provider's fault to pass (docs/behaviour.md#provider-retries)."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from layover.clock import loop_time
from layover.dice import SYSTEM_DICE
from layover.plugins.models.faults import ProviderFault

if TYPE_CHECKING:
    from tenacity import RetryCallState

ATTEMPTS = 6
WINDOW_S = 60.0
"""Counted from the first failure: a long stream that breaks at its end is still repeated."""

FIRST_WAIT_S = 1.0
MAX_WAIT_S = 16.0

T = TypeVar("T")


class Requests:
    """Counts the requests that one prompt becomes. `at_most`: their limit; None: there is none."""

    def __init__(self, at_most: int | None = None) -> None:
        self._at_most = at_most
        self.made = 0

    @property
    def are_used_up(self) -> bool:
        """True if no other request may be made."""
        return self._at_most is not None and self.made >= self._at_most


Sleep = Callable[[float], Awaitable[None]]
OnFault = Callable[[ProviderFault], Awaitable[None]]


class _Window:
    """The time that is left, whether the sleeps are real or a test's."""

    def __init__(self, requests: Requests) -> None:
        self._opened: float | None = None
        self._requests = requests

    def is_over(self, state: "RetryCallState") -> bool:
        now = loop_time()
        if self._opened is None:
            self._opened = now
        spent = max(now - self._opened, state.idle_for)
        most = _fault(state).most_attempts or ATTEMPTS
        is_late = spent + state.upcoming_sleep > WINDOW_S
        return is_late or state.attempt_number >= most or self._requests.are_used_up


async def retrying(
    attempt: Callable[[], Awaitable[T]], sleep: Sleep, on_fault: OnFault, requests: Requests
) -> T:
    """Return the result of the first attempt that succeeds.

    Passing faults are repeated, at most `ATTEMPTS` times in `WINDOW_S` seconds and no more than `requests`
    allows; `on_fault` is called for each that will be. Raises the last ProviderFault."""

    async def counted() -> T:
        requests.made += 1
        return await attempt()

    try:
        return await counted()
    except ProviderFault as fault:
        if not fault.is_transient:
            raise
        first = fault
    # Most calls succeed at once: they pay nothing for what a repetition needs.
    return await _repeated(_after(first, counted), sleep, on_fault, requests)


def _after(fault: ProviderFault, attempt: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """An attempt whose first outcome is known: this fault."""
    faults = [fault]

    async def again() -> T:
        if faults:
            raise faults.pop()
        return await attempt()

    return again


async def _repeated(
    attempt: Callable[[], Awaitable[T]], sleep: Sleep, on_fault: OnFault, requests: Requests
) -> T:
    from tenacity import AsyncRetrying, retry_if_exception

    async def notify_restart(state: "RetryCallState") -> None:
        await on_fault(_fault(state))

    retries = AsyncRetrying(
        sleep=sleep,
        stop=_Window(requests).is_over,
        wait=_wait,
        retry=retry_if_exception(lambda e: isinstance(e, ProviderFault) and e.is_transient),
        before_sleep=notify_restart,
        reraise=True,
    )
    try:
        return await retries(attempt)
    except ProviderFault as fault:
        _say_how_often(fault, retries.statistics.get("attempt_number", 1))
        raise


def _say_how_often(fault: ProviderFault, attempts: int) -> None:
    if attempts > 1:
        fault.error.message += f" (attempt {attempts})"
        fault.error.args = (fault.error.message,)


def _fault(state: "RetryCallState") -> ProviderFault:
    fault = state.outcome.exception() if state.outcome else None
    assert isinstance(fault, ProviderFault)
    return fault


def _wait(state: "RetryCallState") -> float:
    """Return the wait that the provider asked for, in seconds. Else it doubles from one second, half of it
    random: many runs that failed together must not come back together."""
    retry_after = _fault(state).retry_after
    if retry_after is not None:
        return retry_after
    longest: float = min(MAX_WAIT_S, FIRST_WAIT_S * 2 ** (state.attempt_number - 1))
    return longest * (0.5 + SYSTEM_DICE.up_to(0.5))
