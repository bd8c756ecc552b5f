"""Pairs of statements: what a truthful extractor says is replaced is, and a silent one loses nothing."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from eval.pairs import GROUPS, AskedPair, Fate, Pair, asked_pairs, pairs, play_pair
from eval.results import Results
from eval.run import Options, parse, real
from eval.scores import Score
from eval.watched import Provider, Watched
from layover.testing import ScriptedModel, fail, say
from layover.values.deployment.settings import Settings
from layover.values.prompt import Prompt, Reply

FORBIDDEN = {
    "The flight LH 430 leaves from gate B12.": "the name of a gate looks like that of a thing",
    "החוזה של הדירה מסתיים ב-31 במאי.": "a preposition stuck to a day makes it a code",
}
"""Earlier statements that a later one replaces in truth and not in code, with the reason."""
LANGUAGES = {"pl", "tr", "ko", "hi", "vi", "el", "fi", "he", "th", "sw", "hu", "uk"}
NAMED_BY_CODES = ("order", "server")
"""Sentences about things that codes name."""


def every_pair() -> Iterator[Pair]:
    yield from (pair for groups in GROUPS.values() for name in groups for pair in pairs(name))


def answer(pair: Pair, **says: Any) -> str:
    """An extractor's answer that keeps the later statement."""
    evidence = pair.message.text
    entry = {"evidence": evidence, "kind": "environment", "content": pair.new}
    return json.dumps({"entries": [{**entry, **says}]}, ensure_ascii=False)


def truthful(pair: Pair) -> str:
    return answer(pair, replaces=[1] if pair.replaces else [], same=[])


def test_there_are_pairs_of_every_kind_in_many_languages() -> None:
    assert len(list(every_pair())) >= 700
    assert sum(pair.replaces for pair in every_pair()) >= 330
    of_languages = Counter(pair.language for pair in pairs("languages"))
    assert of_languages.keys() == LANGUAGES
    assert set(of_languages.values()) == {6}
    true = Counter(pair.language for pair in pairs("languages") if pair.replaces)
    assert set(true.values()) == {4}
    assert len({pair.kind for pair in pairs("languages")}) == 6


def test_an_extractor_that_names_nothing_loses_nothing_and_replaces_nothing() -> None:
    assert [p for p in every_pair() if p.fate(answer(p)) is not Fate.STAND] == []


def test_a_truthful_extractor_is_believed_unless_other_codes_name_the_two() -> None:
    unmade = {p.old for p in every_pair() if p.replaces and p.fate(truthful(p)) is Fate.STAND}
    assert unmade == FORBIDDEN.keys()
    assert {p.fate(truthful(p)) for p in every_pair() if not p.replaces} == {Fate.STAND}
    assert Fate.LOST not in {p.fate(truthful(p)) for p in every_pair()}


def test_an_extractor_that_replaces_everything_replaces_no_thing_of_another_code() -> None:
    fates = {p: p.fate(answer(p, replaces=[1])) for p in every_pair()}
    assert Fate.LOST not in fates.values()
    of_codes = [p for p in pairs("sentences") if p.kind in NAMED_BY_CODES and not p.replaces]
    assert len(of_codes) == 48
    assert {fates[p] for p in of_codes} == {Fate.STAND}


def test_an_extractor_that_calls_everything_the_same_loses_nothing() -> None:
    fates = Counter(p.fate(answer(p, same=[1])) for p in every_pair())
    assert fates.keys() == {Fate.STAND, Fate.REPLACED}
    of_codes = [p for p in every_pair() if p.kind in NAMED_BY_CODES and not p.replaces]
    assert {p.fate(answer(p, same=[1])) for p in of_codes} <= {Fate.STAND}


# The same pairs asked of a model.


def asked() -> list[AskedPair]:
    return [pair for name in GROUPS for pair in asked_pairs(name)]


def test_a_model_is_asked_about_some_of_every_kind_and_all_languages() -> None:
    kinds = {(p.kind, p.replaces) for p in every_pair()}
    assert {(p.kind, p.replaces) for p in asked()} == kinds
    assert len([p for p in asked() if p.group == "languages"]) == 72
    assert len({p.id for p in asked()}) == len(asked()) <= 150


async def play(pair: AskedPair, text: str) -> Score:
    model = ScriptedModel([], background={"extractor": [say(text)]})
    return await play_pair(pair, "m", Watched(model))


async def measured(
    answered: Callable[[Pair], str], capsys: pytest.CaptureFixture[str]
) -> list[int]:
    """The last row that `make eval` prints of the pairs: asked, true, replaced, wrongly, lost, failed."""

    def reply(prompt: Prompt) -> Reply:
        request = prompt.messages[-1].text
        return say(
            answered(next(p for p in asked() if p.request("m").messages[-1].text == request))
        )

    provider = Provider(ScriptedModel([], background={"extractor": reply}), Settings(model="m"))
    options = parse(["pairs"])
    assert isinstance(options, Options)
    assert await real(options, provider, Results(None))
    rows = [row.split() for row in capsys.readouterr().out.splitlines() if row.startswith("all ")]
    return [sum(map(int, cells)) for cells in zip(*(row[1:] for row in rows), strict=True)]


async def test_a_truthful_model_gets_full_marks_as_far_as_code_lets_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    true = [pair.old for pair in asked() if pair.replaces]
    made = len([old for old in true if old not in FORBIDDEN])
    assert await measured(truthful, capsys) == [len(asked()), len(true), made, 0, 0, 0]


async def test_a_model_that_replaces_everything_is_found_fault_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, _, _, wrongly, *rest = await measured(lambda p: answer(p, replaces=[1]), capsys)
    others = len([pair for pair in asked() if not pair.replaces])
    assert others // 2 < wrongly < others
    assert rest == [0, 0]


@pytest.mark.parametrize("says", ['{"entries": []}', "I have noted it.", ""])
async def test_a_model_that_keeps_nothing_loses_every_later_statement(says: str) -> None:
    pair = asked()[0]
    score = await play(pair, says)
    assert (score.stored, score.found, score.wrong) == (0, 0, 0)
    assert score.remarks == [f"{pair.id}: {Fate.LOST}: {pair.old} | {pair.new}"]


async def test_a_model_that_repeats_what_is_known_has_not_kept_the_later_statement() -> None:
    pair = next(p for p in asked() if p.group == "languages" and not re.search(r"\d", p.old))
    entry = {"evidence": pair.message.text, "kind": "symptom", "content": pair.old.upper()}
    assert pair.fate(json.dumps({"entries": [entry]})) is Fate.LOST


async def test_a_model_that_fails_says_nothing_about_a_pair() -> None:
    watched = Watched(ScriptedModel([], background={"extractor": [fail("down", status=503)]}))
    score = await play_pair(asked()[0], "m", watched)
    assert (score.facts, watched.is_away) == (0, True)


def test_the_known_statement_is_entry_one_of_the_request() -> None:
    pair = asked()[0]
    sent = json.loads(pair.request("m").messages[-1].text)
    assert sent["known"] == {"1": pair.old}
    assert [each["text"] for each in sent["turn"]] == [pair.message.text]
