"""Dice: what everything that draws a random number relies on."""

import re

import pytest

from layover.dice import SeededDice, SystemDice
from layover.ports import Dice


def seeded() -> Dice:
    return SeededDice(7)


@pytest.fixture(params=[SystemDice, seeded])
def dice(request: pytest.FixtureRequest) -> Dice:
    made: Dice = request.param()
    return made


def test_texts_are_as_long_as_their_size_says_and_fit_into_urls(dice: Dice) -> None:
    for _ in range(200):
        assert re.fullmatch(r"[0-9a-f]{32}", dice.hex(16))
        assert re.fullmatch(r"[A-Za-z0-9_-]{43}", dice.text(32))


def test_no_two_texts_are_the_same(dice: Dice) -> None:
    assert len({dice.hex(8) for _ in range(1_000)}) == 1_000
    assert len({dice.text(8) for _ in range(1_000)}) == 1_000


def test_every_bit_and_every_part_of_a_pause_comes_up(dice: Dice) -> None:
    drawn = [dice.bits(8) for _ in range(20_000)]
    assert set(drawn) == set(range(256))
    pauses = [dice.up_to(5.0) for _ in range(2_000)]
    assert {int(pause) for pause in pauses} == {0, 1, 2, 3, 4}
    assert all(0 <= pause < 5 for pause in pauses)
    assert dice.up_to(0) == 0


def test_one_seed_gives_one_order() -> None:
    one, same, other = SeededDice(1), SeededDice(1), SeededDice(2)
    first = [(one.hex(8), one.up_to(1), one.text(4)) for _ in range(10)]
    assert first == [(same.hex(8), same.up_to(1), same.text(4)) for _ in range(10)]
    assert first != [(other.hex(8), other.up_to(1), other.text(4)) for _ in range(10)]
