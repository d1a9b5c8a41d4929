"""Which rows a partition holds, and the prompt of each: from the lake's tables to planned rows.

What belongs here: joining questions, paraphrases and passages into rows, in the partition's order, and which keys of
the study decide their prompts. What does not: drawing (`demonstrations`), writing prompts (`prompts`), generating
(`resume`), and turning generations into lake rows (`run`).

A plan holds ids and records that its rows share, never prompts: a prompt's text is built when it is asked for.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dagster_project.core.generation.engine.progress import Progress
from dagster_project.core.generation.inputs import (
    passages_of_questions,
    read_first_passages,
    read_generated_passages,
    read_questions,
    read_wordings,
)
from dagster_project.core.generation.prompts.build import (
    Passage,
    Passages,
    Question,
    bare_prompt,
    build_prompt,
)
from dagster_project.core.generation.prompts.demonstrations import Demonstrations
from dagster_project.core.lake import Lake
from dagster_project.core.methods import BACKGROUND, MEMORY, METHODS, RETRIEVAL
from dagster_project.core.prompt_formats import BACKGROUND_TEMPLATE, FORMATS
from dagster_project.core.study.study import Prompt, Study

_SILENT = logging.getLogger(f"{__name__}.silent")
_SILENT.setLevel(logging.CRITICAL)
_NUMBER_COLUMNS = {"paraphrase_answers": "paraphrase_id", "sampled_answers": "sample"}


@dataclass(frozen=True, slots=True)
class RowGroup:
    """What rows of one lake table, dataset and prompt have in common."""

    table: str
    dataset: str
    prompt: str | None
    template: str
    seed: int
    passages: Passages | None = None


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One row to be, of about 100 bytes: all it refers to is shared with other rows.

    `wording` is a paraphrase to be asked instead of the question; `number` is the paraphrase's or sample's.
    """

    group: RowGroup
    question: Question
    shown: tuple[Question, ...] = ()
    wording: str | None = None
    number: int | None = None

    @property
    def keys(self) -> dict[str, Any]:
        """The row's key columns; of table answers also the ids of all that stands in the prompt."""
        keys: dict[str, Any] = {"dataset": self.group.dataset, "question_id": self.question.question_id}
        if self.number is not None:
            keys[_NUMBER_COLUMNS[self.group.table]] = self.number
        if self.group.prompt is not None:
            keys["prompt"] = self.group.prompt
        return keys | self._ingredients() if self.group.table == "answers" else keys

    @property
    def row_key(self) -> str:
        """The key columns in one text, for the quarantine."""
        parts = (self.group.dataset, self.question.question_id, self.number, self.group.prompt)
        return "/".join(str(part) for part in parts if part is not None)

    @property
    def gold_answers(self) -> tuple[str, ...]:
        return self.question.gold_answers

    @property
    def sample_seed(self) -> int | None:
        """Seed of a sample, 63 bits of a hash of (study's seed, dataset, question, sample); of other rows None."""
        if self.group.table != "sampled_answers":
            return None
        parts = (self.group.seed, self.group.dataset, self.question.question_id, self.number)
        digest = hashlib.sha256("\n".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def text(self) -> str:
        """The exact prompt; built anew at each call, never kept."""
        if self.wording is not None:
            return bare_prompt(self.wording, self.group.template)
        return build_prompt(self.question, self.group.template, self.shown, self.group.passages)

    def _ingredients(self) -> dict[str, Any]:
        passages = self.group.passages or Passages({}, {})
        own = passages.asked.get(self.question.question_id)
        before = [passages.shown.get(question.question_id) for question in self.shown]
        return {
            "passage_id": own.passage_id if own else None,
            "demonstration_ids": [question.question_id for question in self.shown],
            "demonstration_passage_ids": [passage.passage_id if passage else None for passage in before],
        }


@dataclass(frozen=True)
class Plan:
    """The rows of a partition, and how many questions (times prompts) had no passage to be asked with."""

    rows: Sequence[PlannedRow]
    n_without_passage: int = 0


def plan_answers(
    study: Study, lake: Lake, model_name: str, method: str, log: logging.Logger | None = None
) -> Plan:
    """Rows of `answers` for a method, ordered by dataset, prompt and question_id.

    `model_name` matters where the model writes background texts of its own. `log` hears how far the draws of
    demonstrations are.
    """
    by_dataset = read_questions(study, lake)
    by_method = _passages(lake, model_name, method)
    pa.default_memory_pool().release_unused()  # what Arrow read stays with it else, as much again as the records
    n_all = len(study.answer_prompts) * sum(map(len, by_dataset.values()))
    progress = Progress(f"{method}: prompts planned", n_all, n_all, log or _SILENT)
    rows: list[PlannedRow] = []
    n_without = 0
    for dataset, questions in sorted(by_dataset.items()):
        found = None if by_method is None else by_method.get(dataset, {})
        asked = [question for question in questions if found is None or question.question_id in found]
        pool = Demonstrations(dataset, questions, study.seed)
        for prompt in _by_name(study.answer_prompts):
            passages = None
            if found is not None:
                passages = passages_of_questions(questions, found, reference_demos=prompt.reference_demos)
            group = _group(study, "answers", dataset, prompt, passages)
            for question in asked:
                rows.append(PlannedRow(group, question, pool.draw(question, prompt)))
                progress.advance(1, 1)
            n_without += len(questions) - len(asked)
    return Plan(rows, n_without)


def plan_paraphrase_answers(study: Study, lake: Lake) -> Plan:
    """Rows of `paraphrase_answers`, ordered by dataset, prompt, question_id and paraphrase_id."""
    by_dataset = read_questions(study, lake)
    wordings = read_wordings(lake)
    rows: list[PlannedRow] = []
    for dataset, questions in sorted(by_dataset.items()):
        for prompt in _by_name(study.paraphrase_prompts):
            group = _group(study, "paraphrase_answers", dataset, prompt)
            rows += [
                PlannedRow(group, question, wording=wording, number=number)
                for question in questions
                for number, wording in wordings.get((dataset, question.question_id), ())
            ]
    return Plan(rows)


def plan_sampled_answers(study: Study, lake: Lake) -> Plan:
    """Rows of `sampled_answers`, `sampling.n` a question, ordered by dataset, prompt, question_id and sample."""
    rows: list[PlannedRow] = []
    for dataset, questions in sorted(read_questions(study, lake).items()):
        for prompt in _by_name(study.sample_prompts):
            group = _group(study, "sampled_answers", dataset, prompt)
            rows += [
                PlannedRow(group, question, number=number)
                for question in questions
                for number in range(study.sampling.n)
            ]
    return Plan(rows)


def plan_generated_passages(study: Study, lake: Lake) -> Plan:
    """Rows of `generated_passages`, one a question (GenRead's first step), ordered by dataset and question_id."""
    rows: list[PlannedRow] = []
    for dataset, questions in sorted(read_questions(study, lake).items()):
        group = RowGroup("generated_passages", dataset, None, BACKGROUND_TEMPLATE, study.seed)
        rows += [PlannedRow(group, question) for question in questions]
    return Plan(rows)


def prompt_slice(study: Study, table: str, method: str | None = None) -> dict[str, Any]:
    """What of the study decides a partition's rows and prompts, for its fingerprint; JSON-able.

    `method` for table answers. Decoding (tokens, temperature) and the lake's tables that prompts are made from are not
    in it. Keys without effect on the partition are left out: a change of them leaves it current.
    """
    asked = {
        "answers": study.answer_prompts,
        "paraphrase_answers": study.paraphrase_prompts,
        "sampled_answers": study.sample_prompts,
    }.get(table)
    cuts = method is not None and METHODS[method].cuts_last_sentence
    decisive: dict[str, Any] = {
        **({"cuts_last_sentence": True} if cuts else {}),
        "datasets": sorted(dataset.name for dataset in study.datasets),
        "seed": study.seed,
    }
    if asked is None:
        return decisive | {"prompts": [BACKGROUND_TEMPLATE]}
    if table == "sampled_answers":
        decisive["n_samples"] = study.sampling.n
    return decisive | {"prompts": [_decisive(prompt, method) for prompt in _by_name(asked)]}


def _decisive(prompt: Prompt, method: str | None) -> list[Any]:
    drawn = [prompt.shots, prompt.draw, prompt.demonstrations_from] if prompt.shots else []
    carries_passages = bool(prompt.shots) and method is not None and METHODS[method].kind != MEMORY
    looked_up = [prompt.reference_demos] if carries_passages else []
    return [prompt.name, FORMATS[prompt.format], *drawn, *looked_up]


def _passages(lake: Lake, model_name: str, method: str) -> Mapping[str, Mapping[str, Passage]] | None:
    if METHODS[method].kind == RETRIEVAL:
        return read_first_passages(lake, method)
    return read_generated_passages(lake, model_name) if METHODS[method].kind == BACKGROUND else None


def _group(
    study: Study, table: str, dataset: str, prompt: Prompt, passages: Passages | None = None
) -> RowGroup:
    return RowGroup(table, dataset, prompt.name, FORMATS[prompt.format], study.seed, passages)


def _by_name(prompts: Iterable[Prompt]) -> list[Prompt]:
    return sorted(prompts, key=lambda prompt: prompt.name)
