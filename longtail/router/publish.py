"""The routers of a study as files beside its published warehouse, in a folder that appears whole.

`published/router` is a link to the newest of `published/routers`. It changes in one step, and the previous folder
stays for its readers. All files of a folder are of one publication.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from longtail.errors import PublishError
from longtail.router.decisions import FORMAT, VERSION
from longtail.router.documents import Row, documents, read_marts
from longtail.router.names import Candidate, Entity, names_file
from longtail.router.router_store import NAMES
from longtail.router.sealed import sealed
from longtail.study.study import Study
from longtail.warehouse.publication import connect_to_publication, publication_of
from longtail.warehouse.staging import (
    check_link,
    find_version,
    identity_of,
    move_folder,
    next_version,
    point_to,
    staging_beside,
)

_BATCH = 10_000  # entities read at once


@dataclass(frozen=True)
class RouterReport:
    """The published folder, the policy of each router by its name, and the number of names."""

    path: Path
    invocation_id: str
    policies: Mapping[str, str]
    n_names: int


def publish_routers(study: Study, log: logging.Logger) -> RouterReport:
    """Publish the routers and names of the study's published warehouse to `published/router`.

    Errors: `PublishError` if nothing is published yet or the disk fails. The previous routers then stay.
    """
    published, target = study.home.published_warehouse, study.home.published_router
    check_link(target, "routers", "publish")
    try:
        with (
            connect_to_publication(published) as connection,
            staging_beside(study.home.published, "router") as staging,
        ):
            publication = publication_of(connection)
            versions = study.home.published / "routers"
            identity = identity_of(publication, "longtail.router")
            folder = find_version(versions, identity)
            warehouse = {
                "study": publication.study,
                "published_at": publication.published_at.isoformat(),
                "invocation_id": publication.invocation_id,
                "code_version": publication.code_version,
            }
            marts = read_marts(connection)
            routers = dict(documents(marts, warehouse))
            about = {**warehouse, "popularity": marts.popularity}
            content, n_names = names_file(_entities(connection), about)
            if folder is None:
                new, folder = staging / "router", versions / next_version(versions, identity)
                _write(new, routers, content)
                move_folder(new, folder)
            point_to(target, folder, staging)
    except (OSError, duckdb.Error) as error:
        raise PublishError(
            f"{target}: could not be published ({error}); the previous routers stay"
        ) from error
    policies = {name: str(router["policy"]) for name, router in routers.items()}
    log.info("published %d routers and %d names to %s", len(policies), n_names, target)
    return RouterReport(target, publication.invocation_id, policies, n_names)


def _write(folder: Path, routers: Mapping[str, Row], names: bytes) -> None:
    folder.mkdir()
    for name, fields in routers.items():
        (folder / f"{name}.json").write_bytes(sealed(FORMAT, VERSION, fields, indent=1))
    (folder / NAMES).write_bytes(names)
    for file in folder.iterdir():
        file.chmod(0o444)


def _entities(connection: duckdb.DuckDBPyConnection) -> Iterator[Entity]:
    found: Any = connection.execute(
        "select entity_id, label, description, popularity, aliases from marts.dim_entities"
    )
    while rows := found.fetchmany(_BATCH):
        for *values, aliases in rows:
            yield Entity(Candidate(*values), aliases)
