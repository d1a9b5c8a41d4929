"""The partitions of the chosen study's assets, and their names in the lake and in Dagster.

Partitions come from study.yaml: after a model is added there, reloading the code location adds its partitions.
"""

from __future__ import annotations

import functools

import dagster as dg

from longtail.storage.home import study_file
from longtail.study.file import load_study
from longtail.study.source import FIRST_MONTH
from longtail.study.study import Study


@functools.cache
def chosen_study() -> Study:
    """The study that this process works on: `$LONGTAIL_STUDY`, or the project's study.yaml."""
    return load_study(study_file())


months = dg.MonthlyPartitionsDefinition(start_date=FIRST_MONTH, fmt="%Y-%m")
_sweep = chosen_study().sweep
models = dg.StaticPartitionsDefinition([model.name for model in chosen_study().models])
methods = dg.StaticPartitionsDefinition(list(chosen_study().methods))
retrievers = dg.StaticPartitionsDefinition(list(chosen_study().retrieval_methods))
settings = dg.StaticPartitionsDefinition([one.name for one in _sweep.drawn] if _sweep else [])
model_by_method = dg.MultiPartitionsDefinition({"model": models, "method": methods})


def names_of(partition_key: str) -> tuple[str, ...]:
    """(model,) for a key of `models`; (model, method) for a key of `model_by_method`, whose text joins them by a bar."""
    if "|" not in partition_key:
        return (partition_key,)
    keys = model_by_method.get_partition_key_from_str(partition_key).keys_by_dimension
    return keys["model"], keys["method"]
