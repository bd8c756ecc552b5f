"""The opinion that a user has of a run's answer."""

from pydantic import Field

from layover.values.base import Time, Value

MAX_COMMENT = 2_000
"""The most characters of a comment."""


class Feedback(Value):
    """The user's opinion of a run."""

    score: float = Field(
        ge=-1,
        le=1,
        allow_inf_nan=False,
        description="From -1 (bad) to 1 (good): a thumb is -1 or 1.",
    )
    comment: str | None = Field(default=None, description="Why, in the user's words.")
    at: Time


class RunFeedback(Feedback):
    """Feedback with the run that it is about."""

    owner: str
    thread_id: str
    run_id: str
    agent: str

    @property
    def plain(self) -> Feedback:
        """The feedback without the run."""
        return Feedback(score=self.score, comment=self.comment, at=self.at)
