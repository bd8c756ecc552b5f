"""Await and Resume: store a call's task token; settle the call when the token is answered."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    from layover import wiring
    from layover.errors import RetryableError
    from layover.runs.resume import await_decision, resume
    from layover.values.runs.payload import AwaitPayload, ResumePayload

    wiring.import_ahead("resume")


class LayoverAwaitAgain(Exception):
    """A passing fault: the state machine tries again."""


class LayoverAwaitFailed(Exception):
    """A failure that an immediate retry does not fix: the call pauses, and waits on a new token."""


@wiring.with_logging
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Op `await`: `{status}`, which the machine ignores. Op `resume`: the Map item, with its new status."""
    if event.get("op") == "await":
        return _await(AwaitPayload.model_validate(event))
    payload = ResumePayload.model_validate(event)
    return wiring.run(resume(wiring.runtime(), payload)).model_dump()


def _await(payload: AwaitPayload) -> dict[str, Any]:
    try:
        return wiring.run(await_decision(wiring.runtime(), payload))
    except RetryableError as error:
        raise LayoverAwaitAgain(str(error)) from error
    except Exception as error:
        raise LayoverAwaitFailed(type(error).__name__) from error
