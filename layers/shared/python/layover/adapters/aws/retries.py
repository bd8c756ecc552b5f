"""Retries of requests: the standard mode of AWS's SDKs.

https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html"""

from collections.abc import Callable, Mapping

from layover.dice import SYSTEM_DICE

MAX_ATTEMPTS = 4
MAX_PAUSE_S = 20.0
THROTTLED_BASE_S = 1.0
BASE_S = 0.05
DYNAMODB_BASE_S = 0.025
MAX_ADDED_S = 5.0
"""Seconds that a service may add to the pause."""
CAPACITY = 500
COST = 14
THROTTLED_COST = 5

THROTTLES = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "ProvisionedThroughputExceededException",
        "BandwidthLimitExceeded",
        "SlowDown",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "EC2ThrottledException",
    }
)
"""All codes of the standard except TransactionInProgressException, which the table repeats as a conflict."""
PASSING_CODES = frozenset({"RequestTimeout", "RequestTimeoutException"})
PASSING_STATUSES = frozenset({500, 502, 503, 504})


class ServiceError(Exception):
    """A service answered with an error. `document`: the answer's JSON, {} where it is not JSON."""

    def __init__(
        self, code: str, status: int, document: Mapping[str, object], retry_after_s: float | None
    ) -> None:
        super().__init__(f"{code} ({status})")
        self.code = code
        self.status = status
        self.document = document
        self.retry_after_s = retry_after_s


class NoAnswer(Exception):
    """The service did not answer: not reached, broken off, too late, or damaged on the way. The request may
    have been carried out."""


class RetryRules:
    """The wait before the next attempt. `dice`: the system's random numbers, which differ between processes
    restored from one snapshot. All requests of a client share one quota, so that a service that is down does
    not get four times as many."""

    def __init__(
        self,
        base_s: float = BASE_S,
        max_attempts: int = MAX_ATTEMPTS,
        dice: Callable[[], float] | None = None,
    ) -> None:
        self._base_s = base_s
        self.max_attempts = max_attempts
        self._dice = dice or (lambda: SYSTEM_DICE.up_to(1.0))
        self._budget = CAPACITY

    def pause_s(self, attempt: int, fault: ServiceError | NoAnswer) -> float | None:
        """Return the seconds before attempt + 1, fully jittered; None: that was the last one."""
        is_throttled = isinstance(fault, ServiceError) and fault.code in THROTTLES
        cost = THROTTLED_COST if is_throttled else COST
        if attempt >= self.max_attempts or not _passes(fault) or self._budget < cost:
            return None
        self._budget -= cost
        base = THROTTLED_BASE_S if is_throttled else self._base_s
        pause = self._dice() * min(base * 2.0 ** (attempt - 1), MAX_PAUSE_S)
        wish = fault.retry_after_s if isinstance(fault, ServiceError) else None
        return pause if wish is None else max(pause, min(wish, pause + MAX_ADDED_S))

    def count_success(self, attempt: int) -> None:
        """Give back the cost of the last repetition, or a little for a request that needed none."""
        if self._budget < CAPACITY:
            self._budget = min(CAPACITY, self._budget + (COST if attempt > 1 else 1))


def _passes(fault: ServiceError | NoAnswer) -> bool:
    if isinstance(fault, NoAnswer):
        return True
    return fault.status in PASSING_STATUSES or fault.code in THROTTLES | PASSING_CODES
