"""Validating, asking, calling, suspending, rendering: what the engine does with a tool."""

import asyncio
import contextvars
import threading
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from layover import Approval, ConfigurationError, ToolContext, tool
from layover.declare.context import SuspendRequest
from layover.declare.schemas.render import invalid_input, invalid_suspend_payload
from layover.declare.tools.approval import APPROVAL_SCHEMA
from layover.declare.tools.tool import Tool


class Kind(Enum):
    GIFT = "gift"


class Line(BaseModel):
    sku: str
    price: Decimal


class Offer(BaseModel):
    slots: list[date]


class Choice(BaseModel):
    slot: date


@tool
def order(line: Line, day: date, kind: Kind = Kind.GIFT) -> str:
    """Order."""
    return line.sku


@tool(suspend=Offer, resume=Choice)
async def book(ctx: ToolContext, people: int) -> str:
    """Book."""
    if ctx.resume is None:
        return ctx.suspend(Offer(slots=[date(2026, 1, 2)]))
    return f"{ctx.resume.slot} for {people}"


CTX = ToolContext.for_test()
ARGS = {"line": {"sku": "a", "price": 1.5}, "day": "2026-01-01"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("{oops", "Invalid tool input: Invalid JSON"),
        ("[1]", "Invalid tool input: "),
        ("not json at all", "Invalid tool input: Invalid JSON"),
        ('{"people": "\ud800"}', "Invalid tool input: people"),
        ({"people": "\ud800"}, "Invalid tool input: "),
        ({}, "Invalid tool input: people: Field required"),
        (None, "Invalid tool input: people: Field required"),
        ("", "Invalid tool input: people: Field required"),
        ({"people": "many"}, "Invalid tool input: people: Input should be a valid integer"),
        ({"people": None}, "Invalid tool input: people: Input should be a valid integer"),
        ({"people": 2, "pets": 1}, "Invalid tool input: pets: Extra inputs"),
        (7, "Invalid tool input: "),
    ],
)
def test_arguments_that_do_not_fit_say_which_and_why(args: Any, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        book.validate(args)
    assert invalid_input(caught.value).startswith(said)


def test_the_message_has_no_link_and_no_value() -> None:
    with pytest.raises(ValidationError) as caught:
        book.validate({"people": "hunter2"})
    assert "http" not in invalid_input(caught.value)
    assert "hunter2" not in invalid_input(caught.value)


def test_nested_fields_are_named() -> None:
    with pytest.raises(ValidationError) as caught:
        order.validate({**ARGS, "line": {"sku": "a", "price": "?"}})
    assert "line.price:" in invalid_input(caught.value)


def test_only_the_first_ten_problems_are_told() -> None:
    made = tool(lambda_of_twelve)
    with pytest.raises(ValidationError) as caught:
        made.validate({})
    assert invalid_input(caught.value).endswith("and 2 more")


def lambda_of_twelve(
    a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: int, j: int, k: int, m: int
) -> str:
    return ""


def test_arguments_become_python_values_with_defaults() -> None:
    args = order.validate(ARGS)
    assert args.kwargs == {
        "line": Line(sku="a", price=Decimal("1.5")),
        "day": date(2026, 1, 1),
        "kind": Kind.GIFT,
    }


def test_events_get_arguments_as_json() -> None:
    assert order.validate(ARGS).as_dict() == {
        "line": {"sku": "a", "price": "1.5"},
        "day": "2026-01-01",
        "kind": "gift",
    }


def test_raw_text_and_values_of_python_are_arguments_too() -> None:
    assert book.validate('{"people": "2"}').kwargs == {"people": 2}
    edited = {"line": Line(sku="a", price=Decimal(2)), "day": date(2026, 1, 1)}
    assert order.validate(edited).kwargs["line"].price == 2


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    @tool
    def collect(tags: list[str] = []) -> str:  # noqa: B006
        return ""

    collect.validate({}).kwargs["tags"].append("x")
    assert collect.validate({}).kwargs == {"tags": []}


# Approval


async def test_a_predicate_that_fails_lets_nothing_through() -> None:
    @tool(needs_approval=lambda args, ctx: args["nope"])
    def pay(amount: float) -> str:
        return ""

    with pytest.raises(KeyError):
        await pay.requires_approval(pay.validate({"amount": 1}), CTX)


@pytest.mark.parametrize("answer", [None, "", 0, [], "no", 1])
async def test_only_false_lets_a_call_run_unasked(answer: Any) -> None:
    async def asked_later(*_: Any) -> Any:
        return answer

    def pay(amount: float) -> str:
        return ""

    for rule in (lambda *_: answer, asked_later):
        for needs in (rule, Approval(by=["finance"], when=rule)):
            made = tool(needs_approval=needs)(pay)
            assert await made.requires_approval(made.validate({"amount": 1}), CTX)


async def test_true_always_needs_approval_and_false_never() -> None:
    def pay(amount: float) -> str:
        return ""

    for needs in (True, False):
        made = tool(needs_approval=needs)(pay)
        assert await made.requires_approval(made.validate({"amount": 1}), CTX) is needs


async def test_a_predicate_gets_python_numbers_and_dates_in_a_dict() -> None:
    seen: list[Any] = []

    def predicate(args: dict[str, Any], ctx: ToolContext) -> bool:
        seen.append((args, ctx))
        return bool(args["line"]["price"] > 1 and args["day"] < date(2027, 1, 1))

    made = tool(needs_approval=predicate)(order.fn)
    assert await made.requires_approval(made.validate(ARGS), CTX)
    assert seen[0][0]["line"] == {"sku": "a", "price": Decimal("1.5")}
    assert seen[0][1] is CTX


async def test_a_predicate_may_be_async() -> None:
    async def predicate(args: dict[str, Any], ctx: ToolContext) -> bool:
        return bool(args["amount"] > 100)

    @tool(needs_approval=predicate)
    def pay(amount: float) -> str:
        return ""

    assert await pay.requires_approval(pay.validate({"amount": 101}), CTX)
    assert not await pay.requires_approval(pay.validate({"amount": 100}), CTX)


def test_the_approval_schema_takes_a_bare_yes() -> None:
    import jsonschema

    jsonschema.validate({"approved": True}, APPROVAL_SCHEMA)
    jsonschema.validate({"approved": False, "args": None, "reason": "no"}, APPROVAL_SCHEMA)
    for wrong in ({}, {"approved": "yes"}, {"approved": True, "data": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, APPROVAL_SCHEMA)


# Calling


async def test_a_tool_that_exits_does_not_end_the_process() -> None:
    @tool
    def sync_exit() -> str:
        raise SystemExit(3)

    @tool
    async def async_exit() -> str:
        raise SystemExit("bye")

    for made in (sync_exit, async_exit):
        with pytest.raises(RuntimeError, match="tried to exit"):
            await made.invoke(made.validate({}), CTX)


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("done"), TimeoutError()])
async def test_the_tools_own_error_comes_out(error: Exception) -> None:
    @tool
    def fails() -> str:
        raise error

    expected = RuntimeError if isinstance(error, StopIteration) else type(error)
    with pytest.raises(expected):
        await fails.invoke(fails.validate({}), CTX)


async def test_a_plain_function_runs_beside_the_loop_with_the_callers_context() -> None:
    current = contextvars.ContextVar("current", default="")
    current.set("request 1")

    @tool
    def where() -> str:
        return f"{current.get()} {threading.current_thread().name}"

    assert await where.invoke(where.validate({}), CTX) == "request 1 layover-tool"


async def test_an_async_function_runs_on_the_loop() -> None:
    @tool
    async def where() -> bool:
        return asyncio.get_running_loop() is loop

    loop = asyncio.get_running_loop()
    assert await where.invoke(where.validate({}), CTX) is True


async def test_the_context_is_injected_under_any_name() -> None:
    @tool
    def who(a: int, anyone: ToolContext | None = None) -> str | None:
        assert anyone is not None
        return anyone.resource_id

    assert await who.invoke(who.validate({"a": 1}), CTX) == "user_test"


async def test_forty_blocking_tools_run_together() -> None:
    barrier = threading.Barrier(40)

    @tool
    def meet() -> int:
        return barrier.wait(timeout=60)

    calls = [meet.invoke(meet.validate({}), CTX) for _ in range(40)]
    assert sorted(await asyncio.wait_for(asyncio.gather(*calls), 60)) == list(range(40))


# Suspending


async def test_a_suspension_is_a_returned_value() -> None:
    result = await book.invoke(book.validate({"people": 2}), CTX)
    assert isinstance(result, SuspendRequest)
    assert book.suspension_payload(result.payload) == {"slots": ["2026-01-02"]}


async def test_a_resumed_call_gets_the_validated_data() -> None:
    choice = book.parse_resume({"slot": "2026-01-02"})
    result = await book.invoke(book.validate({"people": 2}), ToolContext.for_test(resume=choice))
    assert result == "2026-01-02 for 2"


@pytest.mark.parametrize("data", [None, {}, {"slot": "soon"}, "2026-01-02", [], {"slot": None}])
def test_resume_data_that_does_not_fit_is_refused(data: Any) -> None:
    with pytest.raises(ValidationError):
        book.parse_resume(data)


def test_resume_data_may_be_the_model_itself() -> None:
    assert book.parse_resume(Choice(slot=date(2026, 1, 2))) == Choice(slot=date(2026, 1, 2))


def test_a_payload_of_another_shape_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        book.suspension_payload({"slots": "all"})
    assert invalid_suspend_payload(caught.value).startswith("Invalid suspend payload: slots: ")


def test_a_payload_may_be_a_dict() -> None:
    assert book.suspension_payload({"slots": ["2026-01-02"]}) == {"slots": ["2026-01-02"]}


def test_a_tool_that_declared_no_suspension_cannot_suspend() -> None:
    with pytest.raises(ConfigurationError, match="does not declare suspend="):
        order.suspension_payload({})


def test_the_resume_schema_is_json() -> None:
    assert book.resume_schema == {
        "type": "object",
        "properties": {"slot": {"type": "string", "format": "date"}},
        "required": ["slot"],
    }


def test_suspend_and_resume_may_be_plain_types() -> None:
    @tool(suspend=str, resume=bool)
    def ask(ctx: ToolContext) -> str:
        return ctx.suspend("sure?")

    assert ask.suspension_payload("sure?") == "sure?"
    assert ask.parse_resume(True) is True
    assert ask.resume_schema == {"type": "boolean"}


# Rendering


def output_of(**options: Any) -> Tool:
    def fn(a: int) -> str:
        return ""

    return tool(**options)(fn)


def test_a_text_goes_to_the_model_bare_and_the_rest_as_json() -> None:
    made = output_of()
    assert made.show("so\nit is")[0] == "so\nit is"
    assert made.show(Line(sku="a", price=Decimal(1)))[0] == '{"sku":"a","price":"1"}'
    assert made.show(None)[0] == "null"


def test_to_model_output_shapes_what_the_model_sees_alone() -> None:
    made = output_of(to_model_output=lambda result: {"n": len(result)})
    assert made.show([1, 2])[0] == '{"n":2}'
    assert made.jsonable([1, 2]) == [1, 2]


def test_a_to_model_output_that_raises_is_heard() -> None:
    made = output_of(to_model_output=lambda result: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        made.show("x")


async def test_to_message_gets_the_result_or_the_arguments_too() -> None:
    async def both(args: dict[str, Any], result: Any) -> dict[str, Any]:
        return {"name": "done", "data": [args["a"], result]}

    made = output_of(to_message=both)
    assert await made.message(made.validate({"a": 1}), "r") == {"name": "done", "data": [1, "r"]}
    made = output_of(to_message=lambda result: {"name": "done", "data": date(2026, 1, 1)})
    assert await made.message(made.validate({"a": 1}), "r") == {
        "name": "done",
        "data": "2026-01-01",
    }


async def test_to_message_may_make_none() -> None:
    for made in (output_of(), output_of(to_message=lambda result: None)):
        assert await made.message(made.validate({"a": 1}), "r") is None


@pytest.mark.parametrize("wrong", ["text", {"data": 1}, {"name": 5}])
async def test_to_message_of_another_shape_is_an_error(wrong: Any) -> None:
    made = output_of(to_message=lambda result: wrong)
    with pytest.raises(TypeError, match="to_message"):
        await made.message(made.validate({"a": 1}), "r")
