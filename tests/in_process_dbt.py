"""dbt within the process of the tests, on the project as it was parsed once for all of them.

What belongs here: running dbt on a study without a new process and without parsing again. What does not: how the
platform starts dbt (`core.warehouse.build`), which its own tests and the journeys run.
"""

from __future__ import annotations

import fcntl
import gc
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.duckdb.connections import DuckDBConnectionManager
from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest

from dagster_project.core.study.study import Study
from dagster_project.core.warehouse.build import dbt_environment

_PARSED_AT = "/a lake's {odd} place"
"""The lake of the parse, which stands in every source."""
shared_folder = Path(tempfile.mkdtemp(prefix="longtail-dbt-"))
"""Of all processes of a test run; set by conftest where there are several."""


def invoke_dbt(study: Study, *args: str) -> Any:
    """Run dbt on a study and return what it found; a failure fails the test with dbt's words."""
    try:
        done = _invoke(dbt_environment(study), *args, manifest=_manifest_for(study))
    finally:
        DuckDBConnectionManager.close_all_connections()
        gc.collect()  # the build is open as long as its connection is not collected
    results = getattr(done.result, "results", [])
    bad = [f"{one.node.name}: {one.message}" for one in results if one.status in ("error", "fail")]
    assert done.success, (done.exception, bad)
    return done.result


def _invoke(environment: Mapping[str, str], *args: str, manifest: Manifest | None = None) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return dbtRunner(manifest=manifest).invoke(["--quiet", *args])


def _manifest_for(study: Study) -> Manifest:
    """The parsed project, its sources pointing to the study's lake."""
    parsed = shared_folder / "parsed.msgpack"
    with parsed.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not parsed.exists():
            done = _invoke({**dbt_environment(study), "LONGTAIL_LAKE": _PARSED_AT}, "parse")
            assert done.success, done.exception
            parsed.write_bytes(done.result.to_msgpack())
    manifest = Manifest.from_msgpack(parsed.read_bytes())
    for source in manifest.sources.values():
        for meta in (source.meta, source.source_meta, source.config.meta):
            if "external_location" in meta:
                assert _quoted(_PARSED_AT) in meta["external_location"]
                meta["external_location"] = meta["external_location"].replace(
                    _quoted(_PARSED_AT), _quoted(str(study.home.lake))
                )
    return manifest


def _quoted(path: str) -> str:
    """A path in a source's SQL, which is a string literal and a format string."""
    return path.replace("'", "''").replace("{", "{{").replace("}", "}}")
