"""Lake tables whose rows answer the study's questions: answers, paraphrase_answers and sampled_answers; and
generated_passages, the background texts that genread puts before a question (GenRead).

Paraphrases and samples are asked from memory. A wording stands behind the demonstrations of its question: they are the
same for all its wordings, of which 0 is the question itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from longtail.generation.backends.base import Decoding, Generation
from longtail.generation.engine.task import ModelInput, Plan, Request, Scope, Task
from longtail.generation.prompts.build import (
    Demonstrations,
    Passages,
    Question,
    build_prompt,
    first_passages,
    passages_of_questions,
    read_generated_passages,
    read_passages,
    read_questions,
    read_wordings,
)
from longtail.generation.prompts.endings import FIRST_LINE
from longtail.generation.tasks.imported import import_passages, score_answers
from longtail.generation.tasks.questions import (
    Group,
    QuestionItem,
    QuestionTask,
    answer_decoding,
    background_columns,
    by_name,
    decisive_keys,
    decisive_prompt,
    declines_of,
    template_of,
    text_decoding,
    text_of,
)
from longtail.methods import BACKGROUND, MEMORY, RETRIEVAL
from longtail.progress import Progress
from longtail.prompt_formats import BACKGROUND_TEMPLATE
from longtail.storage.lake import Outcome
from longtail.study.backends import SAMPLE
from longtail.study.models import Model
from longtail.study.prompts import Prompt
from longtail.study.study import Study


@dataclass(frozen=True, slots=True)
class AskedQuestion(QuestionItem):
    """One question behind its demonstrations, each with its passage where the method has one."""

    def ingredients(self) -> dict[str, Any]:
        """The ids of the passages and demonstrations in the prompt."""
        passages = self.group.passages or Passages({}, {})
        read = [passage.passage_id for passage in passages.of(self.question.question_id)]
        before = [passages.shown.get(question.question_id) for question in self.shown]
        return {
            **QuestionItem.ingredients(self),
            "passage_id": read[0] if read else None,
            "passage_ids": read or None,
            "demonstration_passage_ids": [passage.passage_id if passage else None for passage in before],
        }


class Answers(QuestionTask):
    """A question without a passage of the method gets no row and is counted."""

    table = "answers"
    keys = ("dataset", "question_id", "prompt")

    def prompts(self, study: Study) -> Sequence[Prompt]:
        return study.answer_prompts

    def inputs(self, scope: Scope) -> list[str]:
        method, content = scope.method_record, scope.lake.content
        is_retrieval = method.kind == RETRIEVAL
        passages = [content("retrieved_passages", method.name), content("passages")] if is_retrieval else []
        return [*super().inputs(scope), *passages]

    def source_table(self, scope: Scope) -> str | None:
        return "generated_passages" if scope.method_record.kind == BACKGROUND else None

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        method, prompts = scope.method_record, []
        for prompt in by_name(scope.study.prompts_of(method.name)):
            carries_passages = prompt.shots and method.kind != MEMORY
            looked_up = [prompt.reference_demos] if carries_passages else []
            prompts.append([*decisive_prompt(prompt, scope.model), *looked_up])
        return decisive_keys(
            scope.study,
            *prompts,
            max_new_tokens=scope.study.max_new_tokens,
            cuts_last_sentence=method.cuts_last_sentence,
            passages=scope.n_apart,
        )

    def plan(self, scope: Scope) -> Plan[AskedQuestion]:
        """Ordered by dataset, prompt and question_id; the log hears how far the draws of demonstrations are."""
        study = scope.study
        by_dataset = read_questions(study, scope.lake)
        method, passages = scope.method_record, None
        if method.kind == RETRIEVAL:
            retrieved = read_passages(scope.lake, method, scope.n_apart)
            passages = retrieved if scope.n_apart else first_passages(retrieved)
        elif method.kind == BACKGROUND:
            passages = read_generated_passages(scope.lake, scope.model.name)
        # Arrow keeps what it has read: as much memory again as the records take
        pa.default_memory_pool().release_unused()
        prompts = by_name(study.prompts_of(method.name))
        request = Request(answer_decoding(scope.model, study.max_new_tokens))
        n_all = len(prompts) * sum(map(len, by_dataset.values()))
        progress = Progress(scope.log, f"{scope.method}: prompts planned", n_all)
        plan = plan_answers(
            scope.model, prompts, request, by_dataset, passages, study.seed, are_apart=scope.n_apart > 0,
            tick=lambda: progress.add(1), drawn_as=study.drawn_as,
        )  # fmt: skip
        progress.done()
        return plan

    def import_rows(self, scope: Scope, run_id: str) -> Outcome:
        """The rows of table imported_answers, scored by our rules."""
        return score_answers(scope, run_id)


def plan_answers(
    model: Model,
    prompts: Sequence[Prompt],
    request: Request,
    questions: Mapping[str, Sequence[Question]],
    passages: Mapping[str, Mapping[str, Any]] | None,
    seed: int,
    *,
    are_apart: bool = False,
    tick: Callable[[], None] = lambda: None,
    drawn_as: Callable[[str], str] = str,
) -> Plan[AskedQuestion]:
    """Each question in each prompt, but for those without a passage; `passages` is None for a method without any.

    `questions`: by dataset. `passages`: dataset → question_id → passage, or passages, if the model reads them apart from
    the question. `seed`: of the draws of demonstrations, which `drawn_as` names (`Study.drawn_as`). `tick` is called
    once per item.
    """
    items: list[AskedQuestion] = []
    n_all = 0

    def passages_for(prompt: Prompt, dataset: str) -> Passages | None:
        """Where passages are apart from the question, demonstrations have none (chosen)."""
        if passages is None:
            return None
        by_question = passages.get(dataset, {})
        if are_apart:
            return Passages({}, {}, by_question)
        return passages_of_questions(questions[dataset], by_question, reference_demos=prompt.reference_demos)

    for group, question, shown in ask(
        model, prompts, questions, seed, lambda _: request, drawn_as, passages_for
    ):
        if passages is None or question.question_id in passages.get(group.dataset, {}):
            items.append(AskedQuestion(group, question, shown=shown))
        n_all += 1
        tick()
    return Plan(items, n_all - len(items))


def ask(
    model: Model,
    prompts: Sequence[Prompt],
    questions: Mapping[str, Sequence[Question]],
    seed: int,
    request_for: Callable[[str], Request],
    drawn_as: Callable[[str], str] = str,
    passages_for: Callable[[Prompt, str], Passages | None] = lambda prompt, dataset: None,
) -> Iterator[tuple[Group, Question, tuple[Question, ...]]]:
    """Each question in each prompt, with its group and its demonstrations: by dataset, prompt's name and question_id.

    `questions`: by dataset. `request_for`: from a dataset's name, as draws name it, to the request of its questions.
    `seed`: of the draws, which `drawn_as` names (`Study.drawn_as`). `passages_for`: from a prompt and a dataset.
    """
    for dataset, of_dataset in questions.items():
        request, pool = request_for(drawn_as(dataset)), Demonstrations(drawn_as(dataset), of_dataset, seed)
        for prompt in by_name(prompts):
            template, declines = template_of(prompt, model), declines_of(prompt, model)
            group = Group(dataset, prompt.name, template, request, passages_for(prompt, dataset), declines)
            for question in of_dataset:
                yield group, question, pool.draw(question, prompt)


def _ask_from_memory(
    task: QuestionTask, scope: Scope, request_for: Callable[[str], Request]
) -> Iterator[tuple[Group, Question, tuple[Question, ...]]]:
    study, questions = scope.study, read_questions(scope.study, scope.lake)
    return ask(scope.model, task.prompts(study), questions, study.seed, request_for, study.drawn_as)


@dataclass(frozen=True, slots=True)
class WordedQuestion(QuestionItem):
    """One wording of a question."""

    wording: str
    paraphrase_id: int

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question, paraphrase and prompt."""
        return QuestionItem.key(self, part) | {"paraphrase_id": self.paraphrase_id}

    def prompt(self) -> ModelInput:
        """Demonstrations, then the wording."""
        worded = dataclasses.replace(self.question, question=self.wording)
        return ModelInput(build_prompt(worded, self.group.template, self.shown))


class ParaphraseAnswers(QuestionTask):
    """The answers to all wordings of a question."""

    table = "paraphrase_answers"
    keys = ("dataset", "question_id", "paraphrase_id", "prompt")
    reads = ("questions", "paraphrases")

    def prompts(self, study: Study) -> Sequence[Prompt]:
        return study.paraphrase_prompts

    def plan(self, scope: Scope) -> Plan[WordedQuestion]:
        """Ordered by dataset, prompt, question_id and paraphrase_id."""
        wordings = read_wordings(scope.lake)
        request = Request(answer_decoding(scope.model, scope.study.max_new_tokens))
        return Plan([
            WordedQuestion(group, question, wording, number, shown=shown)
            for group, question, shown in _ask_from_memory(self, scope, lambda _: request)
            for number, wording in wordings.get((group.dataset, question.question_id), ())
        ])  # fmt: skip


@dataclass(frozen=True, slots=True)
class SampledQuestion(QuestionItem):
    """One question whose samples are seeded by (the study's seed, dataset, question, number of the sample)."""

    @property
    def request(self) -> Request:
        asked = self.group.request
        return dataclasses.replace(asked, seeded_by=(*asked.seeded_by, self.question.question_id))

    def key(self, part: int) -> dict[str, Any]:
        """Dataset, question, sample and prompt."""
        return QuestionItem.key(self, part) | {"sample": part}

    def ingredients(self) -> dict[str, Any]:
        """Also how its answers are drawn."""
        decoding = cast(Decoding, self.group.request.decoding)
        return QuestionItem.ingredients(self) | {"temperature": decoding.temperature}


class SampledAnswers(QuestionTask):
    """Several answers to a question, drawn at a temperature."""

    table = "sampled_answers"
    keys = ("dataset", "question_id", "sample", "prompt")
    capability = SAMPLE

    def prompts(self, study: Study) -> Sequence[Prompt]:
        return study.sample_prompts

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        sampling = scope.study.sampling
        return {**super().decisive(scope), "sampling": [sampling.n, sampling.temperature]}

    def plan(self, scope: Scope) -> Plan[SampledQuestion]:
        """Ordered by dataset, prompt and question_id; the rows of a question by sample."""
        study, sampling = scope.study, scope.study.sampling
        greedy = answer_decoding(scope.model, study.max_new_tokens)
        drawn = dataclasses.replace(greedy, temperature=sampling.temperature)
        asked = _ask_from_memory(
            self, scope, lambda drawn_as: Request(drawn, sampling.n, (study.seed, drawn_as))
        )
        return Plan([SampledQuestion(group, question, shown=shown) for group, question, shown in asked])


class GeneratedPassages(Task):
    """A background text for every question, whose first line later stands before it."""

    table = "generated_passages"
    keys = ("dataset", "question_id")

    def is_asked(self, study: Study) -> bool:
        return study.writes_background

    def decisive(self, scope: Scope) -> Mapping[str, Any]:
        tokens = scope.study.background_tokens
        return decisive_keys(scope.study, [BACKGROUND_TEMPLATE], background_tokens=tokens)

    def plan(self, scope: Scope) -> Plan[QuestionItem]:
        """Ordered by dataset and question_id."""
        request = Request(text_decoding(scope.model, scope.study.background_tokens, FIRST_LINE))
        return Plan([
            QuestionItem(group, question)
            for dataset, questions in read_questions(scope.study, scope.lake).items()
            for group in [Group(dataset, None, BACKGROUND_TEMPLATE, request)]
            for question in questions
        ])  # fmt: skip

    def row(self, model: Model, item: QuestionItem, part: int, result: Generation) -> Mapping[str, Any]:
        question = item.question
        text = text_of(result, model)
        return background_columns(
            text, question.question_id, question.gold_answers, model, raw_text=result.raw_text
        )

    def import_rows(self, scope: Scope, run_id: str) -> Outcome:
        """The background texts that the model's files hold."""
        return import_passages(scope, run_id)
