"""The passages that some retriever found: lake table `cited_passages`, in the columns of table `passages`.

What belongs here: copying these passages, so that the warehouse reads a few of the millions of texts. What does not: all
passages (`passages`), and what was found (`retrieve`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from dagster_project.core.storage.fingerprints import code_version, fingerprint
from dagster_project.core.storage.lake import Computed, Lake, Outcome, Streamed
from dagster_project.core.storage.lake_rows import PART_ROWS
from dagster_project.core.study.study import Study

_TABLE = "cited_passages"


def cite_passages(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write the passages that the study's retrievers found, in the order of table `passages`.

    Errors: `LakeError` where table `passages` is missing or damaged.
    """
    found = [name for name in lake.partitions("retrieved_passages") if name in study.retrieval_methods]
    contents = [lake.content("retrieved_passages", name) for name in found]
    stamp = fingerprint(lake.content("passages"), contents, code_version(__name__))

    def compute() -> Computed:
        parts = [lake.read("retrieved_passages", name, ["passage_id"])["passage_id"] for name in found]
        ids = pc.unique(pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string()))
        log.info("passages: %d were found by some retriever", len(ids))
        return Computed(Streamed(_cited(lake, ids)))

    return lake.materialise(_TABLE, stamp, compute)


def _cited(lake: Lake, ids: pa.Array) -> Iterator[pa.Table]:
    """The passages with these ids, in tables of `PART_ROWS` rows or a few more; one batch of all is in memory."""
    waiting: list[pa.Table] = []
    for batch in lake.batches("passages"):
        waiting.append(batch.filter(pc.is_in(batch["passage_id"], ids)))
        if sum(table.num_rows for table in waiting) >= PART_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
