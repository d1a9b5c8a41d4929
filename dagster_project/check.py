"""The part of `make check` that needs a study's home: dbt parse, the dbt rules, SQL style, Dagster's own check.

It works in a temporary home and does not touch the user's state.
"""

from __future__ import annotations

import functools
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dagster_project.core.storage.home import DEFAULT_STUDY_FILE, PROJECT_ROOT
from dagster_project.core.storage.lake import Lake
from dagster_project.core.study.file import load_study
from dagster_project.core.warehouse.build import dbt_environment


def main() -> int:
    """Run each check; return 0 only if all pass."""
    with tempfile.TemporaryDirectory(prefix="longtail-check-") as folder:
        os.environ["LONGTAIL_HOME"] = folder
        os.environ.pop("LONGTAIL_STUDY", None)
        study = load_study(DEFAULT_STUDY_FILE)
        Lake(study.home.lake).ensure_schemas()
        study.home.build.mkdir(parents=True, exist_ok=True)
        bin_dir = Path(sys.executable).parent
        environment = {
            **os.environ,
            **dbt_environment(study),
            "DAGSTER_HOME": folder,
            "VIRTUAL_ENV": sys.prefix,
            "COLUMNS": "200",  # dbt-bouncer cuts its messages to the width of the terminal
        }
        shutil.copyfile(PROJECT_ROOT / "dagster.yaml", Path(folder) / "dagster.yaml")
        environment["PATH"] = f"{bin_dir}{os.pathsep}{environment['PATH']}"
        commands = (
            ["dbt", "--quiet", "parse", "--project-dir", "dbt", "--profiles-dir", "dbt"],
            ["dbt-bouncer", "run", "--config-file", "dbt/dbt-bouncer.yml"],
            ["dg", "check", "defs"],
        )
        failed = [command[0] for command in commands if _run(command, environment)]
        failed += ["sqlfluff"] if _lint_sql("dbt/models", "dbt/tests", "dbt/analyses") else []
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


def _run(command: list[str], environment: dict[str, str]) -> int:
    """The exit code of one check; dbt-bouncer looks for the manifest below `DBT_PROJECT_DIR`."""
    if command[0] == "dbt-bouncer":
        environment = {**environment, "DBT_PROJECT_DIR": str(Path(environment["DBT_TARGET_PATH"]).parent)}
    return subprocess.run(command, cwd=PROJECT_ROOT, env=environment).returncode


def _lint_sql(*folders: str) -> int | str | None:
    """What `sqlfluff lint` says and returns, in less than half its time.

    The command compiles every macro twice for each file, and lays a file out anew for each rule. Here both happen once.
    """
    from jinja2 import Environment
    from sqlfluff.cli.commands import cli
    from sqlfluff.utils.reflow.sequence import ReflowSequence

    compiled: dict[str, Any] = {}
    compile_source, lay_out = Environment.compile, ReflowSequence.from_root

    def compile_once(self: Environment, source: Any, *args: Any, **options: Any) -> Any:
        if args or options or not isinstance(source, str):
            return compile_source(self, source, *args, **options)
        if source not in compiled:
            compiled[source] = compile_source(self, source)
        return compiled[source]

    Environment.compile = compile_once  # type: ignore[method-assign]
    lay_out_once = functools.lru_cache(1)(lay_out)
    # some rules name the second argument, which would be another key
    ReflowSequence.from_root = lambda root_segment, config: lay_out_once(root_segment, config)  # type: ignore
    gc.set_threshold(1_000_000)  # parsed files are many small objects
    try:
        cli(["lint", "--disable-progress-bar", *folders], standalone_mode=False)
    except SystemExit as end:
        return end.code
    return 0
