"""The check of finished answers: what it counts, and that one kind of fault is enough to fail it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_project.defs.generation import answers_are_whole
from dagster_project.defs.resources import StudyResource, chosen_study
from longtail.generation.tasks.audit import count_faults
from longtail.storage.lake import Lake
from tests.flipped_bits import flip_bit
from tests.lakes import LakePlan, make_lake


@pytest.mark.parametrize(
    ("fault", "counts"),
    [
        ("none", (0, 0)),
        ("doubled", (1, 0)),
        ("not asked", (0, 1)),
        ("not asked, of an earlier run", (0, 0)),  # until its partition is materialised again
    ],
)
def test_doubled_rows_and_rows_of_questions_not_asked(
    fault: str, counts: tuple[int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    make_lake(chosen_study().home.lake, LakePlan(n_relations=2, n_questions_per_relation=3))

    @dg.asset(key=["lake", "answers"])
    def answers(context) -> None:  # type: ignore[no-untyped-def]  # Dagster cannot read texts
        lake = Lake(chosen_study().home.lake)
        partition = lake.partitions("answers")[0]
        rows: list[dict[str, Any]] = lake.read("answers", partition).to_pylist()
        if "not asked" in fault:
            rows.append(rows[0] | {"question_id": "Q999999-P19"})
        if "earlier" not in fault:
            rows = [row | {"run_id": context.run_id} for row in rows]
        lake.write("answers", [*rows, *rows[: fault == "doubled"]], fingerprint="f", partition=partition)

    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [answers, answers_are_whole],
            instance=instance,
            resources={"study": StudyResource()},
            raise_on_error=False,
        )
    (check,) = done.get_asset_check_evaluations()
    found = tuple(check.metadata[name].value for name in ("n_doubled", "n_of_questions_not_asked"))
    assert (check.passed, found) == (counts == (0, 0), counts)


def test_the_damaged_partition_of_another_model_is_no_fault_of_this_run(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", LakePlan(n_relations=2, n_questions_per_relation=3))
    flip_bit(lake.path("answers", lake.partitions("answers")[-1]))
    assert count_faults(Lake(lake.root), "new") == (0, 0)
