"""The number of examples that a property test tries.

`make test` tries a quarter of them, the same ones every time: what chance finds must not hold back work that
has nothing to do with it. `make test-all`, and a test that is named, try all, others every time."""

from hypothesis import HealthCheck, settings

SHARE = 4
FEW = "few"
MANY = "many"

# A machine that is busy for a moment is not a counterexample.
_CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(MANY, _CALM)
settings.register_profile(FEW, _CALM, derandomize=True)
settings.load_profile(MANY)


def share(number: int) -> int:
    """Return the number in `make test`, which tries one in so many points, and 1 elsewhere."""
    return number if settings.get_current_profile_name() == FEW else 1


def choose_deaths(after: bool) -> range:
    """Return the port calls at which a story's process dies, one for each telling, until a telling has no
    such call. In `make test` one in five, and others if it dies after the call took effect."""
    step = share(5)
    return range(1 + after % step, 1_000, step)


def examples(many: int, *unhealthy: HealthCheck) -> settings:
    """Settings of a test that tries so many examples in `make test-all`, and passes over these checks."""
    few = settings.get_current_profile_name() == FEW
    allowed = (HealthCheck.too_slow, *unhealthy)
    return settings(
        max_examples=max(many // SHARE, 1) if few else many, suppress_health_check=allowed
    )
