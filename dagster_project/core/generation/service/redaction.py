"""Keeping a key out of everything that is written: logs, errors, results.

What belongs here: finding a key's value in text that came from elsewhere. What does not: reading it from the
environment (`openai`), and sending it (`connection`).
"""

from __future__ import annotations

import html
import json
from urllib.parse import quote, quote_plus

from dagster_project.core.http import snippet

_MARK = "[key]"
_SHORTEST_SECRET = 8
"""Shorter keys are placeholders such as EMPTY, and may well be a word of an answer."""


class Redactor:
    """Replaces a key, also where it is escaped for JSON, HTML or URLs. Its repr does not tell the key."""

    def __init__(self, key: str | None) -> None:
        forms = (
            {key, json.dumps(key)[1:-1], html.escape(key), quote(key, safe=""), quote_plus(key)}
            if key
            else set()
        )
        self._forms = sorted(forms, key=len, reverse=True)
        self._is_secret = key is not None and len(key) >= _SHORTEST_SECRET

    def message(self, text: str) -> str:
        """The beginning of a message for people, in one line; redacted before it is cut."""
        return snippet(self._replaced(text))

    def answer(self, text: str) -> str:
        """A generated text, whole: a server that echoes its headers must not get the key into a row."""
        return self._replaced(text) if self._is_secret else text

    def _replaced(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, _MARK)
        return text
