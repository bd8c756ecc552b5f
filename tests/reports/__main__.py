"""`PYTHONPATH=tests:. .venv/bin/python -m reports` writes `SOURCES.md`."""

from reports import SOURCES, tried, written

SOURCES.write_text(written(tried()), encoding="utf-8")
