"""S3 as the functions and a browser use it."""

import asyncio
import io
from datetime import timedelta

import httpx2
import pytest

from layover.adapters.blobs.s3 import S3Blobs
from layover.desk.local.aws.emulator import BUCKET_NAME

from .conftest import Served


async def test_bytes_go_up_and_down_by_presigned_urls(served: Served) -> None:
    client = served.client("s3")
    where = {"Bucket": BUCKET_NAME, "Key": "u/h/files/a b.bin"}
    up = client.generate_presigned_url("put_object", Params=where | {"ContentType": "image/png"})
    down = client.generate_presigned_url(
        "get_object", Params=where | {"ResponseContentDisposition": "attachment"}
    )
    async with httpx2.AsyncClient(verify=False) as http:
        sent = await http.put(up, content=b"\x00\xff" * 5000, headers={"Content-Type": "image/png"})
        assert sent.status_code == 200
        got = await http.get(down)
    assert got.content == b"\x00\xff" * 5000
    assert got.headers["content-type"] == "image/png"
    assert got.headers["content-disposition"] == "attachment"


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"12345", "image/png", 200),
        (b"123456", "image/png", 403),
        (b"1234", "image/png", 403),
        (b"12345", "text/html", 403),
    ],
)
async def test_an_upload_has_the_length_and_the_type_that_were_signed(
    served: Served, content: bytes, kind: str, status: int
) -> None:
    blobs = S3Blobs(served.signing, BUCKET_NAME)
    url = await blobs.upload_url("u/h/an öbject+~.png", "image/png", 5, timedelta(minutes=5))
    async with httpx2.AsyncClient(verify=False) as http:
        sent = await http.put(url, content=content, headers={"Content-Type": kind})
    assert sent.status_code == status, sent.text


async def test_objects_are_put_headed_listed_and_deleted(served: Served) -> None:
    client = served.client("s3")

    def work() -> None:
        body = io.BytesIO(b"x" * 300_000)
        client.put_object(Bucket=BUCKET_NAME, Key="big/1", Body=body, Metadata={"sha_256": "s"})
        head = client.head_object(Bucket=BUCKET_NAME, Key="big/1")
        assert head["ContentLength"] == 300_000
        assert head["Metadata"] == {"sha_256": "s"}
        listed = client.list_objects_v2(Bucket=BUCKET_NAME, Prefix="big/")["Contents"]
        assert [each["Key"] for each in listed] == ["big/1"]
        client.delete_objects(Bucket=BUCKET_NAME, Delete={"Objects": [{"Key": "big/1"}]})
        assert client.list_objects_v2(Bucket=BUCKET_NAME, Prefix="big/")["KeyCount"] == 0

    await asyncio.to_thread(work)
