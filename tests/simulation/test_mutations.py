"""The judge notices a product that is broken on purpose: a promise that nothing can break is no promise.

Run `make simulate-mutations` for all of them."""

import pytest

from simulation.mutations import MUTATIONS, find

QUICK = {
    "a decision is never published": "the bus has every decision",
    "a waiting call is never woken": "every run comes to its end",
    "an execution is never started": "every run comes to its end",
    "a transaction is torn": "only the run that holds its thread goes on",
    "a batch of events is written over": "an event is written once",
    "nothing of a call is checked": "the first decision of an attempt wins",
    "nothing of a thread is checked": "only the run that holds its thread goes on",
}
"""Mutations that a few stories find, and the promise that each breaks first."""


@pytest.mark.parametrize("name", QUICK)
def test_a_fence_that_is_broken_is_noticed_within_a_few_stories(name: str) -> None:
    mutation = next(each for each in MUTATIONS if each.name == name)
    found = find(mutation, most=40)
    assert found.promise == QUICK[name], f"after {found.stories} stories"


def test_each_mutation_has_a_name_of_its_own() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names)
