"""The truthy dump: facts and terms, and unusual, unknown, redirected, deleted or broken entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.generated_wiki import write_dump
from longtail.errors import SourceError
from longtail.parsing.line_files import DumpFile, RejectedRows
from longtail.relations.relation import relation_set
from longtail.sandbox.dumps import SUFFIXES, triple_lines, truthy_lines
from longtail.wikimedia import truthy_dump
from longtail.wikimedia.truthy_dump import EntityTerms, read_statements, read_terms

WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
ALIAS = "<http://www.w3.org/2004/02/skos/core#altLabel>"
ABOUT = "<http://schema.org/about>"
PROPERTIES = [relation.property_id for relation in relation_set("popqa")]


def _dump(path: Path, *lines: str | bytes) -> DumpFile:
    path.write_bytes(b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines))
    return DumpFile(path, last_line_ends=b".")


def _pairs(dump: DumpFile, log, rejected: RejectedRows, *properties: str) -> list[list[tuple[str, str]]]:
    found = read_statements(dump, properties, rejected, log)
    tables = [found.of(property_id).to_pylist() for property_id in properties]
    return [[(row["subject_id"], row["object_id"]) for row in rows] for rows in tables]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_statements_equal_the_world(world, tmp_path: Path, log, suffix: str) -> None:
    rejected = RejectedRows()
    dump = DumpFile(write_dump(truthy_lines(world), tmp_path / f"latest-truthy.nt{suffix}"))
    found = read_statements(dump, PROPERTIES, rejected, log)
    triples = {(t.subject_id, t.property_id, t.object_id) for t in world.triples()}
    rows = [tuple(row.values()) for property_id in PROPERTIES for row in found.of(property_id).to_pylist()]
    assert set(rows) == triples
    assert len(rows) == len(triples)
    assert found.of("P19").to_pylist() == sorted(
        found.of("P19").to_pylist(), key=lambda row: tuple(row.values())
    )
    assert rejected.counts == {}


def test_unusual_statements_are_put_aside_with_their_reason(tmp_path: Path, log) -> None:
    rejected = RejectedRows()
    dump = _dump(
        tmp_path / "dump",
        f"<{WD}Q1> <{WDT}P106> <{WD}Q10> .",
        f"<{WD}Q1> <{WDT}P106> <{WD}Q10> .",
        f"<{WD}Q1>  <{WDT}P106>   <{WD}Q9> . # plain, but not written as Wikidata writes it",
        f"<{WD}Q1> <{WDT}P1067> <{WD}Q11> .",
        f"<{WD}Q2> <{WDT}P106> _:genid1 .",
        f"<{WD}Q3> <{WDT}P106> <http://www.wikidata.org/.well-known/genid/abc> .",
        f'<{WD}Q4> <{WDT}P106> "writer" .',
        f"<{WD}Q5> <{WDT}P106> <{WD}L5> .",
        f"<{WD}P6> <{WDT}P106> <{WD}Q10> .",
        f'<{WD}Q7> {LABEL} "a <{WDT}P106> <{WD}Q10> ."@en .',
        f"<{WD}Q8> <{WDT}P106> <{WD}Q10>",
        "# a comment",
        "",
        "\x00 broken",
        b'<http://e/s> <http://e/p> "\xff" .',
        f"<{WD}Q9> <{WDT}P19> <{WD}Q10> .\r",
    )
    occupations, births = _pairs(dump, log, rejected, "P106", "P19")
    assert occupations == [("Q1", "Q10"), ("Q1", "Q9")]
    assert births == [("Q9", "Q10")]
    kinds = {row.row_key: row.reason.split(":")[0] for row in rejected.rows}
    assert kinds == {
        "Q2 P106": "object is no item but an unknown value",
        "Q3 P106": "object is no item but an unknown value",
        "Q4 P106": "object is no item but a literal",
        "Q5 P106": "object is no item but another resource",
        "P6 P106": "subject is no item",
        "11": "not N-Triples",
        "14": "not N-Triples",
    }


def _terms(dump: DumpFile, ids: list[str], log, rejected: RejectedRows | None = None) -> EntityTerms:
    return read_terms(dump, ids, rejected if rejected is not None else RejectedRows(), log)


def _documents(terms: EntityTerms, ids: list[str]) -> dict[str, dict]:
    return {entity_id: told.document for entity_id, told in terms.of(ids) if told}


def _sitelinks(terms: EntityTerms, ids: list[str]) -> dict[str, int]:
    return {i: told.sitelinks for i, told in terms.of(ids) if told and told.sitelinks is not None}


def test_terms_of_a_truthy_dump_and_of_one_with_articles(world, tmp_path: Path, log) -> None:
    entities = {entity.entity_id: entity for entity in world.entities()}
    ids = list(entities)[::3]
    plain = _terms(DumpFile(write_dump(truthy_lines(world), tmp_path / "truthy.nt.bz2")), ids, log)
    full = _terms(DumpFile(write_dump(triple_lines(world), tmp_path / "all.nt")), ids, log)
    assert (plain.has_sitelinks, full.has_sitelinks) == (False, True)
    assert _sitelinks(plain, ids) == {}
    assert _sitelinks(full, ids) == {entity_id: entities[entity_id].sitelinks for entity_id in ids}
    for terms in (plain, full):
        documents = _documents(terms, ids)
        assert list(documents) == ids
        for entity_id in ids:
            entity, document = entities[entity_id], documents[entity_id]
            assert document["labels"] == {"en": {"value": entity.label}}
            assert document["descriptions"] == {"en": {"value": entity.description}}
            assert {one["value"] for one in document["aliases"].get("en", ())} == set(entity.aliases)
    titles = {i: d["sitelinks"].get("enwiki", {}).get("title") for i, d in _documents(full, ids).items()}
    assert titles == {entity_id: entities[entity_id].article_title for entity_id in ids}


def test_unusual_terms(tmp_path: Path, log) -> None:
    rejected = RejectedRows()
    data = "https://www.wikidata.org/wiki/Special:EntityData/"
    dump = _dump(
        tmp_path / "dump",
        f'<{WD}Q1> {LABEL} "Ad\\u00e4 \\"x\\" \\U0001F600"@en .',
        f'<{WD}Q1> {LABEL} "anders"@de .',
        f'<{WD}Q1> {ALIAS} "A"@en .',
        f'<{WD}Q1> {ALIAS} "A"@en .',
        f'<{WD}Q1> {ALIAS} "M"@mul .',
        f'<{WD}Q2> {LABEL} "everywhere"@mul .',
        f"<{data}Q3> {ABOUT} <{WD}Q3> .",
        f"<{WD}Q4> <http://www.w3.org/2002/07/owl#sameAs> <{WD}Q1> .",
        f"<https://en.wikipedia.org/wiki/AC/DC_%C3%84_%22x%22> {ABOUT} <{WD}Q1> .",
        f"<https://de.wikipedia.org/wiki/Ada> {ABOUT} <{WD}Q1> .",
        f'<{WD}Q5> {LABEL} "bad \\q escape"@en .',
        f'<{WD}Q6> {LABEL} "not asked for \\q"@en .',
        f'<{WD}Q2> <http://wikiba.se/ontology#sitelinks> "12"^^<http://www.w3.org/2001/XMLSchema#integer> .',
        f'<{WD}Q2> <http://wikiba.se/ontology#sitelinks> "-1"^^<http://www.w3.org/2001/XMLSchema#integer> .',
    )
    ids = ["Q1", "Q2", "Q3", "Q4", "Q5", "Q99"]
    terms = _terms(dump, ids, log, rejected)
    documents = _documents(terms, ids)
    ada = documents["Q1"]
    assert ada["labels"] == {"en": {"value": 'Adä "x" 😀'}}
    assert ada["aliases"] == {"en": [{"value": "A"}], "mul": [{"value": "M"}]}
    assert ada["sitelinks"] == {"enwiki": {"title": 'AC/DC Ä "x"'}}
    assert documents["Q2"]["labels"] == {"mul": {"value": "everywhere"}}
    assert documents["Q3"]["labels"] == {}
    assert terms.redirects == {"Q4": "Q1"}
    assert _sitelinks(terms, ids) == {"Q2": 12}
    assert not {"Q99", "Q5", "Q6"} & set(documents)
    assert [(row.row_key, row.reason.split(":")[0]) for row in rejected.rows] == [("11", "not N-Triples")]


def test_lines_as_wikidata_writes_them(tmp_path: Path, log) -> None:
    """Its dumps are ASCII, name an entity's data before the entity, and have many kinds of lines that are not read."""
    data, integer = (
        "https://www.wikidata.org/wiki/Special:EntityData/Q31",
        "http://www.w3.org/2001/XMLSchema#integer",
    )
    lines = [
        f"<{data}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://schema.org/Dataset> .",
        f"<{data}> {ABOUT} <{WD}Q31> .",
        f"<{data}> <http://creativecommons.org/ns#license> <http://creativecommons.org/publicdomain/zero/1.0/> .",
        f'<{data}> <http://schema.org/softwareVersion> "1.0.0" .',
        f'<{data}> <http://schema.org/version> "2112233445"^^<{integer}> .',
        f"<{WD}Q31> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://wikiba.se/ontology#Item> .",
        f'<{WD}Q31> {LABEL} "Belgium"@en .',
        f'<{WD}Q31> <http://www.w3.org/2004/02/skos/core#prefLabel> "Belgium"@en .',
        f'<{WD}Q31> <http://schema.org/name> "Belgium"@en .',
        f'<{WD}Q31> {LABEL} "Belgi\\u00EB"@nl .',
        f'<{WD}Q31> {LABEL} "Belgium"@en-gb .',
        f'<{WD}Q31> {ALIAS} "Royaume de Belgique \\u2013 Kingdom"@en .',
        f'<{WD}Q31> {ALIAS} "\\U0001F1E7\\U0001F1EA"@mul .',
        f'<{WD}Q31> {ALIAS} "the \\"flat\\" country"@en .',
        f'<{WD}Q31> <http://schema.org/description> "country in western Europe"@en .',
        f"<{WD}Q31> <{WDT}P36> <{WD}Q239> .",
        f"<{WD}Q31> <{WDT}P36> <http://www.wikidata.org/.well-known/genid/0123456789abcdef> .",
        f'<{WD}Q31> <{WDT}P646> "/m/0154j" .',
        f"<{WD}Q31> <http://www.wikidata.org/prop/direct-normalized/P36> <http://example.org/Q239> .",
        f'<{WD}Q31> <{WDT}P625> "Point(4.6 50.6)"^^<http://www.opengis.net/ont/geosparql#wktLiteral> .',
        f'<{WD}Q31> <{WDT}P1448> "Royaume de Belgique"@fr .',
        f"<{WD}Q4242> <http://www.w3.org/2002/07/owl#sameAs> <{WD}Q31> .",
        f"<{WD}P36> <{WDT}P31> <{WD}Q18610173> .",
    ]
    dump, rejected = _dump(tmp_path / "truthy", *lines), RejectedRows()
    assert _pairs(dump, log, rejected, "P36") == [[("Q31", "Q239")]]
    assert rejected.counts == {"object is no item but an unknown value": 1}
    ids = ["Q31", "Q239", "Q4242"]
    terms = _terms(dump, ids, log, rejected)
    told = dict(terms.of(ids))["Q31"]
    assert told is not None
    assert told.document == {
        "labels": {"en": {"value": "Belgium"}},
        "aliases": {
            "en": [{"value": "Royaume de Belgique \u2013 Kingdom"}, {"value": 'the "flat" country'}],
            "mul": [{"value": "\U0001f1e7\U0001f1ea"}],
        },
        "descriptions": {"en": {"value": "country in western Europe"}},
        "sitelinks": {},
    }
    assert (terms.have_lines(ids), terms.redirects) == ([True, False, False], {"Q4242": "Q31"})
    assert (terms.has_sitelinks, terms.lists_all) == (False, True)
    everything = [
        *lines,
        f'<{data}> <http://wikiba.se/ontology#sitelinks> "320"^^<{integer}> .',
        f'<{data}> <http://wikiba.se/ontology#statements> "766"^^<{integer}> .',
        f"<https://en.wikipedia.org/wiki/Belgium> {ABOUT} <{WD}Q31> .",
        f"<https://it.wikivoyage.org/wiki/Belgio> {ABOUT} <{WD}Q31> .",
    ]
    full = _terms(_dump(tmp_path / "all", *everything), ids, log)
    assert _sitelinks(full, ids) == {"Q31": 320}
    assert _documents(full, ids)["Q31"]["sitelinks"] == {"enwiki": {"title": "Belgium"}}


@pytest.mark.parametrize(
    "lines",
    [
        ["<!DOCTYPE html>", "<html>", "<head><title>404 Not Found</title></head>", "</html>"],
        ['{"entities": [', "]}"],
        ["en.wikipedia Ada 1 desktop 5 A5"] * 1_500,
        ["# comment", ""],
        [],
    ],
    ids=["web page", "JSON", "page views", "comments", "empty"],
)
def test_a_file_that_is_no_dump_is_refused(tmp_path: Path, log, monkeypatch, lines: list[str]) -> None:
    """Also if the file is long: the reader does not wait for the end of a wrong file."""
    monkeypatch.setattr(truthy_dump, "_SURELY_NO_DUMP", 1_000)
    dump = _dump(tmp_path / "dump", *lines)
    with pytest.raises(SourceError, match="holds no triple"):
        read_statements(dump, ["P19"], RejectedRows(), log)
    with pytest.raises(SourceError, match="holds no triple"):
        _terms(dump, ["Q1"], log)
