"""Random histories of one thread whose runs wait for decisions: `support.histories`, which also plays more of
them by a command."""

import pytest

from support.histories import play_all
from support.worlds.loops import played
from support.worlds.runs import Power
from support.worlds.talk import Talk


def test_nothing_is_lost_or_done_twice_while_runs_of_a_thread_wait() -> None:
    total = play_all(range(40))
    # Runs are set aside, processes die, calls are made, also by sub-agents, and branches begin.
    assert min(total[each] for each in ("aside", "deaths", "paid", "below", "branches")) > 5, total
    assert total["expired"] > 0


@pytest.mark.torture
def test_nothing_is_lost_or_done_twice_in_ten_thousand_histories() -> None:
    total = play_all(range(1_000, 11_000))
    assert total["aside"] > 1_000


def test_the_power_of_a_history_really_goes() -> None:
    talk = Talk(Power())

    async def scene() -> None:
        talk.power.cut_at = 5
        run_id = await talk.say("pay 1")
        await talk.rest()
        assert (await talk.meta(run_id)).waiting

    played(scene())
    assert talk.power.cuts == 1
