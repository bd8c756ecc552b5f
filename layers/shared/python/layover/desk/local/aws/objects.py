"""S3 by moto, which keeps objects in memory. A request's changes are in the store before the request is
answered, and are back in moto before the first request of the next runner."""

import json
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from layover.clock import SystemClock
from layover.desk.local.aws.access_key import AccessKey
from layover.desk.local.aws.presigned import is_as_signed
from layover.desk.local.aws.storage import Storage
from layover.desk.local.aws.wsgi import App, Environ, StartResponse
from layover.desk.local.functions.invocation import ACCOUNT, REGION

_SCHEMA = """
CREATE TABLE IF NOT EXISTS s3_buckets (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS s3_objects (
    bucket TEXT NOT NULL, key TEXT NOT NULL, etag TEXT NOT NULL, modified TEXT NOT NULL,
    metadata TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (bucket, key)
);
"""
_CHANGING = frozenset({"PUT", "POST", "DELETE"})
_NOT_AS_SIGNED = (
    b"<Error><Code>SignatureDoesNotMatch</Code><Message>The request is not the one that was signed, or its "
    b"time is over: send the content type and the length that were announced</Message></Error>"
)
_NO_SUCH_UPLOAD = (
    b"<Error><Code>NoSuchUpload</Code><Message>There is no such upload: it was joined or dropped, or the "
    b"system was started again in the meantime</Message></Error>"
)
_CORS = "access-control-"
_READABLE = (f"{_CORS}allow-origin", "*")
_PREFLIGHT = [
    _READABLE,
    (f"{_CORS}allow-methods", "GET, PUT"),
    (f"{_CORS}allow-headers", "content-type"),
    (f"{_CORS}max-age", "3000"),
]
"""The rules of the bucket that `infra/` makes. Any page may be answered: it was given the URL."""
_MOTO_API = "/moto-api"


class Objects:
    """The WSGI application for all requests that moto answers. It imports moto at the first request: a start
    without files need not wait for that. Unfinished uploads in parts do not survive a restart."""

    def __init__(self, storage: Storage, bucket: str, access_key: AccessKey) -> None:
        self._access_key = access_key
        self._storage = storage
        self._bucket = bucket
        self._app: App | None = None
        # moto's PutObject looks and then writes: a condition holds only with one change at a time.
        self._changes = threading.RLock()
        storage.create(_SCHEMA)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request, which is signed with the runner's key or has a presigned URL."""
        is_presigned = self._access_key.is_in_query(environ.get("QUERY_STRING", ""))
        if environ["PATH_INFO"].startswith(_MOTO_API):
            # It would empty the store, and change what the services answer.
            start_response("404 Not Found", [])
            return []
        if is_presigned and environ["REQUEST_METHOD"] == "OPTIONS":
            # A browser asks before it puts a file. It shows the URL, and not yet what was signed with it.
            start_response("200 OK", _PREFLIGHT)
            return []
        start_response = _with_cors(start_response, _READABLE if is_presigned else None)
        if is_presigned and not is_as_signed(environ, self._access_key):
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [_NOT_AS_SIGNED]
        app = self._load()
        if environ["REQUEST_METHOD"] not in _CHANGING or "HTTP_X_AMZ_TARGET" in environ:
            return app(environ, start_response)
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        bucket, _, key = path.lstrip("/").partition("/")
        with self._changes:
            if _has_no_upload(environ, bucket):
                start_response("404 Not Found", [("Content-Type", "application/xml")])
                return [_NO_SUCH_UPLOAD]
            chunks = list(app(environ, start_response))
            # Before the response: what S3 has acknowledged survives the end of the runner.
            self._keep(bucket, key)
            return chunks

    def _load(self) -> App:
        with self._changes:
            if self._app is None:
                from moto.core.base_backend import BackendDict
                from moto.moto_server.werkzeug_app import (
                    DomainDispatcherApplication,
                    create_backend_app,
                )

                BackendDict.reset()
                _install_clock()
                app: App = DomainDispatcherApplication(create_backend_app)
                self._restore()
                self._app = app
            return self._app

    def _restore(self) -> None:
        backend = _backend()
        with self._storage.reading() as connection:
            for (name,) in connection.execute("SELECT name FROM s3_buckets").fetchall():
                backend.create_bucket(name, REGION)
            query = "SELECT bucket, key, etag, modified, metadata, body FROM s3_objects"
            for bucket, key, etag, modified, metadata, body in connection.execute(query):
                restored_object = backend.put_object(
                    bucket, key, body, etag=etag, disable_notification=True
                )
                restored_object.set_metadata(json.loads(metadata))
                restored_object.last_modified = datetime.fromisoformat(modified)
        if self._bucket not in backend.buckets:
            backend.create_bucket(self._bucket, REGION)
            self._keep(self._bucket, "")

    def _keep(self, bucket: str, key: str) -> None:
        """Store moto's present state: this object, or without a key all of the bucket."""
        backend = _backend()
        moto_bucket = backend.buckets.get(bucket)
        with self._storage.transaction() as connection:
            of_bucket = "DELETE FROM s3_objects WHERE bucket = ?"
            if moto_bucket is None:
                connection.execute("DELETE FROM s3_buckets WHERE name = ?", (bucket,))
                connection.execute(of_bucket, (bucket,))
                return
            connection.execute("INSERT OR IGNORE INTO s3_buckets VALUES (?)", (bucket,))
            if not key:
                query = "SELECT key FROM s3_objects WHERE bucket = ?"
                old_keys = {row[0] for row in connection.execute(query, (bucket,))}
                for old_key in old_keys - moto_bucket.keys.keys():
                    connection.execute(f"{of_bucket} AND key = ?", (bucket, old_key))
                return
            moto_object = moto_bucket.keys.get(key)
            if moto_object is None or not hasattr(moto_object, "value"):
                connection.execute(f"{of_bucket} AND key = ?", (bucket, key))
                return
            row = (bucket, key, moto_object.etag.strip('"'), moto_object.last_modified.isoformat())
            query = "INSERT OR REPLACE INTO s3_objects VALUES (?, ?, ?, ?, ?, ?)"
            connection.execute(
                query, (*row, json.dumps(dict(moto_object.metadata)), moto_object.value)
            )


def _backend() -> Any:
    from moto.s3.models import s3_backends

    return s3_backends[ACCOUNT]["aws"]


def _install_clock() -> None:
    """Have moto date objects by the system's movable clock, not by the machine's own."""
    import moto.s3.models

    models: Any = moto.s3.models
    models.utcnow = lambda: SystemClock().now().astimezone(UTC).replace(tzinfo=None)


def _has_no_upload(environ: Environ, bucket: str) -> bool:
    """Return whether the request names an upload that is not there: moto fails with a KeyError."""
    parameters = parse_qs(environ.get("QUERY_STRING", ""))
    if environ["REQUEST_METHOD"] not in ("PUT", "POST") or "uploadId" not in parameters:
        return False
    moto_bucket = _backend().buckets.get(bucket)
    return moto_bucket is not None and parameters["uploadId"][0] not in moto_bucket.multiparts


def _with_cors(start_response: StartResponse, readable: tuple[str, str] | None) -> StartResponse:
    """Return a `start_response` that drops the headers in which moto lets every page read everything.
    `readable`: the header that a page gets instead."""

    def start(status: str, headers: list[tuple[str, str]], *more: object) -> object:
        passed = [pair for pair in headers if not pair[0].lower().startswith(_CORS)]
        return start_response(status, [*passed, readable] if readable else passed, *more)

    return start
