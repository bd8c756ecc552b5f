"""Links that are not, sent to the whole system: no file that it writes has one of them."""

from pathlib import Path
from urllib.parse import unquote

from support.hostile_links import SECRET, hostile_tokens, send_raw
from support.system.system import System

BODY = b'{"decision": "approve"}'
MIN_FRAGMENT = 12
"""Characters of a token that no file may have."""


def files_with(folder: Path, texts: list[str]) -> set[str]:
    """Names of the files below a folder that have one of these texts."""
    wanted = [text.encode("utf-8", "surrogatepass") for text in texts]
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(text in path.read_bytes() for text in wanted)
    }


def test_hostile_links_are_answered_alike_and_written_nowhere(system: System) -> None:
    links = hostile_tokens()
    assert len(links) >= 50
    answers = set()
    for link in links:
        for method, body in (("GET", b""), ("POST", BODY)):
            answer = send_raw(system.url, method, f"/decide/{link}", body)
            answers.add((answer.status, answer.body, answer.headers["content-type"]))
            assert not {"set-cookie", "x-injected"} & answer.headers.keys()
    [(status, _, kind)] = answers
    assert (status, kind) == (404, "application/problem+json")
    long = [link for link in links if len(link) >= MIN_FRAGMENT]
    texts = [SECRET, SECRET.swapcase(), *long, *map(unquote, long)]
    # The system writes what it was asked somewhere: the search would find it.
    assert send_raw(system.url, "GET", "/healthz").status == 200
    assert files_with(system.folder, [system.services["table"]])
    assert files_with(system.folder, texts) == set()
    assert not [line for line in system.lines if any(text in line for text in texts)]
