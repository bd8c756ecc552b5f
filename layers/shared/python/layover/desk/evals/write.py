"""Adding a case to a file of cases, which people write by hand: everything else in it stays as it is."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from layover.desk.evals.cases import Case, CaseFile
from layover.desk.evals.read import CasesInvalid, parse_cases
from layover.values.text import reveal

_WIDTH = 100


def with_case(text: str, file: Path, agent: str, case: Mapping[str, Any], note: str = "") -> str:
    """Return the text of the file with one case more, behind the others. `text`: empty for a new file.
    `note`: words for a comment above the case. A case whose name is taken gets a number. Raises CasesInvalid
    if the file is wrong, is another agent's, or is written in a way that nothing can be added to."""
    if not text.strip():
        fresh = {"agent": agent, "cases": [case]}
        if file.suffix == ".json":
            return _as_json(fresh)
        return f"agent: {_yaml_of(agent).strip()}\ncases:\n{_item(case, note, 2)}"
    earlier = parse_cases(text, file)
    if earlier.agent not in (None, agent):
        raise CasesInvalid(
            f"{file} has cases of {earlier.agent}, and the run is of {agent}: name another file"
        )
    names = {each.name for each in earlier.cases}
    name, number = str(case["name"]), 2
    while name in names:
        name, number = f"{case['name']} ({number})", number + 1
    case = {**case, "name": name}
    if file.suffix == ".json":
        whole = json.loads(text)
        whole["cases"].append(case)
        return _as_json(whole)
    longer = f"{text.rstrip()}\n{_item(case, note, _indent(text))}"
    added = CaseFile.model_validate({"cases": [case]}).cases
    if not _has_cases(longer, file, (*earlier.cases, *added)):
        raise CasesInvalid(
            f"{file}: a case can be added only where `cases` is the last key, with a line for each: "
            "move it to the end, or name another file"
        )
    return longer


def _has_cases(text: str, file: Path, cases: tuple[Case, ...]) -> bool:
    try:
        return parse_cases(text, file).cases == cases
    except CasesInvalid:
        return False


def _indent(text: str) -> int:
    """Return the column of the list's items."""
    import yaml

    root = yaml.compose(text, yaml.SafeLoader)
    cases = next(value for key, value in root.value if key.value == "cases")
    return int(cases.start_mark.column)


def _item(case: Mapping[str, Any], note: str, indent: int) -> str:
    lines = [f"# {line}" for line in reveal(note).splitlines()]
    first, *rest = _yaml_of(dict(case)).splitlines()
    lines += [f"- {first}", *(f"  {line}" if line else "" for line in rest)]
    return "".join(f"{' ' * indent}{line}\n" if line else "\n" for line in lines)


def _yaml_of(value: Any) -> str:
    import yaml

    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return str(text).removesuffix("...\n")


def _as_json(whole: Any) -> str:
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
