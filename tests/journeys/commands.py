"""How a journey starts what a person starts: the project's commands, each in a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import fork_server
from tests.fork_server import Started

PROJECT = Path(__file__).resolve().parents[2]

SMALL_STUDY = """\
name: small
description: A small world answered by a scripted backend
source: {{kind: sandbox, seed: 3, facts_per_relation: {facts}, snapshot: "2026-10"}}
datasets:
  - name: small
prompts:
  - {{name: zero_shot, format: qa}}
  - {{name: zero_shot_popqa_tp, format: question_answer, generations: [paraphrases, samples]}}
models:
  - {{name: scripted, path: "{script}", backend: fake}}
methods: [closed_book, genread, bm25, oracle]
popularity: {{measure: page_views, n_months: 2, last_month: "2026-10"}}
seed: 0
"""
ANSWERS_ALONE = {
    "  - {name: zero_shot_popqa_tp, format: question_answer, generations: [paraphrases, samples]}\n": ""
}
"""An edit of the small study: without paraphrases and samples no text is embedded."""


def environment(home: Path, study: Path | None = None, **more: str) -> dict[str, str]:
    """The environment of a command: this home, this study."""
    chosen = {"LONGTAIL_STUDY": str(study)} if study else {}
    own = ("LONGTAIL_STUDY", "DAGSTER_", "HF_HOME", "XDG_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(own)}
    return {**kept, "LONGTAIL_HOME": str(home), "PYTHONPATH": str(PROJECT), **chosen, **more}


def command(name: str, *arguments: str) -> list[str]:
    """A command of `longtail`."""
    return [sys.executable, "-m", "longtail", name, *arguments]


def run_python(
    *arguments: str, env: Mapping[str, str], timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """`python` with `arguments` (`-m module …` or `-c code …`) in the project's folder, its libraries imported."""
    return fork_server.run(arguments, PROJECT, env, timeout)


def run_study(
    home: Path, study: Path | None = None, timeout: float = 600, options: Sequence[str] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    """What `make run` does after installing."""
    return run_python(
        "-m", "longtail", "run", *options, env=environment(home, study, **more), timeout=timeout
    )


def start_study(home: Path, study: Path, *options: str, **more: str) -> Started:
    """Start what `make run` does, in a process group of its own; both of its outputs come as one."""
    return fork_server.start_piped(
        ["-m", "longtail", "run", *options], PROJECT, environment(home, study, **more)
    )


def read_until(process: Started, text: str, said: list[str]) -> None:
    """Read what a study's run prints into `said`, up to a line that holds `text`; it must come."""
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if text in line:
            return
    raise AssertionError(f"ended without {text!r}: {process.wait()}, {''.join(said)[-3000:]}")


def run_up_to_the_warehouse(home: Path, study: Path, **more: str) -> str:
    """Fill the lake as `make run` does, and kill it where it begins with the warehouse; what it printed."""
    process = start_study(home, study, **more)
    said: list[str] = []
    try:
        read_until(process, "warehouse: dbt", said)
    finally:
        process.kill()
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
