"""Waits for a provider's fault to pass (docs/behaviour.md#provider-retries)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from layover.clock import loop_time
from layover.dice import SYSTEM_DICE
from layover.plugins.models.circuit import Circuit
from layover.plugins.models.faults import ProviderFault

ATTEMPTS = 6
WINDOW_S = 60.0
"""Counted from the first failure: a long stream that breaks at its end is still repeated."""

FIRST_WAIT_S = 1.0
MAX_WAIT_S = 16.0

T = TypeVar("T")


class Requests:
    """Counts the requests that one prompt becomes. `at_most`: their limit; None: there is none. `asks_again`:
    whether faults that pass are repeated."""

    def __init__(self, at_most: int | None = None, *, asks_again: bool = True) -> None:
        self._at_most = at_most
        self.asks_again = asks_again
        self.made = 0

    @property
    def are_used_up(self) -> bool:
        """True if no other request may be made."""
        return self._at_most is not None and self.made >= self._at_most


Sleep = Callable[[float], Awaitable[None]]
OnFault = Callable[[ProviderFault], Awaitable[None]]


async def retrying(
    attempt: Callable[[], Awaitable[T]],
    sleep: Sleep,
    requests: Requests,
    circuit: Circuit,
    on_fault: OnFault | None = None,
) -> T:
    """Return the result of the first attempt that succeeds.

    Passing faults are repeated, at most `ATTEMPTS` times in `WINDOW_S` seconds and no more than `requests`
    allows; `on_fault` is called for each that will be. While `circuit` is open, an attempt may fail without a
    request. Raises the last ProviderFault, whose error says whether it passes."""
    faults: _Faults | None = None
    while True:
        try:
            if circuit.is_open:
                circuit.enter(requests)
            requests.made += 1
            result = await attempt()
        except ProviderFault as fault:
            faults = faults or _Faults(requests, circuit, sleep, on_fault)
            await faults.wait_after(fault)
        except BaseException:
            circuit.leave(requests)
            raise
        else:
            if circuit.is_open:
                circuit.close()
            return result


class _Faults:
    """The faults of one request with its repeats."""

    def __init__(
        self, requests: Requests, circuit: Circuit, sleep: Sleep, on_fault: OnFault | None
    ) -> None:
        self._requests = requests
        self._circuit = circuit
        self._sleep = sleep
        self._on_fault = on_fault
        self._opened = loop_time()
        self._count = 0
        self._slept = 0.0

    async def wait_after(self, fault: ProviderFault) -> None:
        """Return once the next attempt may begin. Raises the fault if none follows."""
        self._count += 1
        passes = fault.is_transient and fault.most_attempts is None
        if passes:
            self._circuit.fail(self._requests, fault.error)
        try:
            wait = _wait(fault, self._count)
            if not self._is_followed(fault, wait) or (passes and not self._requests.asks_again):
                fault.error.passes, fault.error.retry_after = passes, fault.retry_after
                fault.add(f" (attempt {self._count})" if self._count > 1 else "")
                raise fault
            if self._on_fault is not None:
                await self._on_fault(fault)
            await self._sleep(wait)
        except BaseException:
            self._circuit.leave(self._requests)
            raise
        self._slept += wait

    def _is_followed(self, fault: ProviderFault, wait: float) -> bool:
        """Return whether another attempt follows this fault."""
        # A test's sleeps take no time.
        is_late = max(loop_time() - self._opened, self._slept) + wait > WINDOW_S
        is_last = self._count >= (fault.most_attempts or ATTEMPTS) or self._requests.are_used_up
        return fault.is_transient and not is_late and not is_last


def _wait(fault: ProviderFault, attempts: int) -> float:
    """Return the wait that the provider asked for, in seconds. Else it doubles from one second, half of it
    random: many runs that failed together must not come back together."""
    if fault.retry_after is not None:
        return fault.retry_after
    longest: float = min(MAX_WAIT_S, FIRST_WAIT_S * 2 ** (attempts - 1))
    return longest * (0.5 + SYSTEM_DICE.up_to(0.5))
