"""Fixtures of every folder, and what all property tests have in common."""

from hypothesis import HealthCheck, settings

# A machine that is busy for a moment is no counterexample.
settings.register_profile("layover", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("layover")

pytest_plugins = ("support.tiers", "support.postgres.server")
