"""The command line: `layover dev`, `layover login`, `layover doctor` and the others."""

import asyncio
import logging
import os
import shlex
import sys
import traceback
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

from layover.desk.failures import CommandFailed, report_failure

_MISSING_EXTRA = (
    "layover: the command line needs the extra `local`: pip install 'layover[local]' "
    "(in a checkout: make dev)"
)

try:
    import typer
    from typer.core import TyperGroup

    from layover.desk.cli.ops.commands import ops
    from layover.desk.cli.options import (
        Context,
        Profile,
        Region,
        Stage,
        TakeOver,
        Url,
        Yes,
        saved_tokens,
        who_asks,
    )
except ModuleNotFoundError:
    if sys.argv[1:] != ["--version"]:
        sys.exit(_MISSING_EXTRA)
    print(f"layover {version('layover')}")
    sys.exit(0)

app = typer.Typer(
    help="Layover: durable LLM agents.", no_args_is_help=True, pretty_exceptions_enable=False
)


bench = typer.Typer(help="Measure what was built.", no_args_is_help=True)
app.add_typer(bench, name="bench")
mcp = typer.Typer(help="Servers of tools.", no_args_is_help=True)
app.add_typer(mcp, name="mcp")
app.add_typer(ops, name="ops")


def _say_version(wants_version: bool) -> None:
    if wants_version:
        print(f"layover {version('layover')}")
        raise typer.Exit


@app.callback()
def main(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Layover: durable LLM agents."""


def parse_timeout(text: str) -> tuple[str, timedelta]:
    """`FUNCTION=SECONDS`; raises typer.BadParameter."""
    name, _, seconds = text.partition("=")
    try:
        limit = float(seconds)
    except ValueError:
        limit = 0.0
    if not name or not 0 < limit <= 900:
        raise typer.BadParameter(f"{text!r}: write FUNCTION=SECONDS, with 0 < SECONDS <= 900")
    return name, timedelta(seconds=limit)


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="Folder of the project; `.` is this one.")],
    template: Annotated[
        str, typer.Option(help="The agents to begin with: support, research or empty.")
    ] = "support",
) -> None:
    """Make a project: agents, their test, settings, the stack on AWS, a workflow. Overwrites nothing."""
    from layover.desk.cli import lock, scaffold
    from layover.project import read

    if not name.strip():
        raise typer.BadParameter("NAME is empty: write a folder, or `.` for this one")
    root = Path(name)
    outcome = scaffold.make_project(root, template)
    for path in outcome.written:
        print(f"made  {root / path}")
    for path, lacking in outcome.left.items():
        todo = f"; add to it: {'  '.join(lacking)}" if lacking else ""
        print(f"left  {root / path}, which was there before{todo}")
    for line in lock.first(read(root)):
        print(line)
    print(f"name  {outcome.name}: the stack of a stage is {outcome.name}-STAGE")
    enter = "" if root.resolve() == Path.cwd() else f"cd {shlex.quote(name)} && "
    print(f"next: {enter}layover test && layover dev")


@app.command()
def dev(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the HTTP API; 0 takes a free one.")
    ] = None,
    agents: Annotated[
        str | None, typer.Option(help="Module whose agents are served: agents, or src/agents.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of what survives a restart.")] = None,
    timeout: Annotated[
        list[str] | None, typer.Option(help="FUNCTION=SECONDS; may be given several times.")
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(help="Web pages of this origin may ask the API; may be given several times."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the console in a browser.")] = False,
) -> None:
    """Run the whole system on this machine until it is interrupted."""
    from layover.desk.cli import agents_packages, here, serve_options
    from layover.desk.local import serve as serving
    from layover.errors import unknown_name

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    project = here.current()
    settings = serve_options.settings_of(
        project,
        serve_options.Options(
            port, agents, data, dict(map(parse_timeout, timeout or ())), tuple(origin or ())
        ),
    )
    functions = settings.function_names()
    if unknown := sorted(settings.timeouts.keys() - set(functions)):
        text = unknown_name("function", unknown[0], functions)
        raise typer.BadParameter(f"--timeout, or [dev.timeouts] of layover.toml: {text}")
    agents_packages.install_missing(project)
    raise typer.Exit(asyncio.run(serving.serve(settings, opens=open_)))


@app.command("test", context_settings={"ignore_unknown_options": True})
def run_tests(
    args: Annotated[list[str] | None, typer.Argument(help="Of pytest, as they are.")] = None,
) -> None:
    """Run the tests of the project's agents, without a key and without a network."""
    from layover.desk.cli import here, run_tests

    project = here.required()
    raise typer.Exit(run_tests.run(project, args or ()))


@app.command()
def lock(
    args: Annotated[
        list[str] | None,
        typer.Argument(help="After `--`: of `uv pip compile`, as they are."),
    ] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Take newer versions than those of the locks.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: fail if a lock does not fit.")
    ] = False,
) -> None:
    """Pin each package of the project and of its agents, and the hashes of its files. Needs uv."""
    from layover.desk.cli import here
    from layover.desk.cli import lock as locking

    project = here.required()
    if check:
        raise typer.Exit(locking.check(project))
    for each in locking.make(project, [*(["--upgrade"] if upgrade else []), *(args or ())]):
        print(each.words)


@app.command("models")
def list_models(
    agents: Annotated[
        str | None, typer.Option(help="Module whose agents are listed: agents, or src/agents.")
    ] = None,
    stage: Annotated[
        str | None, typer.Option(help="A stage of layover.toml; this environment if not given.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the providers and models that a deployment can reach, with prices and windows. Asks nobody."""
    from layover.desk.cli import here
    from layover.desk.cli.models import command

    raise typer.Exit(command.main(agents, stage, here.current(), as_json=json_))


class _Evals(TyperGroup):
    """`layover eval FILE` runs the file, as `layover eval run FILE` does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take what is not a command as what to run."""
        if args and args[0] not in (*self.commands, "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


AgentsModule = Annotated[
    str | None, typer.Option(help="Module that has the agent: agents, or src/agents.")
]
User = Annotated[str, typer.Option(help="Who owns the run; of a system on this machine.")]
Owner = Annotated[str, typer.Option(help="Who owns the run, for a token that may act for users.")]


evals = typer.Typer(
    cls=_Evals, help="Run an agent on cases: FILE, or a command.", no_args_is_help=True
)
app.add_typer(evals, name="eval")


@evals.command("add")
def add_case(
    run_id: Annotated[str, typer.Argument(help="The run, as the API names it.")],
    to: Annotated[
        Path | None, typer.Option(help="File to add to; else evals/AGENT.yaml of the project.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the case; else its first words.")
    ] = None,
    agents: AgentsModule = None,
    url: Url = "",
    user: User = "",
    token: Annotated[str, typer.Option(help="A token instead of it.", envvar="LAYOVER_TOKEN")] = "",
    owner: Owner = "",
) -> None:
    """Make a case of a run: what was said, the calls with their results as stubs, the decisions."""
    from layover.desk.cli import here, keep_run

    who = who_asks(url, user, token)
    request = keep_run.Request(run_id=run_id, to=to, name=name, agents=agents, owner=owner)
    raise typer.Exit(keep_run.main(request, who, here.current()))


@evals.command("run")
def run_evals(
    file: Annotated[Path, typer.Argument(help="Cases, as YAML or JSON.")],
    agent: Annotated[
        str | None, typer.Option(help="The agent; else the file's `agent`, or the only one.")
    ] = None,
    agents: AgentsModule = None,
    model: Annotated[str | None, typer.Option(help="A model instead of the agent's.")] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="A model that judges; may be given several times.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each case.")] = 1,
    at_once: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    stubs_only: Annotated[
        bool, typer.Option("--stubs-only", help="Run no tool that has no stub.")
    ] = False,
    junit: Annotated[Path | None, typer.Option(help="File for JUnit's XML.")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="File for all results.")] = None,
    runs: Annotated[
        Path | None, typer.Option(help="New file, for a line of each run as it ends.")
    ] = None,
    continue_from: Annotated[
        Path | None,
        typer.Option("--continue", help="Such a file: go on with it, and make no run again."),
    ] = None,
) -> None:
    """Run an agent on cases, and say which held. Exits with 1 if some did not, with 2 if none ran."""
    from layover.desk.cli import evals as of_evals
    from layover.desk.cli import here

    request = of_evals.Request(
        file=file,
        agent=agent,
        agents=agents,
        model=model,
        judges=of_evals.judges_of(judge),
        repeat=repeat,
        at_once=at_once,
        stubs_only=stubs_only,
        junit=junit,
        json=json_,
        runs=runs,
        continue_from=continue_from,
    )
    raise typer.Exit(of_evals.main(request, here.current()))


More = Annotated[
    list[str] | None, typer.Argument(help="After `--`: of the CDK's command line, as they are.")
]


@app.command()
def synth(
    args: More = None,
    stage: Stage = None,
    context: Context = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Write the CloudFormation template of the project's stack. Needs Node, and no credentials."""
    _about_stack("synth", stage, context, profile=profile, region=region, more=args)


@app.command()
def diff(
    args: More = None,
    stage: Stage = None,
    context: Context = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Show what a deployment would change in the account of your credentials. Changes nothing."""
    _about_stack("diff", stage, context, profile=profile, region=region, more=args)


@app.command()
def deploy(
    args: More = None,
    stage: Stage = None,
    context: Context = None,
    profile: Profile = None,
    region: Region = None,
    yes: Yes = False,
    take_over: TakeOver = False,
) -> None:
    """Deploy the project's stack to the AWS account of your credentials. Says what it needs first."""
    _about_stack(
        "deploy",
        stage,
        context,
        profile=profile,
        region=region,
        more=args,
        yes=yes,
        take_over=take_over,
    )


@app.command()
def destroy(
    args: More = None,
    stage: Stage = None,
    context: Context = None,
    profile: Profile = None,
    region: Region = None,
    yes: Yes = False,
    take_over: TakeOver = False,
) -> None:
    """Take the project's stack down; its setting `retain` decides which data stays."""
    _about_stack(
        "destroy",
        stage,
        context,
        profile=profile,
        region=region,
        more=args,
        yes=yes,
        take_over=take_over,
    )


def _about_stack(
    command: Literal["synth", "diff", "deploy", "destroy"],
    stage: str | None,
    context: list[str] | None,
    profile: str | None,
    region: str | None,
    more: list[str] | None,
    *,
    yes: bool = False,
    take_over: bool = False,
) -> None:
    from layover.desk.cli import here
    from layover.desk.cli.deploy import request as requests
    from layover.desk.cli.deploy import run as deploying
    from layover.desk.cli.deploy.machine import Machine

    project = here.required()
    try:
        request = requests.request_of(
            command,
            project,
            stage=stage,
            context=context or (),
            profile=profile,
            region=region,
            yes=yes,
            take_over=take_over,
            more=more or (),
        )
    except ValueError as error:
        raise CommandFailed(str(error)) from error
    raise typer.Exit(deploying.main(request, Machine()))


@app.command()
def demo() -> None:
    """Drive one conversation through a fresh system and print the transcript."""
    from layover.desk.cli import demo

    raise typer.Exit(demo.main())


@app.command()
def chat(
    name: Annotated[
        str | None, typer.Argument(help="The agent to talk to; --agent does the same.")
    ] = None,
    url: Annotated[
        str, typer.Option(help="The HTTP API; else the newest sign-in's, or this machine's.")
    ] = "",
    agent: Annotated[str | None, typer.Option(help="Whom to talk to; else the first one.")] = None,
    thread: Annotated[str | None, typer.Option(help="A thread to go on with.")] = None,
    user: Annotated[str, typer.Option(help="A name, for a system on this machine: cli.")] = "",
) -> None:
    """Talk to an agent: answers as they come, approvals, forms, tokens and cost. `/help` lists commands.

    Every line of a pipe is a message. The end of input ends it. Ctrl-C cancels an answer. Exits with 1
    where the last answer failed."""
    from layover.desk.cli import here
    from layover.desk.cli.chat import loop
    from layover.desk.cli.chat.terminal import screen

    api = loop.connect(url, user, saved_tokens(), here.local_url())
    history = Path(typer.get_app_dir("layover")) / "chat_history"
    command = loop.command_of(url, user)
    raise typer.Exit(loop.main(api, screen(history), agent or name, thread, command))


@app.command("call")
def call_tool(
    agent: Annotated[str, typer.Argument(help="The agent that has the tool.")],
    tool: Annotated[str, typer.Argument(help="The tool's name.")],
    arguments: Annotated[
        str | None, typer.Option(help="A JSON object; without it, each argument is asked for.")
    ] = None,
    user: Annotated[str, typer.Option(help="The user that the tool works for.")] = "local",
    group: Annotated[
        list[str] | None, typer.Option(help="A group of the user; may be repeated.")
    ] = None,
    agents: AgentsModule = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Approve a call that needs it, for a pipeline.")
    ] = False,
) -> None:
    """Call a tool of an agent as a run would, and print what the model would read. The tool really runs.

    No model is asked. Exits with 1 if the tool fails."""
    from layover.desk.cli import call_tool as service
    from layover.desk.cli import here

    request = service.Request(
        agent=agent,
        tool=tool,
        arguments=arguments,
        user=user,
        groups=tuple(group or ()),
        agents=agents,
        yes=yes,
    )
    raise typer.Exit(service.main(request, here.current()))


@app.command()
def redrive(
    run_id: Annotated[str, typer.Argument(help="The run, as the API names it.")],
    url: Url = "",
    user: User = "",
    token: Annotated[str, typer.Option(help="An operator's token.", envvar="LAYOVER_TOKEN")] = "",
    owner: Owner = "",
) -> None:
    """Drive a run on, from its last journaled step, in a fresh execution. Needs a token with the scope
    of operators (`layover/operate`): the newest sign-in's, or --token; --user on this machine has it.

    Exits with 1 if that is refused (no such run, nothing to drive, no scope), with 3 without an answer
    and where the run was redriven within a minute."""
    from layover.desk.cli import client

    who = who_asks(url, user, token, scopes="operate")
    raise typer.Exit(client.redrive(who, run_id, owner))


@app.command()
def login(
    url: Annotated[str, typer.Option(help="The HTTP API of the deployment.")],
    port: Annotated[int, typer.Option(help="Where the browser comes back to.")] = 8976,
) -> None:
    """Sign in to a deployment with a browser; later commands use its newest sign-in."""
    from layover.desk.cli import login

    raise typer.Exit(login.login(url, saved_tokens(), port))


@app.command()
def mfa(
    url: Annotated[str, typer.Option(help="The HTTP API of the deployment.")],
    port: Annotated[int, typer.Option(help="Where the browser comes back to.")] = 8976,
) -> None:
    """Add an authenticator app to your user of a deployment as a second factor."""
    from layover.desk.cli import second_factor

    raise typer.Exit(second_factor.enroll(url, port))


user = typer.Typer(help="Users of a deployment.", no_args_is_help=True)
app.add_typer(user, name="user")


@user.command("add")
def add_user(
    email: Annotated[str, typer.Argument(help="Whom to invite.")],
    stage: Stage = None,
    group: Annotated[
        list[str] | None, typer.Option(help="A group to put the user into; may be repeated.")
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Of a system on this machine: prints the token.")
    ] = False,
) -> None:
    """Make a user of the deployment's Cognito pool, or put one into groups; needs AWS credentials of its
    operator."""
    from layover.desk.cli import here, users

    if local:
        raise typer.Exit(users.token(email, group or ()))
    raise typer.Exit(users.add(email, stage, groups=group or (), project=here.current()))


@app.command()
def doctor(
    url: Annotated[
        str, typer.Option(help="The HTTP API; else the newest sign-in's, or this machine's.")
    ] = "",
    user: Annotated[str, typer.Option(help="A name, for a system on this machine.")] = "",
    agent: Annotated[str | None, typer.Option(help="Whom to ask; else the first one.")] = None,
    run: Annotated[bool, typer.Option(help="Ask an agent, which costs some tokens.")] = True,
    stage: Annotated[
        str | None,
        typer.Option(
            help="Say what this stage lacks, and compare its release, too; needs AWS credentials."
        ),
    ] = None,
    channels: Annotated[
        bool,
        typer.Option(
            "--channels",
            help="Check who is told of calls that wait, by LAYOVER_CHANNELS or --stage.",
        ),
    ] = False,
    send: Annotated[
        list[str] | None,
        typer.Option(help="Send a test to each address of this group; more than once for more."),
    ] = None,
) -> None:
    """Check a deployment from end to end: a line for each thing that has to work.

    With --channels or --send, it checks instead who is told of calls that wait."""
    from layover.desk.cli import channels as channels_module
    from layover.desk.cli import doctor, here

    if channels or send:
        code = channels_module.main(
            here.current(),
            stage,
            send or (),
            user=user,
            console=f"{url or saved_tokens().last() or here.local_url()}/",
        )
        raise typer.Exit(code)
    code = doctor.main(
        url,
        user,
        saved_tokens(),
        agent,
        run=run,
        local=here.local_url(),
        project=here.current(),
        stage=stage,
    )
    raise typer.Exit(code)


@app.command()
def reembed(
    agent: Annotated[str | None, typer.Option(help="Only this agent's memory.")] = None,
) -> None:
    """Make vectors with the new embedder for everything that is remembered, after you changed the embedder.

    It must run where it can reach the database, with the functions' variables and
    LAYOVER_DATABASE_ADMIN_URL. You may stop it at any time: the next start continues from there."""
    from layover import wiring
    from layover.errors import LayoverError
    from layover.plugins.memory.learns import reembed as service

    missing = wiring.unset("LAYOVER_DATABASE_URL", "LAYOVER_DATABASE_ADMIN_URL")
    if missing:
        raise typer.BadParameter(f"set {' and '.join(missing)}")
    try:
        counts = wiring.run(service.reembed(wiring.runtime(), wiring.owners(), agent))
    except LayoverError as error:
        sys.exit(f"layover: {error}")
    print(
        f"{counts.entries} entries and {counts.messages} messages of {counts.owners} users", end=""
    )
    print(f"; {counts.without_vector} have no usable vector" if counts.without_vector else "")
    if counts.refusals:
        print(f"{counts.refusals} of these are refused by the embedder: {counts.last_refusal}")


@bench.command("recall")
def bench_recall(
    file: Annotated[
        Path, typer.Argument(help="Conversations with questions, as JSON.", exists=True)
    ],
) -> None:
    """Measures semantic recall on questions with known answers, through the product's own stores."""
    from layover.desk.cli import bench_recall as service
    from layover.errors import ConfigurationError

    try:
        lines: list[str] = service.main(file)
    except (service.BenchFailed, ConfigurationError) as error:
        sys.exit(f"layover: {error}")
    for line in lines:
        print(line)


@bench.command("qa")
def bench_qa(
    file: Annotated[
        Path, typer.Argument(help="Questions in the format of LoCoMo or LongMemEval.", exists=True)
    ],
    model: Annotated[
        str | None, typer.Option(help="The model that answers. [default: LAYOVER_MODEL]")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="The model that judges. [default: the one that answers]")
    ] = None,
    extractor: Annotated[
        str | None, typer.Option(help="The model that extracts entries. [default: the same]")
    ] = None,
    observer: Annotated[
        str | None, typer.Option(help="The model that observes. [default: the same]")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Ask only so many questions, the first ones.", min=1)
    ] = None,
    again: Annotated[
        int, typer.Option(help="Answers for which the judge is asked twice.", min=0)
    ] = 20,
    at_once: Annotated[
        int, typer.Option(help="Conversations that are worked on together.", min=1)
    ] = 1,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the figures and every answer there.")
    ] = None,
    continue_from: Annotated[
        Path | None,
        typer.Option(
            "--continue", help="Keep each answer there as it comes, and go on with what is there."
        ),
    ] = None,
) -> None:
    """Asks questions about long conversations that memory has learned from, and judges the answers."""
    from layover.desk.cli import bench_qa as service

    request = service.Request(
        file=file,
        model=model,
        judge=judge,
        extractor=extractor,
        observer=observer,
        limit=limit,
        again=again,
        at_once=at_once,
        json=json,
        continue_from=continue_from,
    )
    raise typer.Exit(service.main(request))


@mcp.command("inspect")
def inspect_server(
    url: Annotated[str, typer.Argument(help="The server's address.")],
    name: Annotated[
        str | None, typer.Option(help="What the names of its tools begin with.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VARIABLE: a header with a variable's value; may be given several times."
        ),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="It may be inside a network or on this machine.")
    ] = False,
) -> None:
    """Show the tools of an MCP server as an agent would get them, and those that are left out."""
    from layover.desk.cli import mcp_inspect as service
    from layover.errors import DefinitionError
    from layover.ports.tool_servers import ToolServerError

    try:
        headers = service.headers_of(header or (), os.environ)
        lines: list[str] = service.inspect(url, name=name, headers=headers, private=private)
    except DefinitionError as error:
        raise CommandFailed(str(error)) from error
    except ToolServerError as error:
        exit_code = 3 if error.retryable else 1
        raise CommandFailed(f"the server {url}: {error}", exit_code) from error
    for line in lines:
        print(line)


def run() -> None:
    """Run a command. If a library of the extra is missing, say what to install."""
    from layover.desk.local.output import take_every_letter

    take_every_letter()
    try:
        sys.exit(report_failure(app)())
    except ModuleNotFoundError as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        in_layover = str(frame.f_globals.get("__name__")).startswith("layover.")
        if (error.name or "").startswith("layover") or not in_layover:
            raise
        sys.exit(f"{_MISSING_EXTRA}; missing: {error.name}")


if __name__ == "__main__":
    run()
