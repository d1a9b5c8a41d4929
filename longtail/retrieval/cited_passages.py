"""Lake table `cited_passages`: what some retriever found, wrote or brought, in the columns of table `passages`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, Streamed
from longtail.storage.lake_files import PART_ROWS
from longtail.study.study import Study
from longtail.tables import TABLES

_TABLE = "cited_passages"
_WRITTEN = ["retriever", "passage_id", "swapped_from", "swapped_title", "swapped_text"]


def cite_passages(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write the passages that the study's retrievers found, in the order of table `passages`, then those not in it.

    Errors: `LakeError` where table `passages` is missing or damaged.
    """
    found = [name for name in lake.partitions("retrieved_passages") if name in study.retrieval_methods]
    contents = [lake.content("retrieved_passages", name) for name in found]
    stamp = fingerprint(lake.content("passages"), contents, code_version(__name__))

    def compute() -> Computed:
        parts = [lake.read("retrieved_passages", name, ["passage_id"])["passage_id"] for name in found]
        ids = pc.unique(pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string()))
        log.info("passages: %d were found by some retriever", len(ids))
        is_written = pc.field("swapped_text").is_valid()
        written: dict[str, dict[str, Any]] = {}
        for name in found:
            for row in lake.read("retrieved_passages", name, _WRITTEN, is_written).to_pylist():
                written.setdefault(row["passage_id"], row)
        return Computed(Streamed(_cite(lake, ids, list(written.values()))))

    return lake.materialise(_TABLE, stamp, compute)


def _cite(lake: Lake, ids: pa.Array, written: Sequence[Mapping[str, Any]]) -> Iterator[pa.Table]:
    """The passages with these ids, in tables of `PART_ROWS` rows or a few more; one batch of all is in memory."""
    originals: dict[str, dict[str, Any]] = {}
    needed = pa.array({row["swapped_from"] for row in written}, pa.string())
    waiting: list[pa.Table] = []
    for batch in lake.batches("passages"):
        waiting.append(batch.filter(pc.is_in(batch["passage_id"], ids)))
        if written:
            own = batch.filter(pc.is_in(batch["passage_id"], needed)).to_pylist()
            originals |= {row["passage_id"]: row for row in own}
        if sum(table.num_rows for table in waiting) >= PART_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
    if written:
        yield pa.Table.from_pylist([_citation_row(row, originals) for row in written], TABLES[_TABLE].schema)


def _citation_row(row: Mapping[str, Any], originals: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """A passage that a retriever wrote or brought: its original with another text, or one of its own."""
    original = originals.get(row["swapped_from"]) or {"title": row["swapped_title"], "position": 0}
    own = {"passage_id": row["passage_id"], "text": row["swapped_text"], "source": row["retriever"]}
    return original | own
