"""The document that says where people are: refused as a whole, with what the deployer has to do."""

from typing import Any

import pytest

from layover.errors import ConfigurationError
from layover.plugins.people.config import read_channels, secrets_of
from layover.values.channels import ITSELF, Address, Channels, Person

DOCUMENT: dict[str, Any] = {
    "finance": [
        {"slack": "#payouts"},
        {"mail": ["bea@example.com", "all@example.com"]},
        {"teams": "FINANCE_TEAMS"},
    ],
    "board": [{"slack": "U123"}, {"slack": "#payouts"}],
    "owner": [{"mail": "@owner"}, {"slack": "@owner"}],
    "people": {
        "bea@example.com": {"id": "sub-bea", "groups": ["finance"], "slack": "U123"},
        "carl@example.com": {"id": "sub-carl"},
    },
    "mail_from": "approvals@example.com",
}


def at(channel: str, to: str) -> Address:
    return Address(channel=channel, to=to)


MAIL = {"mail_from": "a@example.com"}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "an object of groups"),
        ("{}", "an object of groups"),
        ({"peple": {}}, "no key 'peple': did you mean 'people'?"),
        ({"mail_form": "a@example.com"}, "no key 'mail_form': did you mean 'mail_from'?"),
        ({"finance": {"slack": "#a"}}, "'finance' has to be a list of addresses"),
        ({"fin ance": []}, "'fin ance' is not a name that a group can have"),
        ({"a,b": []}, "no blanks, commas, brackets"),
        ({"finance": ["#a"]}, "group 'finance': an address is an object with one key"),
        ({"finance": [{"slack": "#a", "mail": "b@c.d"}]}, "one key"),
        ({"finance": [{"slak": "#a"}]}, "no channel 'slak': did you mean 'slack'?"),
        ({"finance": [{"slack": "payouts"}]}, "group 'finance': slack is not #channel, or the id"),
        ({"finance": [{"slack": 1}]}, "slack is not"),
        ({"finance": [{"slack": "@owner"}]}, "@owner is an address of the group 'owner' only"),
        ({"owner": [{"teams": "@owner"}]}, "teams is not the name of a secret"),
        ({"finance": [{"mail": "bea"}], **MAIL}, "mail is not a mail address"),
        ({"finance": [{"mail": ["a@b.c", "x\ny@b.c"]}], **MAIL}, "mail is not a mail address"),
        ({"finance": [{"mail": "jesús@b.c"}], **MAIL}, "mail is not a mail address in ASCII"),
        ({"mail_from": "a\x7f@b.c"}, "mail_from is not a mail address in ASCII"),
        ({"finance": [{"mail": "a@b.c"}]}, "mail_from is missing"),
        ({"mail_from": "Approvals"}, "mail_from is not a mail address"),
        ({"link_sign_in": "yes"}, "link_sign_in is true or false"),
        ({"slack_team": "T1"}, "slack_team is an object"),
        ({"slack_team": {"team": "T1"}}, "slack_team: app is not an id of Slack's, such as A123"),
        ({"slack_team": {"team": "C1", "app": "A1"}}, "slack_team: team is not an id"),
        ({"slack_team": {"team": "T1", "app": "A1", "org": "E1"}}, "slack_team: no key 'org'"),
        (
            {"slack_team": {"team": "T1", "app": "A1", "enterprise": None}},
            "slack_team: enterprise is not an id",
        ),
        ({"people": []}, "people is an object"),
        ({"people": {"bea": {"id": "1"}}}, "people: 'bea' is not a mail address"),
        ({"people": {"a@b.c": "1"}}, "has to be an object with an id"),
        ({"people": {"a@b.c": {}}}, "id is missing"),
        ({"people": {"a@b.c": {"id": " "}}}, "id is missing"),
        ({"people": {"a@b.c": {"id": "1", "group": []}}}, "no key 'group': did you mean 'groups'?"),
        ({"people": {"a@b.c": {"id": "1", "groups": "finance"}}}, "groups is a list"),
        ({"people": {"a@b.c": {"id": "1", "groups": ["a b"]}}}, "'a b' is not a name of a group"),
        ({"people": {"a@b.c": {"id": "1", "slack": "@bea"}}}, "slack is not the id of a user"),
        ({"people": {"a@b.c": {"id": "1"}, "d@b.c": {"id": "1"}}}, "the same id"),
        (
            {
                "people": {
                    "a@b.c": {"id": "1", "slack": "U1"},
                    "d@b.c": {"id": "2", "slack": "U1"},
                }
            },
            "the same slack",
        ),
    ],
)
def test_a_document_that_cannot_work_says_what_to_mend(document: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_channels(document)
    assert str(error.value).startswith("channels: ")
    assert problem in str(error.value)


def test_a_url_in_place_of_a_secret_is_not_shown() -> None:
    url = "https://prod.example.com/workflows/abc?sig=hidden"
    with pytest.raises(ConfigurationError) as error:
        read_channels({"finance": [{"teams": url}]})
    assert "hidden" not in str(error.value)


def test_a_document_is_groups_with_addresses_and_people_with_ids() -> None:
    channels = read_channels(DOCUMENT)
    assert channels.addresses(["finance", "board"]) == (
        at("slack", "#payouts"),
        at("mail", "bea@example.com"),
        at("mail", "all@example.com"),
        at("teams", "FINANCE_TEAMS"),
        at("slack", "U123"),
    )
    assert channels.groups["owner"] == (at("mail", ITSELF), at("slack", ITSELF))
    bea = Person(
        id="sub-bea",
        groups=frozenset({"finance"}),
        places={"slack": "U123"},
        mail="bea@example.com",
    )
    assert channels.people == (bea, Person(id="sub-carl", mail="carl@example.com"))
    assert channels.person_at(at("mail", "bea@example.com")) == bea
    assert channels.person_at(at("slack", "U123")) == bea
    assert channels.person_at(at("mail", "all@example.com")) is None
    assert (channels.mail_from, channels.link_sign_in) == ("approvals@example.com", False)
    assert secrets_of(channels) == ("SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET", "FINANCE_TEAMS")


def test_an_empty_document_tells_nobody() -> None:
    assert read_channels({}) == Channels()
    assert secrets_of(read_channels({})) == ()
