"""One process that writes, indexes and searches generated passages by BM25, and reports its times and its memory.

`python -m benchmarks.retrieval_process HOME 1000000 14267`: the last line is JSON with seconds of each step and peak_mb,
the most memory that the process held, together with those that count shards, pages of mapped files included.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.generated_passages import open_home, questions_of
from benchmarks.memory import Memory
from longtail.retrieval.base import Context, Hit, Query, load_retriever
from longtail.retrieval.indexes import Index, build_index
from longtail.retrieval.stored_passages import open_passages
from longtail.storage.lake import Lake
from longtail.study.study import Study

K = 20
_LOG = logging.getLogger("longtail.benchmark")


def main() -> None:
    """Run all steps once."""
    home, n_passages, n_questions = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    os.environ["LONGTAIL_HOME"] = str(home)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    questions = questions_of(n_questions)
    told: dict[str, float] = {}
    with Memory() as memory:
        study, lake = timed(told, "write_s", lambda: open_home(home, n_passages))
        timed(told, "sort_s", lambda: open_passages(lake, study.home.indexes, _LOG))
        timed(told, "build_s", lambda: build_index(study, lake, "bm25", _LOG))
        timed(told, "load_s", lambda: search(study, lake, questions[:1]))
        timed(told, "search_s", lambda: search(study, lake, questions))
    told["peak_mb"] = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, memory.of_all)
    print(json.dumps(told))


def search(study: Study, lake: Lake, questions: Sequence[str]) -> list[list[Hit]]:
    """The hits of the stored BM25 index, which is opened for this."""
    method = study.method("bm25")
    tool = load_retriever(method)
    index = Index.of(method, tool, lake.content("passages"), study.home.indexes)
    index.require()
    context = Context(open_passages(lake, study.home.indexes, _LOG), index.folder, study.home.cache, _LOG, K)
    return tool.search(context, [Query("q", str(i), text, None, ()) for i, text in enumerate(questions)])


def timed(told: dict[str, float], name: str, step: Callable[[], Any]) -> Any:
    """What `step` gives; its seconds go to `told`, and a line with the memory so far to the log."""
    started = time.perf_counter()
    made = step()
    told[name] = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _LOG.info("%s %.1f, peak %.0f MB", name, told[name], peak)
    return made


if __name__ == "__main__":
    main()
