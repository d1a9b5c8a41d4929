"""The encyclopaedia's pages: the titles under which an article can be found, and the views of each title.

A link in the graph names an earlier title of an article. Some articles were moved to another title since then. The old
title redirects to the new one, and the views up to the month of the move are under the old title. As in Wikimedia's
counts, a reader who follows a redirect counts for the redirect's own title, in addition to the article's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from longtail.sandbox.randomness import mix
from longtail.sandbox.world import World, WorldEntity

_MOVED_TO = {
    "person": "biography",
    "film": "motion picture",
    "book": "written work",
    "city": "settlement",
    "region": "area",
    "cultivar": "plant",
}
_TOPIC = "topic"
SECTION = "In art"
_ONE_MOVED_OF = 40
_FIRST_MOVE, _MOVE_MONTHS = 2019, 60


@dataclass(frozen=True)
class Redirect:
    """A page that leads to an article, or to one section of it."""

    title: str
    section: str | None = None


class Pages:
    """The pages of a world, all derived from it. Reads are safe between threads.

    Memory holds the titles once one was looked up: about 300 bytes for each entity.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._lock = threading.Lock()
        self._by_title: dict[str, str] = {}

    def _draw(self, entity: WorldEntity, what: int) -> int:
        return mix(self.world.seed, 601, what, int(entity.entity_id[1:]))

    def moved_in(self, entity: WorldEntity) -> str | None:
        """The month (YYYY-MM) in which the article was moved; None if it never was."""
        if entity.article_title is None or self._draw(entity, 1) % _ONE_MOVED_OF:
            return None
        month = self._draw(entity, 2) % _MOVE_MONTHS
        return f"{_FIRST_MOVE + month // 12}-{month % 12 + 1:02d}"

    def title(self, entity: WorldEntity) -> str | None:
        """The current title of the article."""
        if self.moved_in(entity) is None:
            return entity.article_title
        return f"{entity.article_title} ({_MOVED_TO.get(entity.kind, _TOPIC)})"

    def redirects(self, entity: WorldEntity) -> tuple[Redirect, ...]:
        """The pages that lead to the article; if it was moved, its old title is the first."""
        old = entity.article_title
        if old is None:
            return ()
        draw = self._draw(entity, 3)
        redirects = [Redirect(old)] if self.moved_in(entity) else []
        redirects += [Redirect(f"{old}, {entity.kind}")] if draw % 2 else []
        redirects += [Redirect(f'"{old}"')] if draw % 3 == 0 else []
        return (*redirects, *([Redirect(f"{old} in art", SECTION)] if draw % 8 == 0 else []))

    def counted(self, entity: WorldEntity, month: str) -> Iterator[tuple[str, int]]:
        """(title, views) of every title that leads to the article and was read in `month` (YYYY-MM)."""
        views, title = self.world.monthly_views(entity.entity_id, month), self.title(entity)
        if views is None or title is None:
            return
        moved = self.moved_in(entity)
        is_yet_to_move = moved is not None and month < moved
        yield (entity.article_title if is_yet_to_move else title) or title, views
        for place, redirect in enumerate(self.redirects(entity)):
            share = views * (1 + self._draw(entity, 4 + place) % 12) // 100
            if share and not (is_yet_to_move and redirect.title == entity.article_title):
                yield redirect.title, share

    def views(self, title: str, month: str) -> int | None:
        """Views under exactly this title in `month`; None without a count."""
        entity = self.entity(title)
        return dict(self.counted(entity, month)).get(title) if entity else None

    def entity(self, title: str) -> WorldEntity | None:
        """The entity to whose article the title leads. The first call reads all titles."""
        with self._lock:
            if not self._by_title:
                for entity in self.world.entities():
                    pages = (self.title(entity), *(redirect.title for redirect in self.redirects(entity)))
                    self._by_title |= dict.fromkeys(filter(None, pages), entity.entity_id)
        entity_id = self._by_title.get(title)
        return self.world.entity(entity_id) if entity_id else None

    def lead_to(self, title: str) -> tuple[str, str | None] | None:
        """(title, section) of the page that a reader sees at `title`; None if there is no such page."""
        entity = self.entity(title)
        if entity is None:
            return None
        sections = {redirect.title: redirect.section for redirect in self.redirects(entity)}
        return self.title(entity) or title, sections.get(title)

    def redirects_to(self, title: str) -> tuple[Redirect, ...]:
        """The redirects to the article at `title`."""
        entity = self.entity(title)
        return self.redirects(entity) if entity and self.title(entity) == title else ()
