"""Slices of a relation: disjoint, complete together, and small enough for a query service with a time limit.

The first query asks for the whole relation. If that is too much, the relation is divided by object, which is cheap for
the index of any triple store. One object's statements are divided by a hash of the subject. Statements whose object is
not an IRI (literals, unknown values) form their own slice, since VALUES cannot name them. There is no ORDER BY and no
LIMIT, so that no row can be lost or doubled between slices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

OBJECTS_AT_ONCE = 256
_HASHES = 16**4


@dataclass(frozen=True)
class Slice:
    """Some of the statements of one property.

    `objects` None: any object. `is_remainder`: only objects that are not IRIs. `first_hash`, `end_hash`: only subjects
    whose MD5 begins with four hexadecimal digits in [first, end).
    """

    property_iri: str
    objects: tuple[str, ...] | None = None
    is_remainder: bool = False
    first_hash: int = 0
    end_hash: int = _HASHES

    @property
    def is_whole(self) -> bool:
        return self.objects is None and not self.is_remainder and self.end_hash - self.first_hash == _HASHES

    def query(self) -> str:
        """The slice as SPARQL 1.1, with one row (?subject, ?object) per statement."""
        return f"SELECT ?subject ?object WHERE {{ {self._pattern()} }}"

    def _pattern(self) -> str:
        parts = []
        if self.objects is not None:
            parts.append(f"VALUES ?object {{ {' '.join(f'<{iri}>' for iri in self.objects)} }}")
        parts.append(f"?subject <{self.property_iri}> ?object .")
        if self.is_remainder:
            parts.append("FILTER(!isIRI(?object))")
        digits = "SUBSTR(MD5(STR(?subject)), 1, 4)"
        if self.first_hash > 0:
            parts.append(f'FILTER({digits} >= "{self.first_hash:04x}")')
        if self.end_hash < _HASHES:
            parts.append(f'FILTER({digits} < "{self.end_hash:04x}")')
        return " ".join(parts)

    def by_object(self, objects: list[str]) -> list[Slice]:
        """The whole relation divided by its objects, and the remainder."""
        batches = [
            tuple(objects[at : at + OBJECTS_AT_ONCE]) for at in range(0, len(objects), OBJECTS_AT_ONCE)
        ]
        return [replace(self, is_remainder=True), *(replace(self, objects=batch) for batch in batches)]

    def halves(self) -> list[Slice]:
        """Two slices that together are this one; empty if it cannot be divided further."""
        if self.objects is not None and len(self.objects) > 1:
            middle = len(self.objects) // 2
            return [
                replace(self, objects=self.objects[:middle]),
                replace(self, objects=self.objects[middle:]),
            ]
        if self.end_hash - self.first_hash < 2:
            return []
        middle = (self.first_hash + self.end_hash) // 2
        return [replace(self, end_hash=middle), replace(self, first_hash=middle)]
