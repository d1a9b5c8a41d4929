"""A quick run of any study: at most 150 questions, in a home of its own, so that the full study's stays as it is.

What belongs here: what LONGTAIL_QUICK (`make run QUICK=1`) changes in a study. What does not: the choice of the
questions (`questions.selection`), and where the home is (`home`).
"""

from __future__ import annotations

import dataclasses
import os

from dagster_project.core.study.study import Study

VARIABLE = "LONGTAIL_QUICK"
N_QUESTIONS = 150
ENDING = "_quick"
"""How the names of quick runs end, and no study's: their homes are side by side."""


def is_asked_for() -> bool:
    """Whether the environment asks for a quick run."""
    return os.environ.get(VARIABLE, "").strip() not in ("", "0")


def quickened(study: Study) -> Study:
    """The study with at most 150 questions, spread evenly over its datasets. Its name and description say so.

    No reader is fine-tuned: so few questions leave relations without facts to train on.
    """
    n_each, n_more = divmod(N_QUESTIONS, len(study.datasets))
    datasets = []
    for place, dataset in enumerate(study.datasets):
        share = max(1, n_each + (place < n_more))
        datasets.append(
            dataclasses.replace(dataset, max_questions=min(share, dataset.max_questions or share))
        )
    return dataclasses.replace(
        study,
        name=f"{study.name}{ENDING}",
        description=f"{study.description} (quick run of at most {N_QUESTIONS} questions)",
        datasets=tuple(datasets),
        sweep=None,
        is_quick=True,
    )
