"""The lake tables that only restate the study: models, methods, prompts, datasets, relations and the others below."""

from __future__ import annotations

import csv
import dataclasses
import importlib.resources
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from longtail.errors import BackendError
from longtail.methods import BACKGROUND, BOUND, CONDITION, memory_method
from longtail.prompt_formats import (
    BACKGROUND_TEMPLATE,
    FOR_ENCODER_DECODERS,
    FORMATS,
    GROUNDING_PROMPTS,
    PAPER,
)
from longtail.relations.relation import RELATION_SETS, STUDY_SET, relation_set
from longtail.scoring.model_answer import SPLITTER
from longtail.storage.fingerprints import fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.datasets import Dataset
from longtail.study.model_files import find_gguf, place_of, read_header, reference_model_path
from longtail.study.models import Model
from longtail.study.prices import prices_of
from longtail.study.study import Study

Rows = list[dict[str, Any]]


def _of(declared: object, *keys: str) -> dict[str, Any]:
    """The columns that have the name and the value of a key."""
    return {key: getattr(declared, key) for key in keys}


def _models(study: Study) -> Rows:
    """If the study gives no n_parameters, local weights are counted."""
    headers = {m.name: read_header(m, find_gguf(m)) for m in study.models if m.is_gguf}
    return [
        {
            **_of(model, "family", "backend", "path", "revision", "dtype", "rambles", "thinking_tokens"),
            "model": model.name,
            "n_parameters": model.n_parameters
            or (header.n_parameters if header else local_parameters(model)),
            "quantisation": header.quantisation if header else model.quantisation,
            "is_encoder_decoder": model.encoder_decoder,
            "is_instruction_tuned": model.instruction_tuned,
            "n_passages": model.passages,
            "sentence_splitter": SPLITTER if model.rambles else None,
            "declines": list(model.declines),
            "device_hour_usd": model.device_hour_usd,
        }
        for model in study.models
        for header in (headers.get(model.name),)
    ]


def _model_prices(study: Study) -> Rows:
    """The study's own price or the prices of the price table, for models of a service."""
    return [
        {"model": model.name, **dataclasses.asdict(price)}
        for model in study.models
        if model.service is not None
        for price in prices_of(model)
    ]


def paper_cells(study_name: str) -> Rows:
    """The papers' numbers, which are the same for all studies, and the study's name."""
    file = importlib.resources.files("longtail.study") / "paper_cells.csv"
    with file.open(encoding="utf-8") as lines:
        return [
            {
                **{name: value or None for name, value in row.items()},
                "paper": float(row["paper"]) if row["paper"] else None,
                "study": study_name,
            }
            for row in csv.DictReader(lines)
        ]


def _methods(study: Study) -> Rows:
    """The study's methods, and the one for its paraphrases and samples."""
    asks_from_memory = bool(study.paraphrase_prompts or study.sample_prompts or study.grounding_prompts)
    names = dict.fromkeys([*study.methods, *([memory_method().name] if asks_from_memory else [])])
    return [
        {
            **_of(
                method,
                "kind",
                "is_parametric",
                "cuts_last_sentence",
                "may_find_nothing",
                "is_fixed",
                "description",
            ),
            "method": method.name,
            "asks_questions": method.name in study.methods,
            "is_bound": method.passages == BOUND,
            "is_condition": method.passages == CONDITION,
            "has_index": method.index is not None,
            "background_template": BACKGROUND_TEMPLATE if method.kind == BACKGROUND else None,
            "background_tokens": study.background_tokens if method.kind == BACKGROUND else None,
        }
        for method in map(study.method, names)
    ]


def _prompts(study: Study) -> Rows:
    return [
        {
            **_of(prompt, "format", "shots", "draw", "demonstrations_from", "reference_demos"),
            "prompt": prompt.name,
            "position_in_study": position,
            "template": FORMATS[prompt.format],
            "encoder_decoder_template": FOR_ENCODER_DECODERS[prompt.format],
            "max_new_tokens": study.max_new_tokens,
            "generations": list(prompt.generations),
            "methods": [
                method
                for method in study.methods
                if prompt in study.prompts_of(method) or study.scores_by(prompt, method)
            ],
            "declines": list(prompt.declines),
            "n_samples": study.sampling.n if "samples" in prompt.generations else None,
            "temperature": study.sampling.temperature if "samples" in prompt.generations else None,
        }
        for position, prompt in enumerate(study.prompts)
    ]


def _datasets(study: Study) -> Rows:
    return [
        {
            **_of(dataset, "relation_set", "split_by", "popularity_name"),
            "dataset": dataset.name,
            "position_in_study": position,
            "source": dataset.imported.format if dataset.imported else study.source.kind,
            "relations": list(dataset.relations),
            "snapshot": None if dataset.imported else study.source.snapshot,
            "chosen_by": _chosen_by(dataset),
        }
        for position, dataset in enumerate(study.datasets)
    ]


def _chosen_by(dataset: Dataset) -> str | None:
    """The keys that choose a part of the questions, with their values; None where all are asked."""
    keys = ("first_rows", "ids", "max_questions_per_relation", "max_questions")
    values = {key: getattr(dataset, key) for key in keys}
    if dataset.ids:
        values["ids"] = dataset.ids.path or dataset.ids.path_env or dataset.ids.url
    return ", ".join(f"{key}: {value}" for key, value in values.items() if value is not None) or None


def _relations(study: Study) -> Rows:
    """The sets that the study's datasets choose from, whole; of datasets with a file, the relations that they ask."""
    names = {dataset.relation_set for dataset in study.datasets}
    asked = {name for dataset in study.datasets if dataset.definitions for name in dataset.relations}
    sets = {name: relation_set(name) for name in RELATION_SETS}
    sets[STUDY_SET] = tuple(relation for relation in study.relations if relation.name in asked)
    return [
        {
            "relation_set": name,
            "relation": relation.name,
            "property_id": relation.property_id,
            "template": relation.template,
            "statement": relation.statement or None,
        }
        for name, relations in sets.items()
        if name in names
        for relation in relations
    ]


def _grounding_prompts(study: Study) -> Rows:
    assembly = study.grounding.assembly if study.grounding else PAPER
    return [
        {
            "grounding_prompt": name,
            "grounding_kind": GROUNDING_PROMPTS[name].kind,
            "position_in_study": position,
            "text": GROUNDING_PROMPTS[name].behind(assembly).strip(),
            "assembly": assembly,
            "datasets": [dataset.name for dataset in study.grounded_datasets],
            "methods": list(study.grounding.methods) if study.grounding else [],
        }
        for position, name in enumerate(study.grounding_prompts)
    ]


def _sweep_settings(study: Study) -> Rows:
    """Empty without a sweep."""
    return [
        {
            "tuned_model": setting.name,
            "base_model": sweep.model,
            "trained_retriever": sweep.retriever,
            "batch_size": setting.batch_size,
            "reader_rate": setting.rates.reader,
            "retriever_rate": setting.rates.retriever,
            "temperature": setting.temperature,
            "schedule": sweep.schedule,
            "passages_per_query": setting.passages,
            "training_relations": list(setting.relations),
        }
        for sweep in ([study.sweep] if study.sweep else [])
        for setting in sweep.drawn
    ]


STUDY_TABLES: Mapping[str, Callable[[Study], Rows]] = {
    "models": _models,
    "model_prices": _model_prices,
    "paper_cells": lambda study: paper_cells(study.name),
    "methods": _methods,
    "prompts": _prompts,
    "datasets": _datasets,
    "relations": _relations,
    "popularity_windows": lambda study: [dataclasses.asdict(study.popularity)],
    "grounding_prompts": _grounding_prompts,
    "sweep_settings": _sweep_settings,
}


def describe_study(study: Study, lake: Lake, tables: Iterable[str] = STUDY_TABLES) -> tuple[Outcome, ...]:
    """Write `tables`; return one outcome each, in that order."""

    def write(table: str) -> Outcome:
        rows = STUDY_TABLES[table](study)
        return lake.materialise(table, fingerprint(table, rows), lambda: Computed(rows))

    return tuple(map(write, tables))


_SANDBOX = "sandbox:"
# Causal masks and rotary tables in old checkpoints: these are buffers, not parameters.
_BUFFER = re.compile(r"(\.attn\.bias|\.attention\.bias|masked_bias|inv_freq|position_ids)$")


def local_parameters(model: Model) -> int | None:
    """The parameters of local weights; None if the weights are not local."""
    if not model.generates:
        return None
    if model.path.startswith(_SANDBOX):
        folder = reference_model_path(model.path.removeprefix(_SANDBOX))
    else:
        folder = place_of(model.path, model.study_folder)
    return count_parameters(folder) or None if folder.is_dir() else None


def count_parameters(folder: Path) -> int:
    """The number of parameters in the safetensors files of `folder`; only the headers are read.

    Tied weights are stored once and counted once; buffers are left out. Errors: `BackendError` naming the file.
    """
    from safetensors import SafetensorError, safe_open

    n = 0
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, "numpy") as weights:
                names = [name for name in weights.keys() if not _BUFFER.search(name)]  # noqa: SIM118 (no mapping)
                n += sum(math.prod(weights.get_slice(name).get_shape()) for name in names)
        except (OSError, SafetensorError) as error:
            raise BackendError(f"{file}: not a safetensors file ({error}); fetch the weights again") from None
    return n
