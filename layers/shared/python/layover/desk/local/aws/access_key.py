"""The access key of a runner. It is new at each start, and only processes of the runner get it: a request
without it comes from nobody that AWS would answer.

Programs of this machine can read it at `/_local/services`. Web pages cannot."""

import hmac
import re
import secrets
from typing import NamedTuple
from urllib.parse import parse_qs

_SIGNED = re.compile(r"^AWS4-HMAC-SHA256\s+Credential=(?P<id>\w{16,128})/")
_PRESIGNED_V4, _PRESIGNED_V2 = "X-Amz-Credential", "AWSAccessKeyId"


class AccessKey(NamedTuple):
    """Id and secret, in the form of AWS's."""

    id: str
    secret: str

    def variables(self) -> dict[str, str]:
        """Return the variables in which AWS's clients look for it."""
        return {"AWS_ACCESS_KEY_ID": self.id, "AWS_SECRET_ACCESS_KEY": self.secret}

    def is_in(self, authorization: str) -> bool:
        """Return whether the header `Authorization` of a signed request names this key. The signature itself
        is not checked: the id is as secret as what it was made with."""
        match = _SIGNED.match(authorization)
        return match is not None and hmac.compare_digest(match["id"], self.id)

    def is_in_query(self, query: str) -> bool:
        """Return whether the query of a presigned URL names this key. The URL's reader knows the id, so the
        signature has to be checked before the request is answered."""
        parameters = parse_qs(query)
        ids = [
            *(value.partition("/")[0] for value in parameters.get(_PRESIGNED_V4, ())),
            *parameters.get(_PRESIGNED_V2, ()),
        ]
        return len(ids) == 1 and hmac.compare_digest(ids[0].encode(), self.id.encode())


def make_access_key() -> AccessKey:
    """Return a key that nobody knows yet."""
    return AccessKey(f"LAYOVER{secrets.token_hex(16).upper()}", secrets.token_hex(32))
