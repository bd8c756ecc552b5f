"""Lines of the functions' logs that the terminal shows."""

import json
from pathlib import Path

from layover.desk.local.functions.log_lines import LogWatch, format_entry


def line(**entry: object) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def test_only_warnings_of_ours_are_shown() -> None:
    for other in (line(level="INFO", message="x"), b"printed by a tool\n", b"[1]\n", b"\xff\n"):
        assert format_entry("turn", other) is None


def test_a_warning_is_shown_with_where_it_came_from_and_nothing_else_of_it() -> None:
    told = line(
        level="WARNING",
        message="tool pay failed with KeyError",
        run_id="run_1",
        where=["a.py:3 pay"],
        exception="KeyError: 'secret'",
    )
    entry = format_entry("turn", told)
    assert entry is not None
    assert entry.text == "warning turn: tool pay failed with KeyError run_id=run_1\n    a.py:3 pay"


def test_each_line_is_shown_once_and_whole_from_where_the_log_was(tmp_path: Path) -> None:
    log = tmp_path / "turn.log"
    told: list[str] = []
    log.write_bytes(line(level="ERROR", message="before"))
    watch = LogWatch([log, tmp_path / "none.log"], told.append)
    entry = line(level="ERROR", message="now")
    for piece in (entry[:9], entry[9:], b""):
        with log.open("ab") as file:
            file.write(piece)
        watch.look()
    assert told == ["error turn: now"]


def test_a_warning_about_an_agent_is_shown_once_for_all_functions(tmp_path: Path) -> None:
    logs = [tmp_path / "turn.log", tmp_path / "extract.log"]
    told: list[str] = []
    watch = LogWatch(logs, told.append)
    for n, log in enumerate(logs):
        log.write_bytes(line(level="WARNING", message="no embedder", agent="shop", run_id=f"r{n}"))
    watch.look()
    with logs[0].open("ab") as file:
        file.write(line(level="WARNING", message="no embedder", agent="other", run_id="r2"))
    watch.look()
    assert told == ["warning: agent shop: no embedder", "warning: agent other: no embedder"]
