"""The base of all values."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainSerializer

from layover.clock import rfc3339

Time = Annotated[datetime, PlainSerializer(rfc3339, return_type=str, when_used="json")]
"""UTC, written as RFC 3339 with microseconds."""

Usd = Annotated[Decimal, PlainSerializer(float, return_type=float, when_used="json")]
"""US dollars, exact inside, a number on the wire."""

Json = Any
"""Anything that JSON can say."""


class Value(BaseModel):
    """Frozen; unknown fields are ignored, so that an older reader can read a newer record."""

    model_config = ConfigDict(frozen=True, extra="ignore")
