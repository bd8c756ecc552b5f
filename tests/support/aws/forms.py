"""Forms that a deployment can take: what is given with `-c` for each."""

from support.aws.templates import BANK_KEY

GIVEN = "forms.json"
"""The file with each form's settings, read by the process that synthesizes."""
GPT = "openai.gpt-oss-120b-1:0"
CLAUDE = "anthropic.claude-sonnet-4-5-20250929-v1:0"
TITAN = "amazon.titan-embed-text-v2:0"

CHANNELS = {
    "finance": [{"slack": "#payouts"}, {"mail": ["bea@example.com"]}, {"teams": "TEAMS_FINANCE"}],
    "owner": [{"mail": ["@owner"]}],
    "operators": [{"slack": "#ops"}],
    "people": {"bea@example.com": {"id": "bea", "groups": ["finance"], "slack": "U123"}},
    "mail_from": "approvals@example.com",
}
CHANNEL_SECRETS = {
    "SLACK_BOT_TOKEN": "/shop/slack-token",
    "SLACK_SIGNING_SECRET": "/shop/slack-signing",
    "TEAMS_FINANCE": BANK_KEY.replace("bank", "teams"),
}
"""Channels of the app `connected`."""

FORMS: dict[str, dict[str, str]] = {
    # Everything that can be switched on, and nothing that outlives the stack.
    "vpc": {
        "retain": "false",
        "stage": "test",
        "project": "a1b2c3d4e5f6",
        "origins": "https://a.example,https://b.example",
        "nat_ami": "ami-0123456789abcdef0",
        "model": "openai/some-model",
        "embedder_model": "openai/some-embedder",
        "title_model": "openai/some-titler",
        "observer_model": "openai/some-observer",
        "extractor_model": "openai/some-extractor",
        "last_messages": "30",
        "semantic_recall_top_k": "4",
        "observer_message_tokens": "20000",
        "reflector_observation_tokens": "30000",
        "node_memory_days": "90",
        "run_retention_days": "60",
        "thread_retention_days": "365",
        "entry_retention_days": "180",
        "log_level": "WARNING",
        "openai_base_url": "https://models.example/v1",
        "runs_per_minute": "30",
        "provider_patience_s": "7200",
        "providers": '{"deepseek": {"base_url": "https://deepseek.example/v1", '
        '"api_key_parameter": "/shop/deepseek"}}',
        "context_windows": '{"deepseek/chat": 64000}',
        "alarms_email": "ann@example.com",
        "budget_usd": "20",
        "machine_client": "true",
        "groups": "board",
        "callback_urls": "https://a.example/back,http://localhost:5173/,shop://signed-in",
        "docs": "true",
        "dashboard": "true",
        "max_user_waits": "5",
        "max_user_streams": "6",
        "daily_tokens": "100000",
        "daily_cost_usd": "2.5",
        "groups_claim": "groups",
        "audit_days": "800",
    },
    # An OIDC provider of the deployer's own, and all defaults.
    "plain": {
        "issuer": "https://id.example/",
        "audience": "https://layover.example",
        "client_id": "people",
        "scope": "use:layover",
        "login_scope": "api://layover/use",
        "token_url": "https://tokens.example/token",
        "operate_group": "platform",
        "api_concurrency": "0",
    },
    # AWS's own NAT, no second factor, the stack's own users, protected, and traces.
    "gateway": {
        "nat": "gateway",
        "alarms": "false",
        "mfa": "off",
        "otlp_endpoint": "https://otlp.example",
        "otlp_headers_parameter": "/shop/otlp-headers",
        "trace_content": "true",
    },
    # In a VPC of the deployer's, with all that an earlier stack left.
    "guest": {
        "nat": "none",
        "vpc_id": "vpc-0123456789abcdef0",
        "function_subnets": "subnet-0a,subnet-0b",
        "database_subnets": "subnet-0c,subnet-0d",
        "https_proxy": "http://proxy.example:3128",
        "no_proxy": "dynamodb.eu-west-1.amazonaws.com, .s3.eu-west-1.amazonaws.com",
        "mfa": "required",
        "adopt_table": "layover-before",
        "adopt_bucket": "layover-before-bucket",
        "adopt_user_pool": "eu-west-1_Before",
        "restore_snapshot": "layover-before-snapshot",
    },
    # As people depend on it, with a host name whose zone the account has.
    "production": {
        "stage": "prod",
        "size": "production",
        "alarms_email": "ann@example.com",
        "mfa": "required",
        "domain": "agents.example.com",
        "domain_zone": "Z0123456789ABCDEFGHIJ",
    },
    # No IPv4 way out, and a host name whose certificate and record are elsewhere.
    "ipv6": {
        "nat": "ipv6",
        "domain": "agents.example.com",
        "domain_certificate": "arn:aws:acm:eu-west-1:123456789012:certificate/0a",
    },
    # A model, an inference profile and an embedder of Bedrock's.
    "bedrock": {
        "stage": "test",
        "stages": "tests/infra",
        "provider": "bedrock",
        "model": f"bedrock/{GPT}",
        "models": f"openai.gpt-5.4, bedrock/eu.{CLAUDE}, {GPT}",
        "embedder_model": f"bedrock/{TITAN}",
    },
}
