"""Errors of a suspended call's data against its schema, in words for its sender."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema import ValidationError

_MAX_RULE = 200
"""Characters of a schema's rule in an error. Longer ones are left to the schema, which the call shows."""


def schema_errors(schema: dict[str, Any], data: Any) -> list[dict[str, Any]]:
    """Return one `{loc, msg, type}` for each problem. They quote the schema, which is the author's, and
    nothing of the data."""
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # A registry of its own: a `$ref` in an author's schema is never fetched.
    validator = Draft202012Validator(
        schema, registry=Registry(), format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    errors = [problem for error in validator.iter_errors(data) for problem in _problems(error)]
    # Each missing field has an error of its own, which names all of them.
    return list({json.dumps(error): error for error in errors}.values())


def _problems(error: "ValidationError") -> list[dict[str, Any]]:
    loc, rule = ["body", "data", *error.absolute_path], str(error.validator)
    if rule == "required" and isinstance(error.instance, dict):
        names: Any = error.validator_value
        absent = [name for name in names if name not in error.instance]
        return [{"loc": [*loc, name], "msg": "is required", "type": rule} for name in absent]
    rule_value = json.dumps(error.validator_value)
    wants = f": {rule_value}" if len(rule_value) <= _MAX_RULE else ""
    return [{"loc": loc, "msg": f"does not satisfy `{rule}{wants}`", "type": rule}]
