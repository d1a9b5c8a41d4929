"""A study as frozen objects: the content of study.yaml.

What belongs here: the keys of a study and their allowed values. What does not: reading and checking the file
(`study.file`), and the effects of the keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster_project.core.errors import StudyError
from dagster_project.core.home import StudyHome
from dagster_project.core.methods import BACKGROUND, METHODS, Method
from dagster_project.core.prompt_formats import CLOZE_FORMATS
from dagster_project.core.relations.sets import SOURCE_SET, relation_names
from dagster_project.core.study.backends import BACKENDS, IMPORTED
from dagster_project.core.study.grounding import Grounding
from dagster_project.core.study.imports import (
    EXACT_MATCH,
    ROUGE_L,
    Collection,
    Import,
    Place,
    Results,
    load_format,
)
from dagster_project.core.study.reference_questions import ReferenceQuestions
from dagster_project.core.study.sweep import Sweep

SOURCE_KINDS = ("sandbox", "wikidata", "rdf_file")
FACT_ORIGINS = ("query_service", "entity_api", "truthy_dump")
VIEW_ORIGINS = ("auto", "api", "dump")
FREQUENCIES = ("popularity", "text")
MATCHES = ("whole_words", "anywhere")
NO_SOURCE = "none"
DEVICE_MAPS = ("auto", "balanced", "sequential")
APIS = ("completions", "chat")
PROMPT_FORMATS = ("qa", "question_answer", "question", "popqa_tp", *CLOZE_FORMATS)
CANDIDATES = "candidates"
DRAWS = ("per_question", "per_relation")
DEMONSTRATION_POOLS = ("other_relations", "all_questions")
ASKS = ("questions", "paraphrases", "samples", CANDIDATES)
REDIRECTS = ("ignore", "resolve", "sum")
MEASURES = ("page_views", "sitelinks", IMPORTED)


@dataclass(frozen=True)
class FactSample:
    """Which of the source's facts are asked about: a sample weighted by frequency (SPEC §1; PopQA, appendix A).

    `frequency` says how the subject's frequency is measured. `text`: how often its names occur in `text`, rescaled to
    800 MB (`match`: as `whole_words`, or `anywhere`). `popularity`: the study's measure; page views are those of
    `month`. At most `per_relation` facts per relation are kept. The study's `seed` also seeds this draw.
    """

    frequency: str
    per_relation: int = 2_000
    month: str | None = None
    text: Place | None = None
    match: str = "whole_words"


@dataclass(frozen=True)
class Source:
    """Where facts, views and texts come from.

    `sandbox`: a synthetic world with `facts_per_relation` questions per relation, made from `seed`.
    `wikidata`: the live services; the environment variable `contact_env` must hold the operator's address.
    `rdf_file`: an N-Triples file (plain or gzip) named by the environment variable `path_env`.
    `none`: the study has no source; all its datasets are imports.
    `snapshot` is the month that the facts are pinned to; a new value fetches them again.

    `facts_from`: the SPARQL service; wbgetentities, for the subjects in the file of `ids_env`; or the truthy dump of
    `dump_env`, which is downloaded if that variable is not set. `views_from`: the page view API; the monthly dumps in
    the folder of `page_view_dumps_env` (downloaded if it is not set); or `auto`: the dumps if there are many articles.
    A truncated dump is used up to the break only if `accept_cut_dumps` is set. Without `sample`, all facts are asked
    about.
    """

    kind: str
    snapshot: str
    seed: int = 0
    facts_per_relation: int = 140
    path_env: str = "LONGTAIL_RDF_FILE"
    contact_env: str = "LONGTAIL_CONTACT"
    facts_from: str = "query_service"
    views_from: str = "auto"
    ids_env: str = "LONGTAIL_ENTITY_IDS"
    dump_env: str = "LONGTAIL_TRUTHY_DUMP"
    page_view_dumps_env: str = "LONGTAIL_PAGE_VIEW_DUMPS"
    accept_cut_dumps: bool = False
    sample: FactSample | None = None


@dataclass(frozen=True)
class Dataset:
    """A set of questions about the facts of `relations`.

    With `imported` (key `import`) the questions come from an imported file instead of the study's source; with
    `paraphrases` their other wordings also do. Left out, `relations` are all of the dataset's `relation_set`. A dataset
    without a set then asks all questions of its file, also those that have no relation.

    The other keys choose a part, in this order: `first_rows` (the first questions of the file), `ids` (those that a
    text file names, one id a line; blank lines and lines that begin with # do not count), `relations`, then seeded
    draws of at most `max_questions_per_relation` from each relation and of at most `max_questions` in all.
    """

    name: str
    relations: tuple[str, ...] = relation_names(SOURCE_SET)
    max_questions_per_relation: int | None = None
    imported: Import | None = None
    paraphrases: Import | None = None
    max_questions: int | None = None
    first_rows: int | None = None
    ids: Place | None = None

    @property
    def relation_set(self) -> str | None:
        """The set that its relations are of; None where its format has none."""
        return relation_set_of(self.imported)

    @property
    def end_task(self) -> str:
        """The score of a grounded answer (SPEC §9): `exact_match`, `f1` or `rouge_l`, as its format says."""
        if self.imported is None:
            return EXACT_MATCH
        score: str = load_format(self.imported.kind, self.imported.format).end_task
        return score


def relation_set_of(imported: Import | None) -> str | None:
    """The set of relations that goes with a dataset's source, or with its import's format; None without one."""
    if imported is None:
        return SOURCE_SET
    relation_set: str | None = load_format(imported.kind, imported.format).relation_set
    return relation_set


@dataclass(frozen=True)
class Prompt:
    """The form of a question in a prompt (SPEC §3).

    `format`: `qa` is `Q: … A:`; `question_answer` is `Question: …` and `Answer:` on two lines; `question` is the bare
    question; `popqa_tp` is `question` for encoder-decoders and `question_answer` for other models; `cloze_prefix` is a
    cloze query up to the place of its answer, for decoder-only models; `cloze_t5` is all of it, with a sentinel at that
    place, for encoder-decoders. `demonstrations_from` says where the `shots` demonstrations come from:
    spread over the other relations (PopQA), or a simple random sample of all questions (EntityQuestions). `draw` says
    whether they are drawn for every question or once per relation. With `reference_demos`, a demonstration has a passage
    only if the reference implementation finds one. `asks` says what the prompt is used for: `questions` (lake table
    answers), `paraphrases` (paraphrase_answers), `samples` (sampled_answers), `candidates` (candidate_answers: the
    candidates of a cloze query are scored). PopQA-TP asks paraphrases and samples without demonstrations, and a model
    that does not answer without an example needs some. `methods` are those by which it asks questions; empty: all of
    the study's.
    """

    name: str
    format: str = "qa"
    shots: int = 0
    draw: str | None = None
    demonstrations_from: str = "other_relations"
    reference_demos: bool = False
    asks: tuple[str, ...] = ("questions",)
    methods: tuple[str, ...] = ()


@dataclass(frozen=True)
class Service:
    """A server with an OpenAI-compatible HTTP API, for backend `openai`.

    `base_url` ends before `/completions` or `/chat/completions`. `api_key_env` names the environment variable with the
    key. `requests_per_minute` and `tokens_per_minute` are the server's limits; None: no limit. A partition may cost
    `max_cost_usd`. Prices are in dollars per million tokens; None: the price table's.
    """

    base_url: str
    api: str = "completions"
    api_key_env: str | None = None
    max_concurrency: int = 8
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_cost_usd: float | None = None
    prompt_usd_per_million: float | None = None
    completion_usd_per_million: float | None = None


@dataclass(frozen=True)
class Model:
    """A language model.

    `path` is a hub id, a folder, `sandbox:s`, `sandbox:m` or `sandbox:l` for the reference models, a GGUF file (relative
    to the study file, in `study_folder`), `package:<package>/<file>` for one that an installed package carries, or the
    model's name at a `service`. The `revision` of a GGUF file is its SHA-256. `device` is a torch device or `auto`;
    `device_map` spreads a model over several GPUs. `batch_tokens` limits the tokens of a local batch. For a service,
    `dtype` and `quantisation` are `unknown` unless declared; they distinguish its rows. `device_hour_usd` is the
    price of one hour of one local device. If a model `rambles`, only the first sentence of its answer is kept (SPEC
    §3). `encoder_decoder` says that it is one: some prompts then have another form. It reads `passages` of what was
    retrieved apart from the question, and loses the end of one that makes the question longer than `passage_tokens`;
    with 0 it reads the first passage before the question. `instruction_tuned` only describes it (None: not said).
    Backend `imported` loads no model: its answers are the imported `results`.
    """

    name: str
    path: str
    backend: str = "transformers"
    family: str = ""
    n_parameters: int | None = None
    revision: str | None = None
    dtype: str = "float32"
    quantisation: str = "none"
    device: str = "auto"
    device_map: str | None = None
    batch_tokens: int = 16_384
    device_hour_usd: float | None = None
    rambles: bool = False
    encoder_decoder: bool = False
    instruction_tuned: bool | None = None
    passages: int = 0
    passage_tokens: int = 384
    service: Service | None = None
    results: tuple[Results, ...] = ()
    study_folder: Path | None = None

    @property
    def generates(self) -> bool:
        """Whether the platform asks this model; imported answers come from files."""
        return self.backend not in BACKENDS or BACKENDS[self.backend].generates


@dataclass(frozen=True)
class Sampling:
    """How many samples estimate the certainty about a question, and at which temperature (SPEC §3, PopQA-TP)."""

    n: int = 10
    temperature: float = 0.5


@dataclass(frozen=True)
class Embeddings:
    """Where the sentence encoder computes (a torch device, or `auto`: a GPU if there is one), and what it checks.

    `least_paraphrase_cosine`: the run stops where the paraphrases of a relation are on average less similar to their
    questions (SPEC §1); -1 lets all pass. The default is between two groups: our paraphrases have 0.91 to 0.96 by
    relation, and questions about the same subject by other relations' templates 0.64 to 0.77.
    """

    device: str = "auto"
    least_paraphrase_cosine: float = 0.8


@dataclass(frozen=True)
class Nli:
    """A sequence-classification model that says whether one answer entails another (SPEC §7): a folder or hub id, its
    revision, and a torch device or `auto`."""

    path: str
    revision: str | None = None
    device: str = "auto"


@dataclass(frozen=True)
class Popularity:
    """The measure and window of popularity: the mean of `n_months` months up to `last_month` (None: the latest).

    Measure `imported` is the one number per entity in an imported file, without a month.

    Wikimedia counts page views of a redirect separately from its article's. `redirects`: `resolve` looks up where an
    article is now and takes the views there; `sum` adds those of all redirects to the article; `ignore` takes the
    title that the entity links to, even if the page has moved.
    """

    measure: str = "page_views"
    n_months: int = 12
    last_month: str | None = None
    redirects: str = "resolve"


@dataclass(frozen=True)
class Study:
    """One study: study.yaml decides everything that `make run` does.

    `max_new_tokens` limits an answer, `background_tokens` a background text. No model answers the
    `reference_questions`: the report compares the popularity of their entities with the datasets' (PopQA, Figure 3).
    With `collections`, retrieval searches their passages, and no others. `retrievers` are methods that the study declares
    itself; `methods` names those that it uses, declared or built in. With `retrieve_paraphrases`, they also find passages
    for every paraphrase. With `nli`, answers are also compared by
    entailment. With `grounding`, what models write is compared with a corpus, and models are asked to quote it.
    With `sweep`, readers are fine-tuned. `is_quick` is no key of the file: LONGTAIL_QUICK sets it (`study.quick`).
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
    sampling: Sampling = Sampling()
    embeddings: Embeddings = Embeddings()
    nli: Nli | None = None
    seed: int = 0
    reference_questions: tuple[ReferenceQuestions, ...] = ()
    collections: tuple[Collection, ...] = ()
    grounding: Grounding | None = None
    retrievers: tuple[Method, ...] = ()
    retrieve_paraphrases: bool = False
    sweep: Sweep | None = None
    is_quick: bool = False

    @property
    def home(self) -> StudyHome:
        return StudyHome.of(self.path, self.name, is_quick=self.is_quick)

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
        if own.is_fusion:
            return tuple(others)
        return tuple(sorted(others, key=lambda name: not self.method(name).is_dense)[:1])

    @property
    def writes_background(self) -> bool:
        """Whether some method needs background texts of the models: lake table generated_passages then has rows."""
        return any(self.method(method).kind == BACKGROUND for method in self.methods)

    @property
    def datasets_of_source(self) -> tuple[Dataset, ...]:
        """The datasets whose questions are built from the source's facts."""
        return tuple(dataset for dataset in self.datasets if dataset.imported is None)

    @property
    def datasets_of_files(self) -> tuple[Dataset, ...]:
        """The datasets whose questions come from imported files."""
        return tuple(dataset for dataset in self.datasets if dataset.imported is not None)

    @property
    def answer_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table answers."""
        return tuple(prompt for prompt in self.prompts if "questions" in prompt.asks)

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
        return ROUGE_L if asks_long else dataset.end_task

    @property
    def paraphrase_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table paraphrase_answers."""
        return tuple(prompt for prompt in self.prompts if "paraphrases" in prompt.asks)

    @property
    def sample_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table sampled_answers."""
        return tuple(prompt for prompt in self.prompts if "samples" in prompt.asks)

    @property
    def candidate_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table candidate_answers."""
        return tuple(prompt for prompt in self.prompts if CANDIDATES in prompt.asks)

    def scores_by(self, prompt: Prompt, method: str) -> bool:
        """Whether a prompt asks for candidates by a method; none does by background texts, which are about a question."""
        is_named = not prompt.methods or method in prompt.methods
        return CANDIDATES in prompt.asks and is_named and self.method(method).kind != BACKGROUND

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
