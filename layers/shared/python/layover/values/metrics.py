"""The names of the system's metrics (CloudWatch namespace `Layover`). Dashboards and alarms rely on them: a
name is added here and never changed."""

from enum import StrEnum
from typing import Literal

NAMESPACE = "Layover"

Unit = Literal["Count", "Seconds", "Milliseconds", "Bytes"]
"""Units as CloudWatch spells them."""


END_LINE = "a run ended"
PAUSE_LINE = "the run waits for its provider"
"""Messages of the log of which CloudWatch makes metrics."""


class Metric(StrEnum):
    """Every metric, with the dimensions that it is counted by, in addition to `service`."""

    RECALL_SCOPE_CUT = "recall_scope_cut"
    """Semantic recall left the oldest texts of a scope out (docs/retrieval.md#scale). `agent`."""
    ENTRY_SCOPE_CUT = "entry_scope_cut"
    """A search left the oldest entries of a scope out. `agent`."""
    ENTRIES_STORED = "entries_stored"
    """Entries of episodic memory that runs added. `agent`."""
    ENTRIES_REFUSED = "entries_refused"
    """Proposed entries that were not stored. `agent`, `reason` (`memory.learns.rules.Refusal`)."""
    COMPACTION_WAITS = "compaction_waits"
    """A run waited because nothing had been compacted ahead (docs/behaviour.md#compaction-ahead). `agent`."""
    COMPACTION_FAILED = "compaction_failed"
    """A memory model failed, or returned nothing of use; the thread stayed unchanged. `agent`."""
    OBSERVATIONS_MADE = "observations_made"
    """Observations stored. `agent`."""
    TOKENS_COMPACTED = "tokens_compacted"
    """Tokens that a compaction removed from prompts: those of the messages, less those of the block.
    `agent`."""
    PUBLISH_FAILED = "publish_failed"
    """EventBridge did not take an event about a waiting call; the sweeper has it published later."""
    CHANNEL_REFUSED = "channel_refused"
    """A channel refused a message about a waiting call, for example since its address or its credentials are
    wrong: the log says which. `channel`."""
    DELETION_FAILED = "deletion_failed"
    """The sweeper could not erase a deleted thread for another reason than a passing fault. Somebody has to
    look: the log's `a deletion fails` names the thread."""
    APPROVAL_AGE = "approval_age"
    """Seconds that the oldest call of a suspended run has waited for a decision; counted about once an
    hour for each such run."""
