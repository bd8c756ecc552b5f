"""Choices of a deployer among a few forms."""

from enum import StrEnum


class Provider(StrEnum):
    """The provider of the models."""

    OPENAI = "openai"
    """OpenAI, or any server that speaks its API: with a key."""
    BEDROCK = "bedrock"
    """Amazon Bedrock in the stack's region: with the functions' roles, on the named models alone."""


class Mfa(StrEnum):
    """The rule of a second factor (TOTP) for the stack's own users."""

    REQUIRED = "required"
    """For every user: Cognito's pages ask for it at the first sign-in."""
    OPTIONAL = "optional"
    """For users who have enrolled by `layover mfa`."""
    OFF = "off"


class Nat(StrEnum):
    """The way of functions in private subnets to the internet."""

    INSTANCE = "instance"
    """One small instance of our own, which updates itself."""
    GATEWAY = "gateway"
    """AWS's NAT gateway: ten times the price, nothing to look after."""
    NONE = "none"
    """In a VPC of the deployer's, whose subnets have a way out already."""
