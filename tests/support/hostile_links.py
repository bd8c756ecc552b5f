"""Texts that an attacker, a scanner or a broken mail program puts where a link has its token."""

import socket
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

OWNER = "0123456789abcdef" * 2
SECRET = "Zx9-_kQ7" * 5 + "abc"


def hostile_tokens(run_id: str = "run_01jx", secret: str = SECRET) -> list[str]:
    """Fifty of them, as they stand in a path."""
    good = f"{OWNER}.{run_id}.{secret}"
    odd = [
        f"{secret}' OR '1'='1",
        f"{secret}'; DROP TABLE runs;--",
        f'{{"secret": "{secret}"}}',
        f"<script>alert('{secret}')</script>",
        f"<img src=x onerror={secret}>",
        f"${{jndi:ldap://{secret}}}",
        f"{{{{{secret}}}}}",
        f"%({secret})s",
        f"{secret}\r\nSet-Cookie: a=b",
        f"{secret}\nX-Injected: 1",
        f"{secret}\0",
        f"\0{secret}",
        f"{secret}\x1b[31m",
        f"{secret}\u202egnp",
        f"{secret}ü\u00df\u0130",
        f"{secret}\ud7ff\U0001f600",
        f"{secret} ",
        f" {secret}",
        f"{secret}\t",
        f"{secret}/../../approvals",
        f"../{secret}",
        f"{secret}/",
        f"/{secret}",
        f"{secret}\\..\\..",
        f"{secret}?a=b",
        f"{secret}#x",
        f"{secret};a=b",
        f"{secret}&a=b",
        f"{good}/",
        f"{good}.",
        f"{good}\n",
        f"{good}=",
        f".{good}",
        f"{good}{good}",
    ]
    plain = [
        secret,
        good,
        good[:-1],
        good[:-20],
        f"{good}A",
        good.swapcase(),
        good.upper(),
        f"{OWNER}.{run_id}.{secret.swapcase()}",
        f"{OWNER[:-1]}.{run_id}.{secret}",
        f"{OWNER}.run_other.{secret}",
        f"{OWNER}.{run_id}",
        f"{OWNER}..{secret}",
        f"{OWNER}.thread_1.{secret}",
        f"{OWNER}.run_{'x' * 500}.{secret}",
        secret * 100,
        f"%2e%2e%2f{secret}",
        f"{secret}%2f..%2f..",
        f"..%5c{secret}",
        f"{secret}%c0%af",
        f"{secret}%ff%fe",
        f"%252e%252e%252f{secret}",
    ]
    return [*plain, *(quote(text, safe="") for text in odd)]


@dataclass(frozen=True)
class Raw:
    """An answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes


def send_raw(url: str, method: str, target: str, body: bytes = b"", **headers: str) -> Raw:
    """Send a request whose target no client library has tidied up."""
    place = urlsplit(url)
    assert place.hostname
    assert place.port
    named = {"Host": place.netloc, "Connection": "close", "Accept": "application/json", **headers}
    if body:
        named |= {"Content-Length": str(len(body)), "Content-Type": "application/json"}
    head = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    with socket.create_connection((place.hostname, place.port), timeout=60) as line:
        line.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + body)
        data = b""
        while piece := line.recv(65_536):
            data += piece
    top, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = top.decode("latin-1").split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    found = {name.lower(): value for name, _, value in pairs}
    return Raw(int(first.split()[1]), found, rest)
