"""The sample agents of every test that starts a system: one set, one ledger.

shop      what an author declares: each kind of tool and each part of memory
deciding  a tool for each way in which a call may wait for persons
durable   tools whose effects are counted while processes die
guarded   models that are away, and a hook that refuses, changes and suspends
keeping   tools and memories that store much"""

from support.agents.deciding import treasurer
from support.agents.durable import (
    bouncer,
    broker,
    foreman,
    learner,
    patient,
    stargazer,
    torture,
)
from support.agents.guarded import keyless, rescued, warden
from support.agents.keeping import archivist, hoarder
from support.agents.shop import (
    clerk,
    diarist,
    finder,
    forgetful,
    framed,
    inspector,
    keeper,
    note_observer,
    note_summariser,
    page_keeper,
    page_observer,
    page_reader,
    plain,
    scholar,
    seeker,
    support,
    thrifty,
    wide,
)

__all__ = [
    "archivist",
    "bouncer",
    "broker",
    "clerk",
    "diarist",
    "finder",
    "foreman",
    "forgetful",
    "framed",
    "hoarder",
    "inspector",
    "keeper",
    "keyless",
    "learner",
    "note_observer",
    "note_summariser",
    "page_keeper",
    "page_observer",
    "page_reader",
    "patient",
    "plain",
    "rescued",
    "scholar",
    "seeker",
    "stargazer",
    "support",
    "thrifty",
    "torture",
    "treasurer",
    "warden",
    "wide",
]
