"""A study as a frozen object: the content of study.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.errors import StudyError
from longtail.methods import BACKGROUND, FUSED, METHODS, Method
from longtail.prompt_formats import CLOZE_FORMATS
from longtail.relations.relation import Relation, add_source_set
from longtail.storage.home import StudyHome
from longtail.study.counts import Counts
from longtail.study.datasets import Dataset, end_task_of
from longtail.study.decisions import Decisions
from longtail.study.grounding import Grounding
from longtail.study.imports import ROUGE_L, Collection, load_format
from longtail.study.models import Model
from longtail.study.popularity import Popularity
from longtail.study.prompts import CANDIDATES, Prompt, Sampling
from longtail.study.reference_questions import ReferenceQuestions
from longtail.study.source import Source
from longtail.study.sweep import Sweep
from longtail.study.text_models import Embeddings, Nli


@dataclass(frozen=True)
class Study:
    """One study: study.yaml decides everything that `make run` does.

    `max_new_tokens` limits an answer, `background_tokens` a background text. No model answers the
    `reference_questions`: the report compares the popularity of their entities with the datasets' (PopQA, Figure 3).
    With `collections`, retrieval searches their passages, and no others. `counts` of subjects and answers are measures
    beside popularity. `decisions` of others are compared with the study's own policies. `retrievers` are methods that
    the study declares itself; `methods` names those that it uses, declared or built in. With `retrieve_paraphrases`,
    they also find passages for every paraphrase. With `nli`, answers are also compared by entailment. With `grounding`,
    what models write is compared with a corpus, and models are asked to quote it.
    With `sweep`, readers are fine-tuned. `limit` is no key of the file: LONGTAIL_LIMIT sets it (`study.quick`).
    """

    name: str
    description: str
    source: Source
    datasets: tuple[Dataset, ...]
    prompts: tuple[Prompt, ...]
    models: tuple[Model, ...]
    methods: tuple[str, ...]
    popularity: Popularity
    path: Path
    top_k: int = 20
    max_new_tokens: int = 15
    background_tokens: int = 150
    sampling: Sampling = field(default_factory=Sampling)
    embeddings: Embeddings = field(default_factory=Embeddings)
    nli: Nli | None = None
    seed: int = 0
    reference_questions: tuple[ReferenceQuestions, ...] = ()
    collections: tuple[Collection, ...] = ()
    counts: tuple[Counts, ...] = ()
    decisions: tuple[Decisions, ...] = ()
    grounding: Grounding | None = None
    retrievers: tuple[Method, ...] = ()
    retrieve_paraphrases: bool = False
    sweep: Sweep | None = None
    limit: int | None = None

    @property
    def home(self) -> StudyHome:
        return StudyHome.of(self.path, self.name, is_quick=self.is_quick)

    @property
    def is_quick(self) -> bool:
        """Whether this is a quick run, of few questions."""
        return self.limit is not None

    def method(self, name: str) -> Method:
        """The record of a method: one that the study declares, or one that is built in. Errors: `StudyError`."""
        found: Method = _named(self.known_methods, name, "method", self.path)
        return found

    @property
    def known_methods(self) -> tuple[Method, ...]:
        """The methods that the study could use."""
        return (*METHODS.values(), *self.retrievers)

    @property
    def retrieval_methods(self) -> tuple[str, ...]:
        """The methods that retrieve; one that reads others' results comes after them."""
        found = [method for method in self.methods if not self.method(method).is_parametric]
        return tuple(sorted(found, key=lambda method: self.method(method).reads_results))

    def reads_paraphrases(self, method: str) -> bool:
        """Whether passages are found for paraphrases: not by methods whose passages hold for all wordings."""
        own = self.method(method)
        return self.retrieve_paraphrases and not (own.is_parametric or own.is_fixed)

    def results_read_by(self, retriever: str) -> tuple[str, ...]:
        """The study's retrievers whose results `retriever` reads; empty if it searches by itself.

        A fusion reads all that can be fused. Other methods read one: the first dense retriever that the study names, or
        the first retriever where none is dense.
        """
        own = self.method(retriever)
        if not own.reads_results:
            return ()
        others = [name for name in self.methods if self.method(name).can_be_fused]
        if own.passages == FUSED:
            return tuple(others)
        return tuple(sorted(others, key=lambda name: not self.method(name).is_dense)[:1])

    @property
    def writes_background(self) -> bool:
        """Whether some method needs background texts of the models: lake table generated_passages then has rows."""
        return any(self.method(method).kind == BACKGROUND for method in self.methods)

    def drawn_as(self, dataset: str) -> str:
        """The name by which a dataset's questions, demonstrations and samples are drawn: its own, or key `drawn_as`."""
        return {one.name: one.drawn_as for one in self.datasets}.get(dataset) or dataset

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The relations that the study knows: PopQA's, and those of its files."""
        return add_source_set(relation for dataset in self.datasets for relation in dataset.definitions)

    @property
    def relations_of_source(self) -> tuple[Relation, ...]:
        """The relations that are asked of the source's facts."""
        asked = {name for dataset in self.datasets_of_source for name in dataset.relations}
        return tuple(relation for relation in self.relations if relation.name in asked)

    @property
    def datasets_of_source(self) -> tuple[Dataset, ...]:
        """The datasets whose questions are built from the source's facts."""
        return tuple(dataset for dataset in self.datasets if dataset.imported is None)

    @property
    def datasets_of_files(self) -> tuple[Dataset, ...]:
        """The datasets whose questions come from imported files."""
        return tuple(dataset for dataset in self.datasets if dataset.imported is not None)

    @property
    def cloze_datasets(self) -> tuple[Dataset, ...]:
        """The datasets whose questions are cloze queries."""
        files = [(dataset, dataset.imported) for dataset in self.datasets_of_files if dataset.imported]
        return tuple(own for own, file in files if load_format(file.kind, file.format).has_candidates)

    @property
    def licences(self) -> tuple[tuple[str | None, str], ...]:
        """The licence that the study states of imported questions and answers, or None, and what they are."""
        questions = (
            (one.imported.licence, f"questions of {one.name}") for one in self.datasets if one.imported
        )
        answers = (
            (results.licence, f"answers of {model.name} to {results.dataset}")
            for model in self.models
            for results in model.results
        )
        return (*questions, *answers)

    @property
    def answer_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table answers."""
        return tuple(prompt for prompt in self.prompts if "questions" in prompt.generations)

    def prompts_of(self, method: str) -> tuple[Prompt, ...]:
        """The prompts that ask questions by a method."""
        return tuple(
            prompt for prompt in self.answer_prompts if not prompt.methods or method in prompt.methods
        )

    @property
    def grounding_prompts(self) -> tuple[str, ...]:
        """The names of the prompts of lake table grounded_generations."""
        return self.grounding.prompts if self.grounding else ()

    @property
    def grounded_datasets(self) -> tuple[Dataset, ...]:
        """The datasets that are asked under grounding prompts, in the order of their names."""
        asked = [one for one in self.datasets if self.grounding and self.grounding.asks(one.name)]
        return tuple(sorted(asked, key=lambda dataset: dataset.name))

    def end_task_of(self, dataset: Dataset) -> str:
        """The score of a dataset's grounded answers: its own, or that of long answers where the study asks for them."""
        asks_long = self.grounding is not None and dataset.name in self.grounding.long_answers
        return ROUGE_L if asks_long else end_task_of(dataset)

    @property
    def paraphrase_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table paraphrase_answers."""
        return tuple(prompt for prompt in self.prompts if "paraphrases" in prompt.generations)

    @property
    def sample_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table sampled_answers."""
        return tuple(prompt for prompt in self.prompts if "samples" in prompt.generations)

    @property
    def candidate_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table candidate_answers."""
        return tuple(prompt for prompt in self.prompts if CANDIDATES in prompt.generations)

    def scores_by(self, prompt: Prompt, method: str) -> bool:
        """Whether a prompt asks for candidates by a method; none does by background texts, which are about a question."""
        is_named = not prompt.methods or method in prompt.methods
        return CANDIDATES in prompt.generations and is_named and self.method(method).kind != BACKGROUND

    def cloze_prompts(self, model: Model) -> tuple[Prompt, ...]:
        """Those of `candidate_prompts` whose format is for models of this kind."""
        return tuple(
            prompt
            for prompt in self.candidate_prompts
            if CLOZE_FORMATS[prompt.format] == model.encoder_decoder
        )

    def model(self, name: str) -> Model:
        return _named(self.models, name, "model", self.path)

    def prompt(self, name: str) -> Prompt:
        return _named(self.prompts, name, "prompt", self.path)


def _named(items: tuple[Any, ...], name: str, what: str, path: Path) -> Any:
    for item in items:
        if item.name == name:
            return item
    raise StudyError(f"{path}: {what} {name!r} is not one of: {', '.join(item.name for item in items)}")
