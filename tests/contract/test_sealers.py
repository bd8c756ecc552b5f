"""The contract of sealers: KMS, a key file, memory. A sealed text opens with its own context only."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layover.inmemory.sealer import InMemorySealer
from layover.plugins.reach.adapters.key_file import KeyFileSealer
from layover.plugins.reach.adapters.kms import KmsSealer
from layover.ports import Sealer
from support.aws.emulator import LocalAws, aws

__all__ = ["aws"]

MINE = {"owner": "a-user", "connection": "github"}
TEXTS = {
    "empty": "",
    "short": "gho_16C7e42F292c6912E7710c838347Ae178B4a",
    "unicode": "žluťoučký kůň 🐎\u0000\u2028\n",
    "lone-surrogate": "before \ud800 after",
    "as-long-as-a-chunk": "x" * 4_095,
    "one-longer": "x" * 4_096,
    # The boundary is within a character.
    "split-character": "x" * 4_094 + "🐎" * 3,
    "long": "0123456789" * 2_000,
    "long-unicode": "🐎" * 20_000,
}
CONTEXTS = {
    "another-user": {"owner": "another-user", "connection": "github"},
    "another-connection": {"owner": "a-user", "connection": "gitlab"},
    "less": {"owner": "a-user"},
    "more": {**MINE, "what": "tokens"},
    "none": {},
    "values-swapped": {"owner": "github", "connection": "a-user"},
    "joined-alike": {"owner": "a-user,connection=github"},
}


@pytest.fixture(params=["memory", "key-file", "kms"])
def sealer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sealer]:
    if request.param == "memory":
        yield InMemorySealer()
    elif request.param == "key-file":
        yield KeyFileSealer(tmp_path / "connections.key")
    else:
        aws: LocalAws = request.getfixturevalue("aws")
        key: str = request.getfixturevalue("key")
        yield KmsSealer(aws.services.client("kms"), key, "shop")


@pytest.fixture(scope="module")
def key(aws: LocalAws) -> str:
    """A key of KMS. moto takes a quarter of a second to make one."""
    key: Any = aws.client("kms").create_key()["KeyMetadata"]
    return str(key["Arn"])


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
async def test_text_comes_back_as_it_was(sealer: Sealer, text: str) -> None:
    assert await sealer.open(await sealer.seal(text, MINE), MINE) == text


async def test_order_of_the_context_does_not_matter(sealer: Sealer) -> None:
    sealed = await sealer.seal("a token", MINE)
    assert await sealer.open(sealed, dict(reversed(MINE.items()))) == "a token"


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS.keys())
@pytest.mark.parametrize(
    "text", [TEXTS["short"], TEXTS["long"], ""], ids=["short", "long", "empty"]
)
async def test_text_opens_with_no_other_context(
    sealer: Sealer, text: str, context: dict[str, str]
) -> None:
    sealed = await sealer.seal(text, MINE)
    with pytest.raises(ValueError, match="sealed"):
        await sealer.open(sealed, context)


async def test_text_opens_with_no_context_only_if_it_was_sealed_so(sealer: Sealer) -> None:
    sealed = await sealer.seal("a token", {})
    assert await sealer.open(sealed, {}) == "a token"
    with pytest.raises(ValueError, match="sealed"):
        await sealer.open(sealed, MINE)


@pytest.mark.parametrize("text", [TEXTS["short"], TEXTS["long"]], ids=["short", "long"])
async def test_changed_text_does_not_open(sealer: Sealer, text: str) -> None:
    sealed = await sealer.seal(text, MINE)
    # Near its end is what was sealed, and not only its frame.
    for place in (len(sealed) // 2, len(sealed) * 3 // 4, len(sealed) - 8):
        other = "A" if sealed[place] != "A" else "B"
        with pytest.raises(ValueError, match="sealed"):
            await sealer.open(sealed[:place] + other + sealed[place + 1 :], MINE)


@pytest.mark.parametrize("text", [TEXTS["short"], TEXTS["long"]], ids=["short", "long"])
async def test_text_that_is_cut_or_longer_does_not_open(sealer: Sealer, text: str) -> None:
    sealed = await sealer.seal(text, MINE)
    for changed in ("", sealed[:1], sealed[:-9], sealed + sealed, sealed + "AAAA", f"x{sealed}"):
        with pytest.raises(ValueError, match="sealed"):
            await sealer.open(changed, MINE)


@pytest.mark.parametrize(
    "text",
    ["", "gho_plain", "{}", "null", "\x00", "é" * 50, "kms1..", "kms1.a.b", "file1.", "open1."],
)
async def test_text_that_was_never_sealed_does_not_open(sealer: Sealer, text: str) -> None:
    with pytest.raises(ValueError, match="sealed"):
        await sealer.open(text, MINE)


async def test_error_has_nothing_of_the_text(sealer: Sealer) -> None:
    sealed = await sealer.seal("gho_secret", MINE)
    for changed, context in ((sealed, CONTEXTS["less"]), (f"x{sealed}", MINE), (sealed[:-9], MINE)):
        with pytest.raises(ValueError, match="sealed") as caught:
            await sealer.open(changed, context)
        said = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
        assert "gho_" not in said
        assert sealed not in said


async def test_same_text_is_sealed_at_once_by_many(sealer: Sealer) -> None:
    texts = [f"{n}" * 5_000 for n in range(8)]
    sealed = await asyncio.gather(*(sealer.seal(text, MINE) for text in texts))
    assert await asyncio.gather(*(sealer.open(each, MINE) for each in sealed)) == texts


def test_key_file_sealer_of_another_key_opens_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        sealed = await KeyFileSealer(tmp_path / "one.key").seal("a token", MINE)
        assert await KeyFileSealer(tmp_path / "one.key").open(sealed, MINE) == "a token"
        with pytest.raises(ValueError, match="sealed"):
            await KeyFileSealer(tmp_path / "other.key").open(sealed, MINE)

    asyncio.run(check())


@pytest.mark.parametrize("sealing", ["key-file", "kms"])
async def test_sealed_text_shows_nothing_and_is_never_the_same_twice(
    sealing: str, tmp_path: Path, aws: LocalAws, key: str
) -> None:
    sealer: Sealer = KeyFileSealer(tmp_path / "key")
    if sealing == "kms":
        sealer = KmsSealer(aws.services.client("kms"), key, "shop")
    first, second = [await sealer.seal("gho_secret", MINE) for _ in range(2)]
    assert first != second
    assert "gho_secret" not in first
    assert "Z2hvX3NlY3JldA" not in first  # in base64


# Chunks of a long text


def _swapped(chunks: list[str], other: list[str]) -> list[str]:
    return [chunks[1], chunks[0], *chunks[2:]]


def _dropped(chunks: list[str], other: list[str]) -> list[str]:
    return chunks[:-1]


def _doubled(chunks: list[str], other: list[str]) -> list[str]:
    return [*chunks, chunks[-1]]


def _mixed(chunks: list[str], other: list[str]) -> list[str]:
    return [chunks[0], *other[1:]]


@pytest.mark.parametrize("change", [_swapped, _dropped, _doubled, _mixed])
async def test_chunks_are_of_one_text_in_its_order(aws: LocalAws, key: str, change: Any) -> None:
    sealer = KmsSealer(aws.services.client("kms"), key, "shop")
    frames = [(await sealer.seal(text * 10_000, MINE)).split(".") for text in ("a", "b")]
    (kind, id, *chunks), (_, _, *other) = frames
    assert len(chunks) == len(other) == 3
    assert await sealer.open(".".join([kind, id, *chunks]), MINE) == "a" * 10_000
    with pytest.raises(ValueError, match="sealed"):
        await sealer.open(".".join([kind, id, *change(chunks, other)]), MINE)


async def test_text_of_another_deployment_with_the_same_key_does_not_open(
    aws: LocalAws, key: str
) -> None:
    client = aws.services.client("kms")
    sealed = await KmsSealer(client, key, "shop").seal("a token", MINE)
    with pytest.raises(ValueError, match="sealed"):
        await KmsSealer(client, key, "shop-test").open(sealed, MINE)
