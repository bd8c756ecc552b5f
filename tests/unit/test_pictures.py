"""Pictures that pages mark as drawn are what the code draws."""

from pathlib import Path

import pytest

from support.pictures import PAGES, PICTURES, again

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", PAGES)
def test_pictures_of_a_page_are_drawn_from_the_code(page: str) -> None:
    hint = "draw them again: PYTHONPATH=tests:. .venv/bin/python -m support.pictures"
    assert (ROOT / page).read_text("utf-8") == again(page), hint


def test_every_picture_is_on_a_page() -> None:
    pages = "".join((ROOT / page).read_text("utf-8") for page in PAGES)
    assert [name for name in PICTURES if f"<!-- drawn: {name} -->" not in pages] == []
