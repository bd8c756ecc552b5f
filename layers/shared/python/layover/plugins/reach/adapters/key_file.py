"""The sealer of one machine: a key in a file next to the data that it seals. It keeps tokens out of copies of
the database, and not from whoever reads the whole folder."""

import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from layover.errors import ConfigurationError
from layover.plugins.reach.adapters.context import context_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KIND = "file1."
_KEY_BYTES = 32
_NONCE_BYTES = 12


class KeyFileSealer:
    """`ports.Sealer` by AES-256-GCM. `path`: the file of the key, which is made when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cipher: AESGCM | None = None

    async def seal(self, text: str, context: Mapping[str, str]) -> str:
        """See `ports.Sealer`. Raises ConfigurationError if the file is not a key."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        plain = text.encode("utf-8", "surrogatepass")
        sealed = nonce + self._load().encrypt(nonce, plain, context_bytes(context))
        return _KIND + urlsafe_b64encode(sealed).decode()

    async def open(self, sealed: str, context: Mapping[str, str]) -> str:
        """See `ports.Sealer`. Raises ConfigurationError if the file is not a key."""
        from cryptography.exceptions import InvalidTag

        try:
            kind, text = sealed[: len(_KIND)], sealed[len(_KIND) :]
            whole = urlsafe_b64decode(text.encode("ascii"))
            # Base64 has several texts for the same bytes.
            if kind != _KIND or urlsafe_b64encode(whole).decode() != text:
                raise ValueError
            nonce, rest = whole[:_NONCE_BYTES], whole[_NONCE_BYTES:]
            plain = self._load().decrypt(nonce, rest, context_bytes(context))
        except (ValueError, InvalidTag):
            # Without a cause: it would show what was sealed.
            raise ValueError("this was sealed by another key, or for something else") from None
        return plain.decode("utf-8", "surrogatepass")

    def _load(self) -> "AESGCM":
        if self._cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            try:
                self._cipher = AESGCM(self._key())
            except OSError as error:
                raise ConfigurationError(
                    f"the key file {self._path} cannot be read or made ({type(error).__name__}): give this "
                    "user the right to do so, or name another file in LAYOVER_CONNECTIONS_KEY"
                ) from error
        return self._cipher

    def _key(self) -> bytes:
        if not self._path.exists():
            self._make()
        text = self._path.read_bytes().strip()
        try:
            key = urlsafe_b64decode(text)
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES or urlsafe_b64encode(key) != text:
            raise ConfigurationError(
                f"{self._path} is not a key of Layover's: put the right file there, or remove it, and users "
                "have to connect again"
            )
        return key

    def _make(self) -> None:
        """Make the file, whole and with its key, unless another process was first."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            # Unlike a move, a link replaces no file.
            with suppress(FileExistsError):
                os.link(draft, self._path)
        finally:
            draft.unlink()
