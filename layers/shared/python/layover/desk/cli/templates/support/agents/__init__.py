"""Your agents. Every `Agent` at the top level of this module is served."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from layover import Agent, ToolContext, tool


class Order(BaseModel):
    id: str
    item: str
    amount: float
    status: Literal["packed", "shipped", "delivered"]


ORDERS = {
    order.id: order
    for order in (
        Order(id="A-1001", item="desk lamp", amount=42.00, status="delivered"),
        Order(id="A-1002", item="bookshelf", amount=249.50, status="shipped"),
    )
}


@tool
def lookup_order(order_id: str) -> Order:
    """Look up an order by its number, for example A-1001."""
    if order_id not in ORDERS:
        raise LookupError(f"There is no order {order_id}.")  # the model reads this and goes on
    return ORDERS[order_id]


@tool(needs_approval=True)
def refund(order_id: str, amount: Annotated[float, Field(gt=0)], ctx: ToolContext) -> str:
    """Refund an amount in euros for an order. A person approves it."""
    order = lookup_order(order_id)
    if amount > order.amount:
        raise ValueError(f"{order_id} cost {order.amount:.2f} euros, less than {amount:.2f}.")
    # A payment service takes ctx.idempotency_key, so that no crash can pay twice.
    return f"Refunded {amount:.2f} euros for the {order.item}."


support = Agent(
    name="support",
    instructions=(
        "Answer as the friendly support of a furniture shop. Look an order up before you say anything"
        " about it. Answer in two or three sentences."
    ),
    tools=[lookup_order, refund],
)
