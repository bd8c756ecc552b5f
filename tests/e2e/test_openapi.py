"""The description of the API, as it is served. What it says is proved without a system
(tests/integration/api); that answers keep to it is checked with every call of all tests."""

import json

from functions.api.app import resolver
from functions.api.openapi import document
from support.system.system import System


def test_the_served_document_is_the_functions_own(system: System) -> None:
    assert system.documented.document == json.loads(document(resolver()))
