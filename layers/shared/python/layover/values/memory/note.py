"""Notes: working memory and profiles."""

from layover.values.base import Json, Time, Value

PROFILE = "profile"
"""The kind that its owner and the extractor of an agent write: what is learned late, of a turn before the
owner's last word, is dropped."""


class NoteKey(Value):
    """Names one row of `working_memory`: working notes or a profile.

    `kind`: working | profile. `scope`: resource | thread. `key`: the agent's name (`*`: shared), or the
    thread's id."""

    kind: str
    scope: str
    key: str


class Note(Value):
    """Working memory or a profile: text, or an object of a schema. Version 0: there is none yet."""

    key: NoteKey
    value: Json = None
    version: int = 0
    """Counts the writes since it was made; one that is made anew after a deletion begins at 1 again."""
    created_at: Time | None = None
    """The time of its making: another time, another note."""
    updated_at: Time | None = None
    run_id: str | None = None
    """The run that wrote it last; None where its owner did."""

    def same_as(self, other: "Note") -> bool:
        """Say whether the key was not written between these two readings of it."""
        return (self.created_at, self.version) == (other.created_at, other.version)


class NoteWrite(Value):
    """The result of a write. `note`: what is there now; `stored`: this write (or one that said the same)
    made it so. Neither stored nor a version: the note's thread is gone."""

    note: Note
    stored: bool
