"""The work of Lambda's init phase before the first event: imports, nothing that a snapshot must not hold."""

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from layover.ahead import MODULES
from unit.test_house import HEAVY

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/handler.py"))
LEARNS = ("layover.plugins.memory.learns", "layover.plugins.memory.condenses")
"""The rooms of memory that a run needs once it is over, and no turn does."""
MAX_LINES_OF_MEMORY = 3_820
"""The lines of memory that a turn imports; they may only fall."""
LIMITS = {"api": (346, 45_500), "resume": (252, 34_220), "turn": (371, 47_750)}
"""Modules of the package that are imported ahead, and their lines. They are a cold start's cost, and may only
fall. One that has to rise is a line in its commit, with the reason."""
ON_DEMAND = {"AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand"}
FUNCTION = {"AWS_LAMBDA_FUNCTION_NAME": "a-function"}
CODE = """
import gc, json, os, sys
seen = set()
def hook(event, arguments):
    if event.startswith("socket.") and event != "socket.__new__":
        seen.add(event)
sys.addaudithook(hook)
before = sum(generation["collections"] for generation in gc.get_stats())
import functions.{function}.handler
collections = sum(generation["collections"] for generation in gc.get_stats()) - before
print(json.dumps(
    [sorted(sys.modules), sorted(seen), gc.isenabled(), gc.get_freeze_count(), collections]
))
import logging, types
try:
    functions.{function}.handler.handler(
        {{"run_id": 7, "RequestType": "Delete"}}, types.SimpleNamespace()
    )
except Exception:
    pass
logging.getLogger("layover").info("after")
"""


@cache
def started(function: str, **variables: str) -> list[str]:
    """Return the lines that a process prints as it imports the handler, and answers a wrong event."""
    paths = os.pathsep.join(str(ROOT / part) for part in ("layers/shared/python", "functions", "."))
    run = subprocess.run(
        [sys.executable, "-c", CODE.format(function=function)],
        env={"PYTHONPATH": paths, "AWS_REGION": "eu-west-1", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return run.stdout.splitlines()


def loaded(function: str, **variables: str) -> tuple[set[str], list[str]]:
    """The modules that are there once the handler is, and what its import did on the network."""
    modules, network, *_ = prepared(function, **variables)
    return set(modules), network


def prepared(function: str, **variables: str) -> Any:
    """What `CODE` prints first of a process that has imported this handler."""
    return json.loads(started(function, **variables)[0])


@pytest.mark.parametrize("function", sorted(MODULES))
def test_init_phase_imports_what_every_invocation_needs_and_opens_nothing(function: str) -> None:
    modules, network = loaded(function, AWS_LAMBDA_INITIALIZATION_TYPE="snap-start")
    assert set(MODULES[function]) <= modules
    assert "user_agents" in modules
    assert not {"boto3", "botocore.session", "openai"} & modules
    assert network == []
    own = [name for name in modules if name.split(".")[0] == "layover"]
    lines = sum(len(_source(name).splitlines()) for name in own)
    max_modules, max_lines = LIMITS[function]
    assert len(own) <= max_modules
    assert lines <= max_lines * 1.005, "half a percent is for comments"
    assert lines >= max_lines * 0.98, f"lower it to {len(own), lines}"


def _source(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text("utf-8")


def test_agents_that_cannot_be_loaded_fail_where_they_are_used() -> None:
    modules, _ = loaded("turn", **FUNCTION, **ON_DEMAND, LAYOVER_AGENTS="no_such_module")
    assert "psycopg" in modules


def test_process_that_may_never_be_used_imports_nothing_ahead() -> None:
    modules, _ = loaded("turn")
    assert not {"psycopg", "httpx2", "layover.adapters.aws.client"} & modules


def test_a_turn_imports_what_reads_memory_and_nothing_that_learns() -> None:
    assert all(find_spec(name) for name in LEARNS)
    modules, _ = loaded("turn", AWS_LAMBDA_INITIALIZATION_TYPE="snap-start")
    of_memory = [name for name in modules if name.startswith("layover.plugins.memory.")]
    assert "layover.plugins.memory.reads.turns" in of_memory
    assert not [name for name in of_memory if name.startswith(LEARNS)]
    assert sum(len(_source(name).splitlines()) for name in of_memory) <= MAX_LINES_OF_MEMORY


def test_functions_import_no_memory_before_they_ask_it() -> None:
    modules, _ = loaded("turn")
    assert not {name for name in modules if name.startswith("layover.plugins.")}


@pytest.mark.parametrize("agents", ["no_such_module", "functions.user_agents"])
def test_the_collector_works_again_and_leaves_out_what_was_imported(agents: str) -> None:
    _, _, works, left_out, _ = prepared("turn", **FUNCTION, **ON_DEMAND, LAYOVER_AGENTS=agents)
    assert works
    assert left_out > 50_000


@pytest.mark.parametrize("function", FOLDERS)
def test_no_function_collects_while_it_is_imported(function: str) -> None:
    """A hundred collections otherwise, a tenth of the CPU of a cold start."""
    _, _, works, left_out, collections = prepared(function, **FUNCTION)
    assert works
    assert left_out > 10_000
    assert collections < 10


@pytest.mark.parametrize("function", FOLDERS)
def test_every_function_starts_without_heavy_imports_and_writes_its_lines_so(function: str) -> None:
    """Heavy modules are imported where they are used: a cold start pays for nothing else."""
    modules, _ = loaded(function, **FUNCTION)
    assert not modules & {*HEAVY}
    assert json.loads(started(function, **FUNCTION)[-1])["message"] == "after"


def test_the_collector_of_other_processes_is_left_alone() -> None:
    _, _, works, left_out, collections = prepared("turn")
    assert works
    assert left_out < 1_000
    assert collections > 10
