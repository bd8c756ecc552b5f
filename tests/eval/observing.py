"""A conversation through the product's observer: its request, an answer, and how that is read."""

from eval.cases import Observed
from layover.ids import SequentialIds
from layover.memory.compaction import observer
from layover.ports import ChatModel
from layover.values.memory.compaction import Marker, Observation
from layover.values.prompt import Prompt, Reply


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


async def asked(case: Observed, model: ChatModel, name: str) -> tuple[list[str], Reply]:
    """Let a model observe; the observations' texts, and what it said. Raises the model's errors."""
    reply = await model.complete(request(case, name))
    return [o.text for o in lines(case, reply.text)], reply
