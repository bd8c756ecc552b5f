"""Makes the runtime's role, once."""

import os
from typing import Any


def handler(event: dict[str, Any], context: Any) -> None:
    """The toy of `migrate`."""
    import psycopg

    with psycopg.connect(os.environ["LAYOVER_DATABASE_ADMIN_URL"], autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("CREATE TABLE IF NOT EXISTS migrated (times int)")
        connection.execute("INSERT INTO migrated VALUES (1)")
        role = "SELECT 1 FROM pg_roles WHERE rolname = 'layover_runtime'"
        if connection.execute(role).fetchone() is None:
            connection.execute("CREATE ROLE layover_runtime LOGIN")
            connection.execute("GRANT SELECT ON migrated TO layover_runtime")
