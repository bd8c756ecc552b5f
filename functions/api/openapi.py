"""The OpenAPI document and the page that shows it. Imported only when one of them is requested."""

import json
from functools import cache
from typing import Any

from aws_lambda_powertools.event_handler import ApiGatewayResolver
from aws_lambda_powertools.event_handler.openapi.models import HTTPBearer, Server, Tag

from functions.api.corrections import correct
from functions.api.problems import Problem
from functions.api.reference import page
from functions.api.words import add_words
from layover.values.deployment.access import DISCOVERY, PROTECTED_RESOURCE, RESOURCE_HEADER, SLACK

_REFS = "#/components/schemas/{model}"
_DESCRIPTION = f"""Durable runs of LLM agents. Times are RFC 3339 in UTC with microseconds, ids are opaque
strings, errors are RFC 9457 problem documents. Somebody else's thread or run answers 404. A backend whose
token has the scope for it names the end user in the header `{RESOURCE_HEADER}`."""
_TAGS = {
    "agents": "The agents.",
    "threads": "Conversations and their messages.",
    "runs": "A run answers one input.",
    "approvals": "Calls that wait for a person.",
    "usage": "What the caller spent.",
    "audit": "What was decided, and what operators did, for auditors.",
    "operate": "All users' runs, for operators.",
    "memory": "What agents remember.",
    "me": "Everything that is stored about the caller.",
    "files": "Uploads for messages, and files that tools made.",
    "meta": "About the API itself.",
    "mcp": "Agents as tools of clients of the Model Context Protocol.",
    "chat": "Agents in the words of front ends: the AI SDK, AG-UI.",
}


@cache
def document(app: ApiGatewayResolver) -> str:
    """Return the OpenAPI 3.1 document of this app's routes, as JSON."""
    text = app.get_openapi_json_schema(
        title="Layover",
        version="1",
        openapi_version="3.1.0",
        description=_DESCRIPTION,
        servers=[Server(url="/")],
        tags=[Tag(name=name, description=what) for name, what in _TAGS.items()],
        security_schemes={"bearer": HTTPBearer(bearerFormat="JWT")},
        security=[{"bearer": []}],
    )
    spec = json.loads(text)
    correct(spec)
    spec = _with_problems(spec)
    add_words(spec)
    return json.dumps(spec)


@cache
def docs_page(app: ApiGatewayResolver) -> str:
    """Return the document as a page."""
    return page(json.loads(document(app)))


def _with_problems(spec: dict[str, Any]) -> dict[str, Any]:
    """Replace the framework's error schemas with our problem documents."""
    schemas = spec["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError", "ResponseValidationError"):
        schemas.pop(unused, None)
    schema = Problem.model_json_schema(ref_template=_REFS)
    schemas.update(schema.pop("$defs", {}))
    schemas["Problem"] = schema
    # The framework documents its own 422 for every route that validates; these routes take no input.
    for path in ("/healthz", DISCOVERY, PROTECTED_RESOURCE):
        spec["paths"][path]["get"]["responses"].pop("422")
    spec["paths"][SLACK]["post"]["responses"].pop("422")
    return spec
