"""Large things on S3."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from layover.errors import RetryableError

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


class S3Blobs:
    """`ports.Blobs` over one bucket."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    async def get(self, key: str) -> bytes | None:
        """The bytes, or None."""

        def read() -> bytes:
            return self._client().get_object(Bucket=self._bucket, Key=key)["Body"].read()

        found = await asyncio.to_thread(_answered, read, {"NoSuchKey", "404"})
        return found if isinstance(found, bytes) else None

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        """Write, replacing what is there."""

        def write() -> Any:
            return self._client().put_object(
                Bucket=self._bucket, Key=key, Body=data, ContentType=content_type
            )

        await asyncio.to_thread(_answered, write, set[str]())

    async def delete_prefix(self, prefix: str) -> None:
        """Delete everything whose key begins with this, a page at a time."""

        def delete() -> None:
            pages = self._client().get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=prefix):
                keys: list[Any] = [{"Key": o["Key"]} for o in page.get("Contents", [])]
                if keys:
                    answer = self._client().delete_objects(
                        Bucket=self._bucket, Delete={"Objects": keys, "Quiet": True}
                    )
                    if answer.get("Errors"):
                        raise RetryableError("S3 did not delete everything")

        await asyncio.to_thread(_answered, delete, set[str]())


def _answered(request: Callable[[], Any], absent: set[str]) -> Any:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return request()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in absent:
            return None
        raise RetryableError(f"S3 answered {code}") from error
    except BotoCoreError as error:
        raise RetryableError(f"S3 did not answer: {type(error).__name__}") from error
