"""Makes the recorded logs again."""

import asyncio

from support.logs import FOLDER, text_of
from support.logs.scenarios import SCENARIOS

for name, make in SCENARIOS.items():
    events = asyncio.run(make())
    (FOLDER / f"{name}.json").write_text(text_of(make.__doc__ or "", events))
