"""What a user thinks of a run: given by its owner, shown with the run, listed for operators."""

from datetime import timedelta
from typing import Any

import pytest

from integration.api.kit import USE, Api
from integration.api.test_auth import SHOP, named
from layover.recovery.sweep import sweep
from layover.values.runs.feedback import MAX_COMMENT
from support.worlds.services import ANN, BOB

OPERATE = f"{USE} layover/operate"
BAD = {"score": -1, "comment": "The order is not mine."}


def over(api: Api, thread_id: str = "") -> str:
    """A run that is over; its id."""
    thread_id = thread_id or api.do(api.world.thread()).id
    run = api.do(api.world.run(thread_id))
    api.do(api.world.finish(run.id))
    return str(run.id)


def give(api: Api, run_id: str, body: Any = None, **more: Any) -> Any:
    return api.post(f"/runs/{run_id}/feedback", BAD if body is None else body, **more)


def take_back(api: Api, run_id: str, **more: Any) -> Any:
    return api.send("DELETE", f"/runs/{run_id}/feedback", **more)


def feedback_of(api: Api, run_id: str) -> Any:
    return api.get(f"/runs/{run_id}").json.get("feedback")


# What is refused


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({}, ["body", "score"]),
        ({"score": None}, ["body", "score"]),
        ({"score": 1.01}, ["body", "score"]),
        ({"score": -2}, ["body", "score"]),
        ({"score": "1"}, ["body", "score"]),
        ({"score": True}, ["body", "score"]),
        ({"score": 1, "coment": "secret"}, ["body", "coment"]),
        ({"score": 1, "comment": 5}, ["body", "comment"]),
        ({"score": 1, "comment": "x" * (MAX_COMMENT + 1)}, ["body", "comment"]),
    ],
)
def test_wrong_feedback_is_named_and_nothing_is_kept(api: Api, body: Any, loc: list[str]) -> None:
    run_id = over(api)
    answer = give(api, run_id, body)
    assert [e["loc"] for e in answer.problem(422, "invalid-request")["errors"]] == [loc]
    assert "secret" not in answer.body
    assert feedback_of(api, run_id) is None


@pytest.mark.parametrize("score", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_number_that_json_does_not_have_is_refused(api: Api, score: str) -> None:
    run_id = over(api)
    answer = api.post(f"/runs/{run_id}/feedback", text=f'{{"score": {score}}}')
    assert answer.status in (400, 422)
    assert feedback_of(api, run_id) is None


def test_run_that_is_not_over_takes_none(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    problem = give(api, run.id).problem(409, "conflict")
    assert problem["run_id"] == run.id
    assert "not over" in problem["detail"]
    assert feedback_of(api, run.id) is None


def test_run_of_somebody_else_is_unknown_to_users_operators_and_approvers(api: Api) -> None:
    run_id = over(api)
    for scope in (USE, OPERATE, f"{USE} layover/act-as"):
        give(api, run_id, sub=BOB, scope=scope).problem(404, "not-found")
    assert feedback_of(api, run_id) is None


def test_run_of_a_deleted_thread_is_unknown(api: Api) -> None:
    run_id = over(api)
    thread_id = api.get(f"/runs/{run_id}").json["thread_id"]
    api.send("DELETE", f"/threads/{thread_id}")
    give(api, run_id).problem(404, "not-found")


def test_nobody_without_a_token_gives_or_lists_any(api: Api) -> None:
    assert give(api, over(api), sub=None).status == 401
    assert api.get("/feedback", sub=None).status == 401


@pytest.mark.parametrize("scope", [USE, f"{USE} layover/act-as layover/audit"])
def test_who_is_no_operator_lists_none(api: Api, scope: str) -> None:
    give(api, over(api))
    answer = api.get("/feedback", scope=scope)
    answer.problem(403, "forbidden")
    assert 'scope="layover/operate"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    "query",
    ["max_score=2", "max_score=nan", "max_score=x", "from=x", "to=20260131", "cursor=x", "scor=1"],
)
def test_wrong_filter_is_refused(api: Api, query: str) -> None:
    api.get(f"/feedback?{query}", scope=OPERATE).problem(422, "invalid-request")


def test_feedback_on_a_run_of_somebody_else_is_not_taken_back(api: Api) -> None:
    run_id = over(api)
    kept = give(api, run_id).json
    for scope in (USE, OPERATE, f"{USE} layover/act-as"):
        take_back(api, run_id, sub=BOB, scope=scope).problem(404, "not-found")
    assert take_back(api, run_id, sub=None).status == 401
    assert feedback_of(api, run_id) == kept


def test_of_a_deleted_thread_none_is_taken_back(api: Api) -> None:
    run_id = over(api)
    give(api, run_id)
    thread_id = api.get(f"/runs/{run_id}").json["thread_id"]
    api.send("DELETE", f"/threads/{thread_id}")
    take_back(api, run_id).problem(404, "not-found")


# What is kept


def test_feedback_is_shown_with_its_run_and_in_the_list(api: Api) -> None:
    thread_id = api.do(api.world.thread()).id
    first, second = over(api, thread_id), over(api, thread_id)
    answer = give(api, first)
    assert answer.status == 200
    assert answer.json == {**BAD, "score": -1.0, "at": answer.json["at"]}
    assert feedback_of(api, first) == answer.json
    assert "feedback" not in api.get(f"/runs/{second}").json
    runs = api.get(f"/threads/{thread_id}/runs").json["items"]
    assert {run["id"]: run.get("feedback") for run in runs} == {first: answer.json, second: None}


def test_newer_feedback_takes_the_place_of_the_older_and_a_repeated_one_changes_nothing(
    api: Api,
) -> None:
    run_id = over(api)
    give(api, run_id)
    for _ in range(2):
        give(api, run_id, {"score": 0.5})
        kept = feedback_of(api, run_id)
        assert (kept["score"], kept["comment"]) == (0.5, None)
    assert len(api.get("/feedback", scope=OPERATE).json["items"]) == 1


@pytest.mark.parametrize(
    ("comment", "kept"),
    [(None, None), ("", None), (" \n", None), (" a\x00b\ud800 ", "a\ufffdb\ufffd")],
)
def test_comment_is_kept_as_any_store_takes_it(api: Api, comment: Any, kept: Any) -> None:
    run_id = over(api)
    assert give(api, run_id, {"score": 0, "comment": comment}).json["comment"] == kept


def test_longest_comment_of_wide_letters_is_kept(api: Api) -> None:
    run_id = over(api)
    comment = "😀" * MAX_COMMENT
    assert give(api, run_id, {"score": 1, "comment": comment}).status == 200
    assert feedback_of(api, run_id)["comment"] == comment


def test_a_cancelled_run_takes_feedback(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    api.post(f"/runs/{run.id}/cancel")
    assert give(api, run.id).status == 200


def test_a_backend_gives_that_of_its_user(api: Api) -> None:
    run_id = over(api)
    answer = give(api, run_id, sub=SHOP, scope=f"{USE} layover/act-as", headers=named(ANN))
    assert feedback_of(api, run_id) == answer.json


def test_sleeping_database_is_not_asked(api: Api) -> None:
    run_id = over(api)
    api.world.threads.asleep = True
    before = api.world.threads.asked
    assert give(api, run_id).status == 200
    assert feedback_of(api, run_id)["score"] == -1
    assert api.world.threads.asked == before


def test_sleeping_database_is_not_asked_to_take_it_back(api: Api) -> None:
    run_id = over(api)
    give(api, run_id)
    api.world.threads.asleep = True
    assert take_back(api, run_id).status == 204
    assert feedback_of(api, run_id) is None


# Its end


def test_feedback_that_is_taken_back_is_nowhere_and_may_be_given_anew(api: Api) -> None:
    run_id = over(api)
    thread_id = api.get(f"/runs/{run_id}").json["thread_id"]
    give(api, run_id)
    for _ in range(2):
        answer = take_back(api, run_id)
        assert (answer.status, answer.body) == (204, "")
        assert "feedback" not in api.get(f"/runs/{run_id}").json
        assert "feedback" not in api.get(f"/threads/{thread_id}/runs").json["items"][0]
        assert api.get("/feedback", scope=OPERATE).json["items"] == []
        assert api.get("/me/export").json["threads"][0].get("feedback", []) == []
    assert give(api, run_id, {"score": 1}).json == feedback_of(api, run_id)


def test_run_that_has_none_and_one_that_is_not_over_have_nothing_to_take_back(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    for run_id in (over(api), run.id):
        assert take_back(api, run_id).status == 204


def test_a_backend_takes_back_that_of_its_user(api: Api) -> None:
    run_id = over(api)
    give(api, run_id)
    act_as = f"{USE} layover/act-as"
    assert take_back(api, run_id, sub=SHOP, scope=act_as, headers=named(ANN)).status == 204
    assert feedback_of(api, run_id) is None


def test_feedback_is_in_the_export_also_when_the_records_of_its_run_are_gone(api: Api) -> None:
    run_id = over(api)
    thread_id = api.get(f"/runs/{run_id}").json["thread_id"]
    kept = give(api, run_id).json
    api.do(api.world.journal.erasure.erase_run(ANN, thread_id, run_id))
    [thread] = api.get("/me/export").json["threads"]
    assert thread["feedback"] == [{**kept, "run_id": run_id}]
    assert api.get("/me/export", sub=BOB).json["threads"] == []


@pytest.mark.parametrize("path", ["/threads/{}", "/me"])
def test_feedback_goes_with_its_thread_and_its_user(api: Api, path: str) -> None:
    run_id = over(api)
    thread_id = api.get(f"/runs/{run_id}").json["thread_id"]
    give(api, run_id)
    assert len(api.get("/feedback", scope=OPERATE).json["items"]) == 1
    assert api.send("DELETE", path.format(thread_id)).status in (202, 204)
    for _ in range(3):
        api.world.clock.advance(timedelta(minutes=20))
        api.do(sweep(api.world.runtime))
    assert api.get("/feedback", scope=OPERATE).json["items"] == []
    page = api.do(api.world.journal.feedback.page_thread(ANN, thread_id, 10, None))
    assert page.items == ()


def test_feedback_of_a_deleted_thread_is_out_of_sight_before_it_is_erased(api: Api) -> None:
    run_id, other = over(api), over(api)
    thread_id = api.get(f"/runs/{run_id}").json["thread_id"]
    give(api, run_id)
    give(api, other)
    api.world.threads.asleep = True
    assert api.send("DELETE", f"/threads/{thread_id}").status == 204
    found = api.get("/feedback", scope=OPERATE).json["items"]
    assert [each["run_id"] for each in found] == [other]


# Operators


def test_operator_lists_that_of_all_users_oldest_first(api: Api) -> None:
    first, second = over(api), over(api)
    give(api, second)
    api.world.clock.advance(timedelta(seconds=1))
    give(api, first, {"score": 1})
    thread_id = api.get(f"/runs/{second}").json["thread_id"]
    found = api.get("/feedback", sub=BOB, scope=OPERATE).json["items"]
    assert [(each["run_id"], each["score"]) for each in found] == [(second, -1), (first, 1)]
    about = {"owner": ANN, "thread_id": thread_id, "run_id": second, "agent": "support"}
    assert found[0] == {**feedback_of(api, second), **about}


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("max_score=0", 1),
        ("max_score=-1", 1),
        ("max_score=1", 2),
        ("agent=support", 2),
        ("agent=plain", 0),
        ("from=DAY", 2),
        ("to=DAY", 2),
        ("from=2001-01-01&to=2001-01-02", 0),
        ("from=2999-01-01", 0),
        ("to=9999-12-31", 2),
    ],
)
def test_operator_finds_what_a_filter_names(api: Api, query: str, count: int) -> None:
    give(api, over(api))
    day = give(api, over(api), {"score": 1}).json["at"][:10]
    page = api.get(f"/feedback?{query.replace('DAY', day)}", scope=OPERATE).json
    assert len(page["items"]) == count


def test_pages_lead_to_all_that_a_filter_names(api: Api) -> None:
    ids = []
    for n in range(6):
        api.world.clock.advance(timedelta(seconds=1))
        ids.append(over(api))
        give(api, ids[-1], {"score": -1 if n % 3 == 0 else 1})
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = api.get(f"/feedback?limit=2&max_score=0{cursor}", scope=OPERATE).json
        found += [each["run_id"] for each in page["items"]]
        cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else None
    assert found == [ids[0], ids[3]]
