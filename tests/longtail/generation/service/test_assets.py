"""The assets' way to a service's key: read by Dagster's EnvVar, and in none of Dagster's events, logs and metadata."""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from flaky_server import REFUSE, FlakyServer
from small_study import fill_lake

from longtail.storage.lake import Lake
from longtail.study.file import load_study
from tests.journeys.commands import run_python

ROOT = Path(__file__).resolve().parents[4]
CANARY = "sk-canary-0123456789"
PROGRAM = """
import os, sys
import dagster as dg
from dagster_project.defs.generation import answers
from dagster_project.defs.resources import StudyResource

logs = {"python_logs": {"managed_python_loggers": ["longtail", "dagster_project"], "python_log_level": "INFO"}}
with dg.DagsterInstance.local_temp(sys.argv[1], overrides=logs) as instance:
    for key in sys.argv[2:]:
        os.environ["CANARY_KEY"] = key
        done = dg.materialize(
            [answers], partition_key="closed_book|served", instance=instance, resources={"study": StudyResource()},
            raise_on_error=False,
        )
        for event in instance.all_logs(done.run_id):
            print(event)
        print("succeeded" if done.success else "failed", flush=True)
"""


def _study(folder: Path, base_url: str) -> Path:
    service = {"base_url": base_url, "api_key_env": "CANARY_KEY", "max_concurrency": 2}
    study = {
        "name": "served",
        "description": "for tests",
        "source": {"kind": "sandbox", "snapshot": "2026-10"},
        "datasets": [{"name": "sandbox"}],
        "prompts": [{"name": "zero_shot"}],
        "models": [{"name": "served", "path": "m", "backend": "openai", "service": service}],
        "methods": ["closed_book"],
        "popularity": {"last_month": "2026-10"},
    }
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    return path


def test_the_key_is_in_none_of_dagsters_events(tmp_path: Path, home: Path) -> None:
    instance = tmp_path / "instance"
    instance.mkdir()
    text, faults = lambda prompt, sample: f" {CANARY} is your key\n", [None, "error_500", "error_500"]
    with FlakyServer(key=CANARY, text=text, script=faults) as server:
        path = _study(tmp_path, server.base_url)
        fill_lake(Lake(load_study(path).home.lake), 2, {3: f"{REFUSE} 3"})
        environment = {**os.environ, "LONGTAIL_STUDY": str(path), "PYTHONPATH": str(ROOT)}
        done = run_python("-c", PROGRAM, str(instance), f"{CANARY}-of-another", CANARY, env=environment)
        assert done.returncode == 0, done.stderr[-2000:]
        assert [line for line in done.stdout.splitlines() if line in ("failed", "succeeded")] == [
            "failed", "succeeded",
        ]  # fmt: skip
        said = done.stderr + done.stdout
        assert "check the key in the environment variable CANARY_KEY" in said
        assert any(header["Authorization"] == f"Bearer {CANARY}" for header in server.books.headers)
    assert "attempt 2 follows" in said, "what modules log is in the run's events"
    rows = Lake(load_study(path).home.lake).read("answers", "served|closed_book").to_pylist()
    assert {row["prediction"] for row in rows} == {" [key] is your key"}
    assert len(rows) == 9
    assert CANARY not in said
    files = [file for folder in (tmp_path, home) for file in folder.rglob("*") if file.is_file()]
    assert any(file.suffix == ".db" for file in files)
    assert not [file for file in files if CANARY.encode() in file.read_bytes()]
