"""A study as frozen objects: what study.yaml says.

What belongs here: the keys of a study and their allowed values. What does not: reading and checking the file
(`study_file`), and what the keys make happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster_project.core.errors import StudyError
from dagster_project.core.home import StudyHome
from dagster_project.core.methods import BACKGROUND, METHODS
from dagster_project.core.relations.popqa import RELATIONS
from dagster_project.core.study.backends import BACKENDS, IMPORTED
from dagster_project.core.study.imports import Import, Place, Results
from dagster_project.core.study.reference_questions import ReferenceQuestions

SOURCE_KINDS = ("sandbox", "wikidata", "rdf_file")
FACT_ORIGINS = ("query_service", "entity_api", "truthy_dump")
VIEW_ORIGINS = ("auto", "api", "dump")
FREQUENCIES = ("popularity", "text")
MATCHES = ("whole_words", "anywhere")
NO_SOURCE = "none"
DEVICE_MAPS = ("auto", "balanced", "sequential")
APIS = ("completions", "chat")
PROMPT_FORMATS = ("qa", "question_answer", "question")
DRAWS = ("per_question", "per_relation")
DEMONSTRATION_POOLS = ("other_relations", "all_questions")
ASKS = ("questions", "paraphrases", "samples")
REDIRECTS = ("ignore", "resolve", "sum")
MEASURES = ("page_views", "sitelinks", IMPORTED)
RELATION_NAMES = tuple(relation.name for relation in RELATIONS)


@dataclass(frozen=True)
class FactSample:
    """Which of the source's facts are asked about: a sample weighted by frequency (SPEC §1; PopQA, appendix A).

    `frequency` is how often the subject's names occur in `text`, rescaled to 800 MB (`match`: as `whole_words`, or
    `anywhere`), or its `popularity` by the study's measure, page views being those of `month`. At most `per_relation`
    facts of a relation stay. The draw is seeded by the study's `seed`.
    """

    frequency: str
    per_relation: int = 2_000
    month: str | None = None
    text: Place | None = None
    match: str = "whole_words"


@dataclass(frozen=True)
class Source:
    """Where facts, views and texts come from.

    `sandbox`: a synthetic world of `facts_per_relation` questions a relation, made from `seed`.
    `wikidata`: the live services; the environment variable `contact_env` must hold the operator's address.
    `rdf_file`: an N-Triples file (plain or gzip) named by the environment variable `path_env`.
    `none`: the study names no source, all its datasets are imports.
    `snapshot` is the month that the facts are pinned to; changing it fetches them again.

    `facts_from`: the SPARQL service; wbgetentities, for the subjects that the file in `ids_env` lists; or the
    truthy dump in `dump_env`, which is downloaded where that variable is not set. `views_from`: the page view
    API, the monthly dumps in the folder `page_view_dumps_env` (downloaded where it is not set), or `auto`: the
    dumps where there are many articles. Of a dump that breaks off what comes before is used only with
    `accept_cut_dumps`. Without `sample` all facts are asked about.
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
    """A set of questions: all facts of `relations`, at most `max_questions_per_relation` of each (a seeded draw).

    With `imported` (key `import`) the questions come from a file of others instead of the study's source, with
    `paraphrases` their other wordings too.
    """

    name: str
    relations: tuple[str, ...] = RELATION_NAMES
    max_questions_per_relation: int | None = None
    imported: Import | None = None
    paraphrases: Import | None = None


@dataclass(frozen=True)
class Prompt:
    """How a question is put (SPEC §3).

    `format`: `qa` is `Q: … A:`; `question_answer` is `Question: …` and `Answer:` on two lines; `question` is the
    bare question, for encoder-decoders. `shots` demonstrations come from `demonstrations_from`: spread over the
    other relations (PopQA), or a simple random sample of all questions (EntityQuestions); `draw` says whether anew
    for every question or once a relation. With `reference_demos` a demonstration carries a passage only where the
    reference implementation finds one. `asks` says what the prompt is used for: `questions` (lake table answers),
    `paraphrases` (paraphrase_answers), `samples` (sampled_answers).
    """

    name: str
    format: str = "qa"
    shots: int = 0
    draw: str | None = None
    demonstrations_from: str = "other_relations"
    reference_demos: bool = False
    asks: tuple[str, ...] = ("questions",)


@dataclass(frozen=True)
class Service:
    """A server with an OpenAI-compatible HTTP API, for backend `openai`.

    `base_url` ends before `/completions` or `/chat/completions`. `api_key_env` names the environment variable that
    holds the key. `requests_per_minute` and `tokens_per_minute` are the limits that the server grants; None: none.
    A partition may cost `max_cost_usd`; prices are dollars a million tokens, None: as in the price table.
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

    `path` is a hub id, a folder, `sandbox:s`, `sandbox:m`, `sandbox:l` for the reference models, or the name that a
    `service` knows. `device` is a torch device or `auto`; `device_map` spreads a model over several GPUs.
    `batch_tokens` bounds the tokens of a local batch. `dtype` and `quantisation` of a service are `unknown` unless
    declared, and tell its rows apart. `device_hour_usd` prices an hour of one local device. Of a model that
    `rambles` the first sentence is kept (SPEC §3). Of backend `imported` nothing is loaded: its answers are `results`
    that others generated.
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
    service: Service | None = None
    results: tuple[Results, ...] = ()

    @property
    def generates(self) -> bool:
        """Whether the platform asks this model; the answers of others come out of files."""
        return self.backend not in BACKENDS or BACKENDS[self.backend].generates


@dataclass(frozen=True)
class Sampling:
    """How often a question is asked for its certainty, and at which temperature (SPEC §3, PopQA-TP)."""

    n: int = 10
    temperature: float = 0.5


@dataclass(frozen=True)
class Popularity:
    """The measure and window of popularity: the mean of `n_months` months up to `last_month` (None: the latest).

    Measure `imported` is the one number an entity that an imported file gives, without a month.

    Page views of a redirect are counted apart from its article's. `redirects`: `resolve` asks where an article stands
    now and takes the views there; `sum` adds those of all redirects that lead to the article; `ignore` takes the title
    that the entity links to, whatever became of it.
    """

    measure: str = "page_views"
    n_months: int = 12
    last_month: str | None = None
    redirects: str = "resolve"


@dataclass(frozen=True)
class Study:
    """One study: everything that `make run` does is named here.

    `max_new_tokens` bounds an answer, `background_tokens` a background text. No model is asked
    `reference_questions`: how popular their entities are is set beside the datasets (PopQA, Figure 3).
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
    top_k: int = 5
    max_new_tokens: int = 15
    background_tokens: int = 150
    sampling: Sampling = Sampling()
    seed: int = 0
    reference_questions: tuple[ReferenceQuestions, ...] = ()

    @property
    def home(self) -> StudyHome:
        return StudyHome.of(self.path, self.name)

    @property
    def retrievers(self) -> tuple[str, ...]:
        """The methods that retrieve; those that others are fused from come before the fusions."""
        found = [method for method in self.methods if not METHODS[method].is_parametric]
        return tuple(sorted(found, key=lambda method: METHODS[method].is_fusion))

    def fused(self, retriever: str) -> tuple[str, ...]:
        """The study's retrievers whose results `retriever` fuses; none where it is no fusion."""
        if not METHODS[retriever].is_fusion:
            return ()
        return tuple(method for method in self.methods if METHODS[method].can_be_fused)

    @property
    def writes_background(self) -> bool:
        """A method has the models write background texts: lake table generated_passages has rows."""
        return any(METHODS[method].kind == BACKGROUND for method in self.methods)

    @property
    def datasets_of_source(self) -> tuple[Dataset, ...]:
        """The datasets whose questions are built from the source's facts."""
        return tuple(dataset for dataset in self.datasets if dataset.imported is None)

    @property
    def datasets_of_files(self) -> tuple[Dataset, ...]:
        """The datasets whose questions others made."""
        return tuple(dataset for dataset in self.datasets if dataset.imported is not None)

    @property
    def answer_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table answers."""
        return tuple(prompt for prompt in self.prompts if "questions" in prompt.asks)

    @property
    def paraphrase_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table paraphrase_answers."""
        return tuple(prompt for prompt in self.prompts if "paraphrases" in prompt.asks)

    @property
    def sample_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of lake table sampled_answers."""
        return tuple(prompt for prompt in self.prompts if "samples" in prompt.asks)

    def model(self, name: str) -> Model:
        return _named(self.models, name, "model", self.path)

    def prompt(self, name: str) -> Prompt:
        return _named(self.prompts, name, "prompt", self.path)


def _named(items: tuple[Any, ...], name: str, what: str, path: Path) -> Any:
    for item in items:
        if item.name == name:
            return item
    raise StudyError(f"{path}: {what} {name!r} is not one of: {', '.join(item.name for item in items)}")
