"""Handlers under the names that Lambda knows them by. mypy follows these imports to all code of functions."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from functions.api import handler as api
from functions.compact import handler as compact
from functions.extract import handler as extract
from functions.migrate import handler as migrate
from functions.notify import handler as notify
from functions.resume import handler as resume
from functions.settle import handler as settle
from functions.sockets import handler as sockets
from functions.streams import handler as streams
from functions.sweep import handler as sweep
from functions.turn import handler as turn

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/handler.py"))
HANDLERS = {
    module.__name__: module.handler
    for module in (
        api,
        compact,
        extract,
        migrate,
        notify,
        resume,
        settle,
        sockets,
        streams,
        sweep,
        turn,
    )
}


def test_every_function_has_its_handler_here() -> None:
    assert sorted(HANDLERS) == [f"functions.{name}.handler" for name in FOLDERS]


@pytest.mark.parametrize("name", FOLDERS)
def test_function_takes_no_name_from_the_packages_of_users(name: str) -> None:
    assert find_spec(name) is None
    assert find_spec(f"functions.{name}.handler") is not None
    assert find_spec("user_agents") is not None
