"""A conversation through the product's observer: its request, and how an answer is read."""

from eval.cases import Observed
from layover.ids import SequentialIds
from layover.plugins.memory.condenses import observer
from layover.values.memory.compaction import Marker, Observation
from layover.values.prompt import Prompt


def request(case: Observed, model: str) -> Prompt:
    """Return the observer's prompt."""
    at = case.thread[0].created_at
    known = [
        Observation(id=f"k{i}", at=at, marker=Marker.INFO, text=text)
        for i, text in enumerate(case.known)
    ]
    return observer.request(model, case.thread, known)


def lines(case: Observed, answer: str) -> tuple[Observation, ...]:
    """Return the observations in an answer."""
    ids = SequentialIds()
    return observer.parse(answer, case.thread, lambda: ids.new("observation"))
