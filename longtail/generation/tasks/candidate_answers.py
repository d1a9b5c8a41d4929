"""Lake table `candidate_answers`: the likeliest candidate for each pattern of a cloze query, from memory or passages.

A decoder-only model reads the words before [Y], and each candidate is scored behind them, with the space between.
Patterns that go on behind [Y] are not asked of it; lake table patterns says which. An encoder-decoder reads the whole
pattern with a sentinel for [Y], and writes the sentinel and the candidate. It has a second list of targets, with the
bare word-start piece between the two. The score is the sum of the log-probabilities of the target's tokens, sentinel
included, without the end token and not divided by their number (SPEC §8). The first of the largest scores wins.

A retriever finds passages for each pattern. A method whose passages are fixed has those of the first pattern, which is
the question, for all patterns of the fact. The first passage stands before the pattern, as before a question; a model
that reads passages apart has several.

Beside the scores the model writes freely behind what it reads. Where that text, normalised, is another candidate than the
chosen one, the two are a mismatch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtail.generation.backends.base import CandidateScore, Decoding, Scored
from longtail.generation.engine.task import ModelInput, Plan, Request, Scope
from longtail.generation.prompts.build import (
    Passage,
    bare_prompt,
    block,
    read_candidates,
    read_passages_of_wordings,
    read_questions,
    read_wordings,
)
from longtail.generation.prompts.endings import FIRST_LINE, cut_text
from longtail.generation.tasks.questions import (
    Group,
    QuestionItem,
    QuestionTask,
    by_name,
    decisive_keys,
    decisive_prompt,
    storable,
    template_of,
)
from longtail.methods import RETRIEVAL
from longtail.prompt_formats import CLOZE_PREFIX, CLOZE_T5
from longtail.relations.cloze import SENTINEL, WORD_START, prefix_of, put_sentinel
from longtail.scoring.match import normalize
from longtail.study.backends import SCORE
from longtail.study.models import Model
from longtail.study.prompts import Prompt
from longtail.study.study import Study

_READS: dict[str, Callable[[str], str | None]] = {CLOZE_PREFIX: prefix_of, CLOZE_T5: put_sentinel}
"""What a model reads of a pattern; None: it cannot be asked."""
_BEGINS = {CLOZE_PREFIX: (" ",), CLOZE_T5: (f"{SENTINEL} ", f"{SENTINEL}{WORD_START} ")}
"""How the targets of each list begin."""


@dataclass(frozen=True, slots=True)
class ClozeQuery(QuestionItem):
    """One pattern with its subject, as the model reads it, the passages that it reads, and the candidates."""

    text: str
    paraphrase_id: int
    candidates: Sequence[str]
    passages: Sequence[Passage]
    reads_apart: bool

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question, paraphrase and prompt."""
        return QuestionItem.key(self, part) | {"paraphrase_id": self.paraphrase_id}

    def ingredients(self) -> dict[str, Any]:
        """Its passages."""
        return {"passage_ids": [passage.passage_id for passage in self.passages] or None}

    def prompt(self) -> ModelInput:
        """The pattern in its template, behind its passage or apart from its passages."""
        if self.reads_apart:
            apart = tuple(passage.text for passage in self.passages)
            return ModelInput(bare_prompt(self.text, self.group.template), apart)
        before = self.passages[0].text if self.passages else ""
        return ModelInput(block(self.group.template, self.text, before))


class CandidateAnswers(QuestionTask):
    """A pattern without a passage of the method gets no row."""

    table = "candidate_answers"
    keys = ("dataset", "question_id", "paraphrase_id", "prompt")
    capability = SCORE
    reads = ("questions", "paraphrases", "candidates")

    def prompts(self, study: Study) -> Sequence[Prompt]:
        return study.candidate_prompts

    def inputs(self, scope: Scope) -> list[str]:
        lake, method, inputs = scope.lake, scope.method_record, super().inputs(scope)
        if method.kind == RETRIEVAL and _prompts(scope):
            inputs += [lake.content("retrieved_passages", method.name), lake.content("passages")]
        return inputs

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        method = scope.method_record
        prompts = [[prompt.format, *decisive_prompt(prompt, scope.model)] for prompt in _prompts(scope)]
        return decisive_keys(
            scope.study,
            *prompts,
            cuts_last_sentence=method.cuts_last_sentence,
            is_fixed=method.is_fixed,
            passages=scope.n_apart,
            max_new_tokens=scope.study.max_new_tokens,
        )

    def plan(self, scope: Scope) -> Plan[ClozeQuery]:
        """Ordered by dataset, prompt, question_id and paraphrase_id; the log hears how many patterns are left out."""
        lake, method, prompts = scope.lake, scope.method_record, _prompts(scope)
        candidates, wordings = read_candidates(lake), read_wordings(lake)
        from_memory = method.kind != RETRIEVAL
        passages = (
            {} if from_memory or not prompts else read_passages_of_wordings(lake, method, scope.n_apart)
        )
        items: list[ClozeQuery] = []
        n_unasked = n_without = 0
        for (dataset, questions), prompt in itertools.product(
            read_questions(scope.study, lake).items(), prompts
        ):
            template, reads = template_of(prompt, scope.model), _READS[prompt.format]
            free = Decoding(scope.study.max_new_tokens)
            groups = {
                relation: Group(
                    dataset,
                    prompt.name,
                    template,
                    Request(candidates=targets(prompt.format, names), free=free),
                )
                for (asked, relation), names in candidates.items()
                if asked == dataset
            }
            for question in questions:
                relation = question.relation or ""
                place = (dataset, question.question_id)
                for number, wording in wordings.get(place, ()) if relation in groups else ():
                    text, read = reads(wording), passages.get((*place, 0 if method.is_fixed else number), ())
                    if text is None:
                        n_unasked += 1
                    elif not (read or from_memory):
                        n_without += 1
                    else:
                        names, is_apart = candidates[dataset, relation], scope.n_apart > 0
                        items.append(
                            ClozeQuery(groups[relation], question, text, number, names, read, is_apart)
                        )
        scope.log.info("cloze queries: %d; %d more do not end in [Y]", len(items), n_unasked)
        return Plan(items, n_without)

    def row(self, model: Model, item: ClozeQuery, part: int, result: Scored) -> Mapping[str, Any]:
        names = item.candidates
        order = rank_candidates(result.scores, len(names))
        scores = [result.scores[place] for place in order]
        best = scores[0].log_likelihood
        gold = [
            rank for rank, at in enumerate(order, 1) if names[at % len(names)] in item.question.gold_answers
        ]
        return {
            "free_generation": (free := cut_text(storable(result.text), FIRST_LINE).strip()),
            "is_mismatch": is_mismatch(free, names[order[0] % len(names)], names),
            **item.ingredients(),
            "prediction": names[order[0] % len(names)],
            "log_likelihood": best,
            "prediction_tokens": scores[0].n_tokens,
            "mean_log_likelihood": scores[0].mean,
            "margin": best - scores[1].log_likelihood if scores[1:] else None,
            # the softmax of the likeliest (SPEC §11)
            "confidence": 1 / math.fsum(math.exp(score.log_likelihood - best) for score in scores),
            "gold_rank": gold[0] if gold else None,
            "n_candidates": len(names),
            "is_correct": bool(gold) and gold[0] == 1,
        }


def _prompts(scope: Scope) -> list[Prompt]:
    """The prompts that ask the partition's model by its method."""
    method = scope.method_record.name
    asked = scope.study.cloze_prompts(scope.model)
    return by_name(prompt for prompt in asked if scope.study.scores_by(prompt, method))


def is_mismatch(text: str, chosen: str, candidates: Sequence[str]) -> bool:
    """Whether a free text equals a candidate other than the chosen one, all of them SQuAD-normalised (SPEC §8)."""
    answer = normalize(text)
    return answer != normalize(chosen) and answer in map(normalize, candidates)


def rank_candidates(scores: Sequence[CandidateScore], n_candidates: int) -> list[int]:
    """The likeliest target of each candidate, from the likeliest to the least likely; equal ones keep their order.

    `scores`: one list of targets behind the other, each with the candidates in the same order.
    """
    places = sorted(range(len(scores)), key=lambda at: -scores[at].log_likelihood)
    best: dict[int, int] = {}
    for place in places:
        best.setdefault(place % n_candidates, place)
    return list(best.values())


def targets(format_: str, candidates: Sequence[str]) -> tuple[str, ...]:
    """What the model may write behind what it reads in a format, list by list."""
    return tuple(f"{begin}{candidate}" for begin in _BEGINS[format_] for candidate in candidates)
