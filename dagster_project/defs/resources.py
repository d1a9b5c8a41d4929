"""What assets receive: the study and its partitions.

Partitions come from study.yaml: after a model is added there, reloading the code location adds its partitions. They are
those that the study needs, so that "Materialize all" makes what `make run` makes. A run holds a lock file as long as its
process lives; `longtail.storage.ownership` and `operations` recognise dead runs by it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import dagster as dg

from dagster_project.operations import STUDY
from longtail.generation.tasks.registry import TASKS
from longtail.needs import needs_of_machines
from longtail.storage.home import study_file
from longtail.storage.lake import Lake
from longtail.storage.object_store import ObjectStore
from longtail.storage.ownership import hold_run
from longtail.study.file import load_study
from longtail.study.models import Model
from longtail.study.source import window
from longtail.study.study import Study


@functools.cache
def chosen_study() -> Study:
    """The study that this process works on: `$LONGTAIL_STUDY`, or the project's study.yaml."""
    return load_study(study_file())


def _window_of(study: Study) -> dg.MonthlyPartitionsDefinition:
    """The months of the popularity window, and every later one where the study names no last month."""
    months_of_window = window(study)
    first, last = months_of_window[0], months_of_window[-1]
    year, month = divmod(int(last[:4]) * 12 + int(last[5:]), 12)
    after = f"{year:04d}-{month + 1:02d}"
    end = after if study.popularity.last_month else None
    return dg.MonthlyPartitionsDefinition(start_date=first, end_date=end, fmt="%Y-%m")


_NEEDED_BY: Mapping[str, Callable[[Model], bool]] = {
    "imported_answers": lambda model: not model.generates,
    "single_latencies": lambda model: model.generates,
    "answer_embeddings": lambda model: model.generates,
    "answer_entailments": lambda model: model.generates,
}
"""Tables that only some models have, beside the generated ones, whose tasks say so themselves."""


def models_of(table: str) -> dg.StaticPartitionsDefinition:
    """The models of the study that have rows of a table; maybe none."""
    study = chosen_study()

    def has_rows(model: Model) -> bool:
        if table in TASKS:
            return TASKS[table].is_asked(study) and (model.generates or TASKS[table].is_imported)
        return _NEEDED_BY.get(table, lambda _: True)(model)

    return dg.StaticPartitionsDefinition([model.name for model in study.models if has_rows(model)])


months = _window_of(chosen_study())
_sweep = chosen_study().sweep
methods = dg.StaticPartitionsDefinition(list(chosen_study().methods))
retrievers = dg.StaticPartitionsDefinition(list(chosen_study().retrieval_methods))
settings = dg.StaticPartitionsDefinition([one.name for one in _sweep.drawn] if _sweep else [])


def by_method(table: str) -> dg.MultiPartitionsDefinition:
    """The models of a table, each with every method."""
    return dg.MultiPartitionsDefinition({"model": models_of(table), "method": methods})


def asset_key(*names: str) -> dg.AssetKey:
    """The key of an asset: it begins with the study's name, since all studies of a home share one interface."""
    return dg.AssetKey([chosen_study().name, *names])


LOG = logging.getLogger("longtail")


class StudyResource(dg.ConfigurableResource):
    """The chosen study. Its set-up takes the run's lock, which the process's death releases, and tags the run."""

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        run = context.run
        if run is not None:
            hold_run(self.study.home.runs, run.run_id)
            if context.instance is not None:
                context.instance.add_run_tags(run.run_id, {STUDY: self.study.name})
            for need in needs_of_machines():
                need.check()
            Lake.of(self.study.name, self.study.home.lake).synchronise()

    @property
    def study(self) -> Study:
        return chosen_study()

    @property
    def lake(self) -> Lake:
        """The study's lake, with a zero-row schema file for every table."""
        lake = Lake.of(self.study.name, self.study.home.lake)
        lake.ensure_schemas()
        return lake

    def share(self, kind: str, version: Path, files: Iterable[Path] = ()) -> None:
        """Put a published version into the object store, if the environment names one. Errors: `LakeError`.

        `version`: a file, a folder, or the name that `files`, which are beside others, get as a folder there.
        """
        store = ObjectStore.of(self.study.name, self.study.home.lake)
        if store:
            base, paths = version.parent, [version, *version.rglob("*")]
            keys = {f"{version.name}/{path.relative_to(base)}": path for path in files}
            keys |= {str(path.relative_to(base)): path for path in paths if path.is_file()}
            store.publish(kind, version.name, keys)
