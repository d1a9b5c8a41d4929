"""A study's own relations: the files of relations that key `relations` of a dataset names, beside the study file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longtail.relations.relation import Relation, add_source_set, by_name, parse_relations
from longtail.study.yaml_text import read_yaml

if TYPE_CHECKING:
    from longtail.study.datasets import Dataset

ENDINGS = (".yaml", ".yml")
"""What tells a file from a name in key `relations`."""


def read_relation_files(listed: Sequence[object], folder: Path) -> tuple[Relation, ...]:
    """The relations of the files among the values of key `relations`; names are left aside.

    Errors: `ValueError` where a file does not exist, `StudyError` naming file, relation and key of what is wrong in it.
    """
    relations: list[Relation] = []
    for value in listed:
        if str(value).endswith(ENDINGS):
            path = folder / str(value)
            if not path.is_file():
                raise ValueError(f"{path}: there is no such file of relations")
            relations += parse_relations(str(path), read_yaml(path))
    return tuple(relations)


def check_relations(datasets: Iterable[Dataset]) -> None:
    """Refuse datasets of the source that give a name two meanings, or a property two names. Errors: `ValueError`."""
    of_name: dict[str, Relation] = {}
    of_property: dict[str, Relation] = {}
    for dataset in datasets:
        known = by_name(add_source_set(dataset.definitions))
        for name in dataset.relations if dataset.imported is None else ():
            relation = known[name]
            is_repeated = dataset.relations.count(name) > 1
            if is_repeated or of_name.setdefault(name, relation) != relation:
                raise ValueError(f"relation {name!r} is defined twice; give one of them another name")
            other = of_property.setdefault(relation.property_id, relation)
            if other.name != name:
                names = f"{other.name!r} and {name!r}"
                raise ValueError(f"property {relation.property_id} is asked as {names}; keep one of them")
