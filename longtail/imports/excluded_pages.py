"""Pages of a wiki that hold no passages: redirects and disambiguation pages."""

from __future__ import annotations

from dataclasses import dataclass

REDIRECT, DISAMBIGUATION = "redirect", "disambiguation"
_PLURALS = {REDIRECT: "redirects", DISAMBIGUATION: "disambiguation pages"}


@dataclass(frozen=True)
class ExcludedPage:
    """A page without passages. `row`: its place in its file, as of a text; `kind`: `REDIRECT` or `DISAMBIGUATION`.

    `target`, `section`: the title that a redirect leads to, and a section of that page. None: it names none.
    """

    row: int
    title: str
    kind: str
    target: str | None = None
    section: str | None = None

    @property
    def plural(self) -> str:
        """What such pages are called in counts."""
        return _PLURALS[self.kind]
