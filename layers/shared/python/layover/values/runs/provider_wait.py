"""A run's wait for a model's provider that is away (docs/outages.md)."""

from layover.values.base import Time, Value


class WaitingFor(Value):
    """The wait of a run that goes on by itself: no person has to act.

    Attributes:
        provider: The provider that is away, as the model's name begins with it: `openai`, `bedrock`.
        until: The time at which it is asked again, in UTC.
        error: The type of its last error, such as `InternalServerError`.

    Example:
        ```python
        from layover import WaitingFor

        body = '{"provider": "openai", "until": "2026-05-01T12:00:45Z", "error": "InternalServerError"}'
        assert WaitingFor.model_validate_json(body).provider == "openai"
        ```
    """

    provider: str
    until: Time
    error: str


class ProviderWait(WaitingFor):
    """A pause of a run, as META keeps it. No process waits in it."""

    since: Time
    """The time of the first pause behind the newest step."""
    attempt: int
    """The number of this pause behind that step, from 1."""
    steps: int
    """Count of the run's steps at every depth when it began: with another step, the wait is over."""

    def is_on(self, steps: int) -> bool:
        """Return whether the run, with so many steps at every depth, still waits for the answer."""
        return self.steps == steps

    @property
    def view(self) -> WaitingFor:
        """The part that callers see."""
        return WaitingFor(provider=self.provider, until=self.until, error=self.error)
