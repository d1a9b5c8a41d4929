"""kill -9 at seeded random moments of a build, which then goes on: is anything lost, doubled or different?

    python -m tests.kill_moments [kills per stage]

Each stage is killed again and again in one folder, until the wanted number of kills has met it at work; a folder that
is finished is begun anew. What each folder holds at the end is compared, byte by byte or entry by entry, with what a
build without kills left.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from longtail.generation.tasks.registry import TASKS
from longtail.retrieval.bm25 import tokens_of
from longtail.retrieval.bm25_shards import build_shards
from longtail.retrieval.retrievers.bm25 import Bm25Settings
from longtail.router.publish import publish_routers
from longtail.storage.blob_store import BlobStore
from longtail.storage.files import remove_leftovers
from longtail.storage.lake import Lake
from longtail.study.prompts import Grounding
from tests.lakes import LakePlan, make_study
from tests.longtail.generation.small_study import made, small_study
from tests.longtail.grounding.test_portrait import built, some_texts
from tests.longtail.retrieval.test_stored_passages import generated
from tests.longtail.router.hand_made import write_marts

_LOG = logging.getLogger("kill_moments")
_VECTORS = {f"text {n}": random.Random(n).randbytes(1_536) for n in range(4_000)}
_TEXTS, _PASSAGES = some_texts(60), generated(2_000, 100)
_VARYING = ("run_id", "latency_ms", "device_seconds", "shared_tokens", "generated_for", "is_reused")
Contents = dict[str, str]


def _portrait(folder: Path) -> None:
    remove_leftovers(folder / ".staging")
    built(folder / "portrait", _TEXTS)


def _bm25(folder: Path) -> None:
    build_shards(_PASSAGES, folder, tokens_of, _LOG, Bm25Settings())


def _vectors(folder: Path) -> None:
    """As `embedding.vectors` stores them: what is missing, some at a time."""
    store = BlobStore(folder / "embeddings.sqlite")
    found = store.get_many(list(_VECTORS))
    missing = [key for key in _VECTORS if key not in found]
    for start in range(0, len(missing), 100):
        store.put_many({key: _VECTORS[key] for key in missing[start : start + 100]})
    store.close()


def _grounded(folder: Path) -> None:
    """Generations under grounding prompts, by a scripted model."""
    os.environ["LONGTAIL_HOME"] = str(folder / "home")
    study = dataclasses.replace(
        small_study(folder, "fake:digest", batch_tokens=64),
        methods=("closed_book",),
        grounding=Grounding(prompts=("null", "according_to_wikipedia", "without_wikipedia")),
    )
    lake = Lake(study.home.lake)
    if lake.stamp("questions") is None:
        row = {
            "dataset": "sandbox",
            "subject_aliases": [],
            "object_ids": [],
            "objects": [],
            "gold_answers": ["yes"],
        }
        rows = [{**row, "question_id": f"q{n:03}", "question": f"what is {n}"} for n in range(150)]
        lake.write("questions", rows, fingerprint="f")
    made(study, TASKS["grounded_generations"])


def _generated(folder: Path) -> Contents:
    rows = Lake(folder / "home/small/lake").read("grounded_generations", "tiny").to_pylist()
    keys = [f"{row['question_id']} {row['grounding_prompt']} {n}" for n, row in enumerate(rows)]
    return {key: str({**row, **dict.fromkeys(_VARYING)}) for key, row in zip(keys, rows, strict=True)}


def _routers(folder: Path) -> None:
    os.environ["LONGTAIL_HOME"] = str(folder / "home")
    study = make_study(folder, LakePlan())
    marts = study.home.published_warehouse
    if not marts.exists():
        unfinished = marts.with_name("unfinished")
        unfinished.unlink(missing_ok=True)
        write_marts(unfinished)
        os.replace(unfinished, marts)
    remove_leftovers(marts.parent / ".staging")
    publish_routers(study, _LOG)


def _published(folder: Path) -> Contents:
    (link,) = folder.rglob("published/router")
    return _files(link)


def _files(folder: Path) -> Contents:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def _entries(folder: Path) -> Contents:
    store = BlobStore(folder / "embeddings.sqlite")
    found = store.get_many(list(_VECTORS))
    store.close()
    return {key: hashlib.sha256(value).hexdigest() for key, value in found.items()}


STAGES: dict[str, tuple[Callable[[Path], None], Callable[[Path], Contents]]] = {
    "store of vectors": (_vectors, _entries),
    "bm25 index": (_bm25, _files),
    "portrait": (_portrait, _files),
    "grounded generations": (_grounded, _generated),
    "router files": (_routers, _published),
}


def _is_killed(make: Callable[[Path], None], folder: Path, seconds: float) -> bool:
    """Make `folder` in a child that is killed after `seconds`; whether it was still at work then."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            make(folder)
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL), f"the build failed: {status}"
    return status != 0


def killed(stage: str, n_kills: int, folder: Path) -> tuple[int, int, int]:
    """How many contents `n_kills` lost, added, and changed."""
    make, read = STAGES[stage]
    moments = random.Random(stage)
    for name in ("warm", "whole"):  # the first build also compiles
        whole = folder / name
        whole.mkdir()
        began = time.monotonic()
        make(whole)
    longest = 0.7 * (time.monotonic() - began)
    expected, n_landed, n_begun, faults = read(whole), 0, 0, [0, 0, 0]
    while n_landed < n_kills:
        n_begun += 1
        place = folder / str(n_begun)
        place.mkdir()
        while n_landed < n_kills and _is_killed(make, place, moments.uniform(0, longest)):
            n_landed += 1
        make(place)
        found = read(place)
        faults[0] += len(expected.keys() - found.keys())
        faults[1] += len(found.keys() - expected.keys())
        faults[2] += sum(found[key] != expected[key] for key in expected.keys() & found.keys())
    return faults[0], faults[1], faults[2]


def main(n_kills: int) -> int:
    """Print a line per stage; the number of faults in all."""
    n_faults = 0
    print(f"{'stage':20} {'kills':>5} {'lost':>5} {'doubled':>7} {'differing':>9}")
    for stage in STAGES:
        with tempfile.TemporaryDirectory() as folder:
            lost, added, changed = killed(stage, n_kills, Path(folder))
        print(f"{stage:20} {n_kills:5} {lost:5} {added:7} {changed:9}", flush=True)
        n_faults += lost + added + changed
    return n_faults


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]) if len(sys.argv) > 1 else 14)))
