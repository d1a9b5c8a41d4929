"""The tasks there are, one per generated lake table, in the order in which a model's tables are made."""

from __future__ import annotations

from dagster_project.core.generation.engine.task import Task
from dagster_project.core.generation.tasks.answers import Answers
from dagster_project.core.generation.tasks.candidate_answers import CandidateAnswers
from dagster_project.core.generation.tasks.generated_passages import GeneratedPassages
from dagster_project.core.generation.tasks.grounded_answers import GroundedAnswers
from dagster_project.core.generation.tasks.grounded_generations import GroundedGenerations
from dagster_project.core.generation.tasks.paraphrase_answers import ParaphraseAnswers
from dagster_project.core.generation.tasks.sampled_answers import SampledAnswers

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
