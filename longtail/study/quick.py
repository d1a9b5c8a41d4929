"""A quick run of any study: at most so many questions, in a home of its own, so that the full study's stays as it is."""

from __future__ import annotations

import dataclasses
import os
import re

from longtail.errors import StudyError
from longtail.study.study import Study

N_QUESTIONS = 150
"""What LONGTAIL_QUICK=1 (`make run QUICK=1`) means."""
ENDING = re.compile(r"_limit_\d+$")
"""How the names of quick runs end, and no study's: their homes are side by side."""


def limit() -> int | None:
    """How many questions the environment allows, if it says so. Errors: `StudyError` where that is no number."""
    chosen = os.environ.get("LONGTAIL_LIMIT", "").strip()
    if not chosen:
        return None if os.environ.get("LONGTAIL_QUICK", "").strip() in ("", "0") else N_QUESTIONS
    if not (chosen.isascii() and chosen.isdigit() and int(chosen[:9]) >= 1 and len(chosen) < 10):
        raise StudyError(f"LIMIT: {chosen!r} is not a number of questions, 1 or more")
    return int(chosen)


def limited(study: Study, most: int) -> Study:
    """The study with at most `most` questions, spread evenly over its datasets. Its name and description say so.

    Each dataset has one question or more. No reader is fine-tuned: so few questions leave relations without facts to
    train on.
    """
    n_each, n_more = divmod(most, len(study.datasets))
    datasets = []
    for place, dataset in enumerate(study.datasets):
        share = max(1, n_each + (place < n_more))
        datasets.append(
            dataclasses.replace(dataset, max_questions=min(share, dataset.max_questions or share))
        )
    return dataclasses.replace(
        study,
        name=f"{study.name}_limit_{most}",
        description=f"{study.description} (quick run of at most {most} questions)",
        datasets=tuple(datasets),
        sweep=None,
        limit=most,
    )
