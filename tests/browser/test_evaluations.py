"""The page that compares two evaluations: what it reads, what it finds, and what people see of it."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FileChooser, Locator, Page

from browser.conftest import Enter
from browser.person import Person
from layover import Agent
from layover.desk.evals.cases import Case
from layover.desk.evals.outcome import Asked, Call, Outcome, Verdict
from layover.desk.evals.report import Head, json_of
from layover.desk.evals.runs_file import Setup
from support.system.system import eventually

Json = dict[str, Any]
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
AT = datetime(2026, 11, 26, 9, 30, tzinfo=UTC)
AGENT = Agent("shop", instructions="You look orders up.")
HOSTILE = '<img src=x onerror="document.title=1"><script>alert(1)</script>&amp;'


def case(name: str, text: str = "Where is order A-1002?") -> Case:
    return Case.model_validate({"name": name, "input": text, "expect": {}})


def run(name: str, text: str = "It is shipped.", *failures: str, **more: Any) -> Outcome:
    return Outcome(case=name, status="success", failures=failures, text=text, **more)


def written(*runs: Outcome, cases: list[Case] | None = None, later: int = 0, **more: Any) -> str:
    """The file of `layover eval --json` with these runs. `later`: hours after the first evaluation."""
    names = dict.fromkeys(each.case for each in runs)
    agent, model = more.pop("agent", AGENT), more.pop("model", "openai/gpt-5-mini")
    setup = Setup.of(agent, model, ["openai/gpt-5"], stubs_only=more.pop("stubs_only", False))
    facts: Json = {"file": "evals/shop.yaml", "commit": "9a35d3983468", **more}
    head = Head(ended_at=AT + timedelta(hours=later), setup=setup, **facts)
    return json_of(head, cases or [case(name) for name in names], runs)


def repeats(name: str, *holds: bool) -> list[Outcome]:
    """Runs of a case that hold or do not."""
    return [
        Outcome(case=name, repeat=n, status="success", failures=() if each else ("output: no",))
        for n, each in enumerate(holds, 1)
    ]


def compared(modules: Page, before: str, after: str) -> list[list[str]]:
    """Return `[name, kind]` of each case, in the order in which the page lists them."""
    found: list[list[str]] = modules.evaluate(
        """async ([before, after]) => {
          const { comparisonOf, evaluationOf } = await import("/evaluation.js");
          const cases = comparisonOf(evaluationOf(before), evaluationOf(after));
          return cases.map((each) => [each.name, each.kind]);
        }""",
        [before, after],
    )
    return found


def refusal(modules: Page, text: str) -> str:
    """Return why a file is not compared; empty if it is."""
    said: str = modules.evaluate(
        """async (text) => {
          const { NotComparable, evaluationOf } = await import("/evaluation.js");
          try { evaluationOf(text); return ""; } catch (error) {
            if (!(error instanceof NotComparable)) throw error;
            return error.message;
          }
        }""",
        text,
    )
    return said


WHOLE: Json = json.loads(written(run("a")))
CASE: Json = WHOLE["cases"][0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "This is not JSON"),
        ("\x00\xff", "This is not JSON"),
        ("[]", "This is not an evaluation"),
        ("null", "This is not an evaluation"),
        ('{"cases": []}', "This is not an evaluation"),
        ('{"layover_eval":1,"agent":"shop"}\n{"key":"k","run":{}}\n', "This is a file of --runs"),
        ('{"layover_eval":1,"agent":"shop"}\n', "This is a file of --runs"),
        (json.dumps({**WHOLE, "layover_eval": 2}), "Another release"),
        (json.dumps({**WHOLE, "cases": {}}), "damaged at “cases”"),
        (json.dumps({**WHOLE, "share": 2}), "damaged at “share”"),
        (json.dumps({**WHOLE, "interval": [0, "1"]}), "damaged at “share”"),
        (json.dumps({**WHOLE, "cases": [{**CASE, "name": ["a"]}]}), "damaged at “cases”"),
        (json.dumps({**WHOLE, "cases": [{**CASE, "runs": []}]}), "damaged at “a”"),
        (json.dumps({**WHOLE, "cases": [{**CASE, "share": None}]}), "damaged at “a”"),
        (written(run("a")), ""),
    ],
)
def test_file_that_is_no_evaluation_says_why(modules: Page, text: str, reason: str) -> None:
    said = refusal(modules, text)
    assert reason in said
    assert bool(said) == bool(reason)


def test_fields_of_another_type_are_left_out(modules: Page) -> None:
    odd = {**CASE["runs"][0], "text": 7, "calls": [1, {"name": {}}], "verdicts": {}, "tokens": {}}
    odd |= {"failures": [None, "why"], "cost_usd": "many", "approvals": [{"decision": "toString"}]}
    found = modules.evaluate(
        """async (text) => {
          const { evaluationOf } = await import("/evaluation.js");
          return evaluationOf(text).cases.get("a").runs[0];
        }""",
        json.dumps({**WHOLE, "setup": [], "cases": [{**CASE, "runs": [odd, None]}]}),
    )
    assert (found["text"], found["tokens"], found["cost"]) == ("", None, None)
    assert found["calls"] == [{"name": "", "args": None, "result": None, "isError": False}]
    assert (found["failures"], found["verdicts"]) == (["why"], [])
    assert found["approvals"][0]["decision"] == "none"


def test_what_got_worse_comes_first_and_what_held_throughout_last(modules: Page) -> None:
    before = [
        *(
            run("held"),
            run("broken"),
            run("fixed", "", "no"),
            run("failing", "", "no"),
            run("gone"),
        ),
        *repeats("weaker", True, True, True, False),
        *repeats("better", True, False, False, False),
    ]
    after = [
        *(run("held"), run("broken", "", "no"), run("fixed"), run("failing", "", "no")),
        *(run("new and fails", "", "no"), run("new and holds")),
        *repeats("weaker", True, False, True, False),
        *repeats("better", True, True, False, False),
    ]
    assert compared(modules, written(*before), written(*after)) == [
        ["broken", "broken"],
        ["weaker", "flaky"],
        ["new and fails", "new"],
        ["failing", "same"],
        ["better", "flaky"],
        ["fixed", "fixed"],
        ["gone", "gone"],
        ["new and holds", "new"],
        ["held", "same"],
    ]


@pytest.mark.parametrize("name", ["__proto__", "constructor", "toString"])
def test_name_of_a_case_is_only_a_name(modules: Page, name: str) -> None:
    before, after = written(run(name), run("b")), written(run(name, "", "no"), run("b"))
    assert compared(modules, before, after) == [[name, "broken"], ["b", "same"]]


@pytest.mark.parametrize(
    ("one", "other", "gone", "new"),
    [
        ("", "", "", ""),
        ("a b", "a b", "", ""),
        ("It is paid today.", "It is shipped today.", "[paid ]", "[shipped ]"),
        ("one", "", "[one]", ""),
        ("", "one two", "", "[one two]"),
        ("a b c d", "b c d", "[a ]", ""),
        ("b c d", "a b c d e", "", "[a ][e]"),
        ("x " * 5000, "y " * 5000, None, None),
    ],
)
def test_words_that_only_one_text_has_are_marked(
    modules: Page, one: str, other: str, gone: str | None, new: str | None
) -> None:
    pieces = modules.evaluate(
        "async ([one, other]) => (await import('/differences.js')).piecesOf(one, other)",
        [one, other],
    )
    for text, side, marked in ((one, "one", gone), (other, "other", new)):
        assert "".join(piece["text"] for piece in pieces[side]) == text
        if marked is not None:
            shown = "".join(f"[{piece['text']}]" for piece in pieces[side] if piece["differs"])
            assert shown == marked


# In the console


def refund(amount: int) -> Call:
    return Call(
        name="refund", args={"order_id": "A-1002", "amount": amount}, result=f"paid {amount}"
    )


LOOK_UP = Call(name="lookup_order", args={"order_id": "A-1002"}, result={"status": "shipped"})
RULE = "It promises no day of delivery."


def verdict(holds: bool, reason: str) -> tuple[Verdict, ...]:
    return (Verdict(judge="openai/gpt-5", rule=RULE, holds=holds, reason=reason),)


BEFORE = written(
    run(
        "an order is looked up before it is spoken of",
        "Order A-1002 is shipped. It arrives in the next days.",
        calls=(LOOK_UP,),
        verdicts=verdict(True, "It names no day."),
        tokens=812,
        steps=2,
        seconds=1.4,
    ),
    run(
        "a large refund asks a person",
        "",
        "approvals: refund was not asked for",
        calls=(LOOK_UP, refund(600)),
    ),
    *repeats("a greeting is short", True, True, True, False),
    run("only before"),
    run("an unknown order is refused", "There is no such order."),
)
AFTER = written(
    run(
        "an order is looked up before it is spoken of",
        "Order A-1002 is shipped. It arrives on Monday.",
        f"judge: 0 of 1 find {RULE!r} kept (openai/gpt-5: It names Monday.)",
        verdicts=verdict(False, "It names Monday."),
        tokens=640,
        steps=1,
        seconds=0.9,
    ),
    run(
        "a large refund asks a person",
        "Refunded 60.00 euros.",
        calls=(LOOK_UP, refund(60)),
        approvals=(Asked(tool="refund", args={}, kind="approval", decision="approve"),),
    ),
    *repeats("a greeting is short", True, False, True, False),
    run("only after"),
    run("an unknown order is refused", "There is no such order."),
    later=20,
    commit="d019ab241f6f-dirty",
    model="openai/gpt-5",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files to choose."""
    for name, text in {"before.json": BEFORE, "after.json": AFTER, "notes.json": "{}"}.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def choose(person: Person, side: str, file: Path) -> None:
    person.page.locator(f"input[type=file][aria-label={side}]").set_input_files(file)


def chosen(person: Person, folder: Path) -> Person:
    """Open the page with both files."""
    person.open("evals")
    choose(person, "Before", folder / "before.json")
    choose(person, "After", folder / "after.json")
    person.page.locator("details.case").first.wait_for()
    return person


def drop(person: Person, *files: Path) -> None:
    """Drop files on the page."""
    given = [[file.name, file.read_text("utf-8")] for file in files]
    person.page.evaluate(
        """(given) => {
          const data = new DataTransfer();
          for (const [name, text] of given) data.items.add(new File([text], name));
          const place = document.querySelector(".slots");
          const how = { bubbles: true, cancelable: true, dataTransfer: data };
          for (const type of ["dragover", "drop"]) place.dispatchEvent(new DragEvent(type, how));
        }""",
        given,
    )


def names(person: Person) -> list[str]:
    return person.page.locator("details.case .case-name").all_inner_texts()


def the_case(person: Person, name: str) -> Locator:
    return person.page.locator("details.case", has_text=name)


def test_file_that_cannot_be_compared_says_so_in_its_place(enter: Enter, folder: Path) -> None:
    ann = enter().sign_in()
    ann.open("evals")
    ann.sees("Choose or drop two files")
    ann.picture("evaluations-none")
    choose(ann, "Before", folder / "notes.json")
    before, after = (ann.page.get_by_role("region", name=name) for name in ("Before", "After"))
    before.get_by_role("alert").wait_for()
    assert "This is not an evaluation" in before.inner_text()
    assert after.get_by_role("alert").count() == 0
    drop(ann, *(folder / name for name in ("before.json", "after.json", "notes.json")))
    ann.sees("These are more than two files")
    # The right files take the place of the wrong ones, and what was said of those is gone.
    drop(ann, folder / "after.json", folder / "before.json")
    ann.page.locator("details.case").first.wait_for()
    assert ann.page.get_by_role("alert").count() == 0


def test_files_that_are_dropped_together_are_put_in_the_order_of_their_time(
    enter: Enter, folder: Path
) -> None:
    ann = enter().sign_in()
    ann.open("evals")
    drop(ann, folder / "after.json", folder / "before.json")
    slots = ann.page.locator(".slot-name")
    slots.nth(1).wait_for()
    assert slots.all_inner_texts() == ["before.json", "after.json"]
    ann.button("Swap").click()
    assert slots.all_inner_texts() == ["after.json", "before.json"]
    ann.open("usage")
    ann.open("evals")
    assert slots.all_inner_texts() == ["after.json", "before.json"]
    ann.button("Start again").click()
    ann.sees("Choose or drop two files")


def test_case_shows_both_replies_calls_and_reasons_with_what_differs(
    enter: Enter, folder: Path, axe: str
) -> None:
    ann = chosen(enter(viewport={"width": 1280, "height": 900}).sign_in(), folder)
    assert names(ann) == [
        "an order is looked up before it is spoken of",
        "a greeting is short",
        "a large refund asks a person",
        "only before",
        "only after",
        "an unknown order is refused",
    ]
    differs = ann.page.locator("tr.differs th").all_inner_texts()
    assert differs == ["Model", "Commit"]
    ann.picture("evaluations-heads")
    assert "The intervals overlap" in ann.page.inner_text("main")
    first = the_case(ann, "looked up before")
    first.locator("summary").first.click()
    first.locator("del").first.wait_for()
    assert first.locator("del").all_inner_texts() == ["in the next days."]
    assert first.locator("ins").all_inner_texts() == ["on Monday."]
    before, after = (
        first.get_by_role("region", name=re.compile(f"^{name}:")) for name in ("Before", "After")
    )
    assert before.get_by_text("only here").count() == 1
    assert after.get_by_text("only here").count() == 0
    assert "It names no day." in before.inner_text()
    assert "It names Monday." in after.inner_text()
    assert first.get_by_text("other verdict").count() == 2
    ann.picture("evaluations")
    assert ann.findings(axe) == []
    refunds = the_case(ann, "a large refund")
    refunds.locator("summary").first.click()
    refunds.get_by_text("only here").nth(1).wait_for()  # It is drawn a moment later.
    assert refunds.get_by_text("only here").count() == 2
    assert "approved" in refunds.get_by_role("region", name="After").inner_text()
    greeting = the_case(ann, "a greeting is short")
    greeting.locator("summary").first.click()
    assert "3 of 4 → 2 of 4" in greeting.inner_text()
    assert "30 % to 95 % before, 15 % to 85 % after" in greeting.inner_text()
    # The first run that fails now is shown first.
    assert greeting.get_by_label("Run").input_value() == "1"
    greeting.get_by_label("Run").select_option("0")
    assert "output: no" not in greeting.inner_text()


def test_filter_is_in_the_address(enter: Enter, folder: Path) -> None:
    ann = chosen(enter().sign_in(), folder)
    ann.button("Broken 1").click()
    assert names(ann) == ["an order is looked up before it is spoken of"]
    assert ann.page.url.endswith("#/evals/broken")
    ann.page.get_by_label("Name of the case").fill("refund/x")
    ann.sees("No case is like that")
    ann.page.wait_for_url("**#/evals/broken/refund%2Fx")
    ann.page.get_by_label("Name of the case").fill("refund")
    ann.page.wait_for_url("**#/evals/broken/refund")
    ann.button("All 1").click()
    assert names(ann) == ["a large refund asks a person"]
    assert ann.page.url.endswith("#/evals/all/refund")
    ann.open("evals/same/order")
    ann.sees("an unknown order is refused")
    assert names(ann) == ["an unknown order is refused"]
    assert ann.page.get_by_label("Name of the case").input_value() == "order"


def test_another_definition_of_an_agent_below_and_another_use_of_stubs_are_told(
    enter: Enter, tmp_path: Path
) -> None:
    """Both make results that are not those of one question."""

    def guide(instructions: str) -> Agent:
        return Agent("guide", handoffs=[Agent("billing", instructions=instructions)])

    (tmp_path / "before.json").write_text(written(run("a"), agent=guide("You are kind.")))
    after = written(run("a"), agent=guide("You are short."), stubs_only=True, later=1)
    (tmp_path / "after.json").write_text(after)
    ann = chosen(enter().sign_in(), tmp_path)
    differs = ann.page.locator("tr.differs th").all_inner_texts()
    assert differs == ["Its definition", "Tools without a stub"]
    assert "billing " in ann.page.locator("tr.differs").first.inner_text()


def test_what_a_file_has_is_text(enter: Enter, tmp_path: Path) -> None:
    hostile = run(
        HOSTILE,
        HOSTILE,
        HOSTILE,
        output={HOSTILE: HOSTILE},
        calls=(Call(name=HOSTILE, args={HOSTILE: HOSTILE}, result=HOSTILE),),
        approvals=(Asked(tool=HOSTILE, args={}, kind="approval", decision=None),),
        verdicts=(Verdict(judge=HOSTILE, rule=HOSTILE, holds=None, reason=HOSTILE),),
    )
    facts: Json = {
        "file": HOSTILE,
        "commit": HOSTILE,
        "model": HOSTILE,
        "cases": [case(HOSTILE, HOSTILE)],
    }
    (tmp_path / "before.json").write_text(written(hostile, **facts))
    (tmp_path / "after.json").write_text(written(run(HOSTILE, "Hi"), **facts, later=1))
    ann = chosen(enter().sign_in(), tmp_path)
    details = ann.page.locator("details.case").first
    details.locator("summary").first.click()
    assert details.locator("del").first.inner_text() == HOSTILE
    assert ann.page.locator("main img, main script").count() == 0
    assert ann.page.inner_text("main").count("<script>alert(1)</script>") > 10


def test_page_is_read_by_keyboard_and_on_a_phone(enter: Enter, folder: Path, axe: str) -> None:
    ann = enter(**PHONE, color_scheme="dark")
    opened: list[FileChooser] = []
    ann.page.on("filechooser", lambda each: opened.append(each))
    ann.sign_in()
    ann.open("evals")
    for side, name in (("Before", "before.json"), ("After", "after.json")):
        button = ann.button(f"{side}: Choose a file")
        button.focus()
        ann.page.keyboard.press("Enter")
        eventually(lambda: ann.page.evaluate("true") and opened)
        opened.pop().set_files(folder / name)
        ann.sees(name)
    summary = the_case(ann, "looked up before").locator("summary").first
    summary.focus()
    ann.page.keyboard.press("Enter")
    ann.page.locator("del").first.wait_for()
    wide = "document.getElementById('main').scrollWidth <= innerWidth"
    assert ann.page.evaluate(wide)
    ann.picture("evaluations-phone-case")
    ann.page.locator("h1").scroll_into_view_if_needed()
    ann.picture("evaluations-phone")
    assert ann.findings(axe) == []


def test_nothing_of_a_file_is_sent(enter: Enter, folder: Path) -> None:
    ann = enter().sign_in()
    ann.open("evals")
    sent: list[str] = []
    ann.page.on(
        "request", lambda request: sent.append(f"{request.method} {request.post_data or ''}")
    )
    chosen(ann, folder)
    the_case(ann, "looked up before").locator("summary").first.click()
    ann.page.locator("del").first.wait_for()
    assert [each for each in sent if each != "GET "] == []


def test_many_cases_are_shown_in_parts(enter: Enter, tmp_path: Path) -> None:
    runs = [run(f"case {n}") for n in range(250)]
    for name in ("before", "after"):
        (tmp_path / f"{name}.json").write_text(written(*runs))
    ann = chosen(enter().sign_in(), tmp_path)
    assert len(names(ann)) == 100
    ann.button("Show more (150)").click()
    ann.button("Show more (50)").click()
    assert len(names(ann)) == 250
