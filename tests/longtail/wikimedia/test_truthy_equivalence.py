"""The truthy dump's fast readers give the same as a strict parser line by line, with any boundaries of chunks."""

from __future__ import annotations

import logging
import re
from collections import Counter
from pathlib import Path
from unittest import mock
from urllib.parse import unquote

import pyoxigraph as ox
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.parsing import line_files
from longtail.parsing.line_files import DumpFile, RejectedRows
from longtail.wikimedia.truthy_dump import read_statements, read_terms

LOG = logging.getLogger("test")
WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
DESCRIPTION = "http://schema.org/description"
SITELINKS = "http://wikiba.se/ontology#sitelinks"
SAME = "http://www.w3.org/2002/07/owl#sameAs"
ABOUT = "http://schema.org/about"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
ARTICLE = "https://en.wikipedia.org/wiki/"
DATA = "https://www.wikidata.org/wiki/Special:EntityData/"
PROPERTIES = ["P19", "P106"]
IDS = ["Q1", "Q12", "Q12345678", "Q123456789012", "Q99"]

_part = st.sampled_from
_subjects = _part(
    [f"{WD}{i}" for i in (*IDS, "Q2", "P6", "L5", "Q01", "Q1x", "Q")] + [f"{DATA}Q1", f"{ARTICLE}Ada_%C3%84"]
)
_predicates = _part(
    [LABEL, ALIAS, DESCRIPTION, SITELINKS, SAME, ABOUT, f"{LABEL}s", "http://schema.org/name"]
    + [f"{WDT}{p}" for p in ("P19", "P106", "P106", "P1", "P1067", "P190")]
)
_literals = _part(
    [
        '"Ada"@en',
        '"Ada"@mul',
        '"Ada"@de',
        '"Ad\\u00e4 \\"x\\" \\U0001F600"@en',
        '"Zoë 😀"@en',
        '""@en',
        '"a" b"@en',
        '"bad \\q"@en',
        '"\\uD83D"@en',
        '"half\\"@en',
        '"en-gb"@en-gb',
        '"tab\there"@en',
        '"back\\\\"@mul',
        '"12"',
        f'"12"^^<{INTEGER}>',
        f'"-1"^^<{INTEGER}>',
        '"> <http://www.wikidata.org/prop/direct/P106> <http://www.wikidata.org/entity/Q1> ."@en',
        '"x"@en . <http://e/s> <http://e/p> "y"@en',
    ]
)
_objects = st.one_of(_literals, _part([f"<{WD}{i}>" for i in (*IDS, "Q7", "L5")] + ["_:b1", "<http://e/o>"]))
_gaps = _part([" ", " ", " ", " ", "  ", "\t", ""])
_ends = _part([" .", " .", " .", " .", ".", "  .", "\t.", " . ", " . # said twice", "", " .\r", "\x00 ."])
_triples = st.builds(
    lambda lead, s, g1, p, g2, o, end: f"{lead}<{s}>{g1}<{p}>{g2}{o}{end}".encode(),
    _part(["", "", "", "", " "]), _subjects, _gaps, _predicates, _gaps, _objects, _ends,
)  # fmt: skip
_others = _part(
    [b"", b" ", b".", b" .", b"# comment", b"<", b"<html>", b'<http://e/s> <http://e/p> "\xff" .', b"\r",
     b'<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "\xff"@en .',
     b'_:b <http://www.w3.org/2000/01/rdf-schema#label> "of a blank node"@en .']
)  # fmt: skip
_dumps = st.lists(st.one_of(_triples, _triples, _triples, _others), max_size=30)
_blocks = _part([1, 2, 7, 50, 300, 4 << 20])


def _strictly(line: bytes) -> ox.Quad | None:
    try:
        return next(iter(list(ox.parse(line, format=ox.RdfFormat.N_TRIPLES))), None)
    except SyntaxError:
        return None


def _item(term: object) -> str | None:
    match = (
        re.fullmatch(re.escape(WD) + r"(Q[1-9]\d*)", term.value) if isinstance(term, ox.NamedNode) else None
    )
    return match[1] if match else None


def _written(folder: Path, lines: list[bytes]) -> Path:
    path = folder / "dump.nt"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


@settings(max_examples=150, deadline=None)
@given(lines=_dumps, block=_blocks)
def test_statements(tmp_path_factory, lines: list[bytes], block: int) -> None:
    lines = [*lines, f"<{WD}Q2> <{WDT}P31> <{WD}Q5> .".encode()]
    path, rejected = _written(tmp_path_factory.mktemp("facts"), lines), RejectedRows()
    with mock.patch.object(line_files, "BLOCK", block):
        found = read_statements(DumpFile(path), PROPERTIES, rejected, LOG)
    expected: dict[str, set[tuple[str, str]]] = {p: set() for p in PROPERTIES}
    reasons: Counter[str] = Counter()
    for triple in filter(None, map(_strictly, lines)):
        name = triple.predicate.value.removeprefix(WDT)
        if name not in PROPERTIES:
            continue
        subject, obj = _item(triple.subject), _item(triple.object)
        if subject and obj:
            expected[name].add((subject, obj))
        else:
            reasons["object" if subject else "subject"] += 1
    for name in PROPERTIES:
        rows = [(row["subject_id"], row["object_id"]) for row in found.of(name).to_pylist()]
        assert rows == sorted(expected[name])
    said = Counter(row.reason.split(" ")[0] for row in rejected.rows)
    assert {kind: said[kind] for kind in ("object", "subject")} == {
        k: reasons[k] for k in ("object", "subject")
    }
    broken = [int(row.row_key) for row in rejected.rows if row.reason.startswith("not N-Triples")]
    assert len(set(broken)) == len(broken)
    assert all(_strictly(lines[number - 1]) is None for number in broken)


@settings(max_examples=150, deadline=None)
@given(lines=_dumps, block=_blocks)
def test_terms(tmp_path_factory, lines: list[bytes], block: int) -> None:
    lines = [*lines, f'<{WD}Q2> <{LABEL}> "somebody"@en .'.encode()]
    path, rejected = _written(tmp_path_factory.mktemp("terms"), lines), RejectedRows()
    with mock.patch.object(line_files, "BLOCK", block):
        terms = read_terms(DumpFile(path), IDS, rejected, LOG)
    expected: dict[str, dict] = {}
    redirects, sitelinks = {}, {}
    for triple in filter(None, map(_strictly, lines)):
        _take(triple, expected, redirects, sitelinks)
    found = {entity_id: told for entity_id, told in terms.of(IDS) if told}
    assert {entity_id: _sorted(told.document) for entity_id, told in found.items()} == {
        entity_id: _sorted(document) for entity_id, document in expected.items()
    }
    assert {i: told.sitelinks for i, told in found.items() if told.sitelinks is not None} == sitelinks
    assert terms.redirects == redirects
    assert terms.have_lines(IDS) == [entity_id in expected for entity_id in IDS]
    assert all(_strictly(lines[int(row.row_key) - 1]) is None for row in rejected.rows)


def _sorted(document: dict) -> dict:
    aliases = {
        language: sorted(one["value"] for one in values) for language, values in document["aliases"].items()
    }
    return {**document, "aliases": aliases}


def _take(triple: ox.Quad, documents: dict, redirects: dict, sitelinks: dict) -> None:
    predicate, obj = triple.predicate.value, triple.object
    if predicate == ABOUT and isinstance(triple.subject, ox.NamedNode) and _item(obj) in IDS:
        if not triple.subject.value.startswith((ARTICLE, f"{DATA}Q")):
            return
        document = documents.setdefault(_item(obj), _empty())
        if triple.subject.value.startswith(ARTICLE):
            title = unquote(triple.subject.value.removeprefix(ARTICLE)).replace("_", " ")
            document["sitelinks"] = {"enwiki": {"title": title}}
        return
    entity_id = _item(triple.subject)
    if predicate == SITELINKS and isinstance(triple.subject, ox.NamedNode):
        entity_id = entity_id or triple.subject.value.removeprefix(DATA)
    if entity_id not in IDS:
        return
    if predicate == SAME and isinstance(obj, ox.NamedNode):
        redirects[entity_id] = obj.value.removeprefix(WD)
    elif predicate == SITELINKS and isinstance(obj, ox.Literal) and obj.datatype.value == INTEGER:
        documents.setdefault(entity_id, _empty())
        if obj.value.isdigit():
            sitelinks[entity_id] = max(int(obj.value), sitelinks.get(entity_id, 0))
    elif isinstance(obj, ox.Literal) and obj.language in ("en", "mul"):
        if predicate == ALIAS:
            aliases = documents.setdefault(entity_id, _empty())["aliases"].setdefault(obj.language, [])
            if {"value": obj.value} not in aliases:
                aliases.append({"value": obj.value})
        elif predicate in (LABEL, DESCRIPTION):
            section = documents.setdefault(entity_id, _empty())[
                "labels" if predicate == LABEL else "descriptions"
            ]
            known = section.get(obj.language, {"value": obj.value})["value"]
            section[obj.language] = {"value": min(known, obj.value)}


def _empty() -> dict:
    return {"labels": {}, "aliases": {}, "descriptions": {}, "sitelinks": {}}
