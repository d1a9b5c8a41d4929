"""Shards of a partition: however they are spread over machines, they end in the partition of one process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import LOG, answer, fill_lake, small_study

from longtail.commands import generate
from longtail.errors import BackendError, LakeError
from longtail.generation.engine.job import Shard
from longtail.generation.engine.partition import generate_shard
from longtail.generation.engine.row_cache import merge
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Scope
from longtail.generation.tasks.registry import TASKS
from longtail.storage.lake import Lake
from longtail.study.study import Study

CALLS_OF_MACHINE = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0, 0, 1, 2, 3])), max_size=3)
"""Which shards a machine computes, and before which of its calls the backend dies (0: never)."""
VOLATILE = ("run_id", "latency_ms", "shared_tokens", "device_seconds")


@contextlib.contextmanager
def machine(folder: Path, fail_on_call: int = 0, refuse: str = "") -> Iterator[Study]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(folder / "home"))
        patch.setenv("LONGTAIL_THREADS", "1")
        path = f"fake:digest?ledger={folder.parent / 'ledger'}&fail_on_call={fail_on_call}&refuse={refuse}"
        study = small_study(folder, path, batch_tokens=24)
        if not Lake(study.home.lake).partitions("questions"):
            fill_lake(Lake(study.home.lake), 4)
        yield study


def compute(study: Study, shard: Shard) -> tuple[int, int]:
    scope = Scope(study, Lake(study.home.lake), study.model("tiny"), "closed_book", LOG)
    with ModelSession(LOG) as session:
        return generate_shard(TASKS["answers"], scope, shard, session)


def rows(study: Study) -> pa.Table:
    table = Lake(study.home.lake).read("answers", answer(study).partition)
    return table.drop_columns(list(VOLATILE)).replace_schema_metadata(None)


@pytest.fixture(scope="module")
def by_one_process(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    with machine(tmp_path_factory.mktemp("alone") / "m") as study:
        return rows(study)


@settings(max_examples=15, deadline=None)
@given(machines=st.lists(CALLS_OF_MACHINE, min_size=1, max_size=3), count=st.integers(1, 4))
def test_any_spread_of_shards_ends_like_one_process(
    machines: list[list[tuple[int, int]]],
    count: int,
    by_one_process: pa.Table,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder, asked = tmp_path_factory.mktemp("spread"), set()
    for at, calls in enumerate(machines):
        for number, fail_on_call in calls:
            if number <= count and number not in asked:
                asked.add(number)  # each shard on one machine, killed or not
                with machine(folder / str(at), fail_on_call) as study, contextlib.suppress(BackendError):
                    compute(study, Shard(number, count))
    with machine(folder / "0") as study:
        for at in range(1, len(machines)):
            other = folder / str(at) / "home" / "row_cache"
            if other.exists():
                merge(study.home.row_cache, other, LOG)
        assert rows(study).equals(by_one_process)
    lines = (folder / "ledger").read_text().splitlines()
    assert len(lines) == len(set(lines)) == len(set(by_one_process["prompt_hash"].to_pylist()))


def test_the_shards_are_the_whole_and_share_nothing(tmp_path: Path) -> None:
    found: list[tuple[int, int]] = []
    with machine(tmp_path / "m") as study:
        for number in (1, 2, 3):
            before = found[-1][0] if found else 0
            found.append(compute(study, Shard(number, 3)))
            assert before < found[-1][0] <= found[-1][1]
        assert found[-1][0] == found[-1][1]
        outcome = answer(study)
        assert (outcome.notes["computed"], outcome.notes["reused"]) == (0, 0)
        assert compute(study, Shard(1, 3)) == (outcome.stamp.n_rows, outcome.stamp.n_rows)


def test_a_shard_whose_missing_results_all_fail_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What failed is tried again by each later run: of a finished shard, nothing else is left."""
    with machine(tmp_path / "m", refuse="1") as study:
        found = [compute(study, Shard(number, 2)) for number in (1, 2, 1, 2)]
        assert found[1:] == [found[1]] * 3
        n_done, n_all = found[1]
        assert 0 < n_done < n_all
        assert "tried again when the table is made" in caplog.text
        outcome = answer(study)
        assert (outcome.notes["computed"], outcome.notes["failed"] > 0) == (0, True)


def test_a_damaged_input_is_told_although_tables_before_it_are_unfinished(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with machine(tmp_path / "m") as study, ModelSession(LOG) as session:
        lake = Lake(study.home.lake)
        damaged = lake.path("retrieved_passages", "bm25")
        damaged.write_bytes(damaged.read_bytes()[:-100])
        with caplog.at_level("INFO", "longtail"), pytest.raises(LakeError, match="retrieved_passages"):
            generate._shard_of_model(Scope(study, lake, study.model("tiny"), None, LOG), Shard(1, 2), session)
    assert "answers tiny|genread waits for generated_passages" in caplog.text
