"""Cannot be loaded."""

import there_is_no_such_module  # type: ignore[import-not-found]  # noqa: F401
