"""UpdateExpressions, applied to an item."""

import copy
import itertools
from typing import Any

from layover.desk.local.aws.dynamodb.attributes import SET_ORDER, Item, Value
from layover.desk.local.aws.dynamodb.errors import ValidationError
from layover.desk.local.aws.dynamodb.evaluation import Names, add_numbers, find
from layover.desk.local.aws.dynamodb.parser import Tree

Path = tuple[str | int, ...]
_WRONG_TYPE = "An operand in the update expression has an incorrect data type"
_BAD_PATH = "The document path provided in the update expression is invalid for update"


def update(
    item: Item, clauses: dict[str, list[Tree]], names: Names, keys: tuple[str, ...]
) -> tuple[Item, list[Path]]:
    """Return the new item, and the paths that the expression names. Every operand is read from the item
    before the update. Raises ValidationError."""
    paths = [names.path(action[0]) for actions in clauses.values() for action in actions]
    _refuse_overlap(paths, keys)
    new = copy.deepcopy(item)
    for target, operand in clauses.get("SET", ()):
        _set(new, names.path(target), _operand(operand, item, names))
    for target, operand in clauses.get("ADD", ()):
        _add(new, names.path(target), names.values[operand[1]])
    for target, operand in clauses.get("DELETE", ()):
        _take_out(new, names.path(target), names.values[operand[1]])
    # From the end of a list to its beginning: a removal changes the indexes of all later elements.
    for (target,) in sorted(
        clauses.get("REMOVE", ()), key=lambda a: _last(names.path(a[0])), reverse=True
    ):
        _remove(new, names.path(target))
    return new, paths


def _last(path: Path) -> int:
    return path[-1] if isinstance(path[-1], int) else -1


def _refuse_overlap(paths: list[Path], keys: tuple[str, ...]) -> None:
    for path in paths:
        if path[0] in keys:
            raise ValidationError(
                "One or more parameter values were invalid: Cannot update attribute "
                f"{path[0]}. This attribute is part of the key"
            )
    in_order = sorted(paths, key=lambda path: [(str(type(part)), part) for part in path])
    for one, other in itertools.pairwise(in_order):
        if other[: len(one)] == one:
            raise ValidationError(
                "Invalid UpdateExpression: Two document paths overlap with each other; must remove or "
                "rewrite one of these paths"
            )


def _operand(tree: Tree, item: Item, names: Names) -> Value:
    match tree:
        case ("value", name):
            return names.values[name]
        case ("if_not_exists", path, other):
            current = find(item, names.path(path))
            return _operand(other, item, names) if current is None else current
        case ("list_append", left, right):
            a, b = _operand(left, item, names), _operand(right, item, names)
            if "L" not in a or "L" not in b:
                raise ValidationError(_WRONG_TYPE)
            return {"L": [*a["L"], *b["L"]]}
        case ("+" | "-", left, right):
            sign = 1 if tree[0] == "+" else -1
            return add_numbers(_operand(left, item, names), _operand(right, item, names), sign)
        case ("path", _):
            value = find(item, names.path(tree))
            if value is not None:
                return value
            raise ValidationError(
                "The provided expression refers to an attribute that does not exist in the item"
            )
    raise ValidationError("Invalid UpdateExpression: Syntax error")


def _holder(item: Item, path: Path) -> Any:
    """Return the map or list that holds the last part of a path. Raises ValidationError if there is none."""
    if len(path) == 1:
        return item
    value = find(item, path[:-1])
    kind = "M" if isinstance(path[-1], str) else "L"
    if value is None or kind not in value:
        raise ValidationError(_BAD_PATH)
    return value[kind]


def _set(item: Item, path: Path, value: Value) -> None:
    holder, last = _holder(item, path), path[-1]
    # An operand may be a part of the old item: a later clause must not change both.
    value = copy.deepcopy(value)
    if isinstance(last, int) and last >= len(holder):
        # DynamoDB appends, however far beyond the end the index is.
        holder.append(value)
    else:
        holder[last] = value


def _remove(item: Item, path: Path) -> None:
    try:
        holder = _holder(item, path)
    except ValidationError:
        if len(path) > 1 and find(item, path[:-1]) is None and find(item, path[:1]) is None:
            raise
        return
    if isinstance(path[-1], str):
        holder.pop(path[-1], None)
    elif path[-1] < len(holder):
        del holder[path[-1]]


def _add(item: Item, path: Path, value: Value) -> None:
    current = find(item, path)
    ((kind, content),) = value.items()
    if kind == "N":
        _set(item, path, add_numbers({"N": "0"} if current is None else current, value))
    elif kind in SET_ORDER:
        if current is not None and kind not in current:
            raise ValidationError(_WRONG_TYPE)
        whole = {*(current or {kind: ()})[kind], *content}
        _set(item, path, {kind: sorted(whole, key=SET_ORDER[kind])})
    else:
        raise ValidationError(
            "Invalid UpdateExpression: Incorrect operand type for operator or function; operator: "
            f"ADD, operand type: {kind}"
        )


def _take_out(item: Item, path: Path, value: Value) -> None:
    ((kind, content),) = value.items()
    if kind not in SET_ORDER:
        raise ValidationError(
            "Invalid UpdateExpression: Incorrect operand type for operator or function; operator: "
            f"DELETE, operand type: {kind}"
        )
    current = find(item, path)
    if current is None:
        return
    if kind not in current:
        raise ValidationError(_WRONG_TYPE)
    if rest := set(current[kind]) - set(content):
        _set(item, path, {kind: sorted(rest, key=SET_ORDER[kind])})
    else:
        _remove(item, path)
