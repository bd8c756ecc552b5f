"""`layover ops try`: a model is asked for a step of any user's run once more, from this machine. Nothing of
it reaches the run: no tool runs, and nothing is journaled or remembered."""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from layover import wiring
from layover.desk.cli.chat.answer import usage_line
from layover.desk.cli.client import NO_ANSWER, REFUSED, USAGE, Api
from layover.desk.cli.evals import add_variables, agents_of, require_models
from layover.desk.cli.ops.asking import Json, Who
from layover.desk.cli.ops.show import newest_step, part_lines, print_lines
from layover.desk.failures import CommandFailed, report_failure
from layover.engine.models.unused_replies import priced
from layover.errors import ConfigurationError, DefinitionError, ModelError, RetryableError
from layover.ports import ChatModel
from layover.project import Project
from layover.values.message import FilePart, Message, TextPart, name_file
from layover.values.prompt import OutputSpec, Prompt, ProviderTool, Reply, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.operated import SentPrompt


@dataclass(frozen=True)
class Request:
    """The step, and what is asked in place of what was.

    Attributes:
        run_id: The run.
        step: One of the run's own, from 1 on; None: the newest.
        model: A model instead of the step's; None: the same.
        system: A file with a system message instead of the prompt's; None: the same.
        prompt: A file with a prompt, as `layover ops show --content --json` prints it; None: the step's.
        agents: The module of the agents, one of which may bring the model itself; None: the project's.
    """

    run_id: str
    step: int | None = None
    model: str | None = None
    system: Path | None = None
    prompt: Path | None = None
    agents: str | None = None


@dataclass(frozen=True)
class _Trial:
    """The request of a trial. `notes`: in what it differs from what was sent. `was`: the step as it was made;
    None: it has no reply."""

    prompt: Prompt
    number: int
    notes: tuple[str, ...]
    was: Json | None = None
    message: Json | None = None
    """The step's message; None: the run's answer was too long to have it."""


@dataclass(frozen=True)
class _Answer:
    """A reply, with its cost if the price is known."""

    reply: Reply
    usage: Json
    seconds: float
    model: str = field(kw_only=True)


@report_failure
def try_step(
    who: Who,
    request: Request,
    project: Project | None,
    *,
    as_json: bool,
    model: ChatModel | None = None,
) -> int:
    """Ask a model for a step once more, and print its reply next to the one that was given. The exit code.
    `model`: answers in place of those that this machine can reach."""
    api, path = Api(*who()), f"/operate/runs/{quote(request.run_id, safe='')}"
    run = api.get(path, content="true")
    trial = _trial(api, path, run, request)
    if model is None:
        model = _model_of(trial.prompt.model, run["agent"], request.agents, project)
    if not as_json:
        # A model may take a minute.
        print_lines(_head(request.run_id, trial))
    answer = _ask(model, trial.prompt)
    print_lines([json.dumps(_json(request, trial, answer))] if as_json else _lines(trial, answer))
    return 0


def _trial(api: Api, path: str, run: Json, request: Request) -> _Trial:
    """Return what is to be asked. Raises CommandFailed for a prompt that cannot be made again, and for files
    that have none."""
    number = request.step or newest_step(run)
    own = [step for step in run["timeline"] if not step["parent_call"]]
    was = own[number - 1] if number <= len(own) else None
    if request.prompt is not None:
        sent, problem = _prompt_of_file(request.prompt), "it is the prompt of a file"
    else:
        step = api.get(f"{path}/steps/{number}")
        if step["prompt"] is None:
            text = f"the prompt of step {number} cannot be made again: {step['problem']}"
            raise CommandFailed(text, REFUSED)
        sent, problem = SentPrompt.model_validate(step["prompt"]), step["problem"]
        if step.get("truncated"):
            problem = "it is too long for one answer of the API, and parts of it are left out"
    changes = {"model": request.model} if request.model else {}
    if request.system is not None:
        changes["system"] = _text_of(request.system)
    prompt, files = _prompt_of(sent.model_copy(update=changes))
    file_note = f"files are only named, and not shown, to the model: {files}" if files else None
    notes = tuple(filter(None, (problem, file_note)))
    messages = run["content"]["messages"]
    message = next((m for m in messages if was is not None and m["created_at"] == was["at"]), None)
    return _Trial(prompt, number, notes, was, message)


def _prompt_of_file(path: Path) -> SentPrompt:
    """Return the prompt of a file: as the API has it, or in what `layover ops show --json` prints."""
    try:
        data = json.loads(_text_of(path))
        while isinstance(data, dict) and isinstance(data.get("prompt"), dict):
            data = data["prompt"]
        sent = SentPrompt.model_validate(data)
        _prompt_of(sent)
        return sent
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        text = f"{path} has no prompt: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise CommandFailed(text, USAGE) from None
    except DefinitionError as error:
        raise CommandFailed(f"{path} has no prompt: {error}", USAGE) from None
    except ValueError as error:
        raise CommandFailed(f"{path} is not JSON: {error}", USAGE) from None


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} cannot be read: {error}", USAGE) from error


def _prompt_of(sent: SentPrompt) -> tuple[Prompt, int]:
    """Return the request, in which files are named, and how many these are."""
    files = [p for m in sent.messages for p in m.content if isinstance(p, FilePart) and p.file_id]
    prompt = Prompt(
        model=sent.model,
        system=sent.system,
        messages=tuple(map(_without_files, sent.messages)),
        tools=tuple(ToolSpec.model_validate(each, from_attributes=True) for each in sent.tools),
        output=sent.output and OutputSpec.model_validate(sent.output),
        settings=ModelSettings.model_validate(sent.settings),
        api=sent.api,
        provider_tools=tuple(map(ProviderTool.model_validate, sent.provider_tools)),
    )
    return prompt, len(files)


def _without_files(message: Message) -> Message:
    return message.with_content(
        tuple(
            TextPart(text=name_file(part, part.mime_type))
            if isinstance(part, FilePart) and part.file_id
            else part
            for part in message.content
        )
    )


def _model_of(name: str, agent: str, module: str | None, project: Project | None) -> ChatModel:
    """Return the model of this name: the agent's own object, else that of this machine's environment, with
    the `.env` of the project. Raises CommandFailed if nobody can be asked."""
    agents = agents_of(module, project) if module or project else {}
    add_variables(project.root if project is not None else Path.cwd())
    if agent in agents and name in agents[agent].own_models:
        return wiring.runtime().model_for(agents[agent], name)
    require_models([name])
    return wiring.runtime().model


def _ask(model: ChatModel, prompt: Prompt) -> _Answer:
    """Return the reply. Raises CommandFailed if there is none."""
    began = time.monotonic()
    try:
        reply = asyncio.run(_reply(model, prompt))
    except ModelError as error:
        code = NO_ANSWER if error.passes else REFUSED
        text = f"{prompt.model} did not answer: {error.type}: {error.message}"
        raise CommandFailed(text, code) from error
    except RetryableError as error:
        raise CommandFailed(f"{prompt.model} did not answer: {error}", NO_ANSWER) from error
    except ConfigurationError as error:
        raise CommandFailed(str(error), USAGE) from error
    seconds = round(time.monotonic() - began, 1)
    name = reply.model or prompt.model
    usage = priced(wiring.runtime(), name, reply.usage).model_dump(mode="json")
    return _Answer(reply, usage, seconds, model=name)


async def _reply(model: ChatModel, prompt: Prompt) -> Reply:
    return await model.complete(prompt)


def _head(run_id: str, trial: _Trial) -> Iterator[str]:
    yield f"step {trial.number} of {run_id}, asked again of {trial.prompt.model}: nothing is kept"
    yield from (f"not exactly what was sent: {note}" for note in trial.notes)


def _lines(trial: _Trial, answer: _Answer) -> Iterator[str]:
    facts = f"{usage_line(answer.usage)}, {answer.seconds:g} s, {answer.reply.finish_reason}"
    yield f"--- now, by {answer.model}: {facts}"
    yield from part_lines(_parts(answer.reply))
    if trial.was is None:
        yield "--- then: this step had no reply"
        return
    was = trial.was
    yield f"--- then, by {was['model']}: {usage_line(was['usage'])}, {was['finish_reason']}"
    if trial.message is None:
        yield "(the run is too long for one answer of the API, and this reply is left out)"
    else:
        yield from part_lines(trial.message["content"])


def _parts(reply: Reply) -> list[Json]:
    """Return a reply as the parts of a message. A call has the provider's id, and its arguments as they
    came."""
    texts = (("reasoning", reply.reasoning), ("text", reply.text))
    parts: list[Json] = [{"type": kind, "text": text} for kind, text in texts if text]
    for call in reply.calls:
        call_id = call.id or "(no id)"
        name, args = call.name, _args(call.args)
        parts.append(
            {"type": "tool_call", "tool_call_id": call_id, "tool_name": name, "args": args}
        )
    return parts


def _args(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _json(request: Request, trial: _Trial, answer: _Answer) -> Json:
    return {
        "run_id": request.run_id,
        "step": trial.number,
        "notes": trial.notes,
        "now": {
            "model": answer.model,
            "finish_reason": answer.reply.finish_reason,
            "usage": answer.usage,
            "seconds": answer.seconds,
            "content": _parts(answer.reply),
        },
        "then": trial.was
        and {
            "model": trial.was["model"],
            "finish_reason": trial.was["finish_reason"],
            "usage": trial.was["usage"],
            "content": trial.message and trial.message["content"],
        },
    }
