"""Answers of the HTTP API, held against what /openapi.json says about them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

Json = dict[str, Any]


@dataclass(frozen=True)
class Response:
    """One answer of the HTTP API."""

    status: int
    headers: Mapping[str, str]
    body: Any
    seconds: float

    @property
    def kind(self) -> str:
        """The media type."""
        return self.headers.get("content-type", "").partition(";")[0]


class Documented:
    """The OpenAPI document, as the judge of answers."""

    def __init__(self, document: Json) -> None:
        self.document = document
        resource = Resource.from_contents(document, default_specification=DRAFT202012)
        self._registry = Registry().with_resource("urn:openapi", resource)
        self._paths = [
            (re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(path)) + r"\Z"), path)
            for path in sorted(document["paths"], key=lambda p: p.count("{"))
        ]
        self.seen: set[tuple[str, str, int]] = set()

    def check(self, method: str, path: str, answer: Response) -> None:
        """Fails for an answer that the document does not describe. Unknown operations pass."""
        template = next((t for pattern, t in self._paths if pattern.match(path)), None)
        if template is None:
            return
        operation = self.document["paths"][template].get(method.lower())
        if operation is None:
            return
        described = operation["responses"].get(str(answer.status))
        assert described, f"{method} {template} answers {answer.status}, undocumented: {answer}"
        self.seen.add((method, template, answer.status))
        content = described.get("content") or {}
        if not content:
            assert answer.body is None, f"{method} {template} has a body, undocumented"
            return
        assert answer.kind in content, f"{method} {template} {answer.status}: {answer.kind}"
        at = ["paths", template, method.lower(), "responses", str(answer.status)]
        pointer = "/".join(_escaped(p) for p in [*at, "content", answer.kind, "schema"])
        schema = {"$ref": f"urn:openapi#/{pointer}"}
        validator = Draft202012Validator(schema, registry=self._registry)
        errors = [f"{e.json_path}: {e.message:.300}" for e in validator.iter_errors(answer.body)]
        assert not errors, f"{method} {template} {answer.status}: {errors}"


def _escaped(part: str) -> str:
    quoted = part.replace("~", "~0").replace("/", "~1")
    return quoted.replace("{", "%7B").replace("}", "%7D")
