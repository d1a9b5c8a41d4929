"""Cleans labels, aliases, descriptions and titles before storage.

Writing marks (right-to-left marks, joiners, emoji, combining characters) belong to a term and stay.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

LONGEST_LABEL = 250  # Wikidata's own limit, in characters
LONGEST_DESCRIPTION = 1_000
_LINE_BREAKS = frozenset("\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\u2028\u2029")
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


@dataclass(frozen=True)
class Term:
    """A cleaned term, and notes about the changes (none if it was clean)."""

    text: str
    notes: tuple[str, ...] = ()


def clean_term(raw: str, longest: int = LONGEST_LABEL) -> Term:
    """Remove control characters and lone surrogates, replace line breaks by spaces, strip, and cut at `longest`.

    A clean text is returned unchanged, so cleaning twice equals cleaning once.
    """
    if raw.isprintable() and raw == raw.strip() and len(raw) <= longest:
        return Term(raw)
    spaced = "".join(" " if char in _LINE_BREAKS else char for char in raw)
    kept = "".join(char for char in spaced if unicodedata.category(char) not in ("Cc", "Cs")).strip()
    notes = ["control characters removed"] if kept != raw.strip() else []
    if len(kept) > longest:
        notes.append(f"cut from {len(kept):,} to {longest:,} characters")
        kept = _cut(kept, longest)
    return Term(kept, tuple(notes))


def _cut(text: str, longest: int) -> str:
    """The first characters, without half of a combined character at the end."""
    end = longest
    while end and (unicodedata.combining(text[end]) or text[end] in _JOINERS or text[end - 1] == "\u200d"):
        end -= 1
    return text[: end or longest].strip().rstrip("\u200d").strip()
