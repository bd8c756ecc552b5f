"""A pytest that has none of our fixtures and settings, as somebody else runs a contract in it."""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
INI = """
[pytest]
addopts = --strict-markers --strict-config
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""

Outcomes = dict[str, dict[str, str]]
"""By class and test: the message of its failure, "" if it passed."""


def outcomes_of(folder: Path, tests: str, *paths: Path) -> Outcomes:
    """Run a file of tests, some of which have to fail, in an empty folder. `paths`: where it finds what it
    imports, besides the repository and the layer."""
    (folder / "pytest.ini").write_text(INI)
    (folder / "test_contract.py").write_text(tests)
    plugins = ["-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider"]
    path = os.pathsep.join(str(p) for p in (ROOT, *paths, ROOT / "layers/shared/python"))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "--tb=short", "--junitxml=outcomes.xml"],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout[-3000:] + run.stderr[-3000:]
    found: Outcomes = defaultdict(dict)
    for case in ElementTree.parse(folder / "outcomes.xml").iter("testcase"):
        failure = case.find("failure")
        message = "" if failure is None else failure.get("message", "")
        found[case.get("classname", "").rpartition(".Test")[2]][case.get("name", "")] = message
    return found
