"""Keeping a key out of everything that is written: logs, errors, results."""

from __future__ import annotations

import re

from longtail.transfer.http import snippet

_MARK = "[key]"
_SHORTEST_SECRET = 8
"""Shorter keys are placeholders such as EMPTY, and may well be a word of an answer."""


class Redactor:
    """Replaces a key, also where it is escaped for JSON, HTML or URLs. Its repr does not show the key."""

    def __init__(self, key: str | None) -> None:
        self._key = re.compile("".join(map(_escaped, key))) if key else None
        self._is_secret = key is not None and len(key) >= _SHORTEST_SECRET

    def message(self, text: str) -> str:
        """The beginning of a message for people, in one line; redacted before it is cut."""
        return snippet(self._replaced(text))

    def answer(self, text: str) -> str:
        """A generated text, whole: a server that echoes its headers must not get the key into a row."""
        return self._replaced(text) if self._is_secret else text

    def _replaced(self, text: str) -> str:
        return self._key.sub(_MARK, text) if self._key else text


def _escaped(character: str) -> str:
    """A pattern for a character of a key as it is, or escaped, however often, in the ways of JSON, HTML and URLs."""
    if character.isalnum():
        return character
    code = f"(?i:{ord(character):02x})"
    return rf"\\*(?:{re.escape(character)}|u00{code}|%(?:25)*{code}|&(?:amp;)*#?\w+;)"
