"""S3 by moto, which keeps objects in memory: a request's changes are in the store before it is answered, and
are back in moto before the first request."""

import json
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from layover.clock import SystemClock
from layover.local.aws.storage import Storage
from layover.local.aws.wsgi import App, Environ, StartResponse
from layover.local.functions.invocation import ACCOUNT, REGION

_SCHEMA = """
CREATE TABLE IF NOT EXISTS s3_buckets (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS s3_objects (
    bucket TEXT NOT NULL, key TEXT NOT NULL, etag TEXT NOT NULL, modified TEXT NOT NULL,
    metadata TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (bucket, key)
);
"""
_CHANGING = frozenset({"PUT", "POST", "DELETE"})


class Objects:
    """The WSGI application for all that moto answers. It is imported at the first request: a start without
    files need not wait for it."""

    def __init__(self, storage: Storage, bucket: str) -> None:
        self._storage = storage
        self._bucket = bucket
        self._app: App | None = None
        # moto's PutObject looks and then writes: conditions need one change at a time.
        self._changes = threading.RLock()
        storage.create(_SCHEMA)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        app = self._load()
        if environ["REQUEST_METHOD"] not in _CHANGING or "HTTP_X_AMZ_TARGET" in environ:
            return app(environ, start_response)
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        bucket, _, key = path.lstrip("/").partition("/")
        with self._changes:
            chunks = list(app(environ, start_response))
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
    """Date objects by the system's clock: moto gives them the machine's own time."""
    import moto.s3.models

    models: Any = moto.s3.models
    models.utcnow = lambda: SystemClock().now().astimezone(UTC).replace(tzinfo=None)
