"""Lake table `candidate_answers`: the likeliest candidate for each pattern of a cloze query, closed-book.

What belongs here: the table's task. What does not: patterns and candidates (`questions.cloze`), and the tree over which
a backend scores the candidates of a prompt once (`backends.local.scoring`).

A decoder-only model reads the words before [Y], and each candidate is scored behind them, with the space between: the sum
of its tokens' log-probabilities, without the end token and not divided by their number (SPEC §8). The first of the
largest scores wins. Patterns that go on behind [Y] are not asked; lake table patterns says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster_project.core.cloze import prefix_of
from dagster_project.core.generation.backends.base import CandidateScore, Scored
from dagster_project.core.generation.engine.items import ModelInput, Score
from dagster_project.core.generation.engine.task import Plan, Scope, Task
from dagster_project.core.generation.prompts.build import bare_prompt
from dagster_project.core.generation.prompts.inputs import read_candidates, read_questions, read_wordings
from dagster_project.core.generation.tasks.questions import (
    Group,
    QuestionItem,
    by_name,
    decisive_keys,
    decisive_prompt,
    template_of,
)
from dagster_project.core.methods import memory_method
from dagster_project.core.study.backends import SCORE
from dagster_project.core.study.study import Study


@dataclass(frozen=True, slots=True)
class ClozeQuery(QuestionItem):
    """One pattern with its subject, up to the place of the object."""

    prefix: str
    paraphrase_id: int

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question, paraphrase and prompt."""
        return QuestionItem.key(self, part) | {"paraphrase_id": self.paraphrase_id}

    def prompt(self) -> ModelInput:
        """The words before [Y]."""
        return ModelInput(bare_prompt(self.prefix, self.group.template))


class CandidateAnswers(Task):
    """Without a prompt that asks candidates the table is empty."""

    table = "candidate_answers"
    keys = ("dataset", "question_id", "paraphrase_id", "prompt")
    capability = SCORE

    def is_asked(self, study: Study) -> bool:
        return bool(study.candidate_prompts)

    def inputs(self, scope: Scope) -> list[str]:
        return [scope.lake.content(table) for table in ("questions", "paraphrases", "candidates")]

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        prompts = [decisive_prompt(prompt, scope.model) for prompt in by_name(scope.study.candidate_prompts)]
        return decisive_keys(scope.study, *prompts)

    def plan(self, scope: Scope) -> Plan[ClozeQuery]:
        """Ordered by dataset, prompt, question_id and paraphrase_id; the log hears how many patterns are left out."""
        candidates = read_candidates(scope.lake)
        requests = {key: Score(tuple(f" {one}" for one in own)) for key, own in candidates.items()}
        wordings = read_wordings(scope.lake)
        asked = [
            (dataset, prompt, question, number, prefix_of(wording))
            for dataset, questions in read_questions(scope.study, scope.lake).items()
            for prompt in by_name(scope.study.candidate_prompts)
            for question in questions
            if (dataset, question.relation) in requests
            for number, wording in wordings.get((dataset, question.question_id), ())
        ]
        groups = {
            (dataset, prompt.name, relation): Group(
                dataset, prompt.name, template_of(prompt, scope.model), request
            )
            for (dataset, relation), request in requests.items()
            for prompt in scope.study.candidate_prompts
        }
        items = [
            ClozeQuery(groups[dataset, prompt.name, question.relation or ""], question, prefix, number)
            for dataset, prompt, question, number, prefix in asked
            if prefix is not None
        ]
        scope.log.info("cloze queries: %d; %d more do not end in [Y]", len(items), len(asked) - len(items))
        return Plan(items)

    def row(self, scope: Scope, item: ClozeQuery, part: int, result: Scored) -> Mapping[str, Any]:
        names = [candidate[1:] for candidate in item.request.candidates]
        order = ranked(result.scores)
        best = result.scores[order[0]]
        gold = [place for place, at in enumerate(order, 1) if names[at] in item.question.gold_answers]
        return {
            "method": memory_method().name,
            "prediction": names[order[0]],
            "log_likelihood": best.log_likelihood,
            "prediction_tokens": best.n_tokens,
            "mean_log_likelihood": best.mean,
            "margin": best.log_likelihood - result.scores[order[1]].log_likelihood if order[1:] else None,
            "gold_rank": gold[0] if gold else None,
            "n_candidates": len(names),
            "is_correct": bool(gold) and gold[0] == 1,
        }


def ranked(scores: Sequence[CandidateScore]) -> list[int]:
    """The places of candidates from the likeliest to the least likely; equal ones keep their order."""
    return sorted(range(len(scores)), key=lambda at: -scores[at].log_likelihood)
