"""Collections of texts: what their files hold comes back, and every fault is one clear line or a row put aside."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.imports.formats.collections import atlas, cirrus_search, pyserini
from longtail.imports.formats.collections.articles import read_articles
from longtail.imports.formats.collections.dpr import read_passages
from longtail.imports.lines import AUTO, ENCLOSING
from longtail.imports.wiki import DISAMBIGUATION, REDIRECT, ExcludedPage
from longtail.parsing.line_files import RejectedRows
from longtail.study.imports import load_format

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


def passages(path: Path, quoting: str = AUTO) -> tuple[list[tuple[int, str, str, str]], RejectedRows]:
    rejected = RejectedRows(path.name)
    return [
        (found.row, found.id, found.title, found.text)
        for found in read_passages(path, rejected, quoting=quoting)
    ], rejected


def articles(path: Path) -> tuple[list[tuple[int, str, str]], RejectedRows]:
    rejected = RejectedRows(path.name)
    return [(found.row, found.title, found.text) for found in read_articles(path, rejected)], rejected


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6),
    end=st.sampled_from(["\n", "\r\n"]),
    is_packed=st.booleans(),
)
def test_passages_come_back_as_dpr_reads_them(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], end: str, is_packed: bool
) -> None:
    path = tmp_path_factory.mktemp("dpr") / "psgs.tsv"
    written = io.StringIO(newline="")
    writer = csv.writer(written, delimiter="\t", lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text", "title"), *((i, *row) for i, row in enumerate(rows))])
    content = written.getvalue().encode()
    path.write_bytes(gzip.compress(content) if is_packed else content)
    found, rejected = passages(path, ENCLOSING)
    assert found == [(i + 1, str(i), title, text.strip('"')) for i, (text, title) in enumerate(rows)]
    assert rejected.rows == []


def test_quotation_marks_are_taken_off_the_ends_of_a_passage_alone(tmp_path: Path) -> None:
    path = tmp_path / "psgs.tsv"
    path.write_text(
        'id\ttext\ttitle\n7\t"""Harvest"" is a film by ""Ann"""\tHarvest\n8\t"a ""b"" c"\t"The ""B"""\n',
        encoding="utf-8",
    )
    found, _ = passages(path)
    assert found == [(1, "7", "Harvest", 'Harvest" is a film by "Ann'), (2, "8", 'The "B"', 'a "b" c')]


def test_marks_stay_in_a_file_without_quoting(tmp_path: Path) -> None:
    path = tmp_path / "psgs.tsv"
    path.write_text(
        'id\ttext\ttitle\n1\tOne.\tA\n2\t"Weird Al" Yankovic sings.\tB\n3\t"All of it."\t"C" (album)\n'
    )
    found, rejected = passages(path)
    assert [row[2:] for row in found] == [
        ("A", "One."),
        ("B", '"Weird Al" Yankovic sings.'),
        ('"C" (album)', '"All of it."'),
    ]
    assert rejected.rows == []


def test_articles_and_lines_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "leads.jsonl"
    objects = [
        {"title": "Ann 👩‍🚀", "text": "<b>Ann</b> \u0000 flies.\nShe is Ann.", "topic": "people"},
        {"text": "no title"},
        {"title": None, "text": "no title"},
        {"title": "Bob", "text": ["no text"]},
        {"title": "Bob"},
    ]
    path.write_text("\n".join([*map(json.dumps, objects), "<html>", "[]", ""]), encoding="utf-8")
    found, rejected = articles(path)
    assert found == [(1, "Ann 👩‍🚀", "<b>Ann</b> \0 flies.\nShe is Ann.")]
    assert [row.reason.split(":")[0] for row in rejected.rows] == [
        "key title", "key title", "key text", "key text", "not JSON", "a JSON object was expected",
    ]  # fmt: skip
    assert rejected.rows[0].row_key == "leads.jsonl row 2"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
@pytest.mark.parametrize("cut", [slice(None, 15), slice(None, -6)])
def test_a_broken_packed_file_is_refused(tmp_path: Path, pack: Callable[[bytes], bytes], cut: slice) -> None:
    path, kind = tmp_path / "leads.jsonl.packed", "gzip" if pack is gzip.compress else "bzip2"
    whole = pack(b'{"title": "Ann", "text": "Ann."}\n' * 50)
    path.write_bytes(whole)
    assert len(articles(path)[0]) == 50
    path.write_bytes(whole[cut])
    size = path.stat().st_size
    with pytest.raises(
        SourceError,
        match=rf"leads\.jsonl\.packed: damaged {kind} file \(breaks off at byte {size} of {size}.*fetch it again",
    ):
        articles(path)
    path.write_bytes(whole[:3] + b" not packed at all")
    with pytest.raises(SourceError, match=f"damaged {kind} file.*; fetch it again$"):
        articles(path)


@pytest.mark.parametrize("name", ["dpr", "atlas", "articles", "cirrus_search", "pyserini", "wikipedia_xml"])
def test_a_file_that_is_packed_in_another_way_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    for content, kind in [
        (lzma.compress(b"text"), "xz"),
        (b"PK\x03\x04 ", "zip"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
    ]:
        path.write_bytes(content)
        with pytest.raises(SourceError, match=rf"file: cannot be read \(it is packed as {kind}: unpack it"):
            list(load_format("collections", name).read(path, RejectedRows("file")))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dpr", "id\ttext\ttitle\n1\tAnn flies.\tAnn\n2\tBob"),
        ("articles", '{"title": "Ann", "text": "Ann flies."}\n{"title": "Bob", "te'),
        ("atlas", '{"id": "1", "title": "Ann", "text": "Ann flies."}\n{"id": "2"'),
        ("pyserini", '{"id": "1", "contents": "Ann\\nAnn flies."}\n{"id": "2"'),
        ("cirrus_search", '{"index": {}}\n{"title": "Ann", "text": "Ann flies."}\n{"index": {}}\n{"title"'),
    ],
)
def test_a_text_file_that_ends_in_mid_row_is_refused(tmp_path: Path, name: str, content: str) -> None:
    path, format_ = tmp_path / "cut.txt", load_format("collections", name)
    for ending in ("", "\n"):  # with a line end, the last row is a bad one among others
        path.write_text(content + ending, encoding="utf-8")
        size, rejected = len(content), RejectedRows("cut.txt")
        if not ending:
            with pytest.raises(
                SourceError, match=rf"breaks off at byte {size} of {size}, in row \d .*fetch it again"
            ):
                list(format_.read(path, rejected))
        else:
            assert [passage.text for passage in format_.read(path, rejected)] == ["Ann flies."]
            assert rejected.rows


def test_the_rows_of_a_kind_are_counted_where_they_are_too_many() -> None:
    rejected = RejectedRows("a", most=2)
    for row in range(1, 6):
        rejected.put(row, f"id '{row}': row 1 has it already", {"id": row})
    rejected.put(6, "title: a text was expected")
    assert rejected.n_rows == 6
    assert [(row.row_key, row.reason) for row in rejected.list_rows()] == [
        ("a row 1", "id '1': row 1 has it already"),
        ("a row 2", "id '2': row 1 has it already"),
        ("a row 6", "title: a text was expected"),
        ("a more rows", "id …: row … has it already: 3 more rows, counted but not kept"),
    ]


def test_atlas_s_passages_have_their_section(tmp_path: Path) -> None:
    lines = [
        {"id": "140", "title": "Łódź", "section": "", "text": "Łódź is a city."},
        {"id": "141", "title": "Łódź", "section": "History: 1900", "text": "It grew."},
        {"id": "infobox-1", "title": "Łódź", "text": "country: Poland"},  # infobox.jsonl may lack sections
        {"id": 7, "title": 1984, "section": None, "text": "a"},  # numbers are texts
        {"id": "8", "title": "Łódź", "section": ["a"], "text": "a"},  # an odd section costs no passage
        {"id": True, "title": "Łódź", "text": "a"},
        {"id": "9", "title": "Łódź", "section": "", "text": None},
        {"id": "10", "title": "Łódź", "section": "Empty", "text": " "},
    ]
    path, rejected = tmp_path / "text-list-100-sec.jsonl.gz", RejectedRows("a")
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    found = [(one.row, one.id, one.section, one.text) for one in atlas.read_passages(path, rejected)]
    assert found == [
        (1, "140", None, "Łódź is a city."),
        (2, "141", "History: 1900", "It grew."),
        (3, "infobox-1", None, "country: Poland"),
        (4, "7", None, "a"),
        (5, "8", None, "a"),
        (8, "10", "Empty", " "),  # an empty passage stays empty: the collection puts it aside
    ]
    assert [(row.row_key, row.reason) for row in rejected.rows] == [
        ("a row 6", "key id: a text was expected"),
        ("a row 7", "key text: a text was expected"),
    ]
    assert rejected.left_out == {"values of key section that are no text": 1}


def test_contents_have_their_title_in_the_first_line(tmp_path: Path) -> None:
    lines = [
        {"id": "0", "contents": '"Aaron"\nAaron is a prophet.\nHe spoke.'},  # as FlashRAG writes it
        {"id": 1, "contents": "Bob\n\nBob is a man."},  # as pyserini's BEIR
        {"id": "2", "contents": '""Heroes" (album)"\r\nIt is by Bowie.'},
        {"id": "3", "title": "Łódź", "contents": "Łódź\nIt is a city."},
        {"id": "4", "title": "Łódź", "contents": "It grew."},
        {"id": "5", "contents": "a text without a title"},
        {"id": "6", "contents": None},
        {"contents": "Ann\nAnn flies."},
        {"id": "8", "contents": "Ann\n \n"},
    ]
    path, rejected = tmp_path / "wiki.jsonl", RejectedRows("a")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = [(one.row, one.id, one.title, one.text.strip()) for one in pyserini.read_passages(path, rejected)]
    assert found == [
        (1, "0", "Aaron", "Aaron is a prophet.\nHe spoke."),
        (2, "1", "Bob", "Bob is a man."),
        (3, "2", '"Heroes" (album)', "It is by Bowie."),
        (4, "3", "Łódź", "It is a city."),
        (5, "4", "Łódź", "It grew."),
    ]
    untitled = "key contents: a title was expected in the first line, and a text below"
    assert [(row.row_key, row.reason) for row in rejected.rows] == [
        ("a row 6", untitled),
        ("a row 7", "key contents: a text was expected"),
        ("a row 8", "key id: a text was expected"),
        ("a row 9", untitled),
    ]


def test_cirrus_search_gives_articles_and_says_which_lines_are_not_pairs(tmp_path: Path) -> None:
    def page(
        title: str,
        text: str | None = "Text.",
        namespace: int = 0,
        redirect: object = (),
        template: object = (),
    ) -> dict[str, object]:
        own = {"namespace": namespace, "title": title, "text": text, "wiki": "enwiki"}
        return own | {"redirect": redirect, "template": template}

    lodz = {"namespace": 0, "title": "Lodz"}

    def named(page_id: int) -> dict[str, object]:
        return {"index": {"_type": "_doc", "_id": str(page_id)}}

    lines = [
        *(
            named(12),
            page("Łódź", redirect=[lodz, {"title": None}, "x", lodz | {"namespace": 1}], template=7)
            | {"wikibase_item": "Q580"},
        ),
        *(named(13), page("Talk:Łódź", namespace=1)),
        *(named(14), named(15), page("Ada Quill")),
        page("Alone"),
        *(named(16), page("No text", None)),
        *(named(17), page("No item") | {"wikibase_item": 17}),
        *(
            named(18),
            page("Mercury", redirect=[{"title": "Mercurius"}], template=["Template:Disambiguation"]),
        ),
        named(19),
    ]
    pages: list[ExcludedPage] = []
    path, rejected = (
        tmp_path / "enwiki-20230410-cirrussearch-content.json",
        RejectedRows("c", keep=pages.append),
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = [
        (one.row, one.title, one.text, one.entity_id) for one in cirrus_search.read_articles(path, rejected)
    ]
    assert found == [
        (2, "Łódź", "Text.", "Q580"),
        (7, "Ada Quill", "Text.", None),
        (12, "No item", "Text.", None),
    ]
    assert [(row.row_key, row.reason) for row in rejected.rows] == [
        ("c row 4", "namespace 1: an article was expected (namespace 0)"),
        ("c row 5", "names a page, and the next line is no page"),
        ("c row 8", "a page without the line before it that names it"),
        ("c row 10", "key text: a text was expected"),
        ("c row 15", "names a page, and the file ends; it may be cut off"),
    ]
    assert pages == [
        ExcludedPage(2, "Lodz", REDIRECT, "Łódź"),
        ExcludedPage(14, "Mercurius", REDIRECT, "Mercury"),
        ExcludedPage(14, "Mercury", DISAMBIGUATION),
    ]
    assert rejected.left_out == {
        "redirects": 2, "disambiguation pages": 1, "values of key wikibase_item that are no text": 1,
    }  # fmt: skip
