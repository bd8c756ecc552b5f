"""A library that is missing is named, with what to install if it is Layover's own."""

import pytest

from layover.desk.cli import main


def test_a_library_of_the_extra_that_a_command_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def imports() -> None:
        exec("import no_such_library", {"__name__": "layover.desk.cli.evals"})

    monkeypatch.setattr(main, "app", imports)
    with pytest.raises(SystemExit) as left:
        main.run()
    assert "pip install 'layover[local]'" in str(left.value)
    assert str(left.value).endswith("missing: no_such_library")


@pytest.mark.parametrize(
    ("module", "lacks"), [("agents", "no_such_library"), ("layover.desk.cli.evals", "layover.nix")]
)
def test_what_an_author_or_a_broken_release_lacks_is_no_missing_extra(
    module: str, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "app", lambda: exec(f"import {lacks}", {"__name__": module}))
    with pytest.raises(ModuleNotFoundError, match=lacks):
        main.run()
