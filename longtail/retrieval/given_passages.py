"""Passages that files of questions hold, each about the entity of its question."""

from __future__ import annotations

from typing import Any

from longtail.imports.datasets import datasets_with_entities
from longtail.imports.lines import clean
from longtail.retrieval.splitting import passages_of
from longtail.study.study import Study

GIVEN = "questions"
"""Column `source` of passages that a file of questions holds."""


def given_passages(study: Study) -> list[dict[str, Any]]:
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
            {
                "passage_id": f"{entity_id}-{position}",
                "entity_id": entity_id,
                "title": title,
                "position": position,
                "text": passage,
                "source": GIVEN,
            }
            for position, passage in enumerate(cut)
        ]
    return rows
