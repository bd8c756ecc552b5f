"""The command line: `layover dev`, `layover demo`, `layover bench`."""

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

_MISSING_EXTRA = (
    "layover: the command line needs the extra `local`: pip install 'layover[local]' "
    "(in a checkout: make dev)"
)

try:
    import typer
except ModuleNotFoundError:
    sys.exit(_MISSING_EXTRA)

app = typer.Typer(
    help="Layover: durable LLM agents.", no_args_is_help=True, pretty_exceptions_enable=False
)


bench = typer.Typer(help="Measure what was built.", no_args_is_help=True)
app.add_typer(bench, name="bench")


@app.callback()
def main() -> None:
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
def dev(
    port: Annotated[int, typer.Option(help="Port of the HTTP API; 0 takes a free one.")] = 8787,
    agents: Annotated[str | None, typer.Option(help="Module whose Agents are served.")] = None,
    data: Annotated[Path, typer.Option(help="Folder of what survives a restart.")] = Path(
        ".layover"
    ),
    timeout: Annotated[
        list[str] | None, typer.Option(help="FUNCTION=SECONDS; may be given several times.")
    ] = None,
) -> None:
    """Run the whole system on this machine until it is interrupted."""
    timeouts = dict(parse_timeout(text) for text in timeout or [])
    runner, settings = _local("runner"), _local("settings")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    chosen = settings.Settings(port=port, agents=agents, data=data, timeouts=timeouts)
    unknown = timeouts.keys() - set(chosen.function_names())
    if unknown:
        raise typer.BadParameter(f"no such function: {', '.join(sorted(unknown))}")
    raise typer.Exit(asyncio.run(runner.serve(chosen)))


@app.command()
def demo() -> None:
    """Drive one conversation through a system of its own and print the transcript."""
    run: Callable[[], int] = _local("demo").main
    raise typer.Exit(run())


@bench.command("recall")
def bench_recall(
    file: Annotated[
        Path, typer.Argument(help="Conversations with questions, as JSON.", exists=True)
    ],
) -> None:
    """How well semantic recall finds what answers a question, through the product's own stores."""
    for line in _local("bench_recall").main(file):
        print(line)


def _local(name: str) -> Any:
    try:
        return importlib.import_module(f"layover.local.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("layover"):
            raise
        sys.exit(f"{_MISSING_EXTRA}; missing: {error.name}")


if __name__ == "__main__":
    app()
