"""docs/reference/defaults.md is what the code generates."""

from pathlib import Path

from support.defaults_page import PAGE, page


def test_the_page_of_defaults_is_generated_from_the_code() -> None:
    path = Path(__file__).parents[2] / PAGE
    again = "write it again: PYTHONPATH=tests:. .venv/bin/python -m support.defaults_page"
    assert path.read_text("utf-8") == page(), again
