"""`layover eval add`: a run of a system becomes a case of an eval file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from layover.declare.agent import Agent
from layover.desk.cli.client import Api, ApiError
from layover.desk.cli.evals import NotRun, agents_of, write
from layover.desk.evals.keep import CaseDraft, beginning, draft_case
from layover.desk.evals.read import text_of
from layover.desk.evals.stubs import tools_for_stubs
from layover.desk.evals.write import with_case
from layover.desk.failures import report_failure
from layover.project import Project
from layover.values.runs.run import Status
from layover.values.text import reveal

PAGE = 100
MAX_ANSWER = 400
"""Characters of the answer, and of the owner's words about it, that the comment above the case has."""


@dataclass(frozen=True)
class Request:
    """The command's arguments. `to`: None is the agent's file in `evals`. `owner`: for a token that may act
    for users."""

    run_id: str
    to: Path | None = None
    name: str | None = None
    agents: str | None = None
    owner: str = ""


@report_failure
def main(request: Request, who: Callable[[], tuple[str, str]], project: Project | None) -> int:
    """Add the run to the file as `who` (URL and token), say where and what is left to do, and return the exit
    code."""
    agents = agents_of(request.agents, project)
    try:
        api = Api(*who(), owner=request.owner)
        run = api.get(f"/runs/{quote(request.run_id, safe='')}")
        if not Status(run["status"]).over:
            raise NotRun(f"{request.run_id} is {run['status']}: a case needs a run that is over")
        agent = agents.get(run["agent"])
        draft = _draft(api, run, agent, request.name)
    except ApiError as error:
        raise ApiError(f"{request.run_id}: {error}", error.exit_code) from error
    folder = project.root if project is not None else Path.cwd()
    _add(draft, request.to or folder / "evals" / f"{run['agent']}.yaml", run)
    if agent is None:
        print(f"The agent {run['agent']} is not here: see which of its stubs answer its tools.")
    return 0


def _draft(api: Api, run: dict[str, Any], agent: Agent | None, name: str | None) -> CaseDraft:
    thread = api.get(f"/threads/{quote(run['thread_id'], safe='')}")
    return draft_case(
        run,
        metadata=thread["metadata"] or {},
        before=list(_before(api, run)),
        events=_events(api, run["id"]),
        tool_names=tools_for_stubs(agent) if agent is not None else None,
        name=name,
    )


def _before(api: Api, run: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages before the run's input, oldest first."""
    path = f"/threads/{quote(run['thread_id'], safe='')}/messages"
    pages = _pages(api, path, branch=run["input"]["id"])
    yield from takewhile(lambda message: message["id"] != run["input"]["id"], pages)


def _pages(api: Api, path: str, **query: Any) -> Iterator[dict[str, Any]]:
    cursor: dict[str, Any] = {}
    while True:
        page = api.get(path, limit=PAGE, **query, **cursor)
        yield from page["items"]
        if page["next_cursor"] is None:
            return
        cursor = {"cursor": page["next_cursor"]}


def _events(api: Api, run_id: str) -> Iterator[dict[str, Any]]:
    after, done = 0, False
    while not done:
        page = api.get(f"/runs/{quote(run_id, safe='')}/events", after=after, limit=1_000)
        yield from page["items"]
        after, done = page["last_seq"], page["done"] or not page["items"]


def _add(draft: CaseDraft, file: Path, run: dict[str, Any]) -> None:
    """Write the case behind the others, and say what is left to do. Raises CasesInvalid and NotRun."""
    note = f"Of {run['id']}, which answered: {beginning(run['text'], MAX_ANSWER)}"
    if feedback := run.get("feedback"):
        comment = beginning(feedback["comment"] or "", MAX_ANSWER)
        note += f"\nIts owner gave it {feedback['score']:g}{f': {comment}' if comment else ''}"
    earlier = text_of(file) if file.exists() else ""
    write(file, with_case(earlier, file, run["agent"], draft.case, note))
    print(reveal(f"{file}: {draft.case['name']}"))
    for remark in draft.remarks:
        print(reveal(f"- {remark}"))
    print("- say what has to hold of its answer: `output` or `judge`")
    print("- it has what people and tools said: take out what must not be in a repository")
