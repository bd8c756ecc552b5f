"""One tool for each way in which a call may wait for persons."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from layover import Agent, Approval, ToolContext, tool


class Size(StrEnum):
    """A size of a parcel."""

    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    """Where a parcel goes."""

    street: Annotated[str, Field(min_length=5)]
    number: Annotated[int, Field(ge=1)]


class Parcel(BaseModel):
    """A form with a field of each kind."""

    to: Address
    size: Size
    kind: Literal["gift", "order"]
    on: date
    weight: Annotated[float, Field(gt=0, lt=0.5)]
    items: Annotated[list[str], Field(min_length=2)]
    returns_to: Address | None
    fragile: bool
    note: str = "none"


class ParcelOffer(BaseModel):
    """What a person sees who fills in the form."""

    carrier: str


@tool(needs_approval=True)
def pay(amount: float) -> str:
    """The person who asked decides."""
    return f"paid {amount:g}"


@tool(needs_approval=Approval(by=["finance"]))
def pay_by_others(amount: float) -> str:
    """A member of the group decides who did not ask."""
    return f"paid {amount:g}"


@tool(needs_approval=Approval(by=["finance", "board"], requester=True))
def pay_by_members(amount: float) -> str:
    """A member of a group decides, the person who asked included."""
    return f"paid {amount:g}"


@tool(needs_approval=Approval(by=["finance"], requester=True, quorum=2))
def pay_by_two(amount: float) -> str:
    """Two members of the group decide."""
    return f"paid {amount:g}"


@tool(needs_approval=Approval(by=["finance"], reason_required=True))
def pay_explained(amount: float) -> str:
    """A member of the group decides, and says why."""
    return f"paid {amount:g}"


@tool(suspend=ParcelOffer, resume=Parcel)
def send_parcel(ctx: ToolContext[Any, Parcel]) -> Any:
    """A person fills in a form."""
    return ctx.suspend(ParcelOffer(carrier="ox")) if ctx.resume is None else ctx.resume.size


@tool(suspend=ParcelOffer, resume=int)
def ask_number(ctx: ToolContext[Any, int]) -> Any:
    """A person answers with a number."""
    return ctx.suspend(ParcelOffer(carrier="ox")) if ctx.resume is None else ctx.resume


treasurer = Agent(
    name="treasurer",
    model="openai/fake-1",
    tools=[
        pay,
        pay_by_others,
        pay_by_members,
        pay_by_two,
        pay_explained,
        send_parcel,
        ask_number,
    ],
)
