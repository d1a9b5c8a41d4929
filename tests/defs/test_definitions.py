"""The asset graph as Dagster sees it: an accidental change of a key shows as a difference here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from longtail.commands import ui
from longtail.storage.home import DEFAULT_STUDY_FILE
from longtail.tables import TABLES
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import PROJECT, environment, run_python, small_study

SNAPSHOT = Path(__file__).parent / "asset_graph.json"

DESCRIBE = """
import json, sys
import dagster as dg
from dagster_project.definitions import defs
from dagster_project.defs import warehouse as assets
from longtail.storage.home import PROJECT_ROOT
definitions = defs()
def name(key):
    assert key.path[0] == assets.chosen_study().name
    return "/".join(key.path[1:])
needed = definitions.resolve_asset_graph()
full = dg.load_from_defs_folder(path_within_project=PROJECT_ROOT)
graph = dg.Definitions(
    assets=full.assets, asset_checks=full.asset_checks, resources=definitions.resources
).resolve_asset_graph()
shown = {}
for key in sorted(graph.materializable_asset_keys, key=lambda k: k.path):
    node = graph.get(key)
    shown[name(key)] = {
        "group": node.group_name,
        "described": bool(node.description),
        "partitions": type(node.partitions_def).__name__ if node.partitions_def else None,
        "parents": sorted(name(parent) for parent in node.parent_keys),
    }
checks = sorted(name(c.asset_key) + ":" + c.name for c in graph.asset_check_keys)
external = sorted(name(key) for key in graph.external_asset_keys)
pools = {name(k): sorted(graph.get(k).pools or []) for k in graph.materializable_asset_keys}
said = [c.description for k in graph.materializable_asset_keys if k.path[1] == "marts"
        for c in graph.get(k).metadata["dagster/column_schema"].columns]
schedules = [s.name for s in definitions.schedules]
assets._VERSION = "that of other files"
try:
    list(assets.build_models(None, assets.chosen_study()))
except dg.Failure as failure:
    refusal = failure.description
refresh = definitions.resolve_job_def("refresh_popularity").asset_layer.executable_asset_keys
labels = {(*needed.get(key).owners, needed.get(key).tags["study"]) for key in needed.materializable_asset_keys}
print(json.dumps({"assets": shown, "labels": sorted(labels),
                  "needed": sorted(name(k) for k in needed.get_all_asset_keys()),
                  "checks": checks, "external": external, "pools": pools, "schedules": schedules,
                  "said": said, "refusal": refusal, "refresh": sorted(name(k) for k in refresh)}))
"""


def describe(home: Path, study: Path | None = None) -> dict[str, Any]:
    put_parsed(home, study or DEFAULT_STUDY_FILE)
    done = run_python("-c", DESCRIBE, env=environment(home, study))
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return describe(tmp_path_factory.mktemp("home"))


def test_the_asset_graph_equals_its_snapshot(graph: dict[str, Any]) -> None:
    names = ("group", "parents", "partitions")
    shown = {key: {name: node[name] for name in names} for key, node in graph["assets"].items()}
    if os.environ.get("LONGTAIL_UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(json.dumps(shown, indent=1, sort_keys=True) + "\n")
    agreed = json.loads(SNAPSHOT.read_text())
    assert shown == agreed, "assets changed; if meant: LONGTAIL_UPDATE_SNAPSHOTS=1 pytest tests/defs"


def test_a_build_of_other_files_than_those_that_dagster_knows_is_refused(graph: dict[str, Any]) -> None:
    assert graph["refusal"] == (
        f"{PROJECT / 'dbt'}: files of dbt have changed since this run began; run again, and it builds the new ones"
    )


def test_every_asset_is_described_and_grouped(graph: dict[str, Any]) -> None:
    assert [key for key, node in graph["assets"].items() if not node["described"]] == []
    groups = Counter(node["group"] for node in graph["assets"].values())
    assert {group.partition("/")[0] for group in groups} == {
        "study", "ingest", "page_views", "questions", "reference", "retrieval", "citations", "generation", "grounding",
        "tuning", "warehouse", "report",
    }  # fmt: skip
    assert {"warehouse", "warehouse/adaptive", "warehouse/staging/questions"} <= set(groups)
    assert max(groups.values()) < 30


def test_every_column_of_a_mart_is_described_before_it_is_built(graph: dict[str, Any]) -> None:
    assert len(graph["said"]) > 1_000
    assert all(graph["said"])


def test_every_source_of_dbt_is_an_asset_of_the_platform(graph: dict[str, Any]) -> None:
    made_here = {f"lake/{name}" for name in TABLES if name != "quarantine"}
    assert made_here <= set(graph["assets"])
    assert [key for key in graph["external"] if key != "lake/quarantine"] == []


def test_a_study_defines_no_asset_that_it_has_no_use_for(graph: dict[str, Any]) -> None:
    """And none of its assets depends on another one: "Materialize all" would wait for it, or fail there."""
    unneeded = {
        "answer_entailments", "candidate_answers", "entity_cooccurrences", "generated_passages", "grounded_answers",
        "grounded_generations", "imported_answers", "quip_scores", "reference_page_views", "tuned_answers",
        "tuned_models",
    }  # fmt: skip
    assert set(graph["assets"]) - set(graph["needed"]) == {f"lake/{name}" for name in unneeded} | {
        "indexes/portrait"
    }
    assert set(graph["needed"]) <= set(graph["assets"])


def test_heavy_work_uses_a_pool(graph: dict[str, Any]) -> None:
    pools = graph["pools"]
    generated = (
        "answers",
        "paraphrase_answers",
        "sampled_answers",
        "generated_passages",
        "single_latencies",
        "answer_embeddings",
        "paraphrase_similarities",
    )
    assert {tuple(pools[f"lake/{name}"]) for name in generated} == {("gpu",)}
    warehouse = [key for key, node in graph["assets"].items() if node["group"].startswith("warehouse")]
    assert {tuple(pools[key]) for key in warehouse} == {("warehouse",)}


def test_the_monthly_refresh_uses_no_gpu_time(graph: dict[str, Any]) -> None:
    assert "monthly_popularity" in graph["schedules"]
    outcome = {"marts/fct_adaptive_accuracy", "published_warehouse", "parquet_export", "router"}
    assert {"lake/page_views", "report/report_page", *outcome} <= set(graph["refresh"])
    generated = {
        "answers",
        "paraphrase_answers",
        "sampled_answers",
        "generated_passages",
        "answer_embeddings",
    }
    assert not {f"lake/{name}" for name in generated} & set(graph["refresh"])


def test_dbt_tests_are_checks(graph: dict[str, Any]) -> None:
    assert sum(check.startswith("marts/") for check in graph["checks"]) > 50
    assert "lake/questions:every_relation_has_questions" in graph["checks"]
    assert "lake/paraphrase_similarities:paraphrases_keep_the_meaning" in graph["checks"]


def test_a_study_with_owners_and_without_retrieval_loads_too(tmp_path: Path) -> None:
    study = small_study(
        tmp_path, "fake:digest", edit={"[closed_book, genread, bm25, oracle]": "[closed_book]"}
    )
    study.write_text(f"{study.read_text()}\nowners: [team:nlp, ada@example.org]\n")
    graph = describe(tmp_path / "home", study)
    assert "lake/answers" in graph["needed"]
    assert not {"indexes/bm25", "lake/retrieved_passages"} & set(graph["needed"])
    assert graph["labels"] == [["team:nlp", "ada@example.org", "small"]]


def test_dg_and_the_web_interface_load_the_same_module() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["dg"]["project"]
    assert project["code_location_target_module"] == ui.MODULE


def test_core_imports_without_dagster() -> None:
    code = (
        "import sys, pkgutil, importlib\n"
        "sys.modules['dagster'] = None; sys.modules['dagster_dbt'] = None\n"
        "import longtail as core\n"
        "for module in pkgutil.walk_packages(core.__path__, 'longtail.'):\n"
        "    if not module.name.startswith('longtail.commands.'):\n"
        "        importlib.import_module(module.name)\n"
        "heavy = {'torch', 'transformers', 'faiss', 'sentence_transformers'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
