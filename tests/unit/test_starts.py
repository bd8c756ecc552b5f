"""The budget of starts of Python: where a test counts, and what is said of too many."""

import sys
from pathlib import Path

from support.starts import MOST, Starts, folder_of, lines


def test_unit_and_integration_tests_count_to_their_own_folder() -> None:
    assert folder_of("tests/unit/desk/cli/test_init.py::test_a") == "tests/unit/desk"
    assert folder_of("tests/unit/test_house.py::test_a") == "tests/unit"
    assert folder_of("tests/infra/test_build.py::test_a[b/c]") == "tests/infra"


def test_a_folder_that_starts_more_than_it_may_is_named() -> None:
    assert lines(MOST) == []
    more = {folder: count + 1 for folder, count in MOST.items()}
    assert len(lines(more)) == len(MOST) > 0
    (line,) = lines({"tests/elsewhere": 1})
    assert line.startswith("tests/elsewhere starts Python 1 times in make test, 0 at most")


def test_a_start_of_a_process_counts_to_the_test_that_runs() -> None:
    starts = Starts()
    starts.hear("subprocess.Popen", (sys.executable, [], None, None))
    starts.folder = "tests/unit"
    starts.hear("open", ("a", "r", 0))
    starts.hear("subprocess.Popen", (sys.executable, [], None, None))
    starts.hear("subprocess.Popen", (Path(sys.executable).with_name("layover"), [], None, None))
    starts.hear("subprocess.Popen", ("/usr/bin/initdb", [], None, None))
    assert dict(starts.of) == {"tests/unit": 2}
