"""Grounding in study.yaml: the corpus whose quotations are looked for in what models write (SPEC §9)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from longtail.methods import memory_method
from longtail.prompt_formats import ASSEMBLIES, GROUNDING_PROMPTS, NULL, PAPER
from longtail.study.reader import Reader

PROMPT_PLACE = "{prompt}"


@dataclass(frozen=True)
class PortraitOf:
    """The corpus of the data portrait: the passages of these `collections`; empty: all passages of the study.

    `false_positive_rate`: the share of 25-grams that the portrait takes for the corpus' own though they are not.
    """

    collections: tuple[str, ...] = ()
    false_positive_rate: float = 0.001


@dataclass(frozen=True)
class Grounding:
    """Every text that models write is compared with a data portrait.

    `prompts`: names of grounding prompts; each question of the `datasets` (empty: of all) is asked under each of them
    for an answer and an explanation of at most `max_new_tokens` tokens. `steps`: 1 asks for both at once; 2, which is
    for small models, asks for the answer first. It is a number for all models, or a number by model, and 1 for others.
    `turns`, by model: for a model that was tuned on the turns of a chat, the text around {prompt} that its chat template
    writes. `methods`: each question is asked under each prompt by each of them, from memory or with the first passage of
    a retriever in front. The questions of the datasets in `long_answers` are asked for a long answer alone, as ELI5's
    are, and scored like them. `assembly`: how question and grounding prompt are put together: `paper`, or `reference`,
    as the authors' code does it; that also draws the texts of services, at temperature .3.
    """

    portrait: PortraitOf = PortraitOf()
    prompts: tuple[str, ...] = ()
    steps: int | tuple[tuple[str, int], ...] = 1
    max_new_tokens: int = 200
    datasets: tuple[str, ...] = ()
    turns: tuple[tuple[str, str], ...] = ()
    methods: tuple[str, ...] = (memory_method().name,)
    long_answers: tuple[str, ...] = ()
    assembly: str = PAPER

    def steps_of(self, model: str) -> int:
        """In how many steps a model is asked: 1 or 2."""
        return self.steps if isinstance(self.steps, int) else dict(self.steps).get(model, 1)

    def turns_of(self, model: str) -> str:
        """The text around a model's prompts, with {prompt} for the prompt."""
        return dict(self.turns).get(model, PROMPT_PLACE)

    def asks(self, dataset: str) -> bool:
        """Whether the questions of a dataset are asked under the grounding prompts."""
        return bool(self.prompts) and (not self.datasets or dataset in self.datasets)


def read_grounding(
    read: Reader,
    *,
    collections: tuple[str, ...],
    datasets: tuple[str, ...],
    models: tuple[str, ...],
    retrievers: tuple[str, ...],
) -> Grounding:
    """The mapping under `grounding`; the others are the names of what the study has, `retrievers` among its methods."""
    read.only(*(f.name for f in dataclasses.fields(Grounding)))
    return Grounding(
        portrait=_portrait(read.child("portrait"), collections),
        prompts=_prompts(read) if read.raw.get("prompts") else (),
        steps=_steps(read, models),
        max_new_tokens=read.number("max_new_tokens", Grounding.max_new_tokens, 1, 4096),
        datasets=_some_of(read, "datasets", datasets),
        turns=_turns(read.child("turns"), models) if read.raw.get("turns") is not None else (),
        methods=read.choices("methods", (*Grounding.methods, *retrievers), Grounding.methods),
        long_answers=_some_of(read, "long_answers", datasets),
        assembly=read.choice("assembly", ASSEMBLIES, Grounding.assembly),
    )


def _portrait(read: Reader, collections: tuple[str, ...]) -> PortraitOf:
    read.only(*(f.name for f in dataclasses.fields(PortraitOf)))
    if read.raw.get("collections") is not None and not collections:
        raise read.fail("collections", "goes with the study's collections: it has none")
    return PortraitOf(
        collections=_some_of(read, "collections", collections),
        false_positive_rate=read.real("false_positive_rate", PortraitOf.false_positive_rate, 1e-9, 0.5),
    )


def _some_of(read: Reader, key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    return read.choices(key, allowed, ()) if read.raw.get(key) is not None else ()


def _prompts(read: Reader) -> tuple[str, ...]:
    """The names of prompts. YAML reads a bare `null` as nothing: it means the prompt of that name."""
    value = read.raw["prompts"]
    named = [NULL if one is None else one for one in value] if isinstance(value, list) else value
    return Reader(read.path, read.where, {"prompts": named}).choices("prompts", tuple(GROUNDING_PROMPTS), ())


def _steps(read: Reader, models: tuple[str, ...]) -> int | tuple[tuple[str, int], ...]:
    if not isinstance(read.raw.get("steps"), Mapping):
        return read.number("steps", 1, 1, 2)
    named = read.child("steps")
    named.only(*models)
    return tuple((model, named.number(model, 1, 1, 2)) for model in models if model in named.raw)


def _turns(read: Reader, models: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    read.only(*models)
    turns = tuple((model, read.text(model)) for model in models if model in read.raw)
    for model, text in turns:
        if text.count(PROMPT_PLACE) != 1:
            raise read.fail(model, f"must hold {PROMPT_PLACE} once, the place of the prompt")
    return turns
