"""Splitting an article's text into passages of about 100 words, at sentence ends where possible (SPEC §4)."""

from __future__ import annotations

from typing import Any

import regex

from longtail.imports.datasets import datasets_with_entities
from longtail.imports.lines import clean
from longtail.study.study import Study

PASSAGE_WORDS = 100
TAIL_WORDS = 25

# A full stop, and what may close a quotation; then white space and something that can open a sentence.
_SENTENCE_END = regex.compile(r"(?<=[.!?…。]['\"”’)\]]*)\s+(?=['\"“‘(\[]*[\p{Lu}\p{Lt}\p{Lo}\p{N}])|\n+")
# An initial ("J. Smith"), or an abbreviation after which a name follows.
_ABBREVIATION = regex.compile(
    r"(?:^|[\s(])(?:\p{Lu}|Dr|Mr|Mrs|Ms|St|Sr|Jr|Prof|Gen|Col|Lt|Capt|No|vs|c|ca|cf)\.$"
)

GIVEN = "questions"
"""Column `source` of passages that a file of questions holds."""


def passages_of(text: str) -> list[str]:
    """`text` as passages in reading order; together they hold every word once.

    A passage has at most 100 words, white space turned into single spaces; only the last may have up to
    125, so that no tail under 25 words stands alone. A sentence over 100 words is cut at words.
    """
    passages: list[list[str]] = [[]]
    for piece in _pieces(text):
        if passages[-1] and len(passages[-1]) + len(piece) > PASSAGE_WORDS:
            passages.append([])
        passages[-1].extend(piece)
    if len(passages) > 1 and len(passages[-1]) < TAIL_WORDS:
        passages[-2:] = [passages[-2] + passages[-1]]
    return [" ".join(words) for words in passages if words]


def sentences_of(text: str) -> list[str]:
    """Sentences: cut at full stops before a capital and at line breaks, not after abbreviations."""
    sentences: list[str] = []
    is_open = False
    for part in _SENTENCE_END.split(text):
        if is_open:
            sentences[-1] += f" {part}"
        else:
            sentences.append(part)
        is_open = bool(_ABBREVIATION.search(sentences[-1]))
    return [sentence for sentence in sentences if sentence.strip()]


def _pieces(text: str) -> list[list[str]]:
    """The words of each sentence, at most 100 a piece."""
    return [
        words[start : start + PASSAGE_WORDS]
        for words in (sentence.split() for sentence in sentences_of(text))
        for start in range(0, len(words), PASSAGE_WORDS)
    ]


def passages_beside_questions(study: Study) -> list[dict[str, Any]]:
    """The texts beside questions, cut at about 100 words, without control characters, in the order of files and rows.

    Errors: `SourceError` where a file cannot be read.
    """
    texts = {
        entity_id: text
        for found in datasets_with_entities(study).values()
        for entity_id, text in found.passages.items()
    }
    rows = []
    for entity_id, (title, text) in texts.items():
        cut = [cleaned for part in passages_of(text) if (cleaned := clean(part, len(part)))]
        rows += [
            passage_row(entity_id, entity_id, title, number, passage, GIVEN)
            for number, passage in enumerate(cut)
        ]
    return rows


def passage_row(
    key: str, entity_id: str | None, title: str, position: int, text: str, source: str
) -> dict[str, Any]:
    """A row of lake table `passages`. `key`: of the article."""
    return {
        "passage_id": f"{key}-{position}", "entity_id": entity_id, "title": title, "position": position, "text": text,
        "source": source,
    }  # fmt: skip
