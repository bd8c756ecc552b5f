"""The session that the landing page shows is what the commands print."""

from support.session import record, shown


def test_session_of_the_landing_page_is_what_the_commands_print() -> None:
    again = "record it again: PYTHONPATH=tests:. .venv/bin/python -m support.session"
    assert shown() == record(), again
