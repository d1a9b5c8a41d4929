"""Terms at the door: labels, aliases, descriptions and titles made fit for storing and prompting.

What belongs here: what is removed or cut, and the note of it. What does not: where terms come from
(`wikidata`). Writing marks (right-to-left marks, joiners, emoji, combining characters) are part of a term and
stay.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

LONGEST_LABEL = 250  # what Wikidata itself allows, in characters
LONGEST_DESCRIPTION = 1_000
_LINE_BREAKS = frozenset("\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\u2028\u2029")
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


@dataclass(frozen=True)
class Term:
    """A term as it is kept, and what had to be done to it (empty: nothing)."""

    text: str
    notes: tuple[str, ...] = ()


def clean_term(raw: str, longest: int = LONGEST_LABEL) -> Term:
    """Drop control characters and lone surrogates, make line breaks spaces, strip, cut at `longest`.

    A text that is clean already comes back as it is; cleaning twice equals cleaning once.
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
    """The first characters, without half of a combined one at the end."""
    end = longest
    while end and (unicodedata.combining(text[end]) or text[end] in _JOINERS or text[end - 1] == "\u200d"):
        end -= 1
    return text[: end or longest].strip().rstrip("\u200d").strip()
