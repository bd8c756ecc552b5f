"""The outcome of a tool call: ready to run, or settled with a result that the model reads."""

import json
import logging
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from layover import logs
from layover.declare.schemas.render import format_error
from layover.declare.tools.signature import ToolArgs
from layover.declare.tools.tool import AnyTool
from layover.engine.run_files import RunFiles
from layover.errors import RunFailed
from layover.values.message import FilePart
from layover.values.runs.child import ChildRun
from layover.values.runs.run import CallRecord

logger = logging.getLogger("layover")

MODEL_OUTPUT_TOKENS = 50_000
"""The limit above which the model sees head and tail (docs/behaviour.md#long-results)."""
_CHARACTERS = MODEL_OUTPUT_TOKENS * 4
_EXCERPT = 2_000
"""Characters of head and of tail."""
MAX_CHANGED_ARGS = 4_000
"""The most characters of a person's changed arguments that the model sees."""


@dataclass(frozen=True)
class Settled:
    """The outcome of a call."""

    result: Any
    model_output: str
    is_error: bool = False
    files: tuple[FilePart, ...] = ()
    """The files that the model is shown if its text names them."""
    custom: dict[str, Any] | None = None
    retry: bool = False
    """True if the tool asks for another attempt."""
    child: ChildRun | None = None
    """The run of the sub-agent that the call stands for, as it ended."""
    failure: RunFailed | None = None
    """The failure that ends the run once the call is settled."""
    denial: str | None = None
    """The id of the denied call whose denial this is."""

    @property
    def shown_files(self) -> tuple[FilePart, ...]:
        """The files that the model is shown."""
        if not self.files:
            return ()
        from layover.context.results import files_in_text  # Few results have files.

        return files_in_text(self.files, self.model_output)


@dataclass(frozen=True)
class Ready:
    """A call that can run now."""

    tool: AnyTool
    args: ToolArgs


def not_found(name: str) -> Settled:
    """Return the error of a call whose tool does not exist, or no longer exists."""
    return failed(f"Tool {name} not found")


def failed(message: str) -> Settled:
    """Return a tool error: it reaches the model and never ends the run."""
    return Settled(result=message, model_output=message, is_error=True)


def author_error(tool: str, call: CallRecord, error: Exception) -> Settled:
    """Return a tool error for an exception of the author's code. The log says where it was raised. Its
    message is the call's result and never appears in a log."""
    cause = error.__cause__
    logger.warning(
        "tool %s failed with %s",
        tool,
        type(error).__name__,
        extra={
            "run_id": call.run_id,
            "tool_call_id": call.tool_call_id,
            "cause": type(cause).__name__ if cause else None,
            "where": logs.where(error),
        },
    )
    return failed(format_error(error))


def interrupted_error(name: str) -> Settled:
    """Return the error of a call in doubt (docs/behaviour.md#calls-in-doubt)."""
    return failed(f"Interrupted: {name} may or may not have taken effect")


async def limit_output(settled: Settled, call: CallRecord, run_files: RunFiles | None) -> Settled:
    """Return the outcome with head and tail in place of an output that is too long for the model. `url` leads
    to the whole output (null if it could not be kept)."""
    output = settled.model_output
    if len(output) <= _CHARACTERS:
        return settled
    is_kept = run_files is not None and await run_files.keep_result(call, output)
    path = f"/runs/{call.run_id}/tool-calls/{quote(call.tool_call_id, safe='')}/result"
    excerpt: dict[str, Any] = {
        "_truncated": True,
        "head": output[:_EXCERPT],
        "tail": output[-_EXCERPT:],
        "original_chars": len(output),
        "url": path if is_kept else None,
    }
    if files := settled.shown_files:
        excerpt["files"] = [file.model_dump(mode="json", exclude_none=True) for file in files]
    return replace(settled, model_output=json.dumps(excerpt, ensure_ascii=False))


def is_excerpt(output: str) -> bool:
    """Return whether an output stands for a longer one (`limit_output`)."""
    return '{"_truncated": true, "head": ' in output


def with_change(changed: dict[str, Any] | None, outcome: Settled) -> Settled:
    """Return the handler's outcome, an error or not, with the arguments that it got
    (docs/behaviour.md#edited-arguments)."""
    if changed is None:
        return outcome
    args_text = json.dumps(changed, ensure_ascii=False)[:MAX_CHANGED_ARGS]
    text = f"A person changed the arguments to {args_text}. Result: {outcome.model_output}"
    return replace(outcome, model_output=text)
