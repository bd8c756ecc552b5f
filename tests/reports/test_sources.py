"""Each report has a test, and the list of them is the one that the tests make."""

import pytest

from reports import SOURCES, Found, Report, each_test, report, tried, written


def test_the_list_of_reports_is_the_one_that_the_tests_make() -> None:
    """Write it with `PYTHONPATH=tests:. .venv/bin/python -m reports`."""
    assert SOURCES.read_text(encoding="utf-8") == written(tried())


def test_each_test_names_its_report_and_no_report_has_two() -> None:
    names = [name for *_, each in tried() for name in each.name.split(", ")]
    assert len(names) == len(set(names)) > 0
    assert not [test.__name__ for _, test, found in each_test() if found is None]


@pytest.mark.parametrize(("found", "why"), [(Found.LEFT, ""), (Found.RIGHT, "no time")])
def test_only_a_report_that_is_left_has_a_reason(found: Found, why: str) -> None:
    with pytest.raises(ValueError, match="a reason goes with a report that is left"):
        report("somebody/something#1", found, why)


def test_the_table_counts_each_domain() -> None:
    table = written(
        [
            ("mail", "An answer arrives.", Report("a/b#1", Found.RIGHT, held_back=True)),
            ("mail", "A cut is said.", Report("a/b#2", Found.LEFT, "no such port")),
        ]
    )
    assert "| mail | 2 | 1 | 0 | 1 | 1 of 1 |" in table
    assert "| a/b#2 | A cut is said. | left: no such port |" in table
