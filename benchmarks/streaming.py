"""One process that answers many prompts through engine and row cache, and reports its memory.

`python -m benchmarks.streaming 118643`: the last line is JSON with seconds, loaded_mb (resident once the model is
loaded) and peak_mb.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.prompts import paraphrased_prompts
from longtail.generation.engine.job import Job, complete
from longtail.generation.engine.row_cache import RowCache
from longtail.generation.engine.session import ModelSession
from longtail.study.models import Model


def main() -> None:
    """Answer as many prompts as the command line says."""
    n = int(sys.argv[1])
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.INFO)
    log = logging.getLogger("longtail")
    model = Model(name="reference_l", path="sandbox:l")
    with tempfile.TemporaryDirectory(prefix="longtail-bench-") as folder, ModelSession(log) as session:
        session.backend(model)
        loaded = _resident_mb()
        started = time.perf_counter()
        with RowCache(Path(folder), session.identity(model), log) as cache:
            items = paraphrased_prompts(n)
            done = complete(Job(model, cache, session, "bench", "prompts", log), items)
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if len(done.rows) < len({item.prompt().hash() for item in items}) or done.failures:
        raise SystemExit(f"error: {len(done.rows)} of {n} prompts were answered")
    print(json.dumps({"seconds": seconds, "loaded_mb": loaded, "peak_mb": peak}))


def _resident_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
