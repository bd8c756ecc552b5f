"""The commands of `layover ops`, with their options."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layover.desk.cli.options import Profile, Region, Stage, Url, Yes, who_asks

if TYPE_CHECKING:
    from layover.project import DeploySettings

ops = typer.Typer(help="The whole deployment, for its operators.", no_args_is_help=True)
OpsUser = Annotated[str, typer.Option(help="Your name, on a system on this machine.")]
OpsToken = Annotated[str, typer.Option(help="An operator's token.", envvar="LAYOVER_TOKEN")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the API's own JSON.")]
RunIds = Annotated[list[str], typer.Argument(help="Up to 100 runs.", metavar="RUN_ID...")]
Why = Annotated[str, typer.Option(help="Why; auditors read it.")]
OfAgent = Annotated[str, typer.Option(help="Only this agent's runs.")]
OfOwner = Annotated[str, typer.Option(help="Only this user's runs.")]
OfError = Annotated[str, typer.Option(help="Only failures of this type.")]
FROM = "Accepted then or later: 2026-01-31T12:00:00Z, or 2h for two hours ago."
From = Annotated[str, typer.Option(help=FROM)]
Until = Annotated[str, typer.Option(help="Accepted before it.")]


def _operator(url: str, user: str, token: str) -> Callable[[], tuple[str, str]]:
    """Return who asks. A name on this machine stands for an operator who may read content and the audit."""
    return who_asks(url, user, token, scopes="operate,read-content,audit")


@ops.command("runs")
def list_runs(
    status: Annotated[
        str, typer.Option(help="queued, running, suspended, success, failed or cancelled.")
    ] = "",
    agent: OfAgent = "",
    owner: OfOwner = "",
    error: OfError = "",
    since: From = "",
    until: Until = "",
    definition: Annotated[str, typer.Option(help="Only runs by this definition's hash.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The most runs.")] = 50,
    url: Url = "",
    user: OpsUser = "",
    token: OpsToken = "",
    as_json: AsJson = False,
) -> None:
    """List runs of all users, the newest first: one a line."""
    from layover.desk.cli.ops import runs

    filters = {
        "status": status,
        "agent": agent,
        "owner": owner,
        "error": error,
        "since": since,
        "until": until,
        "definition": definition,
    }
    who = _operator(url, user, token)
    raise typer.Exit(runs.list_runs(who, filters, limit, as_json=as_json))


@ops.command()
def tail(
    agent: OfAgent = "",
    owner: OfOwner = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only failures.")] = False,
    lines: Annotated[int, typer.Option(min=0, max=1_000, help="Runs from before.")] = 10,
    url: Url = "",
    user: OpsUser = "",
    token: OpsToken = "",
) -> None:
    """Print a line for each run of any user that begins, waits, goes on or ends, until Ctrl-C."""
    from layover.desk.cli.ops import tail as service

    who = _operator(url, user, token)
    raise typer.Exit(service.tail(who, {"agent": agent, "owner": owner}, lines, failed=failed))


@ops.command()
def summary(
    since: Annotated[str, typer.Option(help="Count runs from then on; else of a day.")] = "",
    url: Url = "",
    user: OpsUser = "",
    token: OpsToken = "",
    as_json: AsJson = False,
) -> None:
    """Show what runs, what waits, what failed and what it cost."""
    from layover.desk.cli.ops import runs

    raise typer.Exit(runs.summarise(_operator(url, user, token), since, as_json=as_json))


@ops.command()
def show(
    run_id: Annotated[str, typer.Argument(help="The run, as the API names it.")],
    content: Annotated[
        bool, typer.Option("--content", help="Also what it says; that is written down.")
    ] = False,
    step: Annotated[
        int | None, typer.Option(min=1, help="The step whose prompt is shown; else the newest.")
    ] = None,
    url: Url = "",
    user: OpsUser = "",
    token: OpsToken = "",
    as_json: AsJson = False,
) -> None:
    """Show one run step by step; with --content also its prompt, its replies and its tools."""
    from layover.desk.cli.ops import show as service

    who = _operator(url, user, token)
    raise typer.Exit(service.show(who, run_id, content=content, step=step, as_json=as_json))


@ops.command("try")
def try_step(
    run_id: Annotated[str, typer.Argument(help="The run, as the API names it.")],
    step: Annotated[
        int | None, typer.Option(min=1, help="The step that is asked for; else the newest.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model instead of the step's.")] = None,
    system: Annotated[
        Path | None, typer.Option(help="File with a system message instead of the step's.")
    ] = None,
    prompt: Annotated[
        Path | None,
        typer.Option(help="File with a prompt, as `ops show --content --json` prints it."),
    ] = None,
    agents: Annotated[
        str | None, typer.Option(help="Module of the agents, whose own models may be asked.")
    ] = None,
    url: Url = "",
    user: OpsUser = "",
    token: OpsToken = "",
    as_json: AsJson = False,
) -> None:
    """Ask a model for a step once more, with this machine's keys and without any effect on the run."""
    from layover.desk.cli import here
    from layover.desk.cli.ops import try_step as service

    request = service.Request(
        run_id, step=step, model=model, system=system, prompt=prompt, agents=agents
    )
    who = _operator(url, user, token)
    raise typer.Exit(service.try_step(who, request, here.current(), as_json=as_json))


@ops.command()
def cancel(
    run_ids: RunIds, reason: Why, url: Url = "", user: OpsUser = "", token: OpsToken = ""
) -> None:
    """Cancel runs of any users. Exits with 1 if one of them was refused."""
    from layover.desk.cli.ops import runs

    raise typer.Exit(runs.act(_operator(url, user, token), "cancel", run_ids, reason))


@ops.command()
def redrive(
    run_ids: Annotated[
        list[str] | None,
        typer.Argument(help="The runs; without them, those that failed.", metavar="[RUN_ID...]"),
    ] = None,
    error: OfError = "",
    agent: OfAgent = "",
    since: From = "",
    until: Until = "",
    reason: Why = "",
    yes: Yes = False,
    url: Url = "",
    user: OpsUser = "",
    token: OpsToken = "",
) -> None:
    """Drive runs of any users on in fresh executions: these, or those that failed with --error since --since.

    It says how many failed, and asks before more than one. Exits with 1 if one of them was refused."""
    from layover.desk.cli.ops import runs

    filters = {"error": error, "agent": agent, "since": since, "until": until}
    who = _operator(url, user, token)
    raise typer.Exit(runs.redrive(who, run_ids or (), filters, reason, yes=yes))


@ops.command()
def deny(
    run_ids: RunIds, reason: Why, url: Url = "", user: OpsUser = "", token: OpsToken = ""
) -> None:
    """Deny all calls that wait in runs of any users. Exits with 1 if one of them was refused."""
    from layover.desk.cli.ops import runs

    raise typer.Exit(runs.act(_operator(url, user, token), "deny", run_ids, reason))


@ops.command()
def stop(reason: Why, url: Url = "", user: OpsUser = "", token: OpsToken = "") -> None:
    """Stop everything: no run is accepted, and within seconds no model is asked. Nothing is lost."""
    from layover.desk.cli.ops import deployment

    raise typer.Exit(deployment.stop(_operator(url, user, token), reason))


@ops.command()
def start(url: Url = "", user: OpsUser = "", token: OpsToken = "") -> None:
    """Let everything go on after `layover ops stop`."""
    from layover.desk.cli.ops import deployment

    raise typer.Exit(deployment.start(_operator(url, user, token)))


@ops.command()
def limits(
    owner: Annotated[str, typer.Option(help="Also what this user has used of today.")] = "",
    url: Url = "",
    user: OpsUser = "",
    token: OpsToken = "",
    as_json: AsJson = False,
) -> None:
    """Show whether everything is stopped, by whom and why, and what each user may spend."""
    from layover.desk.cli.ops import deployment

    who = _operator(url, user, token)
    raise typer.Exit(deployment.show_limits(who, owner, as_json=as_json))


@ops.command()
def erase(
    owner: Annotated[str, typer.Argument(help="The user, by the id that runs have as `owner`.")],
    reason: Why,
    yes: Yes = False,
    url: Url = "",
    user: OpsUser = "",
    token: OpsToken = "",
) -> None:
    """Erase everything that is stored about a user, after a question."""
    from layover.desk.cli.ops import deployment

    raise typer.Exit(deployment.erase(_operator(url, user, token), owner, reason, yes=yes))


@ops.command()
def audit(
    operations: Annotated[
        bool, typer.Option("--operations", help="What operators did, instead of decisions.")
    ] = False,
    since: Annotated[str, typer.Option(help="The first UTC day: 2026-01-31.")] = "",
    until: Annotated[str, typer.Option(help="The last UTC day.")] = "",
    by: Annotated[str, typer.Option(help="Only what this person decided or did.")] = "",
    agent: OfAgent = "",
    owner: OfOwner = "",
    tool: Annotated[str, typer.Option(help="Only decisions about calls of this tool.")] = "",
    kind: Annotated[
        str,
        typer.Option(help="Only of this kind: approved, denied ...; or cancel, stop, erase ..."),
    ] = "",
    run: Annotated[str, typer.Option(help="Only about this run.")] = "",
    names: Annotated[
        bool, typer.Option("--names", help="Mail addresses for ids; needs AWS credentials.")
    ] = False,
    stage: Stage = None,
    profile: Profile = None,
    region: Region = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    url: Url = "",
    user: OpsUser = "",
    token: OpsToken = "",
    as_json: AsJson = False,
) -> None:
    """Print who decided what, or what operators did. Needs a token with `layover/audit`."""
    from layover.desk.cli import here
    from layover.desk.cli.ops import audit as service

    if as_csv and as_json:
        raise typer.BadParameter("say how: either --csv or --json")
    only = {"agent": agent, "owner": owner, "run_id": run}
    only |= {"operation": kind} if operations else {"decision": kind, "tool_name": tool}
    request = service.Request(
        book="operations" if operations else "decisions",
        days={"from": since, "to": until},
        only=only,
        by=by,
        form="csv" if as_csv else "json" if as_json else "text",
    )
    who = _operator(url, user, token)
    name_of = (
        service.names_of_pool(here.current(), _place(stage, profile, region)) if names else str
    )
    raise typer.Exit(service.audit(who, request, name_of))


@ops.command()
def rollback(
    to: Annotated[
        str | None, typer.Option(help="A digest of the list, or previous; else it only lists.")
    ] = None,
    stage: Stage = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """List what was deployed before, and go back to it. Needs AWS credentials."""
    from layover.desk.cli import here
    from layover.desk.cli.ops import rollback as service

    place = _place(stage, profile, region)
    raise typer.Exit(service.rollback(here.current(), place, to))


def _place(stage: str | None, profile: str | None, region: str | None) -> "DeploySettings":
    """Return where a stage is deployed: as the command line says, else the project."""
    from layover.desk.cli import here
    from layover.project import DeploySettings

    project = here.current()
    own = project.settings.deploy if project is not None else DeploySettings()
    wishes = {"stage": stage, "profile": profile, "region": region}
    return own.model_copy(update={k: v for k, v in wishes.items() if v is not None})
