"""The stages of a study in order: which assets, and which of their partitions, one run of `make run` materialises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

import dagster as dg

from longtail.study.source import window
from longtail.study.study import Study

OUTPUTS = frozenset({"warehouse", "report"})
"""The groups that read the whole lake, with the groups inside them: the last stage materialises them together."""

_SHOWN = 5
"""Partitions that the title of a stage names."""


@dataclass(frozen=True)
class Stage:
    """One run: assets, and the first and last partition key where they have partitions.

    `model`: the one that the stage is for; None for a stage that all models share.
    """

    title: str
    keys: tuple[str, ...]
    first: str | None = None
    last: str | None = None
    is_output: bool = False
    model: str | None = None


def plan(study: Study, graph: dg.AssetGraph) -> list[Stage]:
    """The stages of a study in order: group after group; within a group, assets with the same partitions form one
    stage.

    A partition range is a product of dimensions: one model with all its methods is one range. All work of one model
    comes before the next model, so that a run loads each model once.
    """
    stages: list[Stage] = []
    for groups, keys in _by_group(study, graph):
        if groups <= OUTPUTS:
            names = tuple(key.to_user_string() for key in keys)
            stages.append(Stage("warehouse: dbt, tests, publication, report", names, is_output=True))
        else:
            stages += _of_group(study, graph, groups, keys)
    return stages


def _by_group(study: Study, graph: dg.AssetGraph) -> Iterator[tuple[frozenset[str], list[dg.AssetKey]]]:
    """Groups in the order of their dependencies, each with its assets; the assets with most descendants come first."""

    def group(key: dg.AssetKey) -> frozenset[str]:
        name = graph.get(key).group_name.removeprefix(f"{study.name}/").partition("/")[0]
        return OUTPUTS if name in OUTPUTS else frozenset({name})

    def n_descendants(key: dg.AssetKey) -> int:
        return len(dg.AssetSelection.assets(key).downstream(include_self=False).resolve(graph))

    assets = sorted(graph.materializable_asset_keys, key=lambda key: (-n_descendants(key), key))
    before: dict[frozenset[str], set[frozenset[str]]] = {group(key): set() for key in assets}
    for key in assets:
        before[group(key)] |= {group(parent) for parent in graph.get(key).parent_keys if parent in assets}
    for groups, others in before.items():
        others.discard(groups)
    for groups in TopologicalSorter(before).static_order():
        yield groups, [key for key in assets if group(key) == groups]


def _of_group(
    study: Study, graph: dg.AssetGraph, groups: Iterable[str], keys: Iterable[dg.AssetKey]
) -> Iterator[Stage]:
    kinds: dict[str, list[dg.AssetKey]] = {}
    for key in keys:
        kinds.setdefault(_partitions(graph.get(key).partitions_def, study), []).append(key)
    title = ", ".join(groups).replace("_", " ")
    for kind in _in_order(graph, kinds):
        some = tuple(key.to_user_string() for key in kinds[kind])
        if kind == "model":
            yield from _of_models(study, graph, kinds[kind])
        elif kind == "month":
            months = window(study)
            first, last = months[0], months[-1]
            yield Stage(f"{title} of {first} to {last}", some, first, last)
        elif kind:
            names = kind.split(" ")
            shown = ", ".join(names[:_SHOWN]) + (" …" if names[_SHOWN:] else "")
            yield Stage(f"{title} by {shown}", some, names[0], names[-1])
        else:
            yield Stage(title if len(some) > 1 else _title(kinds[kind][0]), some)


def _in_order(graph: dg.AssetGraph, kinds: Mapping[str, list[dg.AssetKey]]) -> Iterator[str]:
    """The kinds of partitions in a group, each after the kinds that its assets depend on."""
    of_key = {key: kind for kind, keys in kinds.items() for key in keys}
    before = {
        kind: {of_key[parent] for key in keys for parent in graph.get(key).parent_keys if parent in of_key}
        - {kind}
        for kind, keys in kinds.items()
    }
    yield from TopologicalSorter(before).static_order()


def _of_models(study: Study, graph: dg.AssetGraph, keys: Iterable[dg.AssetKey]) -> Iterator[Stage]:
    for model in study.models:
        for key in keys:
            partitions = graph.get(key).partitions_def
            names = [model.name]
            if isinstance(partitions, dg.MultiPartitionsDefinition):
                pairs = ({"model": model.name, "method": method} for method in study.methods)
                names = [str(dg.MultiPartitionKey(pair)) for pair in pairs]
            if partitions is not None and partitions.has_partition_key(names[0]):
                yield Stage(
                    f"{_title(key)} of {model.name}",
                    (key.to_user_string(),),
                    names[0],
                    names[-1],
                    model=model.name,
                )


def _partitions(partitions: dg.PartitionsDefinition | None, study: Study) -> str:
    """The kind of an asset's partitions: none, months, models, or the list of other keys."""
    if partitions is None:
        return ""
    if isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return "month"
    keys = partitions.get_partition_keys()
    is_by_model = isinstance(partitions, dg.MultiPartitionsDefinition)
    is_by_model = is_by_model or {*keys} <= {model.name for model in study.models}
    return "model" if is_by_model else " ".join(keys)


def _title(key: dg.AssetKey) -> str:
    return key.path[-1].replace("_", " ")
