"""Options that several commands have, and who asks."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from layover.desk.cli.tokens import TokenFile

Url = Annotated[str, typer.Option(help="The HTTP API; the newest sign-in's if not given.")]
Stage = Annotated[str | None, typer.Option(help="The stage; the project's if not given.")]
Context = Annotated[
    list[str] | None,
    typer.Option(
        "--context", "-c", help="NAME=VALUE: a setting for this command; may be repeated."
    ),
]
Profile = Annotated[str | None, typer.Option(help="Profile of the AWS configuration.")]
Region = Annotated[str | None, typer.Option(help="Region of AWS.")]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing, for a pipeline.")]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over", help="A stack that does not tell which project made it is this one's."
    ),
]


def who_asks(url: str, user: str, token: str, *, scopes: str = "") -> Callable[[], tuple[str, str]]:
    """Return a function that gives the API's address and the caller's token. `scopes`: those of a name on
    this machine."""
    from layover.desk.cli import here
    from layover.desk.cli.tokens import caller

    if user and token:
        raise typer.BadParameter("say who asks: either --user NAME or --token TOKEN")
    name = f"{user};scopes={scopes}" if user and scopes else user
    return partial(caller, url, name, token=token, tokens=saved_tokens(), local=here.local_url())


def saved_tokens() -> "TokenFile":
    """Return the sign-ins of this machine's user."""
    from layover.desk.cli.tokens import TokenFile

    return TokenFile(Path(typer.get_app_dir("layover")))
