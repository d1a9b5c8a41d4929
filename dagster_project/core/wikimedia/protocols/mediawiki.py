"""What all APIs of MediaWiki share: how they say that they are busy."""

from __future__ import annotations

from typing import Any


def busy(document: Any) -> str | None:
    """The API reports overload inside an answer of status 200."""
    error = document.get("error") if isinstance(document, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return f"answered that it is busy ({code})" if code in ("maxlag", "ratelimited", "readonly") else None
