"""Output of commands on a console that lacks letters."""

import sys
from io import BytesIO, TextIOWrapper

import pytest

from layover.desk.cli import main


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("cp1252", "ü \\u8fd4 \\u2192 \\U0001f600"),
        ("cp932", "\\xfc 返 → \\U0001f600"),
        ("ascii", "\\xfc \\u8fd4 \\u2192 \\U0001f600"),
        ("utf-8", "ü 返 → \U0001f600"),
    ],
)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_letter_that_the_console_lacks_ends_no_command(
    encoding: str, shown: str, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = BytesIO()
    monkeypatch.setattr(sys, stream, TextIOWrapper(written, encoding, newline=""))

    def work() -> int:
        print("ü 返 → \U0001f600", file=getattr(sys, stream), flush=True)
        return 0

    monkeypatch.setattr(main, "app", work)
    with pytest.raises(SystemExit) as left:
        main.run()
    assert left.value.code == 0
    assert written.getvalue().decode(encoding) == f"{shown}\n"


def test_name_of_a_file_that_is_no_unicode_ends_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, "utf-8", newline=""))
    monkeypatch.setattr(main, "app", lambda: print(b"a\xff".decode("utf-8", "surrogateescape")))
    with pytest.raises(SystemExit):
        main.run()
    sys.stdout.flush()
    assert written.getvalue() == b"a\\udcff\n"
