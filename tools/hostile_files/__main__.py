"""Hostile files, each once through the door that a user's file takes: the study file, the look before a run, the reader.

    python -m tools.hostile_files [NAME …]

Prints a line for each file: `refused` (one line of an error that a user can correct), `put aside` (rows in
quarantine), `read` (nothing in it is harmful), or `FAULT` (a trace, a hang, more than a gigabyte of memory, or code that
ran). The last line counts them; the exit code is 1 after a fault. The suite tries some of them
(`tests/longtail/imports/test_encodings`).
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.errors import LongtailError
from longtail.imports.answers import import_answers
from longtail.imports.datasets import import_paraphrases, read_questions
from longtail.parsing.line_files import RejectedRows
from longtail.preflight import misses
from longtail.retrieval.collections import passages_in
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.imports import FORMATS
from longtail.study.study import Study
from tools.hostile_files.cases import CASES, Case

MOST_MIB = 1_024
SECONDS = 120
_STUDY = """\
name: hostile
description: One file of somebody
{datasets}
prompts: [{{name: zero_shot, format: qa}}]
models:
  - {model}
methods: [closed_book]
popularity: {{measure: imported}}
{more}
"""
_MODEL = '{name: m, path: "fake:echo", backend: fake}'
_GOOD = "datasets: [{name: d, import: {format: table, path: good.csv}}]"
_LARGE = {"longtail.generation.backends.hf", "longtail.models.atlas_models",
          "torch", "transformers"}  # fmt: skip
_LOG = logging.getLogger("hostile")


@dataclass(frozen=True)
class Tried:
    """What became of a file: `outcome`, what was said, and how much memory it took above that of the program."""

    outcome: str
    said: str
    mebibytes: float


def main(names: list[str]) -> int:
    warnings.filterwarnings("ignore")
    for module in {module for formats in FORMATS.values() for module in formats.values()} | _LARGE:
        importlib.import_module(module)  # once for all processes
    counts: Counter[str] = Counter()
    for case in CASES:
        if not names or any(name in case.name for name in names):
            tried = try_case(case)
            counts[tried.outcome] += 1
            print(
                f"{tried.outcome:9}  {case.name:58}  {tried.mebibytes:6.0f} MiB  {tried.said[:150]}",
                flush=True,
            )
    print(json.dumps({"files": sum(counts.values()), **counts}))
    return int(counts["FAULT"] > 0)


def try_case(case: Case) -> Tried:
    """Try one file in a process of its own, which may take `SECONDS`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            signal.alarm(SECONDS)  # ends the process, also where it waits
            os.environ["LONGTAIL_HOME"] = str(folder / "home")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            found = _outcome(case, folder)
            took = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            os.write(writing, json.dumps([*found, took]).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            told = stream.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not told:
            ended = signal.Signals(-status).name if status < 0 else f"exit code {status}"
            return Tried("FAULT", f"the process ended: {ended}", 0)
        outcome, said, mebibytes = json.loads(told)
        if (folder / "ran").exists():
            return Tried("FAULT", "code in the file was executed", mebibytes)
        if mebibytes > MOST_MIB:
            return Tried("FAULT", f"too much memory; {outcome}: {said}", mebibytes)
        return Tried(outcome, said, mebibytes)


def _outcome(case: Case, folder: Path) -> tuple[str, str]:
    try:
        (folder / "good.csv").write_text("id,question,answers\n1,Who?,Ada\n2,Where?,Rome\n", encoding="utf-8")
        case.write(folder)
        n_aside, said = _DOORS[case.door](case, folder)
    except LongtailError as error:
        is_line = "\n" not in str(error) and len(str(error)) < 2_000
        return ("refused" if is_line else "FAULT"), str(error)
    except BaseException as error:  # whatever else comes is what a user must never see
        return "FAULT", f"{type(error).__name__}: {error}"[:500]
    return ("put aside" if n_aside else "read"), said


def _study(folder: Path, datasets: str = _GOOD, model: str = _MODEL, more: str = "") -> Study:
    (folder / "study.yaml").write_text(
        _STUDY.format(datasets=datasets, model=model, more=more), encoding="utf-8"
    )
    study = load_study(folder / "study.yaml")
    missing = misses(study)
    if missing:
        raise LongtailError(missing[0])
    return study


def _questions(case: Case, folder: Path) -> tuple[int, str]:
    study = _study(folder, f"datasets: [{{name: d, import: {{format: {case.format}, path: '{case.file}'}}}}]")
    found = read_questions(study, study.datasets[0])
    return len(found.rejected), f"{len(found.questions)} questions; {_first(found.rejected)}"


def _paraphrases(case: Case, folder: Path) -> tuple[int, str]:
    given = f"paraphrases: {{format: {case.format}, path: '{case.file}'}}"
    study = _study(folder, f"datasets: [{{name: d, import: {{format: popqa, path: popqa.tsv}}, {given}}}]")
    found = import_paraphrases(study, study.datasets[0], _LOG)
    return len(found.rejected), f"{_first(found.rejected)}"


def _answers(case: Case, folder: Path) -> tuple[int, str]:
    own = f"{{format: {case.format}, path: '{case.file}', dataset: d}}"
    study = _study(folder, model=f"{{name: m, backend: imported, results: [{own}]}}")
    lake = Lake(study.home.lake)
    lake.ensure_schemas()
    questions = read_questions(study, study.datasets[0])
    rows = [{**row, "dataset": "d"} for row in questions.questions.values()]
    lake.write("questions", rows, fingerprint="hostile")
    outcome = import_answers(study, lake, "m", _LOG)
    rejected = lake.read_all("quarantine").to_pylist()
    return len(rejected), f"{outcome.stamp.n_rows} answers; {rejected[0]['reason'] if rejected else ''}"


def _collection(case: Case, folder: Path) -> tuple[int, str]:
    own = f"{{name: c, format: {case.format}, path: '{case.file}', source: s, date: unknown, licence: none}}"
    study = _study(folder, more=f"collections: [{own}]")
    (collection,) = study.collections
    rejected = RejectedRows(case.file, most=1_000)
    n = sum(1 for _ in passages_in(collection, folder / case.file, rejected))
    return rejected.n_rows, f"{n} passages; {_first(rejected.rows)}"


def _model(case: Case, folder: Path) -> tuple[int, str]:
    from longtail.generation.backends.base import load_backend

    study = _study(folder, model=f"{{name: m, path: '{case.file}', device: cpu}}")
    load_backend(study.models[0]).close()
    return 0, "loaded"


def _checkpoint(case: Case, folder: Path) -> tuple[int, str]:
    from longtail.models.atlas_models import convert

    convert(folder / case.file, folder / "converted")
    return 0, "converted"


def _portrait(case: Case, folder: Path) -> tuple[int, str]:
    from longtail.grounding.portrait import open_portrait

    portrait = open_portrait(folder / case.file)
    return 0, f"a portrait of {portrait.plan.n_parts} parts"


def _first(rejected: Any) -> str:
    return rejected[0].reason if rejected else ""


_DOORS: dict[str, Callable[[Case, Path], tuple[int, str]]] = {
    "questions": _questions,
    "paraphrases": _paraphrases,
    "answers": _answers,
    "collection": _collection,
    "model": _model,
    "checkpoint": _checkpoint,
    "portrait": _portrait,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
