"""The JSON schema of `layover.toml`, for editors.

`PYTHONPATH=tests:. .venv/bin/python -m support.project_schema` writes it."""

import json
from pathlib import Path
from typing import Any

from layover.desk.cdk.settings import Settings
from layover.project import ProjectSettings

FILE = Path(__file__).parents[2] / "docs" / "reference" / "layover.schema.json"


def schema() -> dict[str, Any]:
    """Return the schema: the project's settings, and below `stages` those of a deployment."""
    document = ProjectSettings.model_json_schema()
    stage = Settings.model_json_schema()
    document["$defs"] |= stage.pop("$defs", {}) | {"Stage": stage}
    document["properties"]["stages"]["additionalProperties"] = {"$ref": "#/$defs/Stage"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document}


def text() -> str:
    """Return the file's text."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
