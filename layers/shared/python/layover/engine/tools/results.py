"""Opening a result again that a prompt shows as a preview (docs/result-previews.md)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from layover.context.previews import is_long
from layover.context.results import files_in_text, shown_files
from layover.declare.agent import Agent
from layover.declare.schemas.render import Parts
from layover.declare.tools.empty import note_if_empty
from layover.declare.tools.tool import AnyTool, tool
from layover.engine.outcomes import is_excerpt
from layover.engine.run_files import RunFiles
from layover.engine.state import RunState
from layover.values.base import Json
from layover.values.message import FilePart, Message, ToolResultPart
from layover.values.runs.run import RESULT_TOOL

PAGE = 20_000
"""Characters of one answer: 5,000 tokens."""
MAX_LISTED = 100
"""Results in a list: the newest."""
MAX_LISTED_ARGS = 200
"""Characters of a call's arguments in a list."""

_NOTHING = (
    "No result of this run is long: you read all of them in full. Answer from them. A result of an earlier "
    "run opens by the id that stands where a part of it was left out."
)


@dataclass(frozen=True)
class _Result:
    """A result as the model was shown it. `id`: of its message."""

    id: str
    run_id: str
    tool_call_id: str
    tool_name: str
    output: str
    files: tuple[FilePart, ...] = ()
    args: Json = None


def opens_results(agent: Agent) -> bool:
    """Return whether the agent's model gets the tool."""
    return RESULT_TOOL in agent.built_in_tools


def result_tool(state: RunState, history: Sequence[Message], run_files: RunFiles) -> AnyTool:
    """Return the tool that shows results of the run, and of the history before it, page by page."""

    @tool(name=RESULT_TOOL, idempotent=True, to_model_output=note_if_empty(_NOTHING))
    async def read_result(
        id: Annotated[
            str | None,
            Field(description="The result's id. Without it: a list of this run's long results."),
        ] = None,
        start: Annotated[int, Field(description="The first character to show.", ge=0)] = 0,
    ) -> Any:
        """Read the whole of an earlier tool result of which a part was left out. Repeats no call."""
        if id is None:
            long_results = [
                r for r in _own_results(state) if is_long(r.output, has_files=bool(r.files))
            ]
            return [_entry(result) for result in long_results[-MAX_LISTED:]]
        results = (*_own_results(state), *_earlier_results(history))
        result = next((r for r in results if r.id == id), None)
        if result is None:
            raise LookupError(
                f"there is no result {id}: call {RESULT_TOOL} without an id for a list"
            )
        page = _page(result.id, await _whole(result, run_files), start)
        files = files_in_text(result.files, page)
        return Parts(page, [page], files=files) if files else page

    return read_result


def _own_results(state: RunState) -> Iterator[_Result]:
    for step in state.steps:
        for slot, call in zip(step.slots, state.calls_of(step), strict=True):
            if call.model_output is not None:
                facts = (slot.message_id, call.run_id, call.tool_call_id, call.tool_name)
                yield _Result(*facts, call.model_output, call.files, call.args)


def _earlier_results(history: Sequence[Message]) -> Iterator[_Result]:
    for message in history:
        for part in message.content:
            if isinstance(part, ToolResultPart) and message.model_output is not None:
                facts = (message.id, message.run_id or "", part.tool_call_id, part.tool_name)
                yield _Result(*facts, message.model_output, shown_files(message))


def _entry(result: _Result) -> dict[str, Any]:
    args = json.dumps(result.args, ensure_ascii=False)[:MAX_LISTED_ARGS]
    return {
        "id": result.id,
        "tool": result.tool_name,
        "args": args,
        "characters": len(result.output),
    }


async def _whole(result: _Result, run_files: RunFiles) -> str:
    """Return the output. One that was too long for the model is read from its file, if it was kept."""
    if not is_excerpt(result.output):
        return result.output
    return await run_files.read_result(result.run_id, result.tool_call_id) or result.output


def _page(id: str, text: str, start: int) -> str:
    end = start + PAGE
    if end >= len(text):
        return text[start:] or f"{id} has {len(text)} characters"
    return f"{text[start:end]}\n… {len(text) - end} characters more: {RESULT_TOOL}, start {end} …"
