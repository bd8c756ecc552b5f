"""The key file of one machine: made once, readable by its owner only, and never silently replaced."""

import asyncio
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from layover.errors import ConfigurationError
from layover.plugins.reach.adapters.key_file import KeyFileSealer

CONTEXT = {"owner": "a-user"}


def seal(path: Path) -> str:
    return asyncio.run(KeyFileSealer(path).seal("a token", CONTEXT))


def test_key_is_made_on_first_use_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "connections.key"
    sealer = KeyFileSealer(path)
    assert not path.exists()
    asyncio.run(sealer.seal("a token", CONTEXT))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["connections.key"]


def test_many_that_start_at_once_have_one_key(tmp_path: Path) -> None:
    path, many = tmp_path / "connections.key", 8
    together = Barrier(many)

    def one(n: int) -> str:
        together.wait(30)
        return seal(path)

    with ThreadPoolExecutor(many) as pool:
        sealed = list(pool.map(one, range(many)))
    for each in sealed:
        assert asyncio.run(KeyFileSealer(path).open(each, CONTEXT)) == "a token"
    assert [each.name for each in tmp_path.iterdir()] == ["connections.key"]


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 44, b"A" * 100, b"!" * 44])
def test_file_that_is_no_key_is_named_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "connections.key"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=str(path)) as caught:
        seal(path)
    assert "connect again" in str(caught.value)
    assert path.read_bytes() == content


def test_key_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "connections.key").mkdir()
    with pytest.raises(ConfigurationError, match=r"connections\.key"):
        seal(tmp_path / "connections.key")


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"connections\.key"):
        seal(tmp_path / "file" / "connections.key")


def test_key_is_in_no_text_of_the_sealer(tmp_path: Path) -> None:
    path = tmp_path / "connections.key"
    sealer = KeyFileSealer(path)
    asyncio.run(sealer.seal("a token", CONTEXT))
    assert path.read_text().strip() not in f"{sealer!r} {vars(sealer)}"
