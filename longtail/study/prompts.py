"""In which form questions are asked, and how often: keys `prompts`, `sampling` and `grounding` of study.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from longtail.methods import METHODS, memory_method
from longtail.prompt_formats import ASSEMBLIES, CLOZE_FORMATS, GROUNDING_PROMPTS, NULL, PAPER
from longtail.study.parts import Part
from longtail.study.values import (
    Default,
    Flag,
    Phrases,
    Reading,
    Slug,
    Value,
    choose_some,
    fail,
    list_schema,
    need_mapping,
    number,
    one_of,
    read_text,
    refuse_unknown,
    some_of,
    whole,
)

PROMPT_FORMATS = ("qa", "question_answer", "question", "popqa_tp", *CLOZE_FORMATS)
CANDIDATES = "candidates"
DRAWS = ("per_relation", "per_question")
"""The default first."""
DEMONSTRATION_POOLS = ("other_relations", "all_questions")
GENERATIONS = ("questions", "paraphrases", "samples", CANDIDATES)
PROMPT_PLACE = "{prompt}"


def list_methods(reading: Reading) -> tuple[str, ...]:
    """The methods that the study could use: those built in, and its own retrievers."""
    return (*METHODS, *reading.names("retrievers"))


@dataclass(frozen=True)
class Prompt(Part):
    """The form of a question in a prompt (SPEC §3).

    `format`: `cloze_prefix` is a cloze query up to the place of its answer, for decoder-only models; `cloze_t5` is all of
    it, with a sentinel at that place, for encoder-decoders. `demonstrations_from`: the demonstrations are spread over the
    other relations (PopQA), or a simple random sample of all questions (EntityQuestions). PopQA-TP asks paraphrases and
    samples without demonstrations, and a model that does not answer without an example needs some. Empty `methods` are
    all of the study's.
    """

    name: Slug
    """the prompt"""
    format: Annotated[str, one_of(PROMPT_FORMATS)] = "qa"
    """`qa` (`Q: … A:`), `question_answer` (`Question: …` and `Answer:`), `question` (the bare question), `popqa_tp`
    (`question` for encoder-decoders, `question_answer` for other models), `cloze_prefix`, `cloze_t5` (cloze queries)"""
    shots: Annotated[int, whole(0, 64)] = 0
    """demonstrations before the question"""
    draw: Annotated[Annotated[str, one_of(DRAWS)] | None, Default("per_relation")] = None
    """with shots: `per_relation` (the questions of a relation share one draw, which a model reads once; those without a
    relation share one, too) or `per_question` (PopQA's way: a draw for each question, which takes many times as long)"""
    demonstrations_from: Annotated[str, one_of(DEMONSTRATION_POOLS)] = "other_relations"
    """or `all_questions`"""
    reference_demos: Flag = False
    """demonstrations have a passage only where PopQA's code finds one"""
    generations: Annotated[tuple[str, ...], some_of(GENERATIONS), Default("[questions]")] = ("questions",)
    """what models write with this prompt: any of `questions` (one answer to each question), `paraphrases` (one to each
    other wording), `samples` (several sampled answers); or `[candidates]` alone, for cloze queries."""
    methods: Annotated[tuple[str, ...], some_of(list_methods, is_open=True), Default("all")] = ()
    """the methods by which this prompt asks"""
    declines: Phrases = ()
    """answers by which models decline under this prompt, beside those of `models`"""

    @classmethod
    def expand(cls, raw: Mapping[str, Any], reading: Reading) -> Mapping[str, Any]:
        return {"draw": DRAWS[0], **raw} if raw.get("shots") else raw

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Prompt:
        if (self.shots > 0) != (self.draw is not None):
            raise fail("draw", f"goes with shots above 0, and is one of: {', '.join(DRAWS)}")
        for key in ("demonstrations_from", "reference_demos"):
            if not self.shots and raw.get(key):
                raise fail(key, "goes with shots above 0")
        if self.format in CLOZE_FORMATS and self.generations != (CANDIDATES,):
            raise fail("generations", f"a prompt of format {self.format} has only [{CANDIDATES}]")
        if CANDIDATES in self.generations and (self.format not in CLOZE_FORMATS or self.shots):
            named = " or ".join(CLOZE_FORMATS)
            raise fail("format", f"generations: [{CANDIDATES}] goes with {named}, without shots")
        return self


@dataclass(frozen=True)
class Sampling(Part):
    """How many samples estimate the certainty about a question, and at which temperature (SPEC §3, PopQA-TP)."""

    n: Annotated[int, whole(2, 1000)] = 10
    """sampled answers of a question"""
    temperature: Annotated[float, number(0, 2)] = 0.5
    """of the sampled answers"""


@dataclass(frozen=True)
class PortraitOf(Part):
    """The corpus of the data portrait: the passages of these `collections`; empty: all passages of the study."""

    collections: Annotated[
        tuple[str, ...], some_of(lambda reading: reading.names("collections")), Default("all")
    ] = ()
    """those whose passages are the corpus"""
    false_positive_rate: Annotated[float, number(1e-9, 0.5)] = 0.001
    """share of 25-grams that are taken for the corpus's own though they are not"""

    @classmethod
    def expand(cls, raw: Mapping[str, Any], reading: Reading) -> Mapping[str, Any]:
        if raw.get("collections") is not None and not reading.names("collections"):
            raise fail("collections", "goes with the study's collections: it has none")
        return raw


def _read_steps(value: Any, reading: Reading) -> int | tuple[tuple[str, int], ...]:
    steps = whole(1, 2)
    if not isinstance(value, Mapping):
        return int(steps.check(value, reading))
    models = reading.names("models")
    refuse_unknown(value, models)
    return tuple((model, steps.check(value[model], reading)) for model in models if model in value)


def _read_turns(value: Any, reading: Reading) -> tuple[tuple[str, str], ...]:
    raw, models = need_mapping(value), reading.names("models")
    refuse_unknown(raw, models)
    turns = tuple((model, read_text(raw[model], model)) for model in models if model in raw)
    for model, text in turns:
        if text.count(PROMPT_PLACE) != 1:
            raise fail(model, f"must hold {PROMPT_PLACE} once, the place of the prompt")
    return turns


def _read_prompts(value: Any, _reading: Reading) -> tuple[str, ...]:
    """YAML reads a bare `null` among the names as nothing: it means the prompt of that name."""
    named = [NULL if name is None else name for name in value] if isinstance(value, list) else value
    return choose_some("", named, tuple(GROUNDING_PROMPTS))


_DATASETS = some_of(lambda reading: reading.names("datasets"))
_PROMPTS = Value(
    lambda _: "a list of names", _read_prompts, lambda: list_schema({"enum": [None, *GROUNDING_PROMPTS]})
)
_STEPS = Value(
    lambda _: "1 or 2",
    _read_steps,
    lambda: {"anyOf": [{"enum": [1, 2]}, {"type": "object", "additionalProperties": {"enum": [1, 2]}}]},
)
_TURNS = Value(
    lambda _: "a mapping of keys",
    _read_turns,
    lambda: {"type": "object", "additionalProperties": {"type": "string"}},
)


@dataclass(frozen=True)
class Grounding(Part):
    """Every text that models write is compared with a data portrait: a corpus whose quotations are looked for (SPEC §9).

    Each question of the `datasets` (empty: of all) is asked under each of the `prompts`, by each of the `methods`. Two
    `steps` are for small models. Long answers are scored as ELI5's are. With `assembly` `reference`, the texts of
    services are drawn at temperature .3.
    """

    portrait: Annotated[PortraitOf, Default("all passages")] = PortraitOf()
    """the corpus; below"""
    prompts: Annotated[tuple[str, ...], _PROMPTS] = ()
    """grounding prompts under which every question is asked again: `null`, `based_on_evidence`, `expert_editor`,
    `direct_quote`, `reference_wikipedia`, `according_to_wikipedia`, `find_quotes`, `information_from_wikipedia`,
    `attributed_to_wikipedia`, `information_from_reddit`, `information_from_github`, `without_wikipedia`"""
    steps: Annotated[int | tuple[tuple[str, int], ...], _STEPS] = 1
    """1: answer and explanation at once; 2: the answer first. A number, or a number by model"""
    max_new_tokens: Annotated[int, whole(1, 4096)] = 200
    """the longest explanation"""
    datasets: Annotated[tuple[str, ...], _DATASETS, Default("all")] = ()
    """whose questions are asked"""
    turns: Annotated[tuple[tuple[str, str], ...], _TURNS] = ()
    """by model: the text around `{prompt}` that a chat template writes"""
    methods: Annotated[tuple[str, ...], some_of(list_methods, is_open=True)] = (memory_method().name,)
    """from memory, or with the first passage of a retriever in front"""
    long_answers: Annotated[tuple[str, ...], _DATASETS] = ()
    """datasets that are asked for a long answer alone"""
    assembly: Annotated[str, one_of(ASSEMBLIES)] = PAPER
    """how question and grounding prompt are put together; `reference`: as the authors' code does it"""

    def steps_of(self, model: str) -> int:
        """In how many steps a model is asked: 1 or 2."""
        return self.steps if isinstance(self.steps, int) else dict(self.steps).get(model, 1)

    def turns_of(self, model: str) -> str:
        """The text around a model's prompts, with {prompt} for the prompt."""
        return dict(self.turns).get(model, PROMPT_PLACE)

    def asks(self, dataset: str) -> bool:
        """Whether the questions of a dataset are asked under the grounding prompts."""
        return bool(self.prompts) and (not self.datasets or dataset in self.datasets)
