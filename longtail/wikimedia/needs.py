"""What a study's source needs from the operator: a contact, files that environment variables name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from longtail.needs import Need
from longtail.study.source import window
from longtail.study.study import Study
from longtail.wikimedia.dump_store import named_page_view_dump, named_truthy_dump
from longtail.wikimedia.protocols.claims import listed_ids
from longtail.wikimedia.rdf_file import rdf_path
from longtail.wikimedia.services import check_contact


def needs_of_source(study: Study) -> Iterator[Need]:
    """A dump that Longtail would download is no need; one that a variable names is."""
    source = study.source
    if source.kind == "wikidata":
        yield Need("source.contact_env", partial(check_contact, source))
    if source.kind == "rdf_file":
        yield Need("source.path_env", partial(rdf_path, source))
    elif source.facts_from == "truthy_dump":
        yield Need("source.dump_env", partial(named_truthy_dump, source))
    if source.facts_from == "entity_api":
        yield Need("source.ids_env", partial(listed_ids, source))
    if study.popularity.measure == "page_views" and source.views_from == "dump":
        for month in window(study):
            yield Need("source.page_view_dumps_env", partial(named_page_view_dump, source, month))
