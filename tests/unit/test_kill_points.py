"""The points at which kill tests let a process die."""

import json
from pathlib import Path

import pytest

from support.kills import points

OWNER = "0" * 32
ORDER = {"function": "turn", "point": "write META*", "times": 1}


class Died(Exception):
    """Stands in the place of the process's death."""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> points._Trace:
    """An owner's trace in a process of `turn` whose death is an exception."""

    def die() -> None:
        raise Died

    monkeypatch.setenv("LAYOVER_TORTURE_FOLDER", str(tmp_path))
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "turn")
    monkeypatch.setattr(points, "_die", die)
    return points._Trace(OWNER)


def order(folder: Path, when: str, k: int) -> None:
    (folder / OWNER).with_suffix(".kill").write_text(json.dumps([{**ORDER, "when": when, "k": k}]))


def test_write_that_was_refused_and_made_again_ends_once(
    trace: points._Trace, tmp_path: Path
) -> None:
    order(tmp_path, "after", 1)
    trace.begin("write META =over")
    trace.begin("write META =over")
    with pytest.raises(Died):
        trace.end("write META =over")


def test_process_dies_at_the_beginning_that_the_order_names(
    trace: points._Trace, tmp_path: Path
) -> None:
    order(tmp_path, "before", 2)
    trace.begin("write META")
    trace.end("write META")
    with pytest.raises(Died):
        trace.begin("write META")


def test_process_dies_once(trace: points._Trace, tmp_path: Path) -> None:
    order(tmp_path, "after", 1)
    trace.begin("write META")
    with pytest.raises(Died):
        trace.end("write META")
    trace.begin("write META")
    trace.end("write META")


def test_other_points_and_functions_go_on(
    trace: points._Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order(tmp_path, "before", 1)
    trace.begin("write HEAD")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "resume")
    trace.begin("write META")
    lines = (tmp_path / OWNER).with_suffix(".trace").read_text().splitlines()
    assert [line.split("\t")[:4] for line in lines] == [
        [">", "turn", "write HEAD", "1"],
        [">", "resume", "write META", "1"],
    ]


def test_owner_who_is_left_out_has_no_trace_and_no_death(
    trace: points._Trace, tmp_path: Path
) -> None:
    order(tmp_path, "before", 1)
    (tmp_path / OWNER).with_suffix(".untraced").touch()
    trace.begin("write META")
    trace.end("write META")
    assert not (tmp_path / OWNER).with_suffix(".trace").exists()
