"""dbt within the process of the tests, on the project as it was parsed once for all of them."""

from __future__ import annotations

import dataclasses
import fcntl
import functools
import gc
import io
import json
import os
import pickle
import pprint
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgpack
import parsedatetime
import pytest
from dbt.adapters.duckdb.connections import DuckDBConnectionManager
from dbt.artifacts.resources import FileHash
from dbt.cli.main import dbtRunner
from dbt.config.runtime import load_profile
from dbt.contracts.graph.manifest import Manifest
from dbt.flags import set_from_args
from dbt.parser.manifest import extended_mashumuro_decoder
from dbt_common.context import set_invocation_context
from dbt_common.events.base_types import BaseEvent
from dbt_common.events.event_manager import EventManager
from dbt_common.tests import enable_test_caching

from longtail.study.file import load_study
from longtail.study.study import Study
from longtail.warehouse.build import dbt_environment, note_parse, project_version
from longtail.warehouse.dbt_process import half_of_memory

_PARSED_AT = "/a lake's {odd} place"
"""The lake of the parse, which stands in every source."""
shared_folder = Path(tempfile.mkdtemp(prefix="longtail-dbt-"))
"""Of all processes of a test run; set by conftest where there are several."""
enable_test_caching()  # a text that dbt has parsed is not parsed again
_CONSTANTS = functools.cache(parsedatetime.Constants)  # of which dbt makes several for each statement


def invoke_dbt(study: Study, *args: str) -> Any:
    """Run dbt on a study and return what it found; a failure fails the test with dbt's words."""
    # nobody reads the manifest that each run would write
    environment = {**dbt_environment(study), "DBT_WRITE_JSON": "false"}
    done = invoke_once(environment, *args, manifest=_manifest_for(study))
    results = getattr(done.result, "results", [])
    bad = [f"{one.node.name}: {one.message}" for one in results if one.status in ("error", "fail")]
    assert done.success, (str(done.exception), bad)
    return done.result


def invoke_once(environment: Mapping[str, str], *args: str, manifest: Manifest | None = None) -> Any:
    """Run dbt in this environment, on any project; nothing stays open."""
    gc.disable()  # as the platform does: it would go through the graph again and again
    try:
        return _invoke(environment, *args, manifest=manifest)
    finally:
        gc.enable()
        if DuckDBConnectionManager._ENV is not None:  # else the build is open until it is collected
            DuckDBConnectionManager._ENV.close()
        DuckDBConnectionManager.close_all_connections()


def _invoke(environment: Mapping[str, str], *args: str, manifest: Manifest | None = None) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        for owner, name in ((BaseEvent, "__init__"), (EventManager, "fire_event")):
            patch.setattr(owner, name, _ignore)  # what fails is in dbt's result
        patch.setattr(parsedatetime, "Constants", _CONSTANTS)
        return dbtRunner(manifest=manifest).invoke(["--log-level", "none", *args])


def _ignore(*_args: object, **_options: object) -> None: ...


def put_parsed(home: Path, study: Path) -> None:
    """Put the parsed project into a new home, as `make run` of that study file would parse it there.

    Whatever starts Dagster in the home then reads it, and parses nothing.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(home))
        loaded = load_study(study)
        environment = dbt_environment(loaded)
        target = Path(environment["DBT_TARGET_PATH"])
        target.mkdir(parents=True, exist_ok=True)
        parsed = _parsed_for(loaded)
        parsed["state_check"]["profile_hash"]["checksum"] = _profile_hash(environment)
        (target / "partial_parse.msgpack").write_bytes(msgpack.packb(parsed))
        text = (_parsed_project(loaded) / "manifest.json").read_text(encoding="utf-8")
        for old, new in _places(loaded):
            text = text.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
        (target / "manifest.json").write_text(text, encoding="utf-8")
        note_parse(loaded, project_version(loaded))


def _manifest_for(study: Study) -> Manifest:
    """A manifest of its own for one run of dbt, which writes into it."""
    packed = _packed_manifest(_parsed_project(study) / "partial_parse.msgpack")
    return Manifest(**_Moving(packed, _places(study)).load())


@functools.cache  # dbt's own way of reading takes seconds
def _packed_manifest(parsed: Path) -> bytes:
    manifest: Manifest = Manifest.from_msgpack(parsed.read_bytes(), decoder=extended_mashumuro_decoder)
    manifest.build_flat_graph()  # which macros read
    names = [field.name for field in dataclasses.fields(Manifest) if not field.name.startswith("_")]
    packed = io.BytesIO()
    _PlacesApart(packed).dump({name: getattr(manifest, name) for name in names})
    return packed.getvalue()


class _PlacesApart(pickle.Pickler):
    """Keeps texts that name the lake of the parse apart from the rest."""

    def persistent_id(self, value: object) -> str | None:
        return value if isinstance(value, str) and any(f in value for f in _forms(_PARSED_AT)) else None


class _Moving(pickle.Unpickler):
    """Reads what `_PlacesApart` wrote; these texts then name other places."""

    def __init__(self, packed: bytes, places: Sequence[tuple[str, str]]) -> None:
        super().__init__(io.BytesIO(packed))
        self._places = places

    def persistent_load(self, value: Any) -> Any:
        return _moved(value, self._places)


def _parsed_for(study: Study) -> Any:
    """The parsed project, its sources pointing to the study's lake."""
    packed = (_parsed_project(study) / "partial_parse.msgpack").read_bytes()
    return _moved(msgpack.unpackb(packed, strict_map_key=False), _places(study))


def _parsed_project(study: Study) -> Path:
    """dbt's folder after a parse; the first caller parses."""
    target = shared_folder / "parsed"
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "manifest.json").exists():
            more = {"LONGTAIL_LAKE": _PARSED_AT, "DBT_TARGET_PATH": str(target)}
            done = _invoke({**dbt_environment(study), **more}, "parse")
            assert done.success, done.exception
    return target


def _places(study: Study) -> list[tuple[str, str]]:
    """The parse's lake and the study's, in each form."""
    return list(zip(_forms(_PARSED_AT), _forms(str(study.home.lake)), strict=True))


def _forms(path: str) -> list[str]:
    """A lake's path as it stands in a source, in its relation, and in the environment."""
    return [_quoted(path), _in_string(path), path]


def _moved(value: Any, places: Sequence[tuple[str, str]]) -> Any:
    if isinstance(value, dict):
        return {key: _moved(one, places) for key, one in value.items()}
    if isinstance(value, list):
        return [_moved(one, places) for one in value]
    if isinstance(value, str):
        for old, new in places:
            value = value.replace(old, new)
    return value


def _profile_hash(environment: Mapping[str, str]) -> str:
    """What dbt compares before it uses an earlier parse: the connection, with the home's build and DuckDB's memory."""
    memory = os.environ.get("LONGTAIL_WAREHOUSE_MEMORY") or half_of_memory()
    set_invocation_context({**environment, "LONGTAIL_WAREHOUSE_MEMORY": memory})
    set_from_args(Namespace(PROFILES_DIR=environment["DBT_PROFILES_DIR"]), {})
    credentials = load_profile(environment["DBT_PROJECT_DIR"], {}).credentials
    return FileHash.from_contents(pprint.pformat(sorted(credentials.connection_info()))).checksum


def _in_string(path: str) -> str:
    """A path in an SQL string literal."""
    return path.replace("'", "''")


def _quoted(path: str) -> str:
    """A path in a source's SQL, which is a string literal and a format string."""
    return _in_string(path).replace("{", "{{").replace("}", "}}")
