"""Packages of users beside the functions: under any name, in every kind, and wherever Python finds them."""

import asyncio
import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from layover.desk.local.agents_module import load
from layover.desk.local.functions.clock_file import ClockFile
from layover.desk.local.functions.execution_environment import FunctionSpec
from layover.desk.local.functions.invocation import Invocation
from layover.desk.local.functions.lambda_service import FunctionPool
from layover.desk.local.settings import Settings, child_variables, module_paths
from layover.desk.local.sources import Sources

AGENTS = """
import api.app, frame, resume.handler, turn
from layover import Agent
for module in (api, api.app, frame, resume.handler, turn):
    module.mine
shop = Agent("shop")
"""
HANDLER = """
import api.app, frame, importlib, resume.handler, turn
from functions.turn import ours
def handler(event, context):
    return [m.__file__ for m in (ours, api, api.app, frame, resume.handler, turn)]
"""
THEIRS = ("api/__init__.py", "api/app.py", "frame/__init__.py", "resume/handler.py", "turn.py")
"""Packages, one without `__init__.py`, and a module."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the runner is started in."""
    mine = tmp_path / "mine"
    for name in THEIRS:
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("mine = True\n")
    (mine / "shop_agents.py").write_text(AGENTS)
    monkeypatch.chdir(mine)
    return mine


async def test_agents_import_packages_that_have_the_names_of_functions(folder: Path) -> None:
    report = await load(child_variables(Settings(agents="shop_agents"), os.environ, {}))
    assert report.problem is None
    assert report.agents == ("agent shop: no tools",)


@pytest.mark.parametrize("name", ["api", "turn"])
async def test_agents_may_be_in_a_module_that_has_the_name_of_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("from layover import Agent\nshop = Agent('shop')\n")
    monkeypatch.chdir(tmp_path)
    settings = Settings(agents=name)
    report = await load(child_variables(settings, os.environ, {}))
    assert (report.problem, report.agents) == (None, ("agent shop: no tools",))
    assert settings.functions not in module_paths(settings, name, {})
    assert settings.functions in module_paths(settings, "user_agents", {})


async def test_function_and_packages_of_its_name_are_served_beside_each_other(
    folder: Path, tmp_path: Path
) -> None:
    functions = tmp_path / "handlers"
    for name in ("api", "resume", "turn"):
        (functions / name).mkdir(parents=True)
        for file, text in (("__init__", ""), ("ours", ""), ("app", ""), ("handler", HANDLER)):
            (functions / name / f"{file}.py").write_text(text)
    clock = tmp_path / "clock"
    ClockFile.create(clock)
    variables = child_variables(Settings(functions=functions), os.environ, {})
    minute = timedelta(minutes=1)
    pool = FunctionPool(FunctionSpec("turn", minute, variables, tmp_path / "log", clock), 1)
    try:
        result = await asyncio.wait_for(pool.invoke(Invocation(b"{}")), 60)
    finally:
        await pool.stop()
    assert result.function_error is None, result.payload
    ours, *theirs = map(Path, json.loads(result.payload))
    assert ours == functions / "turn" / "ours.py"
    assert [str(path.relative_to(folder)) for path in theirs] == list(THEIRS)


@pytest.mark.parametrize("entry", ["{folder}", ":{folder}:", "../shared", "{folder}/none:{folder}"])
async def test_modules_on_the_shells_python_path_are_importable_and_hide_none(
    folder: Path, tmp_path: Path, entry: str
) -> None:
    shared = tmp_path / "shared"
    (shared / "layover").mkdir(parents=True)
    (shared / "layover" / "__init__.py").write_text("raise RuntimeError('not ours')\n")
    (shared / "frame").mkdir()
    (shared / "frame" / "__init__.py").write_text("raise RuntimeError('not of this folder')\n")
    (shared / "prices.py").write_text(
        "from layover import Agent\nimport frame\nshop = Agent('shop')\n"
    )
    inherited = {**os.environ, "PYTHONPATH": entry.format(folder=shared)}
    settings = Settings(agents="prices")
    report = await load(child_variables(settings, inherited, {}))
    assert (report.problem, report.agents) == (None, ("agent shop: no tools",))
    Sources("prices", module_paths(settings, "prices", inherited), tmp_path / "copy").keep()
    assert (tmp_path / "copy" / "prices.py").exists()


def test_without_a_python_path_functions_have_the_runners_own(folder: Path) -> None:
    settings = Settings()
    for inherited in ({}, {"PYTHONPATH": ""}):
        path = child_variables(settings, inherited, {})["PYTHONPATH"].split(":")
        assert path == [str(settings.functions), str(settings.python_path), str(folder)]
