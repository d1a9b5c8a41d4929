"""Several processes write one new SQLite file at once, and kill -9 ends some: what is lost, and what fails?

    python -m tests.lock_trials [number of trials] [busy processes beside them]

In each trial four writers open a file that is not there yet, and store twelve entries each. Two of them are killed at
seeded random moments. Whatever a writer has called stored must be there. Only public calls are used, so the script also
tells what an earlier version of the code does.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longtail.generation.backends.base import Generation, Identity
from longtail.generation.engine.row_cache import CachedRow, RowCache
from longtail.storage.blob_store import BlobStore

WRITERS, KILLED, ENTRIES = 4, 2, 12
_LOG = logging.getLogger("lock_trials")
_IDENTITY = Identity("revision", "float32", "none", "fake", "1")
_ACCOUNTS: Any = {
    "prompt_tokens": 3,
    "new_tokens": 3,
    "n_truncated_tokens": 0,
    "latency_ms": 1.5,
    "batch_size": 4,
}


def _row(name: str) -> CachedRow:
    return CachedRow(Generation(name * 300, **_ACCOUNTS), "fake 1", "origin")


def _write_blobs(folder: Path, names: list[str], tell: Callable[[str], None]) -> None:
    store = BlobStore(folder / "blobs.sqlite", max_bytes=1 << 30)
    for name in names:
        store.put(name, name.encode() * 300)
        tell(name)
    store.close()


def _write_rows(folder: Path, names: list[str], tell: Callable[[str], None]) -> None:
    with RowCache(folder, _IDENTITY, _LOG) as cache:
        for name in names:
            cache.store({name.encode(): _row(name)})
            tell(name)


def _lost_blobs(folder: Path, names: list[str]) -> int:
    store = BlobStore(folder / "blobs.sqlite")
    n_lost = sum(store.get(name) != name.encode() * 300 for name in names)
    store.close()
    return n_lost


def _lost_rows(folder: Path, names: list[str]) -> int:
    with RowCache(folder, _IDENTITY, _LOG) as cache:
        found = cache.find([name.encode() for name in names])
    return sum(found.get(name.encode()) != _row(name) for name in names)


STORES = {"blobs": (_write_blobs, _lost_blobs), "rows": (_write_rows, _lost_rows)}


def trial(kind: str, seed: int) -> Counter[str]:
    """Entries that were `stored` and `lost`, and by its message what failed."""
    write, count_lost = STORES[kind]
    moments = random.Random(seed)
    said, tells = os.pipe()
    waits, starts = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        writers = []
        for writer in range(WRITERS):
            pid = os.fork()
            if not pid:
                os.close(starts)
                os.read(waits, 1)  # until all are there
                try:
                    names = [f"{writer}.{number}" for number in range(ENTRIES)]
                    write(Path(folder), names, lambda name: _tell(tells, name))
                except Exception as error:
                    _tell(tells, f"failed: {str(error).replace(folder, '')}")
                finally:
                    os._exit(0)
            writers.append(pid)
        for end in (tells, waits, starts):
            os.close(end)
        for pid in moments.sample(writers, KILLED):
            time.sleep(moments.uniform(0, 0.02))
            os.kill(pid, signal.SIGKILL)
        for pid in writers:
            os.waitpid(pid, 0)
        with os.fdopen(said) as lines:
            told = lines.read().splitlines()
        stored = [line for line in told if not line.startswith("failed")]
        counted = Counter(line for line in told if line.startswith("failed"))
        return counted + Counter(stored=len(stored), lost=count_lost(Path(folder), stored))


def _tell(pipe: int, line: str) -> None:
    os.write(pipe, f"{line}\n".encode())


def _busy() -> int:
    pid = os.fork()
    while not pid:
        pass
    return pid


def main(n_trials: int, n_busy: int) -> int:
    """Print what all trials gave; the number of trials in which an entry was lost or a writer failed."""
    busy = [_busy() for _ in range(n_busy)]
    n_bad = 0
    for kind in STORES:
        each = [trial(kind, seed) for seed in range(n_trials)]
        n_bad += (bad := sum(set(one) != {"stored"} for one in each if one))
        print(f"{kind}: {bad} of {n_trials} trials bad; {dict(sum(each, Counter()))}")
    for pid in busy:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return n_bad


if __name__ == "__main__":
    logging.disable()
    asked = dict(enumerate(map(int, sys.argv[1:])))
    sys.exit(bool(main(asked.get(0, 200), asked.get(1, os.cpu_count() or 1))))
