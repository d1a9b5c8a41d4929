"""What the sandbox server serves: a synthetic world, or any RDF file."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from xml.sax.saxutils import escape

import pyoxigraph as ox

from longtail.parsing.rdf import Reading, read_triples
from longtail.sandbox import dumps
from longtail.sandbox.articles import Article
from longtail.sandbox.pages import Pages, Redirect
from longtail.sandbox.rdf import write_ntriples
from longtail.sandbox.world import World
from longtail.storage.files import temporary_folder
from longtail.storage.lake import QuarantinedRow

# Above these sizes the store is on disk: in memory it needs about 8 kB per entity.
_LARGE_WORLD = 50_000  # entities
_LARGE_FILE = 100 << 20  # bytes
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServedArticle:
    """One article of the dump."""

    entity_id: str
    title: str
    text: str


class _StoreOwner:
    """A store that is made at first use: in memory, or for large content in a temporary folder."""

    def __init__(self, is_large: bool) -> None:
        self._is_large = is_large
        self._lock = threading.Lock()
        self._store: ox.Store | None = None
        self._folder = ExitStack()

    def store(self) -> ox.Store:
        """The triples; loaded at the first call."""
        with self._lock:
            if self._store is None:
                if self._is_large:
                    _LOG.info(
                        "loading a large triple store into a temporary folder: this takes a minute or more"
                    )
                    # A large world needs gigabytes: in the home, since /tmp may be too small.
                    store = ox.Store(str(self._folder.enter_context(temporary_folder("store"))))
                else:
                    store = ox.Store()
                self._load(store)
                self._store = store
            return self._store

    def _load(self, store: ox.Store) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Free the disk space of the store."""
        with self._lock:
            self._store = None
            self._folder.close()


class WorldContent(_StoreOwner):
    """The synthetic world: triples, articles, page views and dumps. Reads are safe between threads."""

    has_articles = True
    broken: tuple[QuarantinedRow, ...] = ()

    def __init__(self, world: World) -> None:
        super().__init__(is_large=world.n_entities > _LARGE_WORLD)
        self._world = world
        self._pages = Pages(world)
        self._titles_lock = threading.Lock()

    def _load(self, store: ox.Store) -> None:
        with temporary_folder("world") as folder:
            path = folder / "world.nt"
            write_ntriples(self._world, path)
            store.bulk_load(path=str(path), format=ox.RdfFormat.N_TRIPLES)

    def monthly_views(self, title: str, month: str) -> int | None:
        """Views in month YYYY-MM under a title (with spaces), including a redirect's own views; None where none were
        counted."""
        with self._titles_lock:  # the first call builds the world's index of titles
            return self._pages.views(title, month)

    def page(self, title: str) -> tuple[str, str | None] | None:
        """(title, section) of the page that a reader sees at `title`, after following a redirect; None without a page."""
        with self._titles_lock:
            return self._pages.lead_to(title)

    def redirects_to(self, title: str) -> tuple[Redirect, ...]:
        """The redirects to the article at `title`."""
        with self._titles_lock:
            return self._pages.redirects_to(title)

    def names(self) -> Iterator[tuple[str, str]]:
        """(name, article title) for every label and alias of the entities with an article."""
        for entity in self._world.entities():
            if entity.article_title:
                yield from ((name, entity.article_title) for name in (entity.label, *entity.aliases))

    def articles(self) -> Iterator[ServedArticle]:
        for entity_id, article in self._world.articles():
            yield ServedArticle(entity_id, article.title, article.text)

    def truthy_lines(self) -> Iterator[str]:
        """The lines of the truthy dump."""
        return dumps.truthy_lines(self._world)

    def page_view_lines(self, month: str) -> Iterator[str]:
        """The lines of a month's page view dump."""
        return dumps.page_view_lines(self._world, month)

    def xml_lines(self) -> Iterator[str]:
        """The lines of the XML dump of articles."""
        return page_lines(self._world)


class RdfContent(_StoreOwner):
    """An N-Triples file, plain or packed. `broken`: its lines that could not be read, once it is loaded."""

    has_articles = False

    def __init__(self, path: Path) -> None:
        super().__init__(is_large=path.stat().st_size > _LARGE_FILE)
        self._path = path
        self.broken: tuple[QuarantinedRow, ...] = ()

    def _load(self, store: ox.Store) -> None:
        reading = Reading(self._path)
        for triples in read_triples(reading):
            store.bulk_extend(triples)
        self.broken = tuple(reading.broken)


SAVED_AT = "2026-10-01T00:00:00Z"
_NAMESPACES = {-2: "Media", 0: "", 1: "Talk", 4: "Project", 6: "File", 10: "Template", 14: "Category"}
_MARKUP = re.compile(r"[\[\]{}<>&|=~]|''|__")
_REDIRECT_IDS, _TALK_IDS = 10**9, 2 * 10**9


def page_lines(world: World, per_page: int = 1) -> Iterator[str]:
    """The lines of the dump; every page begins a line and ends one.

    With `per_page` above 1, a page has several articles, as long pages do: the first one's title, and a section for each
    other.
    """
    yield _head()
    pages = Pages(world)
    articles = world.articles()
    while some := list(islice(articles, per_page)):
        entity_id, article = some[0]
        number = int(entity_id[1:])
        sections = (f"\n\n== {_as_wikitext(one.title)} ==\n{_as_wikitext(one.text)}" for _, one in some[1:])
        yield _page(article.title, 0, number, _wikitext(article, "".join(sections)))
        for place, redirect in enumerate(pages.redirects(world.entity(entity_id))):
            if redirect.title != article.title:
                target = f"{article.title}#{redirect.section}" if redirect.section else article.title
                yield _page(
                    redirect.title, 0, _REDIRECT_IDS + 4 * number + place, f"#REDIRECT [[{target}]]", target
                )
        if number % 50 == 0:
            yield _page(f"Talk:{article.title}", 1, _TALK_IDS + number, "Is this right? ~~~~")
    yield "</mediawiki>\n"


def _head() -> str:
    spaces = "".join(
        f'      <namespace key="{key}" case="first-letter">{name}</namespace>\n'
        for key, name in _NAMESPACES.items()
    )
    return (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">\n  <siteinfo>\n'
        "    <sitename>Wikipedia</sitename>\n    <dbname>enwiki</dbname>\n"
        "    <base>https://en.wikipedia.org/wiki/Main_Page</base>\n    <generator>Longtail's sandbox</generator>\n"
        f"    <case>first-letter</case>\n    <namespaces>\n{spaces}    </namespaces>\n  </siteinfo>\n"
    )


def _wikitext(article: Article, sections: str) -> str:
    """The article behind a template, with a bold title, a reference and a category."""
    title = _as_wikitext(article.title)
    first, stop, rest = _as_wikitext(article.text).partition(". ")
    if first.startswith(title) and not title.endswith("'"):
        first = f"'''{title}'''{first.removeprefix(title)}"
    cited = f"{first}.<ref>{{{{cite book |title={title}}}}}</ref> {rest}" if stop else first
    return f"{{{{Infobox |name = {title}}}}}\n{cited}{sections}\n\n[[Category:Articles of the sandbox]]"


def _as_wikitext(text: str) -> str:
    """Wikitext that shows just this text."""
    return _MARKUP.sub(lambda match: "".join(f"&#{ord(sign)};" for sign in match[0]), text)


def _page(title: str, namespace: int, page_id: int, wikitext: str, target: str | None = None) -> str:
    redirect = f'    <redirect title="{escape(target, {chr(34): "&quot;"})}" />\n' if target else ""
    size = len(wikitext.encode())
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n    <ns>{namespace}</ns>\n    <id>{page_id}</id>\n{redirect}"
        f"    <revision>\n      <id>{page_id + 7}</id>\n      <timestamp>{SAVED_AT}</timestamp>\n"
        "      <contributor><username>Sandbox</username><id>1</id></contributor>\n"
        "      <model>wikitext</model>\n      <format>text/x-wiki</format>\n"
        f'      <text bytes="{size}" xml:space="preserve">{escape(wikitext)}</text>\n    </revision>\n  </page>\n'
    )
