"""Large things by key: in memory, and on S3."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from layover.adapters.blobs.s3 import S3Blobs
from layover.errors import RetryableError
from layover.inmemory.blobs import InMemoryBlobs
from layover.keys import Keys
from layover.ports import Blobs
from layover.ports.blobs import MIN_PART
from support.aws.emulator import LocalAws

BYTES = "application/octet-stream"


@pytest.fixture(params=["memory", "s3"])
def blobs(request: pytest.FixtureRequest) -> Blobs:
    if request.param == "memory":
        return InMemoryBlobs()
    aws: LocalAws = request.getfixturevalue("aws")
    return S3Blobs(lambda: aws.client("s3"), aws.bucket)


@pytest.fixture
def keys(owner: str) -> Keys:
    return Keys(owner)


async def test_what_was_never_put_is_not_there(blobs: Blobs, keys: Keys) -> None:
    assert await blobs.get(keys.blob("runs", "r")) is None
    await blobs.delete_prefix(keys.blob("runs", "r"))


async def test_bytes_come_back_as_they_were(blobs: Blobs, keys: Keys) -> None:
    for name, data in (("empty", b""), ("all", bytes(range(256))), ("big", b"x" * 3_000_000)):
        await blobs.put(keys.blob(name), data, BYTES)
        assert await blobs.get(keys.blob(name)) == data


async def test_put_replaces_what_is_there(blobs: Blobs, keys: Keys) -> None:
    for data in (b"first", b"2"):
        await blobs.put(keys.blob("k"), data, BYTES)
    assert await blobs.get(keys.blob("k")) == b"2"


@pytest.mark.parametrize("name", ["a/b", "ü ü", "100%", "a+b&c=d?e#f", "..", "~x"])
async def test_odd_names_are_names_of_their_own(blobs: Blobs, keys: Keys, name: str) -> None:
    await blobs.put(keys.blob("runs", name), b"mine", BYTES)
    await blobs.put(keys.blob("runs", "other"), b"other", BYTES)
    assert await blobs.get(keys.blob("runs", name)) == b"mine"
    await blobs.delete_prefix(keys.blob("runs", name))
    assert await blobs.get(keys.blob("runs", name)) is None
    assert await blobs.get(keys.blob("runs", "other")) == b"other"


async def test_nothing_is_known_of_what_is_not_there(blobs: Blobs, keys: Keys) -> None:
    assert await blobs.head(keys.blob("k")) is None
    assert await blobs.get_tagged(keys.blob("k")) is None
    assert await blobs.keys(keys.blob("k")) == []
    assert not await blobs.copy_if(keys.blob("k"), keys.blob("c"), '"tag"')
    assert await blobs.get(keys.blob("c")) is None


async def test_a_conditional_put_is_refused_once_somebody_else_wrote(
    blobs: Blobs, keys: Keys
) -> None:
    key = keys.blob("k")
    assert not await blobs.put_if(key, b"x", BYTES, '"no such tag"')
    assert await blobs.put_if(key, b"1", BYTES, None)
    assert not await blobs.put_if(key, b"2", BYTES, None)
    found = await blobs.get_tagged(key)
    assert found is not None
    assert await blobs.put_if(key, b"2", BYTES, found[1].tag)
    assert not await blobs.put_if(key, b"3", BYTES, found[1].tag)
    assert await blobs.get(key) == b"2"


async def test_of_many_that_put_at_once_one_wins(blobs: Blobs, keys: Keys) -> None:
    key = keys.blob("k")
    for tag in (None, "now"):
        if tag is not None:
            found = await blobs.head(key)
            assert found is not None
            tag = found.tag
        puts = [blobs.put_if(key, f"{tag}{n}".encode(), BYTES, tag) for n in range(10)]
        won = [n for n, ok in enumerate(await asyncio.gather(*puts)) if ok]
        assert len(won) == 1
        assert await blobs.get(key) == f"{tag}{won[0]}".encode()


async def test_size_type_and_tag_are_known_without_reading(blobs: Blobs, keys: Keys) -> None:
    await blobs.put(keys.blob("k"), b"12345", "image/png")
    head = await blobs.head(keys.blob("k"))
    assert head is not None
    assert (head.size, head.content_type) == (5, "image/png")
    assert head.modified_at.tzinfo is not None
    assert await blobs.get_tagged(keys.blob("k")) == (b"12345", head)


async def test_a_copy_is_made_of_the_bytes_that_were_seen(blobs: Blobs, keys: Keys) -> None:
    source, target = keys.blob("ü", "a/b"), keys.blob("copy")
    await blobs.put(source, b"1", "image/png")
    seen = await blobs.head(source)
    assert seen is not None
    await blobs.put(source, b"22", "image/png")
    assert not await blobs.copy_if(source, target, seen.tag)
    newer = await blobs.head(source)
    assert newer is not None
    assert await blobs.copy_if(source, target, newer.tag)
    await blobs.put(source, b"333", "image/png")
    copied = await blobs.get_tagged(target)
    assert copied is not None
    assert (copied[0], copied[1].content_type) == (b"22", "image/png")


async def parts(blobs: Blobs, key: str, *datas: bytes) -> tuple[str, list[str]]:
    """An upload with these parts, and their tags."""
    upload = await blobs.begin_parts(key, "application/json")
    tags = [await blobs.put_part(key, upload, n, data) for n, data in enumerate(datas, start=1)]
    return upload, [tag for tag in tags if tag is not None]


async def test_an_object_of_parts_is_there_once_they_are_joined(blobs: Blobs, keys: Keys) -> None:
    key, first = keys.blob("exports", "ü"), b"1" * MIN_PART
    upload, tags = await parts(blobs, key, first, b"22")
    assert await blobs.get(key) is None
    assert await blobs.keys(keys.blob("")) == []
    assert await blobs.join_parts(key, upload, tags)
    stored = await blobs.get_tagged(key)
    assert stored is not None
    assert (stored[0], stored[1].content_type) == (first + b"22", "application/json")


async def test_a_part_that_is_written_again_replaces_the_first(blobs: Blobs, keys: Keys) -> None:
    key = keys.blob("k")
    upload, [old] = await parts(blobs, key, b"old")
    new = await blobs.put_part(key, upload, 1, b"new")
    assert new is not None
    assert not await blobs.join_parts(key, upload, [old])
    assert await blobs.get(key) is None
    assert await blobs.join_parts(key, upload, [new])
    assert await blobs.get(key) == b"new"


async def test_parts_behind_those_that_are_joined_do_not_count(blobs: Blobs, keys: Keys) -> None:
    upload, tags = await parts(blobs, keys.blob("k"), b"1", b"2")
    assert await blobs.join_parts(keys.blob("k"), upload, tags[:1])
    assert await blobs.get(keys.blob("k")) == b"1"


async def test_a_small_part_in_front_of_another_is_refused(blobs: Blobs, keys: Keys) -> None:
    upload, tags = await parts(blobs, keys.blob("k"), b"1" * (MIN_PART - 1), b"2")
    assert not await blobs.join_parts(keys.blob("k"), upload, tags)
    assert await blobs.get(keys.blob("k")) is None


async def test_an_upload_that_is_joined_or_dropped_is_gone(blobs: Blobs, keys: Keys) -> None:
    key = keys.blob("k")
    dropped, [tag] = await parts(blobs, key, b"1")
    for _ in range(2):
        await blobs.drop_parts(key, dropped)
    assert await blobs.put_part(key, dropped, 1, b"2") is None
    assert not await blobs.join_parts(key, dropped, [tag])
    joined, tags = await parts(blobs, key, b"3")
    assert await blobs.join_parts(key, joined, tags)
    assert await blobs.put_part(key, joined, 2, b"4") is None
    assert not await blobs.join_parts(key, joined, tags)
    await blobs.drop_parts(key, joined)
    assert await blobs.get(key) == b"3"


async def test_two_uploads_to_one_key_know_nothing_of_each_other(blobs: Blobs, keys: Keys) -> None:
    key = keys.blob("k")
    first, tags = await parts(blobs, key, b"first")
    second, _ = await parts(blobs, key, b"second")
    await blobs.drop_parts(key, second)
    assert await blobs.join_parts(key, first, tags)
    assert await blobs.get(key) == b"first"


async def test_one_is_deleted_and_not_those_that_begin_alike(blobs: Blobs, keys: Keys) -> None:
    for name in ("k", "k2"):
        await blobs.put(keys.blob(name), b"x", BYTES)
    for _ in range(2):
        await blobs.delete(keys.blob("k"))
    assert await blobs.keys(keys.blob("")) == [keys.blob("k2")]


async def test_keys_are_listed_in_order(blobs: Blobs, keys: Keys) -> None:
    names = [keys.blob("l", name) for name in ("b", "a/x", "c")]
    for name in names:
        await blobs.put(name, b"", BYTES)
    await blobs.put(keys.blob("m"), b"", BYTES)
    assert await blobs.keys(keys.blob("l") + "/") == sorted(names)


async def test_everything_below_a_prefix_is_deleted_and_nothing_beside_it(
    blobs: Blobs, keys: Keys
) -> None:
    stranger = Keys(f"{keys.owner}-stranger")
    inside = [keys.blob("runs", "r1", str(n)) for n in range(5)]
    beside = [keys.blob("runs", "r10", "x"), keys.blob("files", "r1"), stranger.blob("runs", "r1")]
    for key in (*inside, *beside):
        await blobs.put(key, b"x", BYTES)
    for _ in range(2):
        await blobs.delete_prefix(keys.blob("runs", "r1") + "/")
    assert [await blobs.get(key) for key in inside] == [None] * 5
    assert [await blobs.get(key) for key in beside] == [b"x"] * 3


class Paged:
    """A client whose lists have two keys a page (S3: a thousand)."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def get_paginator(self, operation: str) -> Any:
        pages = self._client.get_paginator(operation)
        size = {"PageSize": 2}
        return SimpleNamespace(paginate=lambda **a: pages.paginate(**a, PaginationConfig=size))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


async def test_more_than_a_page_is_deleted(aws: LocalAws, keys: Keys) -> None:
    client: Any = Paged(aws.client("s3"))
    blobs = S3Blobs(lambda: client, aws.bucket)
    names = [keys.blob("many", f"{n}") for n in range(5)]
    for name in names:
        await blobs.put(name, b"x", BYTES)
    await blobs.delete_prefix(keys.blob("many") + "/")
    assert [await blobs.get(name) for name in names] == [None] * 5


async def test_fault_of_s3_is_worth_another_try(aws: LocalAws, keys: Keys) -> None:
    nowhere = S3Blobs(lambda: aws.client("s3"), "no-such-bucket")
    with pytest.raises(RetryableError, match="NoSuchBucket"):
        await nowhere.get(keys.blob("k"))
    with pytest.raises(RetryableError, match="NoSuchBucket"):
        await nowhere.put(keys.blob("k"), b"", BYTES)
    with pytest.raises(RetryableError, match="NoSuchBucket"):
        await nowhere.delete_prefix(keys.blob("k"))
