"""The page `/docs`: the OpenAPI document as one small page, without scripts and without another host."""

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1.25rem; }
h2 { margin-top: 2.5rem; }
details { border-top: 1px solid #8884; padding: .4rem 0; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; }
pre { overflow: auto; font-size: .85em; background: #8881; padding: .75rem; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid #8884; padding: .25rem .75rem .25rem 0; vertical-align: top; }"""


_QUOTED = re.compile(r"`([^`]+)`")


def page(spec: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI document."""
    body = "\n".join([*_introduction(spec), *_operations(spec), *_schemas(spec)])
    title = escape(spec["info"]["title"])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}: API</title>\n<style>\n{_STYLE}\n</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _introduction(spec: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h1>{escape(spec['info']['title'])}</h1>"
    yield f"<p>{_prose(spec['info'].get('description', ''))}</p>"
    yield '<p>For tools: <a href="openapi.json">the same as an OpenAPI 3.1 document</a>.</p>'


def _operations(spec: Mapping[str, Any]) -> Iterator[str]:
    operations = [
        (method, path, operation)
        for path, item in spec["paths"].items()
        for method, operation in item.items()
    ]
    for tag in spec["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2>\n<p>{_prose(tag['description'])}</p>"
        for method, path, operation in operations:
            if tag["name"] in operation["tags"]:
                yield _operation(method, path, operation)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    heading = f"<b>{method.upper()}</b> <code>{escape(path)}</code>"
    summary = _prose(operation.get("summary", ""))
    parts = [f"<p>{_prose(operation.get('description', ''))}</p>"]
    parameters = [
        (f"{p['name']} ({p['in']})", p.get("description", ""), p.get("required", False))
        for p in operation.get("parameters", ())
    ]
    if body := operation.get("requestBody"):
        parameters.append(("body", _content(body), body.get("required", False)))
    parts.append(
        _table(
            (name, f"{text}{' Required.' if is_required else ''}")
            for name, text, is_required in parameters
        )
    )
    parts += [f"<pre>{text}</pre>" for text in _examples(operation)]
    answers = sorted(operation["responses"].items())
    parts.append(_table((code, f"{r['description']} {_content(r)}") for code, r in answers))
    return f"<details><summary>{heading} {summary}</summary>\n{''.join(parts)}</details>"


def _examples(operation: Mapping[str, Any]) -> Iterator[str]:
    for media in operation.get("requestBody", {}).get("content", {}).values():
        if "example" in media:
            yield escape(json.dumps(media["example"]), quote=False)


def _prose(text: str) -> str:
    """Return a description as HTML. Of Markdown, descriptions use only code in backticks."""
    return _QUOTED.sub(r"<code>\1</code>", escape(text))


def _table(rows: Iterator[tuple[str, str]]) -> str:
    cells = (f"<tr><td><code>{escape(a)}</code></td><td>{_prose(b)}</td></tr>" for a, b in rows)
    return f"<table>{''.join(cells)}</table>"


def _content(document: Mapping[str, Any]) -> str:
    """Return the content of bodies, by the names of their schemas."""
    schemas = (c.get("schema", {}) for c in document.get("content", {}).values())
    return ", ".join(str(s["$ref"]).rsplit("/", 1)[-1] for s in schemas if "$ref" in s)


def _schemas(spec: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Schemas</h2>"
    for name, schema in sorted(spec["components"]["schemas"].items()):
        text = escape(json.dumps(schema, indent=1), quote=False)
        yield f"<details><summary><code>{escape(name)}</code></summary><pre>{text}</pre></details>"
