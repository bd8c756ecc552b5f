"""The errors of a suspended call's data against its schema, in words for the sender."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema import ValidationError

_MAX_RULE = 200
"""The most characters of a schema's rule in an error. For a longer rule, readers have the schema that the
call shows."""


def schema_errors(schema: dict[str, Any], data: Any) -> list[dict[str, Any]]:
    """Return one `{loc, msg, type}` for each problem. They quote the schema, which is the author's, but never
    the data."""
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # An empty registry, so that a `$ref` in an author's schema is never fetched.
    validator = Draft202012Validator(
        schema, registry=Registry(), format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    errors = [problem for error in validator.iter_errors(data) for problem in _problems(error)]
    # Each missing field has its own error, and each of these names all missing fields.
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
