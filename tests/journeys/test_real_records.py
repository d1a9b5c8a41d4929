"""The whole path on real Wikidata records: `studies/wikidata_people.yaml`, one model, some people and questions."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import duckdb
import pytest

from tests.in_process_dbt import put_parsed
from tests.journeys.commands import PROJECT, run_up_to_the_warehouse
from tests.warehouses import build_marts

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("real_records")]

RECORDS = os.environ.get("LONGTAIL_PEOPLE_RDF", "")
DRAWN = 30
N_PEOPLE = 500


def write_some_people(target: Path) -> None:
    """The first people of the file, with all that it says of other things. Each person's passage is embedded."""
    data = Path(RECORDS).read_bytes()
    lines = (gzip.decompress(data) if RECORDS.endswith(".gz") else data).splitlines(keepends=True)
    people = [line.partition(b" ")[0] for line in lines if b"/prop/direct/P31> " in line]
    left_out = {*people[N_PEOPLE:]}
    target.write_bytes(b"".join(line for line in lines if line.partition(b" ")[0] not in left_out))


@pytest.mark.skipif(
    not Path(RECORDS).is_file(),
    reason="LONGTAIL_PEOPLE_RDF names no file: the journey over real Wikidata records was NOT run",
)
def test_real_people_from_rdf_to_thresholds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_some_people(tmp_path / "people.nt")
    monkeypatch.setenv("LONGTAIL_PEOPLE_RDF", str(tmp_path / "people.nt"))
    text = (PROJECT / "studies/wikidata_people.yaml").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if "reference_m" not in line and "reference_l" not in line]
    named = next(i for i, line in enumerate(kept) if line.startswith("  - name: "))
    kept.insert(named + 1, f"    max_questions_per_relation: {DRAWN}")
    study = tmp_path / "people.yaml"
    study.write_text("\n".join(kept), encoding="utf-8")

    put_parsed(tmp_path / "home", study)
    run_up_to_the_warehouse(tmp_path / "home", study)
    wanted = ("dim_questions", "dim_entities", "fct_answers", "fct_adaptive_thresholds")
    build = build_marts(tmp_path / "home", study, *wanted)

    with duckdb.connect(str(build), read_only=True) as marts:
        questions = dict(
            marts.sql("select relation, count(*) from marts.dim_questions group by 1").fetchall()
        )
        answered = dict(marts.sql("select method, count(*) from marts.fct_answers group by 1").fetchall())
        recall = dict(
            marts.sql("select method, avg(has_answer::int) from marts.fct_answers group by 1").fetchall()
        )
        measure, missing = marts.sql(
            "select any_value(popularity_measure), count(*) filter (subject_popularity is null) from marts.fct_answers"
        ).fetchone()
        thresholds = marts.sql("select count(*) from marts.fct_adaptive_thresholds").fetchone()[0]
        sources = marts.sql("select distinct source from marts.dim_entities").fetchall()
    assert questions == {"occupation": DRAWN, "place of birth": DRAWN}
    assert answered["closed_book"] == answered["bm25"] == answered["dense"] == 2 * DRAWN
    assert recall["bm25"] > 0.98
    assert recall["dense"] > 0.98
    assert (measure, missing) == ("sitelinks", 0)
    assert thresholds > 0
    assert sources == [("rdf_file",)]
