"""The tasks there are, one per generated lake table, in the order in which a model's tables are made."""

from __future__ import annotations

from longtail.generation.engine.task import Task
from longtail.generation.tasks.answers import Answers
from longtail.generation.tasks.candidate_answers import CandidateAnswers
from longtail.generation.tasks.generated_passages import GeneratedPassages
from longtail.generation.tasks.grounded_answers import GroundedAnswers
from longtail.generation.tasks.grounded_generations import GroundedGenerations
from longtail.generation.tasks.paraphrase_answers import ParaphraseAnswers
from longtail.generation.tasks.sampled_answers import SampledAnswers

TASKS: dict[str, Task] = {
    task.table: task
    for task in (
        GeneratedPassages(),
        Answers(),
        ParaphraseAnswers(),
        SampledAnswers(),
        CandidateAnswers(),
        GroundedAnswers(),
        GroundedGenerations(),
    )
}
"""By lake table; add a task here."""
