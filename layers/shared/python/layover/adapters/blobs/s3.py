"""Large objects on S3."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from layover.errors import RetryableError
from layover.ports import BlobFacts

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

ABSENT = frozenset({"NoSuchKey", "404"})
CHANGED = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})
"""Errors of a write that came after another writer's."""
NO_UPLOAD = frozenset({"NoSuchUpload", "404"})
WRONG_PARTS = frozenset({"InvalidPart", "InvalidPartOrder", "EntityTooSmall"})


class S3Blobs:
    """`ports.Blobs` over one bucket."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    async def get(self, key: str) -> bytes | None:
        """Return the bytes, or None."""
        tagged = await self.get_tagged(key)
        return None if tagged is None else tagged[0]

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        """Write an object, or replace it."""

        def write() -> Any:
            return self._client().put_object(
                Bucket=self._bucket, Key=key, Body=data, ContentType=content_type
            )

        await asyncio.to_thread(_send, write)

    async def delete(self, key: str) -> None:
        """Delete an object; a missing one is not an error."""

        def delete() -> Any:
            return self._client().delete_object(Bucket=self._bucket, Key=key)

        await asyncio.to_thread(_send, delete)

    async def put_file(self, key: str, file: IO[bytes], content_type: str) -> None:
        """Write the content of a file, in parts if it is large."""
        from boto3.s3.transfer import TransferConfig

        def write() -> None:
            file.seek(0)
            self._client().upload_fileobj(
                file,
                self._bucket,
                key,
                ExtraArgs={"ContentType": content_type},
                Config=TransferConfig(use_threads=False),
            )

        await asyncio.to_thread(_send, write)

    async def begin_parts(self, key: str, content_type: str) -> str:
        """Begin a multipart upload. The bucket drops one that nobody ends."""

        def begin() -> str:
            answer = self._client().create_multipart_upload(
                Bucket=self._bucket, Key=key, ContentType=content_type
            )
            return answer["UploadId"]

        upload: str = await asyncio.to_thread(_send, begin)
        return upload

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> str | None:
        """Write a part, or replace it."""

        def write() -> str:
            answer = self._client().upload_part(
                Bucket=self._bucket, Key=key, UploadId=upload, PartNumber=number, Body=data
            )
            return answer["ETag"]

        tag: str | None = await asyncio.to_thread(_send, write, NO_UPLOAD)
        return tag

    async def join_parts(self, key: str, upload: str, tags: Sequence[str]) -> bool:
        """Complete a multipart upload. (For a while, S3 answers a repetition as it did the first time.)"""
        parts: list[Any] = [{"PartNumber": n, "ETag": tag} for n, tag in enumerate(tags, start=1)]

        def join() -> bool:
            self._client().complete_multipart_upload(
                Bucket=self._bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}
            )
            return True

        return await asyncio.to_thread(_send, join, NO_UPLOAD | WRONG_PARTS) is True

    async def drop_parts(self, key: str, upload: str) -> None:
        """Abort a multipart upload."""

        def drop() -> Any:
            return self._client().abort_multipart_upload(
                Bucket=self._bucket, Key=key, UploadId=upload
            )

        await asyncio.to_thread(_send, drop, NO_UPLOAD)

    async def delete_prefix(self, prefix: str, before: datetime | None = None) -> None:
        """Delete everything whose key begins with this (and was written before then), a page at a time."""

        def delete() -> None:
            pages = self._client().get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=prefix):
                keys: list[Any] = [
                    {"Key": o["Key"]}
                    for o in page.get("Contents", [])
                    if before is None or o["LastModified"] < before
                ]
                if keys:
                    answer = self._client().delete_objects(
                        Bucket=self._bucket, Delete={"Objects": keys, "Quiet": True}
                    )
                    if answer.get("Errors"):
                        raise RetryableError("S3 did not delete everything")

        await asyncio.to_thread(_send, delete)

    async def head(self, key: str) -> BlobFacts | None:
        """Return its facts without reading it, or None."""

        def ask() -> BlobFacts:
            return _facts(self._client().head_object(Bucket=self._bucket, Key=key))

        facts = await asyncio.to_thread(_send, ask, ABSENT)
        return facts if isinstance(facts, BlobFacts) else None

    async def get_tagged(self, key: str) -> tuple[bytes, BlobFacts] | None:
        """The bytes with their tag, or None."""

        def read() -> tuple[bytes, BlobFacts]:
            answer = self._client().get_object(Bucket=self._bucket, Key=key)
            return answer["Body"].read(), _facts(answer)

        result = await asyncio.to_thread(_send, read, ABSENT)
        return result if isinstance(result, tuple) else None

    async def put_if(self, key: str, data: bytes, content_type: str, tag: str | None) -> bool:
        """Write if the object has this tag (None: if it does not exist)."""
        condition: Any = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}

        def write() -> bool:
            self._client().put_object(
                Bucket=self._bucket, Key=key, Body=data, ContentType=content_type, **condition
            )
            return True

        # S3 answers a condition on an object that has been deleted with 404.
        return await asyncio.to_thread(_send, write, ABSENT | CHANGED) is True

    async def copy_if(self, source: str, target: str, tag: str) -> bool:
        """Copy the object if it still has this tag."""

        def copy() -> bool:
            # Read first, because not every S3 supports conditions on copies (moto does not).
            if self._client().head_object(Bucket=self._bucket, Key=source)["ETag"] != tag:
                return False
            self._client().copy_object(
                Bucket=self._bucket,
                Key=target,
                CopySource={"Bucket": self._bucket, "Key": source},
                CopySourceIfMatch=tag,
            )
            return True

        return await asyncio.to_thread(_send, copy, ABSENT | CHANGED) is True

    async def keys(self, prefix: str) -> list[str]:
        """Return all keys that begin with this, in order."""

        def read() -> list[str]:
            pages = self._client().get_paginator("list_objects_v2")
            result = pages.paginate(Bucket=self._bucket, Prefix=prefix)
            return [o["Key"] for page in result for o in page.get("Contents", [])]

        result: list[str] = await asyncio.to_thread(_send, read)
        return result

    async def upload_url(self, key: str, content_type: str, size: int, lifetime: timedelta) -> str:
        """A presigned PUT: type and length are signed."""
        what = {"ContentType": content_type, "ContentLength": size}
        return await self._presign("put_object", key, what, lifetime)

    async def download_url(
        self, key: str, name: str, content_type: str, lifetime: timedelta
    ) -> str:
        """A presigned GET whose answer a browser saves and never displays."""
        what = {
            "ResponseContentDisposition": _attachment(name),
            "ResponseContentType": content_type,
            "ResponseCacheControl": "private, no-store",
        }
        return await self._presign("get_object", key, what, lifetime)

    async def _presign(
        self, operation: str, key: str, what: dict[str, Any], lifetime: timedelta
    ) -> str:
        """Made locally; the credentials may have to be fetched."""

        def sign() -> str:
            return self._client().generate_presigned_url(
                operation,
                Params={"Bucket": self._bucket, "Key": key, **what},
                ExpiresIn=int(lifetime.total_seconds()),
            )

        url: str = await asyncio.to_thread(_send, sign)
        return url


def _facts(answer: Any) -> BlobFacts:
    return BlobFacts(
        size=answer["ContentLength"],
        content_type=answer.get("ContentType", ""),
        tag=answer["ETag"],
        modified_at=answer["LastModified"],
    )


def _attachment(name: str) -> str:
    """RFC 6266: an ASCII name for every client, and the full name for clients that can read it."""
    plain = "".join(
        c if c.isascii() and c.isprintable() and c not in '"\\/%' else "_" for c in name
    )
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _send(request: Callable[[], Any], ignored: frozenset[str] = frozenset()) -> Any:
    """Return S3's answer; None for the errors that are `ignored`."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return request()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in ignored:
            return None
        raise RetryableError(f"S3 answered {code}") from error
    except BotoCoreError as error:
        raise RetryableError(f"S3 did not answer: {type(error).__name__}") from error
