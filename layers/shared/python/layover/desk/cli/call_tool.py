"""`layover call`: one call of an agent's tool, as a run would make it, without a model.

A run of the agent in this process makes it, with a script in the model's place. So the arguments are checked,
hooks asked, an approval needed, and the result cut and worded by the engine, as everywhere."""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from layover.declare.agent import Agent
from layover.declare.result import Result
from layover.declare.tools.tool import AnyTool
from layover.desk.cli.chat.calls import signature
from layover.desk.cli.chat.decisions import ask_object
from layover.desk.cli.chat.terminal import Terminal, screen
from layover.desk.cli.client import REFUSED, USAGE
from layover.desk.cli.evals import agents_of
from layover.desk.cli.ops.asking import confirm
from layover.desk.failures import CommandFailed, report_failure
from layover.errors import unknown_agent, unknown_name
from layover.project import Project
from layover.testing import ScriptedModel, call, say
from layover.values.message import FilePart, Message, Role, ToolResultPart, name_file
from layover.values.prompt import Prompt
from layover.values.runs.run import SuspensionKind
from layover.values.text import reveal

Json = dict[str, Any]
THREAD = "call"
"""The thread of the call's run. It is in memory, as is whatever else the run keeps."""
_NEEDS = {
    SuspensionKind.INPUT: "asks for an answer before it goes on: `layover chat` gives one",
    SuspensionKind.CONNECT: "works with an account of its user, which nobody has connected here",
}


@dataclass(frozen=True)
class Request:
    """The call.

    Attributes:
        agent: The agent that has the tool.
        tool: The tool's name.
        arguments: The text of a JSON object; None: they are asked for.
        user: The user, as `ctx.user` and the owner of what the tool keeps.
        groups: The user's groups.
        agents: The module of the agents; None: the project's.
        yes: Whether a call that needs an approval is approved without a question.
    """

    agent: str
    tool: str
    arguments: str | None = None
    user: str = "local"
    groups: Sequence[str] = ()
    agents: str | None = None
    yes: bool = False


@dataclass
class _Script:
    """The model's place: it asks for the call, and keeps what it is then shown."""

    tool: str
    arguments: Json
    result: Message | None = field(default=None, init=False)

    def __call__(self, prompt: Prompt) -> Any:
        results = [message for message in prompt.messages if message.role is Role.TOOL]
        if not results:
            return call(self.tool, **self.arguments)
        self.result = results[-1]
        return say("")


@report_failure
def main(request: Request, project: Project | None, terminal: Terminal | None = None) -> int:
    """Make the call, and print what a model would read of it. The exit code: 1 for an error. `terminal`: None
    is this process's."""
    agents = agents_of(request.agents, project)
    agent = agents.get(request.agent)
    if agent is None:
        raise CommandFailed(unknown_agent(request.agent, agents), USAGE)
    terminal = terminal or screen(Path())
    tool = _tool_of(agent, request.tool)
    script = _Script(request.tool, _arguments(request, tool, terminal))
    started = time.monotonic()
    result = asyncio.run(_run(agent, request, script))
    return _report(request, script, result, time.monotonic() - started)


def _tool_of(agent: Agent, name: str) -> AnyTool | None:
    """Return the tool; None: a function or a server may give it to a run. Raises CommandFailed for a name
    that nothing has, and for an agent."""
    tool = agent.tool(name)
    if tool is None:
        if agent.make_tools is not None or agent.servers:
            return None
        raise CommandFailed(unknown_name("tool", name, [t.name for t in agent.tools]), USAGE)
    if tool.delegate is not None or tool.handoff is not None:
        text = f"{name} is an agent, and no function: `layover chat` talks to it"
        raise CommandFailed(text, USAGE)
    return tool


def _arguments(request: Request, tool: AnyTool | None, terminal: Terminal) -> Json:
    """Return the arguments of the command line, else as a person types them. Raises CommandFailed."""
    if request.arguments is not None:
        return _parse(request.arguments)
    if tool is None:
        text = "add --arguments, a JSON object: only a run knows the tool, and what it takes"
        raise CommandFailed(text, USAGE)
    # Not as strict providers want it: there, what may be left out is null.
    schema = tool.signature.schema
    if not schema.get("properties"):
        return {}
    if not terminal.interactive:
        raise CommandFailed(f"add --arguments, a JSON object with {_fields(schema)}", USAGE)
    terminal.note(f"{tool.name}: {tool.description}", "bold")
    arguments = ask_object(terminal, schema)
    if arguments is None:
        raise CommandFailed("nothing was run", REFUSED)
    return arguments


def _parse(text: str) -> Json:
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"--arguments is not JSON: {error}", USAGE) from None
    if not isinstance(arguments, dict):
        raise CommandFailed('--arguments is not a JSON object: write \'{"name": "value"}\'', USAGE)
    return arguments


def _fields(schema: Json) -> str:
    """Return the names and types of the arguments."""
    needed = schema.get("required", ())
    return ", ".join(
        f"{name} ({each.get('type', 'JSON')}{'' if name in needed else ', optional'})"
        for name, each in schema["properties"].items()
    )


async def _run(agent: Agent, request: Request, script: _Script) -> Result[Any]:
    """Return the run of the call, once it is over or waits for what nobody here can give."""
    with agent.override(model=ScriptedModel(script)):
        result = await agent.generate(
            f"layover call {request.tool}",
            thread_id=THREAD,
            resource_id=request.user,
            groups=request.groups,
        )
        while result.status == "suspended":
            pending = result.pending[0]
            if pending.kind is not SuspensionKind.APPROVAL:
                break
            facts = {"tool_name": pending.tool_name, "args": pending.args}
            risk = f" ({pending.risk} risk)" if pending.risk else ""
            question = f"{signature(facts)} needs an approval{risk}. Approve it?"
            await asyncio.to_thread(confirm, reveal(question), yes=request.yes)
            result = await agent.approve(result.run_id, pending.tool_call_id)
        return result


def _report(request: Request, script: _Script, result: Result[Any], seconds: float) -> int:
    if result.status == "suspended":
        pending = result.pending[0]
        payload = json.dumps(pending.payload, ensure_ascii=False)
        raise CommandFailed(f"{request.tool} {_NEEDS[pending.kind]}: {payload}", REFUSED)
    if script.result is None:
        detail = result.error_detail or result.error
        reason = (
            f"{result.error.type}: {detail.message}" if result.error and detail else result.status
        )
        raise CommandFailed(f"{request.tool} was not called: {reason}", REFUSED)
    message = script.result
    part = next(each for each in message.content if isinstance(each, ToolResultPart))
    text = message.model_output
    print(reveal(str(part.result) if text is None else text))
    for file in (each for each in message.content if isinstance(each, FilePart)):
        print(reveal(name_file(file, file.mime_type)))
    word = "failed" if part.is_error else "done"
    print(f"{request.tool}: {word} in {seconds:.1f} s", file=sys.stderr)
    return REFUSED if part.is_error else 0
