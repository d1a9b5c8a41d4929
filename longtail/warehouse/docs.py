"""dbt's documentation as one page beside the published warehouse: every table, column, test and line of SQL.

The page depends only on the dbt project. If the project has not changed, dbt does not run again, and the page only gets
the name of the new build.
"""

from __future__ import annotations

import html
import json
import logging
import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from longtail.errors import PublishError
from longtail.progress import Progress
from longtail.storage.checksums import compare_files, record_files
from longtail.storage.files import atomic_file
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.home import PROJECT_ROOT
from longtail.study.study import Study
from longtail.warehouse.build import dbt_environment, dbt_sources, require_dbt
from longtail.warehouse.publication import read_publication, record_of
from longtail.warehouse.sources import describe_columns, document_columns

_TESTS = ("test_type:data", "test_type:unit")
_NO_NETWORK = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data:; font-src data:; base-uri 'none'; form-action 'none'"
)
_HEAD = re.compile(r"<head>(?:<!-- longtail -->.*?<!-- /longtail -->)?", re.DOTALL)
_INPUTS = re.compile(r'<meta name="longtail:inputs" content="([0-9a-f]+)">')
_ICON = re.compile(r"<link rel=\"(?:shortcut icon|canonical)\"[^>]*>")


@dataclass(frozen=True)
class DocsReport:
    """The page, and whether dbt made it in this run (otherwise only the name of the build changed)."""

    path: Path
    invocation_id: str
    n_bytes: int
    was_made: bool


def publish_docs(study: Study, log: logging.Logger) -> DocsReport:
    """Put `docs.html` beside the study's published warehouse.

    Errors: `PublishError` if nothing is published yet or dbt fails; `LakeError` if the disk fails. The old page stays.
    """
    publication = read_publication(study.home.published_warehouse)
    target = study.home.published_docs
    inputs = fingerprint(dbt_sources(), version("dbt-core"), version("dbt-duckdb"), code_version(__name__))
    page = _page_of(target, inputs)
    was_made = page is None
    if page is None:
        progress = Progress(log, "dbt: documentation of the warehouse")
        with progress:
            page = _generate(study)
        progress.done()
    stamped = _stamp(page, inputs, publication.invocation_id, publication.study)
    with atomic_file(target) as temporary:
        temporary.write_text(stamped, encoding="utf-8")
    record_files(record_of(target), [target])
    return DocsReport(target, publication.invocation_id, target.stat().st_size, was_made)


def _page_of(target: Path, inputs: str) -> str | None:
    """The page at `target`, if it is as it was written and made from these inputs."""
    if compare_files(record_of(target)):
        return None
    page = target.read_text(encoding="utf-8")
    made_from = _INPUTS.search(page, 0, 4_000)
    return page if made_from and made_from[1] == inputs else None


def _generate(study: Study) -> str:
    # The page shows what tests ask, but not their compiled SQL, which would take a third of the time.
    require_dbt(study, "docs generate", "--exclude", *_TESTS)
    target = Path(dbt_environment(study)["DBT_TARGET_PATH"])
    manifest = json.loads((target / "manifest.json").read_text(encoding="utf-8"))
    for source in manifest["sources"].values():
        source["columns"] = document_columns(source["identifier"])
    for node in manifest["nodes"].values():
        node["columns"] = describe_columns(node)
    page = (target / "index.html").read_text(encoding="utf-8").strip()
    catalog = (target / "catalog.json").read_text(encoding="utf-8")
    for name, data in (("MANIFEST", json.dumps(manifest)), ("CATALOG", catalog)):
        page = page.replace(f'"{name}.JSON INLINE DATA"', data)
    # JSON strings have paths, and the page must not show where this home is.
    for path, shown in ((study.home.root, "data"), (study.home.home, "data"), (PROJECT_ROOT, "longtail")):
        page = page.replace(json.dumps(str(path))[1:-1], shown)
    return _ICON.sub("", page)


def _stamp(page: str, inputs: str, invocation_id: str, study: str) -> str:
    """The page with a policy that forbids the network, its inputs and the build that it describes."""
    marks = {"longtail:inputs": inputs, "longtail:dbt-invocation-id": invocation_id, "longtail:study": study}
    metas = "".join(f'<meta name="{name}" content="{html.escape(value)}">' for name, value in marks.items())
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_NO_NETWORK}">'
    head = f"<head><!-- longtail -->{policy}{metas}<!-- /longtail -->"
    stamped, n = _HEAD.subn(lambda _: head, page, count=1)
    if not n:
        raise PublishError("dbt's documentation page has no <head>; it cannot be published")
    return stamped
