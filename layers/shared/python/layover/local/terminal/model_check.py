"""A check of the model provider: a wrong address, key or name is reported before the first run fails."""

from collections.abc import Mapping, Sequence
from typing import Any

_LIMIT_S = 5.0
_STANDARD_URL = "https://api.openai.com/v1"
_KEY_ERRORS = (401, 403)


async def problem_of(variables: Mapping[str, str], models: Sequence[str]) -> str | None:
    """Return the problem with OPENAI_BASE_URL, OPENAI_API_KEY or one of `models`; None if there is none, or
    if the provider does not list its models."""
    import httpx2

    url = (variables.get("OPENAI_BASE_URL") or _STANDARD_URL).rstrip("/")
    headers = {"Authorization": f"Bearer {variables.get('OPENAI_API_KEY', '')}"}
    try:
        async with httpx2.AsyncClient(timeout=_LIMIT_S) as http:
            answer = await http.get(f"{url}/models", headers=headers)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return f"no model answers at {url} ({type(error).__name__}): check OPENAI_BASE_URL"
    if answer.status_code in _KEY_ERRORS:
        return f"{url} refuses the key ({answer.status_code}): check OPENAI_API_KEY"
    models_served = _model_names(answer)
    missing = sorted(
        {name for model in models if (name := model.removeprefix("openai/")) not in models_served}
    )
    if models_served and missing:
        return (
            f"{url} does not list {', '.join(missing)}: check LAYOVER_MODEL and the agents' models"
        )
    return None


def _model_names(answer: Any) -> frozenset[str]:
    try:
        document = answer.json() if answer.status_code == 200 else {}
        return frozenset(str(each["id"]) for each in document.get("data", ()))
    except (ValueError, TypeError, KeyError, AttributeError):
        return frozenset()
