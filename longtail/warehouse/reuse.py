"""Which nodes of dbt's graph are built again: those that are made from something else than at their last good build.

A node's hash covers its entry in dbt's manifest, the macros whose names its code has, the Python code that it imports,
the project's settings, versions, and the hashes of its parents: lake files by their checksums. The record is table
`audit.inputs` of the build itself, so it cannot outlive what it describes. Every dbt run first removes the records of
the nodes that it selects (macro `start_audit`). Records are written after a run that has ended, for its good nodes, if
nothing has changed meanwhile. So a killed or failed run, or one by hand, leaves none behind that is wrong.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb

from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake_files import checksum_of
from longtail.study.study import Study
from longtail.warehouse.build import DBT_PROJECT, STUDY_BUILD, prepare_manifest, project_version

_PACKAGES = ("dbt-core", "dbt-duckdb", "duckdb", "numpy", "pandas", "pyarrow")
_SETTINGS = ("dbt_project.yml", "profiles.yml")
_VOLATILE = frozenset({
    "created_at", "build_path", "compiled", "compiled_code", "compiled_path", "extra_ctes", "extra_ctes_injected"
})  # fmt: skip
"""What dbt writes into a node's entry when it parses or compiles, and what does not change the node."""
_GRAPH = "graph"
"""A node whose code has this word reads other nodes' entries."""
_NEVER_THE_SAME = re.compile(
    r"\b(invocation_id|run_started_at|modules|env_var|run_query|now|current_timestamp|current_date|today|random|uuid)\b"
)
"""A node whose code has one of these words is always built: what it reads has no hash."""
_RECORDED = """
with lineage as (select unique_id, built_in, unnest(upstream) as parent from audit.results)
select unique_id, inputs from audit.inputs
anti join (
    select lineage.unique_id
    from lineage
    inner join audit.results as parents on lineage.parent = parents.unique_id
    where parents.built_in > coalesce(lineage.built_in, 0)
) using (unique_id)
"""
"""The records, without nodes that are older than one of their parents. A run that is killed, or builds only what somebody
chose, may leave a parent to be built again from the same inputs: publishing refuses a child that was not."""
_WORD = re.compile(r"\w+")
_IMPORT = re.compile(r"^\s*(?:from|import)\s+(longtail[\w.]*)", re.MULTILINE)

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """A run of dbt: hashes of its nodes (dbt unique_ids), those that need not be built, and the command for the others.

    `command` is empty if there are none.
    """

    inputs: Mapping[str, str]
    reused: frozenset[str]
    command: tuple[str, ...]
    project: str


def plan_build(study: Study) -> Plan:
    """What must be built. Errors: `PublishError` if the project does not parse."""
    project = project_version(study)
    manifest = _manifest(study)
    inputs = inputs_of(manifest, study.home.lake, seed=study.seed)
    outdated = nodes_to_build(manifest, inputs, study.home.build_warehouse)
    command: tuple[str, ...] = ()
    if outdated:
        first = () if len(outdated) == len(inputs) else first_of(manifest, outdated)
        command = (*STUDY_BUILD, *(("--select", " ".join(first)) if first else ()))
    return Plan(inputs, frozenset(inputs.keys() - outdated), command, project)


def note_built(study: Study, plan: Plan, log: logging.Logger) -> None:
    """Record the nodes of `plan` that the last dbt run has built well, unless something has changed since the plan.

    dbt must have ended. Without a record a node is built again the next time.
    """
    if project_version(study) != plan.project:
        return
    now = inputs_of(_manifest(study), study.home.lake, seed=study.seed)
    same = {node: hashed for node, hashed in plan.inputs.items() if now.get(node) == hashed}
    try:
        record(study.home.build_warehouse, same)
    except duckdb.Error as error:
        log.warning("the next build repeats this one, which could not be recorded: %s", error)


def nodes_to_build(manifest: Manifest, inputs: Mapping[str, str], build: Path) -> set[str]:
    """The nodes that are not recorded in `build` with these `inputs`, are missing there or older than their parents, and
    all their descendants."""
    recorded = _read_record(build, manifest)
    changed = [node for node, hashed in inputs.items() if recorded.get(node) != hashed]
    outdated, waiting = set(changed), list(changed)
    while waiting:
        new = {*manifest["child_map"].get(waiting.pop(), ())} - outdated
        outdated |= new
        waiting += new
    return outdated & inputs.keys()


def first_of(manifest: Manifest, outdated: AbstractSet[str]) -> tuple[str, ...]:
    """dbt's names for all of `outdated`: with their descendants, those without an outdated parent."""
    nodes = manifest["nodes"]
    return tuple(
        f"{nodes[node]['name']}+" for node in sorted(outdated) if outdated.isdisjoint(_parents(nodes[node]))
    )


def record(build: Path, inputs: Mapping[str, str]) -> None:
    """Record the `inputs` of those nodes that the last dbt run in `build` has built well. Errors: `duckdb.Error`."""
    with duckdb.connect(str(build)) as connection:
        connection.execute(
            "insert or replace into audit.inputs "
            "select made.unique_id, made.inputs from (select unnest(?) as unique_id, unnest(?) as inputs) as made "
            "inner join audit.results using (unique_id) where results.status in ('success', 'pass') "
            "and results.invocation_id = (select max_by(invocation_id, number) from audit.invocations) "
            "and (select bool_and(finished_at is not null) from audit.invocations)",
            [list(inputs), list(inputs.values())],
        )


def inputs_of(manifest: Manifest, lake: Path, project: Path = DBT_PROJECT, seed: int = 0) -> dict[str, str]:
    """For each model and data test (by unique_id) a hash of everything that it is made from. `project`: dbt's folder;
    `seed`: the study's, which statistics read."""
    nodes = {
        name: node for name, node in manifest["nodes"].items() if node["resource_type"] in ("model", "test")
    }
    macros: dict[str, str] = {}  # the project's
    others = set()
    for macro in manifest["macros"].values():
        if macro["package_name"] == manifest["metadata"]["project_name"]:
            macros[macro["name"]] = macro["macro_sql"]
        else:
            others.add(macro["name"])
    common = fingerprint(
        seed,
        [(project / name).read_text(encoding="utf-8") for name in _SETTINGS],
        [version(package) for package in _PACKAGES],
        # dbt may call them without their names in a model: they replace its own
        {name: text for name, text in macros.items() if "__" in name or name in others},
    )
    everything = fingerprint({name: _entry(node) for name, node in {**nodes, **manifest["sources"]}.items()})
    unknown = os.urandom(16).hex()

    @functools.cache
    def hash_of(node: str) -> str:
        if node in manifest["sources"]:
            return _hash_of_source(manifest["sources"][node], lake)
        if node not in nodes:
            return unknown
        entry, texts = nodes[node], _texts(nodes[node]["raw_code"], macros)
        words = {word for text in texts for word in _WORD.findall(text)}
        return fingerprint(
            common, _entry(entry), texts, everything if _GRAPH in words else None,
            code_version(*modules) if (modules := _IMPORT.findall(entry["raw_code"])) else None,
            sorted((parent, hash_of(parent)) for parent in _parents(entry)),
            unknown if any(_NEVER_THE_SAME.search(text) for text in texts) else None,
        )  # fmt: skip

    return {node: hash_of(node) for node in nodes}


def _manifest(study: Study) -> Manifest:
    manifest: Manifest = json.loads(prepare_manifest(study).read_bytes())
    return manifest


def _hash_of_source(source: Mapping[str, Any], lake: Path) -> str:
    files = sorted((lake / source["identifier"]).glob("*.parquet"))
    return fingerprint(_entry(source), [(file.name, checksum_of(file)) for file in files])


def _entry(node: Mapping[str, Any]) -> dict[str, Any]:
    """What dbt says of a node, without its list of macros, to which each run adds those that it called.

    dbt's parser finds what a node reads as sets, whose order is another one each time.
    """
    stable = {name: value for name, value in node.items() if name not in _VOLATILE}
    unordered = {name: sorted(node[name], key=json.dumps) for name in ("refs", "sources") if name in node}
    return {**stable, **unordered, "depends_on": sorted(_parents(node))}


def _texts(code: str, macros: Mapping[str, str]) -> list[str]:
    """The code and that of every macro that it names, directly or through other macros."""
    texts: dict[str, str] = {"": code}
    waiting = [code]
    while waiting:
        named = {word for word in _WORD.findall(waiting.pop()) if word in macros} - texts.keys()
        texts |= {name: macros[name] for name in named}
        waiting += [macros[name] for name in named]
    return [texts[name] for name in sorted(texts)]


def _parents(node: Mapping[str, Any]) -> list[str]:
    return list(node.get("depends_on", {}).get("nodes", ()))


def _read_record(build: Path, manifest: Manifest) -> dict[str, str]:
    """The record, without what is older than its parents or whose table or view is missing; empty without a record."""
    try:
        with duckdb.connect(str(build), read_only=True) as connection:
            recorded = dict(connection.execute(_RECORDED).fetchall())
            relations = set(
                connection.execute(
                    "select table_schema, table_name from information_schema.tables"
                ).fetchall()
            )
    except duckdb.Error:
        return {}
    gone = {
        name for name, node in manifest["nodes"].items()
        if node["resource_type"] == "model" and (node["schema"], node["alias"]) not in relations
    }  # fmt: skip
    return {node: hashed for node, hashed in recorded.items() if node not in gone}
