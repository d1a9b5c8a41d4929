"""What the check of finished answers counts."""

from __future__ import annotations

from pathlib import Path

from dagster_project.core.generation.tasks.audit import count_faults
from dagster_project.core.storage.lake import Lake
from tests.flipped_bits import flip_bit
from tests.lakes import LakePlan, make_lake


def test_doubled_rows_and_rows_of_questions_not_asked(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", LakePlan(n_relations=2, n_questions_per_relation=3))
    assert count_faults(lake, "new") == (0, 0)
    partition = lake.partitions("answers")[0]
    rows = lake.read("answers", partition).to_pylist()
    stray = {**rows[0], "question_id": "Q999999-P19"}
    lake.write("answers", [*rows, rows[0], stray], fingerprint="f", partition=partition)
    assert count_faults(lake, "new") == (1, 0), (
        "an earlier run's partition may hold questions no longer asked"
    )
    written = [{**row, "run_id": "new"} for row in (*rows, stray)]
    lake.write("answers", written, fingerprint="g", partition=partition)
    assert count_faults(Lake(lake.root), "new") == (0, 1)


def test_the_damaged_partition_of_another_model_is_no_fault_of_this_run(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", LakePlan(n_relations=2, n_questions_per_relation=3))
    flip_bit(lake.path("answers", lake.partitions("answers")[-1]))
    assert count_faults(Lake(lake.root), "new") == (0, 0)
