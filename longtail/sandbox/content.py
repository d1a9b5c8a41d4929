"""What the sandbox server serves: a synthetic world, or any RDF file."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pyoxigraph as ox

from longtail.parsing.rdf import Reading, read_triples
from longtail.sandbox import rdf
from longtail.sandbox.pages import Pages
from longtail.sandbox.world import World
from longtail.storage.files import temporary_folder
from longtail.storage.lake import QuarantinedRow

# Above these sizes the store is on disk: in memory it needs about 8 kB per entity.
_LARGE_WORLD = 50_000  # entities
_LARGE_FILE = 100 << 20  # bytes
_LINES_AT_ONCE = 100_000
_LOG = logging.getLogger(__name__)


class Content:
    """The triples of a world, or of an N-Triples file (plain or packed), and a world's pages.

    `broken`: the lines of a file that could not be read, once its triples are loaded. Reads are safe between threads.
    """

    def __init__(self, origin: World | Path) -> None:
        self._origin = origin
        self.pages = Pages(origin) if isinstance(origin, World) else None
        self.broken: tuple[QuarantinedRow, ...] = ()
        self._lock = threading.Lock()
        self._store: ox.Store | None = None
        self._folder = ExitStack()

    def store(self) -> ox.Store:
        """The triples; loaded at the first call."""
        with self._lock:
            if self._store is None:
                store = self._open()
                if isinstance(self._origin, World):
                    lines = rdf.lines(self._origin)
                    while some := "".join(islice(lines, _LINES_AT_ONCE)):
                        store.bulk_load(some, ox.RdfFormat.N_TRIPLES)
                else:
                    reading = Reading(self._origin)
                    for triples in read_triples(reading):
                        store.bulk_extend(triples)
                    self.broken = tuple(reading.broken)
                self._store = store
            return self._store

    def _open(self) -> ox.Store:
        """An empty store: in memory, or for large content in a temporary folder."""
        if isinstance(self._origin, World):
            is_large = self._origin.n_entities > _LARGE_WORLD
        else:
            is_large = self._origin.stat().st_size > _LARGE_FILE
        if not is_large:
            return ox.Store()
        _LOG.info("loading a large triple store into a temporary folder: this takes a minute or more")
        # A large world needs gigabytes: in the home, since /tmp may be too small.
        return ox.Store(str(self._folder.enter_context(temporary_folder("store"))))

    def close(self) -> None:
        """Free the disk space of the store."""
        with self._lock:
            self._store = None
            self._folder.close()
