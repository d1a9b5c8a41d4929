"""A study as a frozen object: the content of study.yaml."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import GetPydanticSchema

from longtail.errors import StudyError
from longtail.methods import BACKGROUND, FUSED, METHODS, Method
from longtail.prompt_formats import CLOZE_FORMATS
from longtail.relations.relation import Relation, add_source_set
from longtail.storage.home import RESERVED_NAMES, StudyHome
from longtail.study.datasets import Dataset
from longtail.study.imports import (
    EXACT_MATCH,
    ROUGE_L,
    Collection,
    Counts,
    Decisions,
    ReferenceQuestions,
    load_format,
)
from longtail.study.models import TOP_K, Embeddings, Model, Nli
from longtail.study.parts import Entries, Part
from longtail.study.prompts import CANDIDATES, Grounding, Prompt, Sampling, list_methods
from longtail.study.source import NO_SOURCE, Popularity, Source
from longtail.study.sweep import Sweep
from longtail.study.values import (
    Default,
    Flag,
    Reading,
    Slug,
    Text,
    fail,
    list_schema,
    read_names,
    show,
    some_of,
    value_of,
    whole,
)

QUESTIONS = "questions"
SHORT_FORM = (
    "the short form: a file of questions. It stands for one dataset of format `table`; only `models` must then be given,"
    " the prompt is `zero_shot`, and the method closed_book"
)
"""What key `questions` means, which `study.file` writes in full."""
_OWNER = r"team:\S+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}"
"""What Dagster takes as an owner."""
LIMITED_NAME = re.compile(r"_limit_\d+$")
"""How the names of quick runs end, and no study's: their homes are side by side."""


@dataclass(frozen=True)
class _Retriever(Part):
    """One entry of `retrievers`: a method like the built-in one named by `kind`, with other settings."""

    name: Slug
    """the method"""
    kind: Text
    """the built-in method that it is like"""
    settings: Any = None
    chosen_by = "kind"
    holder = "settings"

    @classmethod
    def choices(cls) -> Sequence[str]:
        return [method.name for method in METHODS.values() if method.settings is not None]

    @classmethod
    def further_keys(cls, choice: str) -> type[Part]:
        return type(METHODS[choice].settings)

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Method:
        if self.name in METHODS:
            raise fail("name", f"{self.name!r} is the name of a built-in method; choose another")
        like = METHODS[self.kind]
        changes = ", ".join(f"{key}: {raw[key]}" for key in sorted(raw) if key not in ("name", "kind"))
        return dataclasses.replace(
            like,
            name=self.name,
            description=f"{like.description} ({changes})" if changes else like.description,
            settings=self.settings,
            is_default=False,
        )


def _read_owners(value: Any) -> tuple[str, ...]:
    for owner in read_names(value):
        if not re.fullmatch(_OWNER, owner):
            raise fail(
                "", f"must hold addresses or teams, as in ada@example.org and team:nlp, not {show(owner)}"
            )
    return tuple(value)


_OWNERS = value_of(
    "a list of addresses and teams",
    _read_owners,
    **list_schema({"type": "string", "pattern": f"^({_OWNER})$"}),
)


_RETRIEVER = GetPydanticSchema(lambda _source, handler: handler.generate_schema(_Retriever))


@dataclass(frozen=True, kw_only=True)
class Study(Part):
    """One study: study.yaml decides everything that `make run` does.

    `decisions` of others are compared with the study's own policies. The report compares the popularity of the
    `reference_questions`' entities with the datasets' (PopQA, Figure 3). `limit` is no key of the file: LONGTAIL_LIMIT
    sets it (`study.file`).
    """

    name: Slug
    """the name of the study, and of its folder of state; in the short form that of the file of questions"""
    description: Text
    """one line about it"""
    owners: Annotated[tuple[str, ...], _OWNERS, Default("none")] = ()
    """who is asked about it, such as team:nlp or ada@example.org: Dagster shows them with every asset"""
    source: Annotated[Source, Default("none")]
    """where facts, page views and texts come from; not needed if all datasets are imports"""
    datasets: Entries[Dataset]
    """the sets of questions"""
    collections: Entries[Collection] = ()
    """files of passages. Retrieval then searches these passages and no others"""
    counts: Entries[Counts] = ()
    """texts in which subjects and answers are counted, and counts of others"""
    retrievers: Entries[Annotated[Method, _RETRIEVER]] = ()
    """retrievers of the study's own"""
    top_k: Annotated[int, whole(1, 100)] = TOP_K
    """passages that are kept for a question"""
    models: Entries[Model]
    """the language models"""
    methods: Annotated[
        tuple[str, ...],
        some_of(list_methods, is_open=True),
        Default("closed_book, bm25, dense, oracle; short form: closed_book"),
    ]
    """how each question is asked; see [Methods](#methods)"""
    prompts: Entries[Prompt]
    """in which form questions are asked"""
    popularity: Popularity
    """the measure and window of popularity"""
    path: Path
    max_new_tokens: Annotated[int, whole(1, 4096)] = 15
    """the longest answer"""
    background_tokens: Annotated[int, whole(1, 4096)] = 150
    """the longest background text (method `genread`)"""
    sampling: Annotated[Sampling, Default("below")] = Sampling()  # noqa: RUF009 (frozen)
    """how many answers are sampled, and at which temperature"""
    embeddings: Annotated[Embeddings, Default("below")] = Embeddings()  # noqa: RUF009 (frozen)
    """the sentence encoder that compares answers"""
    nli: Nli | None = None
    """a classifier that says whether one answer entails another"""
    seed: Annotated[int, whole(0)] = 0
    """decides all draws"""
    reference_questions: Entries[ReferenceQuestions] = ()
    """questions whose popularity is compared, and that no model is asked"""
    decisions: Entries[Decisions] = ()
    """files that say for which questions other policies retrieve"""
    grounding: Grounding | None = None
    """how much of what models write is quoted from a corpus"""
    retrieve_paraphrases: Flag = False
    """search passages for each paraphrase, too"""
    sweep: Sweep | None = None
    """readers that are fine-tuned"""
    limit: int | None = None
    left_out = ("path", "limit")

    @classmethod
    def expand(cls, raw: Mapping[str, Any], reading: Reading) -> Mapping[str, Any]:
        name = raw.get("name")
        if isinstance(name, str) and name in RESERVED_NAMES:
            taken = ", ".join(sorted(RESERVED_NAMES))
            raise fail("name", f"{name!r} is taken; not allowed: {taken}")
        if isinstance(name, str) and LIMITED_NAME.search(name):
            message = "ends as the names of quick runs do (_limit_50); choose another"
            raise fail("name", f"{name!r} {message}")
        methods = [name for name, method in METHODS.items() if method.is_default]
        return {"methods": methods, "source": Source(NO_SOURCE, ""), **raw}

    @classmethod
    def all_keys(cls, raw: Mapping[str, Any]) -> list[str]:
        return [*super().all_keys(raw), QUESTIONS]

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        made = super().__get_pydantic_json_schema__(schema, handler)
        made["properties"][QUESTIONS] = {"description": SHORT_FORM, "type": "string", "minLength": 1}
        models = made["properties"]["models"]
        models["items"] = {"anyOf": [{"type": "string", "minLength": 1}, models["items"]]}
        made["anyOf"] = [{"required": made.pop("required")}, {"required": [QUESTIONS, "models"]}]
        return made

    @property
    def home(self) -> StudyHome:
        return StudyHome.of(self.path, self.name, is_quick=self.is_quick)

    @property
    def is_quick(self) -> bool:
        """Whether this is a quick run, of few questions."""
        return self.limit is not None

    def method(self, name: str) -> Method:
        """The record of a method: one that the study declares, or one that is built in. Errors: `StudyError`."""
        method: Method = _find_by_name(self.known_methods, name, "method", self.path)
        return method

    @property
    def known_methods(self) -> tuple[Method, ...]:
        """The methods that the study could use."""
        return (*METHODS.values(), *self.retrievers)

    @property
    def retrieval_methods(self) -> tuple[str, ...]:
        """The methods that retrieve; one that reads others' results comes after them."""
        names = [method for method in self.methods if not self.method(method).is_parametric]
        return tuple(sorted(names, key=lambda method: self.method(method).reads_results))

    def reads_paraphrases(self, method: str) -> bool:
        """Whether passages are found for paraphrases: not by methods whose passages hold for all wordings."""
        asking = self.method(method)
        return self.retrieve_paraphrases and not (asking.is_parametric or asking.is_fixed)

    def results_read_by(self, retriever: str) -> tuple[str, ...]:
        """The study's retrievers whose results `retriever` reads; empty if it searches by itself.

        A fusion reads all that can be fused. Other methods read one: the first dense retriever that the study names, or
        the first retriever where none is dense.
        """
        reader = self.method(retriever)
        if not reader.reads_results:
            return ()
        others = [name for name in self.methods if self.method(name).can_be_fused]
        if reader.passages == FUSED:
            return tuple(others)
        return tuple(sorted(others, key=lambda name: not self.method(name).is_dense)[:1])

    @property
    def generates(self) -> bool:
        """Whether some model is asked here; without one, all answers are imported."""
        return any(model.generates for model in self.models)

    @property
    def writes_background(self) -> bool:
        """Whether some method needs background texts of the models: lake table generated_passages then has rows."""
        return any(self.method(method).kind == BACKGROUND for method in self.methods)

    def drawn_as(self, dataset: str) -> str:
        """The name by which a dataset's questions, demonstrations and samples are drawn: its own, or key `drawn_as`."""
        return {known.name: known.drawn_as for known in self.datasets}.get(dataset) or dataset

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
        return tuple(cloze for cloze, file in files if load_format(file.kind, file.format).has_candidates)

    @property
    def licences(self) -> tuple[tuple[str | None, str], ...]:
        """The licence that the study states of imported questions and answers, or None, and what they are."""
        questions = (
            (dataset.imported.licence, f"questions of {dataset.name}")
            for dataset in self.datasets
            if dataset.imported
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
        asked = [dataset for dataset in self.datasets if self.grounding and self.grounding.asks(dataset.name)]
        return tuple(sorted(asked, key=lambda dataset: dataset.name))

    def end_task_of(self, dataset: Dataset) -> str:
        """The score of a dataset's grounded answers: its own, or that of long answers where the study asks for them."""
        if self.grounding is not None and dataset.name in self.grounding.long_answers:
            return ROUGE_L
        file, score = dataset.imported, dataset.end_task
        return score or (str(load_format(file.kind, file.format).end_task) if file else EXACT_MATCH)

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
        return _find_by_name(self.models, name, "model", self.path)

    def prompt(self, name: str) -> Prompt:
        return _find_by_name(self.prompts, name, "prompt", self.path)


def _find_by_name(items: tuple[Any, ...], name: str, what: str, path: Path) -> Any:
    for item in items:
        if item.name == name:
            return item
    raise StudyError(f"{path}: {what} {name!r} is not one of: {', '.join(item.name for item in items)}")
