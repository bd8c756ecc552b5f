"""UpdateExpressions, applied to an item."""

from collections import Counter

from layover.desk.local.aws.dynamodb.attributes import Item, Value, number, text_of
from layover.desk.local.aws.dynamodb.errors import ValidationError
from layover.desk.local.aws.dynamodb.evaluation import Names
from layover.desk.local.aws.dynamodb.parser import Tree

_WRONG_TYPE = "An operand in the update expression has an incorrect data type"


def update(item: Item, clauses: dict[str, list[Tree]], names: Names, keys: tuple[str, ...]) -> Item:
    """Return the new item. Every operand is read from the item before the update. Raises
    ValidationError."""
    _refuse_wrong_targets(clauses, names, keys)
    new = dict(item)
    for target, operand in clauses.get("SET", ()):
        new[names.attribute(target)] = _operand(operand, item, names)
    for target, operand in clauses.get("ADD", ()):
        name = names.attribute(target)
        new[name] = _sum(item.get(name), names.values[operand[1]])
    for target, operand in clauses.get("DELETE", ()):
        _take_out(new, names.attribute(target), names.values[operand[1]])
    for (target,) in clauses.get("REMOVE", ()):
        new.pop(names.attribute(target), None)
    return new


def _refuse_wrong_targets(
    clauses: dict[str, list[Tree]], names: Names, keys: tuple[str, ...]
) -> None:
    """Raise ValidationError for a change of the key, and for two changes of one attribute."""
    targets = Counter(names.attribute(each[0]) for actions in clauses.values() for each in actions)
    for name, count in targets.items():
        if name in keys:
            raise ValidationError(
                "One or more parameter values were invalid: Cannot update attribute "
                f"{name}. This attribute is part of the key"
            )
        if count > 1:
            raise ValidationError(
                "Invalid UpdateExpression: Two document paths overlap with each other; must remove or "
                "rewrite one of these paths"
            )


def _operand(tree: Tree, item: Item, names: Names) -> Value:
    match tree:
        case ("value", name):
            return names.values[name]
        case ("if_not_exists", name, other):
            current = item.get(names.attribute(name))
            return _operand(other, item, names) if current is None else current
        case ("list_append", left, right):
            a, b = _operand(left, item, names), _operand(right, item, names)
            if "L" not in a or "L" not in b:
                raise ValidationError(_WRONG_TYPE)
            return {"L": [*a["L"], *b["L"]]}
    value = item.get(names.attribute(tree)) if tree[0] == "name" else None
    if value is None:
        raise ValidationError(
            "The provided expression refers to an attribute that does not exist in the item"
        )
    return value


def _sum(current: Value | None, value: Value) -> Value:
    """Return a number with another one added, or a set with more elements."""
    ((kind, content),) = value.items()
    if kind not in ("N", "SS"):
        raise ValidationError(
            "Invalid UpdateExpression: Incorrect operand type for operator or function; operator: "
            f"ADD, operand type: {kind}"
        )
    if current is None:
        return value
    if kind not in current:
        raise ValidationError(_WRONG_TYPE)
    if kind == "SS":
        return {"SS": sorted({*current["SS"], *content})}
    return {"N": text_of(number(text_of(number(current["N"]) + number(content))))}


def _take_out(item: Item, name: str, value: Value) -> None:
    if "SS" not in value:
        raise ValidationError(
            "Invalid UpdateExpression: Incorrect operand type for operator or function; operator: "
            f"DELETE, operand type: {next(iter(value))}"
        )
    current = item.get(name)
    if current is None:
        return
    if "SS" not in current:
        raise ValidationError(_WRONG_TYPE)
    if rest := set(current["SS"]) - set(value["SS"]):
        item[name] = {"SS": sorted(rest)}
    else:
        del item[name]
