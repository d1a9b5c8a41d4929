"""The sandbox's articles as an XML dump of Wikipedia's form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from xml.sax.saxutils import escape

from longtail.sandbox.dumps import SAVED_AT, compress
from longtail.sandbox.world import Article, Pages, World

_NAMESPACES = {-2: "Media", 0: "", 1: "Talk", 4: "Project", 6: "File", 10: "Template", 14: "Category"}
_MARKUP = re.compile(r"[\[\]{}<>&|=~]|''|__")
_REDIRECT_IDS, _TALK_IDS = 10**9, 2 * 10**9


def write_dump(lines: Iterable[str], path: Path) -> Path:
    """Write lines to a file, packed as the end of its name says (.gz, .bz2); return it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        out.writelines(compress(lines, path.suffix))
    return path


def page_lines(world: World, per_page: int = 1) -> Iterator[str]:
    """The lines of the XML dump of articles; every page begins a line and ends one.

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
