"""Bodies of items: where they go by their size."""

import random

import pytest

from layover.adapters.journal.items.codec import COMPRESS_ABOVE, SPILL_ABOVE, PayloadStore
from layover.errors import LayoverError
from layover.inmemory.blobs import InMemoryBlobs
from layover.keys import Keys

KEYS = Keys("ann")
FOLDER = KEYS.bodies("t", "r")
NOISE = random.Random(1).randbytes(SPILL_ABOVE * 2).hex()


@pytest.mark.parametrize("text", ["", "x", "ü" * (COMPRESS_ABOVE // 2)])
async def test_short_text_stays_readable(text: str) -> None:
    bodies = PayloadStore(InMemoryBlobs())
    packed = await bodies.pack(FOLDER, text)
    assert packed == {"b": text}
    assert await bodies.unpack(packed) == text


@pytest.mark.parametrize("text", ["x" * (COMPRESS_ABOVE + 1), NOISE[:500_000], "{}" * 5_000_000])
async def test_longer_text_is_compressed_into_the_item(text: str) -> None:
    bodies = PayloadStore(InMemoryBlobs())
    packed = await bodies.pack(FOLDER, text)
    assert isinstance(packed["b"], bytes)
    assert len(packed["b"]) <= SPILL_ABOVE
    assert await bodies.unpack(packed) == text


async def test_text_that_does_not_fit_goes_below_the_run_in_s3() -> None:
    blobs = InMemoryBlobs()
    packed = await PayloadStore(blobs).pack(FOLDER, NOISE)
    assert packed.keys() == {"blob", "sha256", "size"}
    assert packed["blob"] == KEYS.blob("threads", "t", "runs", "r", packed["sha256"])
    assert len(await blobs.get(packed["blob"]) or b"") == packed["size"]
    assert await PayloadStore(blobs).unpack({**packed, "sk": "META"}) == NOISE
    # The same text has the same name: writing it again costs no second object.
    assert await PayloadStore(blobs).pack(FOLDER, NOISE) == packed


async def test_another_bodys_bytes_are_refused() -> None:
    blobs = InMemoryBlobs()
    packed = await PayloadStore(blobs).pack(FOLDER, NOISE)
    await blobs.put(packed["blob"], b"x" * packed["size"], "application/zlib")
    with pytest.raises(LayoverError, match="does not match its hash"):
        await PayloadStore(blobs).unpack({**packed, "sk": "META"})


async def test_missing_bytes_are_named_by_their_item() -> None:
    packed = await PayloadStore(InMemoryBlobs()).pack(FOLDER, NOISE)
    with pytest.raises(LayoverError, match="sk=STEP#0001"):
        await PayloadStore(InMemoryBlobs()).unpack({**packed, "sk": "STEP#0001"})
