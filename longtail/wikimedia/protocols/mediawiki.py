"""What all APIs of MediaWiki share: how they report overload."""

from __future__ import annotations

from typing import Any


def busy(document: Any) -> str | None:
    """The reason if the API reports overload inside an answer with status 200; else None."""
    error = document.get("error") if isinstance(document, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return f"answered that it is busy ({code})" if code in ("maxlag", "ratelimited", "readonly") else None
