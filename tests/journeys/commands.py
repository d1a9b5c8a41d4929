"""How a journey starts what a person starts: the project's commands, each in a home of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

SMALL_STUDY = """\
name: small
description: A small world answered by a scripted backend
source: {{kind: sandbox, seed: 3, facts_per_relation: {facts}, snapshot: "2026-10"}}
datasets:
  - name: small
prompts:
  - {{name: zero_shot, format: qa}}
  - {{name: zero_shot_popqa_tp, format: question_answer, asks: [paraphrases, samples]}}
models:
  - {{name: scripted, path: "{script}", backend: fake}}
methods: [closed_book, genread, bm25, oracle]
popularity: {{measure: page_views, n_months: 2, last_month: "2026-10"}}
seed: 0
"""


def environment(home: Path, study: Path | None = None, **more: str) -> dict[str, str]:
    """The environment of a command: this home, this study."""
    chosen = {"LONGTAIL_STUDY": str(study)} if study else {}
    own = ("LONGTAIL_STUDY", "DAGSTER_", "HF_HOME", "XDG_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(own)}
    return {
        **kept,
        "LONGTAIL_HOME": str(home),
        "PYTHONPATH": str(PROJECT),
        **chosen,
        **more,
    }


def command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def run_study(
    home: Path, study: Path | None = None, timeout: float = 600, **more: str
) -> subprocess.CompletedProcess[str]:
    """What `make run` does after installing."""
    return subprocess.run(
        command("dagster_project.run"),
        cwd=PROJECT,
        env=environment(home, study, **more),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def start_study(home: Path, study: Path) -> subprocess.Popen[str]:
    """Start what `make run` does, in a process group of its own; both of its outputs come as one."""
    return subprocess.Popen(
        command("dagster_project.run"),
        cwd=PROJECT,
        env=environment(home, study),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def read_until(process: subprocess.Popen[str], text: str, said: list[str]) -> None:
    """Read what a study's run prints into `said`, up to a line that holds `text`; it must come."""
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if text in line:
            return
    raise AssertionError(f"ended without {text!r}: {process.wait()}, {''.join(said)[-3000:]}")


def kill_study(process: subprocess.Popen[str]) -> bool:
    """Kill a run and all that it started, and wait; whether it was still running."""
    alive = process.poll() is None
    with contextlib.suppress(ProcessLookupError):  # where it ended by itself, and nothing is left of it
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
    return alive


def run_up_to_the_warehouse(home: Path, study: Path) -> str:
    """Fill the lake as `make run` does, and kill it where it begins with the warehouse; what it printed."""
    process = start_study(home, study)
    said: list[str] = []
    try:
        read_until(process, "warehouse: dbt", said)
    finally:
        kill_study(process)
    return "".join(said)


def small_study(folder: Path, script: str, facts: int = 12, edit: Mapping[str, str] | None = None) -> Path:
    """A study file of a small world; `edit` replaces texts in it."""
    text = SMALL_STUDY.format(facts=facts, script=script)
    for old, new in (edit or {}).items():
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return path
