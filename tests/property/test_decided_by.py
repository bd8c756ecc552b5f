"""What a person decides by: every name and value is there, or nobody decides there."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from layover.approvals.decide import Verdict
from layover.clock import ManualClock
from layover.plugins.people.channels.slack.block_kit import FORMS, CallRef
from layover.plugins.people.channels.slack.forms import form_view
from layover.plugins.people.channels.slack.sender import message_blocks
from layover.plugins.people.channels.slack.twin_rules import check_blocks, check_view
from layover.plugins.people.words import MAX_ARGUMENT
from layover.values.decision import ApprovalRule
from layover.values.runs.run import SuspensionKind
from support.examples import examples, share
from support.slack import LINKS, buttons, make_notice, visible

DECIDES = {"Approve", "Deny", "Approve with a reason", "Deny with a reason", "Answer", "Decline"}
_SIZES = st.sampled_from([1, 3, 60, 300, 600, MAX_ARGUMENT, MAX_ARGUMENT + 1, 3_000, 30_000])
_TEXTS = st.builds(lambda mark, n: mark * n, st.sampled_from(["&", "<", "x", "\U0001f600"]), _SIZES)
_VALUES = _TEXTS | st.integers(1_000, 10**9) | st.lists(_TEXTS, min_size=1, max_size=3)
ARGS = st.lists(_VALUES, min_size=1, max_size=25).map(
    lambda values: {f"name{n}": value for n, value in enumerate(values)}
)


def missing(args: dict[str, Any], seen: str) -> list[str]:
    """The names of the arguments that a person does not see whole."""
    texts = {name: value if isinstance(value, list) else [value] for name, value in args.items()}
    return [
        name
        for name, values in texts.items()
        if name not in seen or not all(str(value) in seen for value in values)
    ]


@examples(10_000 // share(25))
@given(ARGS, st.sampled_from(SuspensionKind), st.booleans())
def test_slack_has_every_argument_or_no_button(
    args: dict[str, Any], kind: SuspensionKind, by_reason: bool
) -> None:
    rule = ApprovalRule(by=("finance",), reason_required=by_reason)
    is_input = kind is SuspensionKind.INPUT
    wish: Any = {"args": {}, "payload": args} if is_input else {"args": args}
    notice = make_notice(ManualClock(), rule=rule, **wish)
    call = notice.call.model_copy(update={"kind": kind})
    notice = notice.model_copy(update={"call": call})
    blocks = message_blocks(notice, LINKS)
    assert check_blocks(blocks) == []
    hidden = missing(args, visible({"blocks": blocks}))
    assert "Open in the console" in buttons({"blocks": blocks})
    if hidden:
        assert not DECIDES & {*buttons({"blocks": blocks})}
        assert "Not all of it fits here" in visible({"blocks": blocks})
    for verdict in FORMS.values():
        view = form_view(notice, CallRef("run_1", "c1", 1), verdict)
        assert check_view(view) == []
        if missing(args, visible(view)):
            assert "submit" not in view
    if kind is SuspensionKind.APPROVAL and sum(len(str(v)) for v in args.values()) < 500:
        assert "submit" in form_view(notice, CallRef("run_1", "c1", 1), Verdict.DENY)
        assert DECIDES & {*buttons({"blocks": blocks})}
