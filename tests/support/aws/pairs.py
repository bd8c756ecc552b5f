"""Combinations of the settings that the documentation names: every pair of choices is in one of them."""

import random
from collections.abc import Mapping
from itertools import combinations

from support.aws.forms import GPT, TITAN

Choice = tuple[str, str]
"""A switch, and what is chosen."""
Row = dict[str, str]
"""A choice for each switch."""

MAIL = {"alarms_email": "ann@example.com"}
SWITCHES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "size": {"small": {}, "production": {"size": "production", **MAIL}},
    "key": {"of the size": {}, "own": {"own_key": "true"}, "of AWS": {"own_key": "false"}},
    "dashboard": {"of the size": {}, "yes": {"dashboard": "true"}},
    "domain": {
        "none": {},
        "certificate made": {"domain": "a.example", "domain_zone": "Z0123456789ABCDEFGHIJ"},
        "certificate given": {
            "domain": "a.example",
            "domain_certificate": "arn:aws:acm:eu-west-1:123456789012:certificate/0a",
        },
    },
    "nat": {
        "instance": {},
        "gateway": {"nat": "gateway"},
        "ipv6": {"nat": "ipv6"},
        "none": {
            "nat": "none",
            "vpc_id": "vpc-0123456789abcdef0",
            "function_subnets": "subnet-0a,subnet-0b",
            "database_subnets": "subnet-0c,subnet-0d",
        },
    },
    "users": {
        "pool": {},
        "sign-up": {"sign_up": "true", "daily_tokens": "1000", "daily_cost_usd": "0.5"},
        "adopted": {"adopt_user_pool": "eu-west-1_Before"},
        "issuer": {"issuer": "https://id.example/", "audience": "a", "client_id": "people"},
        "issuer with scopes": {
            "issuer": "https://id.example",
            "audience": "a,b",
            "scope": "use:layover",
            "act_as_scope": "act:layover",
            "operate_scope": "operate:layover",
            "audit_scope": "audit:layover",
            "read_content_scope": "read:layover",
        },
    },
    "mfa": {"optional": {}, "required": {"mfa": "required"}, "off": {"mfa": "off"}},
    "groups": {"of Cognito": {}, "named": {"groups_claim": "groups"}},
    "backend": {
        "no": {},
        "yes": {"machine_client": "true"},
        "operator": {"machine_client": "true", "machine_scopes": "operate,audit,read-content"},
    },
    "origins": {"none": {}, "two": {"origins": "https://a.example,https://b.example"}},
    "docs": {"off": {}, "on": {"docs": "true"}},
    "connections": {"of no user": {}, "of users": {"connections": "true"}},
    "retain": {
        "protected": {},
        "unprotected": {"protection": "false"},
        "nothing": {"retain": "false"},
    },
    "adopt": {
        "nothing": {},
        "table": {"adopt_table": "layover-before"},
        "all data": {
            "adopt_table": "layover-before",
            "adopt_bucket": "layover-before-bucket",
            "restore_snapshot": "layover-before-snapshot",
        },
    },
    "provider": {
        "openai": {},
        "bedrock": {
            "provider": "bedrock",
            "model": f"bedrock/{GPT}",
            "embedder_model": f"bedrock/{TITAN}",
        },
        "both": {"models": f"bedrock/{GPT}"},
        "several": {
            "providers": '{"deepseek": {"base_url": "https://deepseek.example/v1", '
            '"api_key_parameter": "/shop/deepseek"}}',
        },
    },
    "alarms": {
        "nobody": {},
        "none": {"alarms": "false"},
        "mail": MAIL,
        "budget": {**MAIL, "budget_usd": "5"},
    },
    "concurrency": {
        "set aside": {},
        "of the account": {"api_concurrency": "0"},
        "limits": {
            "max_waits": "7",
            "max_user_waits": "3",
            "max_user_streams": "4",
            "runs_per_minute": "9",
        },
    },
    "traces": {
        "off": {},
        "on": {
            "otlp_endpoint": "https://otlp.example",
            "otlp_headers_parameter": "/shop/otlp-headers",
            "trace_content": "true",
        },
    },
    "stage": {"dev": {}, "prod": {"stage": "prod"}},
}
ISSUERS = ("issuer", "issuer with scopes")
TRIES = 400
"""Rows that are drawn for each that is taken."""


def rows() -> list[Row]:
    """Few combinations with every pair that can be; the same ones each time."""
    dice = random.Random(14)
    left = {
        frozenset([(one, a), (other, b)])
        for one, other in combinations(SWITCHES, 2)
        for a in SWITCHES[one]
        for b in SWITCHES[other]
        if _can_be({one: a, other: b})
    }
    found: list[Row] = []
    while left:
        drawn = filter(_can_be, (_drawn(dice) for _ in range(TRIES)))
        row = max(drawn, key=lambda r: len(_pairs(r) & left))
        if _pairs(row) & left:
            left -= _pairs(row)
            found.append(row)
    return found


def given(row: Row) -> dict[str, str]:
    """Return the settings that such a deployment passes with `-c`."""
    return {k: v for switch, choice in row.items() for k, v in SWITCHES[switch][choice].items()}


def _drawn(dice: random.Random) -> Row:
    return {switch: dice.choice(list(choices)) for switch, choices in SWITCHES.items()}


def _pairs(row: Row) -> set[frozenset[Choice]]:
    return {frozenset(pair) for pair in combinations(row.items(), 2)}


def _can_be(row: Row) -> bool:
    """False for an issuer that is asked for what only the stack's own user pool has."""
    own = row.get("mfa", "optional") == "optional" and row.get("backend", "no") == "no"
    return own or row.get("users") not in ISSUERS
