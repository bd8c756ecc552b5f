"""Notes: working memory and profiles."""

from layover.values.base import Json, Time, Value

PROFILE = "profile"
"""The kind that its owner and the extractor of an agent write. A late extraction of a turn before the owner's
last write is dropped."""


class NoteKey(Value):
    """Names one row of `working_memory`: working notes or a profile.

    `kind`: working | profile. `scope`: resource | thread. `key`: the agent's name (`*`: shared), or the
    thread's id."""

    kind: str
    scope: str
    key: str


def profile_key(agent: str) -> NoteKey:
    """Return the key of this agent's profile of its user."""
    return NoteKey(kind=PROFILE, scope="resource", key=agent)


class Note(Value):
    """Working memory or a profile: text, or an object of a schema. Version 0: nothing is stored yet."""

    key: NoteKey
    value: Json = None
    version: int = 0
    """The number of writes since it was made. A note that is made anew after a deletion begins at 1 again."""
    created_at: Time | None = None
    """The time at which it was made: another time means another note."""
    updated_at: Time | None = None
    run_id: str | None = None
    """The run that wrote it last; None if its owner did."""

    def same_as(self, other: "Note") -> bool:
        """Return whether the key was not written between these two reads."""
        return (self.created_at, self.version) == (other.created_at, other.version)


class NoteWrite(Value):
    """The result of a write. `note`: the note as it is now; `stored`: this write (or an equal one) made it
    so. Neither stored nor a version: the note's thread is gone."""

    note: Note
    stored: bool
