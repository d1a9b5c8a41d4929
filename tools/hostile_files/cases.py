"""Files that somebody might give, or plant: cut, huge, of other types, lying about their sizes, carrying code."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.imported_files import popqa_rows, write_popqa

Write = Callable[[Path], None]
Content = bytes | Callable[[], bytes]
"""What a file holds, or what makes that; a bomb takes seconds, and most tests want none."""
_HUGE = 1 << 60
_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Case:
    """A file (or folder) `file` that `write` puts into a folder, and the door that it takes, in a format."""

    name: str
    door: str
    format: str
    file: str
    write: Write


class _Bomb:
    """Unpickled, it leaves a file behind."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "ran")

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def _bytes(name: str, content: Content) -> Write:
    def write(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content())

    return write


def _tables() -> Iterator[tuple[str, str, Content]]:
    """(what, file, content) of tables of questions."""
    head = b"question,answers\n"
    row = b"Who?,Ada\n"
    yield "empty", "q.csv", b""
    yield "a header alone", "q.csv", head
    yield "no column question", "q.csv", b"frage,answers\nWho?,Ada\n"
    yield "no column answers", "q.csv", b"question,reply_of_nobody\nWho?,Ada\n"
    yield "two columns question", "q.csv", b"question,question,answers\na,b,c\n"
    yield "NUL in a cell", "q.csv", head + row + b"Wh\x00o?,Ada\n"
    yield "NUL in the header", "q.csv", b"quest\x00ion,answers\n" + row
    yield "UTF-16", "q.csv", (head + row).decode().encode("utf-16")
    yield "UTF-32", "q.csv", (head + row).decode().encode("utf-32")
    yield "Latin-1", "q.csv", head + "Où?,Élysée\n".encode("latin-1") + row
    yield (
        "Latin-1 with semicolons",
        "q.csv",
        "question;answers\nOù?;Élysée\n".encode("latin-1") + b"Who?;Ada\n",
    )
    yield "semicolons, commas within", "q.csv", b"question;answers\nWho, then?;Ada\n"
    yield "a cell of 10 MB", "q.csv", head + row + b"Who?," + b"x" * 10_000_000 + b"\n"
    yield "a quoted cell of 10 MB over lines", "q.csv", head + row + b'"' + b"x\n" * 5_000_000 + b'",Ada\n'
    yield "a quotation mark that nobody closes", "q.csv", head + row + b'"Who?,Ada\n' * 5_000
    yield "100,000 columns", "q.csv", b",".join(b"c%d" % n for n in range(100_000)) + b"\n" + row
    yield "too few and too many cells", "q.csv", head + b"Who?\n" + b"a,b,c,d\n" + row
    yield "lines end in CR", "q.csv", (head + row).replace(b"\n", b"\r")
    yield "a picture", "q.csv", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 50
    yield "a web page", "q.csv", b"<!DOCTYPE html><html><body>404</body></html>"
    yield "terminal codes in a cell", "q.csv", head + b"\x1b]0;owned\x07Who?,\x1b[2JAda\n"
    yield "a formula", "q.csv", head + b"\"=cmd|' /C calc'!A0\",Ada\n"
    packed = gzip.compress(head + row * 1_000)
    yield "gzip, cut", "q.csv.gz", packed[: len(packed) // 2]
    yield "gzip, a flipped bit", "q.csv.gz", packed[:30] + bytes([packed[30] ^ 4]) + packed[31:]
    yield "gzip of gzip", "q.csv.gz", gzip.compress(packed)
    yield "gzip bomb: one line of 1 GB", "q.csv.gz", _gzip_bomb
    yield "bzip2, cut", "q.csv.bz2", bz2.compress(head + row * 1_000)[:-20]
    yield "a zip called csv", "q.csv", _zip({"q.csv": head + row})
    yield "xz magic", "q.csv", b"\xfd7zXZ\x00" + bytes(100)
    good = json.dumps({"question": "Who?", "answers": ["Ada"]}).encode() + b"\n"
    yield "JSON lines: nested 100,000 deep", "q.jsonl", good + b"[" * 100_000 + b"\n"
    yield "JSON lines: objects nested 50,000 deep", "q.jsonl", good + b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    yield "JSON lines: numbers for texts", "q.jsonl", good + b'{"question": 5, "answers": 1e400}\n'
    yield "JSON lines: NaN and a number of 10,000 digits", "q.jsonl", (
        good + b'{"question": "a", "answers": ["b"], "popularity": NaN}\n'
        + b'{"question": "a", "answers": ["b"], "popularity": '
        + b"9" * 10_000 + b"}\n"
    )  # fmt: skip
    yield (
        "JSON lines: keys twice",
        "q.jsonl",
        good + b'{"question": "a", "question": "b", "answers": ["c"]}\n',
    )
    yield "JSON lines: a list a line", "q.jsonl", good + b'["Who?", "Ada"]\n'
    yield "JSON: one list over lines", "q.jsonl", b"[\n" + good.strip() + b",\n" + good + b"]\n"
    yield (
        "JSON lines: half a surrogate pair",
        "q.jsonl",
        good + b'{"question": "\\ud800?", "answers": ["\\udc00"]}\n',
    )
    yield "JSON lines: no question", "q.jsonl", good + b'{"question": null, "answers": ["b"]}\n'
    yield "JSON lines: answers are an object", "q.jsonl", good + b'{"question": "a", "answers": {"b": 1}}\n'
    yield (
        "JSON lines: answers nested in lists",
        "q.jsonl",
        good + b'{"question": "a", "answers": [[["b"]]]}\n',
    )
    yield "JSON lines: no answers", "q.jsonl", good + b'{"question": "a", "answers": []}\n'
    yield (
        "JSON lines: bytes that are no UTF-8",
        "q.jsonl",
        good + b'{"question": "\xff\xfe", "answers": ["b"]}\n',
    )
    yield (
        "JSON lines: a text of 10 MB",
        "q.jsonl",
        good + b'{"question": "' + b"x" * 10_000_000 + b'", "answers": ["b"]}\n',
    )
    yield (
        "JSON lines: 100,000 answers",
        "q.jsonl",
        good + json.dumps({"question": "a", "answers": ["x"] * 100_000}).encode(),
    )
    yield "JSON lines: cut in mid-row", "q.jsonl", good + good[:20]


def _gzip_bomb() -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9) as file:
        file.write(b"question,answers\nWho?,Ada\n")
        for _ in range(1_024):
            file.write(b"x" * _MEBIBYTE)
    return out.getvalue()


def _zip(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def _parquets() -> Iterator[tuple[str, Callable[[Path], None]]]:
    def of(table: pa.Table, change: Callable[[bytes], bytes] = bytes) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            pq.write_table(table, path)
            path.write_bytes(change(path.read_bytes()))

        return write

    good = pa.table({"question": ["Who?"] * 50, "answers": [["Ada"]] * 50})
    yield "questions are numbers", of(pa.table({"question": [1, 2], "answers": [["a"], ["b"]]}))
    yield "questions are bytes", of(pa.table({"question": [b"\xff\xfe", b"Who?"], "answers": [["a"], ["b"]]}))
    yield "questions are objects", of(pa.table({"question": [{"text": "Who?"}], "answers": [["a"]]}))
    yield (
        "answers are times",
        of(pa.table({"question": ["When?"], "answers": pa.array([10**12], pa.timestamp("us"))})),
    )
    yield "answers are lists of lists", of(pa.table({"question": ["Who?"], "answers": [[["a"]]]}))
    yield "no rows", of(good.slice(0, 0))
    yield "no columns", of(pa.table({}))
    yield "cut", of(good, lambda content: content[: len(content) // 2])
    yield "magic bytes alone", of(good, lambda content: b"PAR1" * 2)
    yield "encrypted footer", of(good, lambda content: content[:-4] + b"PARE")
    yield "a footer of 2 GB", of(good, lambda content: content[:-8] + struct.pack("<i", 2**31 - 1) + b"PAR1")
    yield "a footer of noise", of(good, lambda content: content[:-60] + bytes(52) + content[-8:])
    yield "data of noise", of(good, lambda content: content[:4] + bytes(60) + content[64:])


def _answer_files() -> Iterator[tuple[str, str, str, Content]]:
    """(what, format, file, content) of answers of models."""
    yield "no column prediction", "table", "a.csv", b"id,question\n1,Who?\n"
    yield (
        "unknown and repeated questions",
        "table",
        "a.csv",
        b"id,question,prediction\n1,Who?,Ada\n1,Who?,Bo\n9,Why?,x\n",
    )
    yield "control characters in predictions", "table", "a.jsonl", (
        b'{"id": "1", "question": "Who?", "prediction": "\\u0000\\u001b[2J"}\n'
    )  # fmt: skip
    yield (
        "predictions that are lists",
        "table",
        "a.jsonl",
        b'{"id": "1", "question": "Who?", "prediction": ["a", {"b": 1}]}\n',
    )
    yield "a prediction of 10 MB", "table", "a.jsonl", (
        b'{"id": "1", "question": "Who?", "prediction": "' + b"x" * 10_000_000 + b'"}\n'
    )  # fmt: skip
    yield "negative tokens", "table", "a.csv", b"id,question,prediction,new_tokens\n1,Who?,Ada,-5\n"
    line: dict[str, Any] = {
        "doc_id": 0,
        "doc": {"id": "1", "question": "Who?"},
        "target": "Ada",
        "resps": [["Ada"]],
        "filtered_resps": ["Ada"],
    }
    changes: dict[str, dict[str, Any]] = {
        "doc is a text": {"doc": "Who?"},
        "resps are numbers": {"resps": 5, "filtered_resps": 7},
        "resps are empty": {"resps": [], "filtered_resps": []},
        "arguments are a number": {"arguments": 3},
        "choices of other lengths": {
            "doc": {"id": "1", "choices": ["a"]},
            "filtered_resps": [["-1.0", "True"], ["-2.0", "x"]],
        },
        "likelihoods are NaN": {
            "doc": {"id": "1", "choices": ["a", "b"]},
            "filtered_resps": [["nan", "True"], ["-2", "False"]],
        },
    }
    for what, change in changes.items():
        yield (
            f"lm_eval: {what}",
            "lm_eval",
            "samples_x.jsonl",
            json.dumps({**line, **change}).encode() + b"\n",
        )
    yield "lm_eval: not JSON", "lm_eval", "samples_x.jsonl", b"{'doc': 1}\n"
    yield "lm_eval: empty", "lm_eval", "samples_x.jsonl", b""
    for what, content in _inspect_logs():
        yield f"inspect: {what}", "inspect", "log.eval", content
    yield "inspect: JSON of another kind", "inspect", "log.json", b'{"version": 2, "samples": 5}'
    yield "inspect: JSON nested 100,000 deep", "inspect", "log.json", b"[" * 100_000
    for what, body in _bodies():
        response = b'{"custom_id": "1", "response": {"status_code": 200, "body": ' + body + b"}}\n"
        yield f"batch: {what}", "openai_batch", "batch.jsonl", response
    yield "result file: a name of no format", "adaptive_retrieval", "results.csv", b"id,question\n1,Who?\n"
    yield "result file: other columns", "adaptive_retrieval", (
        "model=m-input=None-method=vanilla-shots=15-n=2.csv"
    ), b"id,question\n1,Who?\n"  # fmt: skip


def _bodies() -> Iterator[tuple[str, bytes]]:
    """(what, body) of the response to the one request of a batch."""
    yield "a body nested 100,000 deep", b'{"choices": ' + b"[" * 100_000
    yield "100,000 choices", b'{"choices": [' + b",".join([b'{"text": "x"}'] * 100_000) + b"]}"
    yield "100,000 times <think>", b'{"choices": [{"text": "' + b"<think>" * 100_000 + b'"}]}'
    yield "100,000 times </think>", b'{"choices": [{"text": "' + b"x</think>" * 100_000 + b'"}]}'
    yield "a text of 10 MB", b'{"choices": [{"text": "' + b"x" * 10_000_000 + b'"}]}'
    yield "choices of every kind", b'{"choices": [null, 1, "x", [], {}, {"index": []}, {"message": 1}]}'
    yield "a web page", b'"<html>"'


def _inspect_logs() -> Iterator[tuple[str, Content]]:
    header = json.dumps({"version": 2, "status": "success", "eval": {}, "plan": {}, "results": {}}).encode()
    yield "no zip", b"not a zip"
    yield "an empty zip", _zip({})
    yield "paths that climb", _zip({"../../ran": b"x", "/tmp/ran": b"x", "header.json": header})
    yield "a header alone", _zip({"header.json": header})
    yield "samples of noise", _zip({"header.json": header, "samples/1_epoch_1.json": b"\xff" * 100})
    yield "a sample that is a list", _zip({"header.json": header, "samples/1_epoch_1.json": b"[1]"})
    yield "a zip bomb of 900 MB", functools.partial(_zip_bomb, header)
    yield "a zip, cut", lambda: (bomb := _zip_bomb(header))[: len(bomb) // 2]


@functools.cache
def _zip_bomb(header: bytes) -> bytes:
    return _zip(
        {"header.json": header, "samples/1_epoch_1.json": b'{"x":"' + b"x" * (900 * _MEBIBYTE) + b'"}'}
    )


def _collection_files() -> Iterator[tuple[str, str, str, bytes]]:
    """(what, format, file, content) of collections of passages."""
    dpr = b"id\ttext\ttitle\n1\tAda was a weaver.\tAda\n"
    yield "dpr: empty", "dpr", "p.tsv", b""
    yield "dpr: other columns", "dpr", "p.tsv", b"nummer\tText\n1\tx\n"
    yield "dpr: NUL and controls", "dpr", "p.tsv", dpr + b"2\tA\x00da \x1b[2J\tB\n"
    yield "dpr: an id twice", "dpr", "p.tsv", dpr + b"1\tother\tAda\n"
    yield "dpr: a passage of 10 MB", "dpr", "p.tsv", dpr + b"2\t" + b"x " * 5_000_000 + b"\tB\n"
    yield "dpr: a quotation mark that nobody closes", "dpr", "p.tsv", dpr + b'2\t"open\tB\n' * 2_000
    yield "dpr: a text that begins with a mark", "dpr", "p.tsv", dpr + b'2\t"B" is\tB\n3\tC\t"C" (x)\n'
    yield "dpr: rows or one cell", "dpr", "p.tsv", dpr + b'2\t"B\tB\n3\tC"\tC\n'
    yield (
        "dpr: a mark that is closed after 1 MB",
        "dpr",
        "p.tsv",
        dpr + b'2\t"B\tB\n' + b"3\tx y\tC\n" * 150_000 + b'4\tx"\tD\n',
    )
    yield (
        "pyserini: odd values",
        "pyserini",
        "p.jsonl",
        (
            b'{"id": null, "contents": "A\\nb"}\n{"id": "1", "contents": ["A"]}\n{"id": "2", "contents": "\\ud800\\nb"}\n'
            b'{"id": {}, "contents": 7}\n{"id": 3, "contents": "A\\nb"}\n'
        ),
    )
    yield "dpr: cut gzip", "dpr", "p.tsv.gz", gzip.compress(dpr * 500)[:-9]
    for format_ in ("articles", "atlas"):
        yield f"{format_}: not JSON", format_, "p.jsonl", b"<html>\n"
        yield (
            f"{format_}: numbers for texts",
            format_,
            "p.jsonl",
            b'{"id": 1, "title": 2, "text": 3, "section": 4}\n',
        )
        yield f"{format_}: a list", format_, "p.jsonl", b"[1, 2]\n"
        yield f"{format_}: a text of 10 MB", format_, "p.jsonl", (
            b'{"id": "1", "title": "t", "text": "' + b"word " * 2_000_000 + b'"}\n'
        )  # fmt: skip
        yield (
            f"{format_}: a title of 10 MB",
            format_,
            "p.jsonl",
            b'{"id":"1","text":"x","title":"' + b"t" * 10_000_000 + b'"}\n',
        )
    yield (
        "cirrus_search: pages without index lines",
        "cirrus_search",
        "p.json",
        b'{"title": "a", "text": "b"}\n' * 3,
    )
    yield "cirrus_search: index lines alone", "cirrus_search", "p.json", b'{"index": {"_id": "1"}}\n' * 3
    yield "cirrus_search: redirects that are numbers", "cirrus_search", "p.json", (
        b'{"index": {}}\n{"title": "a", "text": "b", "redirect": 5, "template": {"x": 1}}\n'
    )  # fmt: skip
    for what, content in _dumps():
        yield f"wikipedia_xml: {what}", "wikipedia_xml", "d.xml", content


def _dumps() -> Iterator[tuple[str, bytes]]:
    head = b'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">\n<siteinfo>'
    head += (
        b'<sitename>W</sitename><dbname>w</dbname><namespaces><namespace key="0"/></namespaces></siteinfo>\n'
    )
    page = (
        b"<page><title>%b</title><ns>0</ns><id>%d</id><revision><id>1</id><timestamp>2020-01-01T00:00:00Z</timestamp>"
        b"<text>%b</text></revision></page>\n"
    )
    good, end = page % (b"Ada", 1, b"Ada was a weaver in Lodz."), b"</mediawiki>\n"
    laughs = b'<!DOCTYPE l [<!ENTITY a "ha">' + b"".join(
        b'<!ENTITY %c "%b">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9)
    )
    yield "empty", b""
    yield "a web page", b"<html><body>503</body></html>"
    yield "a billion laughs", laughs + b"]>" + head + page % (b"B", 2, b"&j;") + good + end
    yield (
        "a file of the machine",
        b'<!DOCTYPE p [<!ENTITY f SYSTEM "file:///etc/passwd">]>' + head + page % (b"B", 2, b"&f;") + end,
    )
    yield "cut in mid-page", head + good * 3 + good[:60]
    yield "a page without a title", head + good + b"<page><ns>0</ns><id>3</id></page>" + good + end
    yield "a page that is not closed", head + good + b"<page><title>x</title>" + good + end
    yield "NUL and controls", head + good + page % (b"C\x00", 3, b"\x01\x02") + good + end
    yield "markup nested 20,000 deep", head + good + page % (b"D", 4, b"{{" * 20_000) + end
    yield (
        "links nested 5,000 deep",
        head + good + page % (b"E", 5, b"[[" * 5_000 + b"x" + b"]]" * 5_000) + end,
    )
    yield "a page of 10 MB", head + good + page % (b"F", 6, b"word " * 2_000_000) + end
    yield "another encoding", (head + good + end).decode().encode("utf-16")
    yield "ids that are no numbers", head + good.replace(b"<id>1</id>", b"<id>one</id>") + good + end


def _model_files() -> Iterator[tuple[str, str, Write]]:
    """(what, path in the study, writer) of models."""

    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    start = b"GGUF" + struct.pack("<I", 3)
    kind = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
    gguf = {
        "empty": b"",
        "a text": b"hello " * 100,
        "magic alone": b"GGUF",
        "an LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        "HTML": b"<!DOCTYPE html><html></html>",
        "a GGML file": b"tjgg" + bytes(500),
        "10^7 keys of 10 MB": start + struct.pack("<QQ", 0, 10**7) + bytes(10**7),
        "10^9 texts of 10 MB": start + struct.pack("<QQ", 0, 1) + text(b"k") + struct.pack("<IIQ", 9, 8, 10**9)
        + bytes(10**7),
        "version 99": b"GGUF" + struct.pack("<I", 99) + bytes(100),
        "2^63 keys": start + struct.pack("<QQ", 0, 1 << 63),
        "2^60 tensors": start + struct.pack("<QQ", _HUGE, 0),
        "a key of 2^60 bytes": start + struct.pack("<QQ", 0, 1) + struct.pack("<Q", _HUGE) + b"x" * 50,
        "a list of 2^60 numbers": start + struct.pack("<QQ", 0, 1) + text(b"k") + struct.pack("<IIQ", 9, 4, _HUGE),
        "lists nested 10,000 deep": start + struct.pack("<QQ", 0, 1) + text(b"k") + struct.pack("<I", 9)
        + struct.pack("<IQ", 9, 1) * 10_000,
        "a value of kind 77": start + struct.pack("<QQ", 0, 1) + text(b"k") + struct.pack("<I", 77) + bytes(50),
        "a tensor of 2^60 × 2^60": start + struct.pack("<QQ", 1, 1) + kind + text(b"t") + struct.pack("<I", 2)
        + struct.pack("<QQIQ", _HUGE, _HUGE, 0, 0) + bytes(64),
        "a tensor beyond the end": start + struct.pack("<QQ", 1, 1) + kind + text(b"t") + struct.pack("<I", 1)
        + struct.pack("<QIQ", 32, 0, 1 << 40) + bytes(64),
        "a tensor of 4,000 dimensions": start + struct.pack("<QQ", 1, 1) + kind + text(b"t") + struct.pack("<I", 4_000)
        + bytes(100),
        "no architecture": start + struct.pack("<QQ", 0, 0),
        "an architecture that nobody knows": start + struct.pack("<QQ", 0, 1)
        + text(b"general.architecture") + struct.pack("<I", 8) + text(b"__import__('os')") + bytes(64),
    }  # fmt: skip
    for what, content in gguf.items():
        yield f"gguf: {what}", "m.gguf", _bytes("m.gguf", content)
    yield "gguf: a link to itself", "m.gguf", lambda folder: (folder / "m.gguf").symlink_to(folder / "m.gguf")
    yield "gguf: a folder", "m.gguf", lambda folder: (folder / "m.gguf").mkdir()
    yield "gguf: a pipe", "m.gguf", lambda folder: os.mkfifo(folder / "m.gguf")
    for path in (
        "package:x/../../m.gguf",
        "package:os/../../../etc/passwd",
        "package:pip/../../../../../../etc/passwd",
    ):
        yield f"a path that climbs: {path}", path, lambda folder: None
    yield "a package that is not there", "package:no-such-package/m.gguf", lambda folder: None
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 8, "hidden_size": 8,
              "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}  # fmt: skip
    weights = {
        "weights of noise": b"\xff" * 200,
        "a header of 2^60 bytes": struct.pack("<Q", _HUGE) + b"{}",
        "a header that is no JSON": struct.pack("<Q", 4) + b"{{{{",
        "a tensor beyond the end": _safetensors(
            {"t": {"dtype": "F32", "shape": [8], "data_offsets": [0, 1 << 40]}}
        ),
        "an unknown type": _safetensors({"t": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}),
    }
    for what, content in weights.items():
        yield f"safetensors: {what}", "./m", _folder(config, {"model.safetensors": content})
    yield "config.json is no JSON", "./m", _folder(None, {"config.json": b"{", "model.safetensors": b"x"})
    yield (
        "config.json nested 100,000 deep",
        "./m",
        _folder(None, {"config.json": b"[" * 100_000, "model.safetensors": b"x"}),
    )
    yield (
        "an unknown kind of model",
        "./m",
        _folder({"model_type": "../../x"}, {"model.safetensors": _safetensors({})}),
    )
    code = {
        **config,
        "model_type": "mine",
        "auto_map": {"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.M"},
    }
    own = b"import os, pathlib\nos.mkdir(pathlib.Path(__file__).parent.parent / 'ran')\nclass C: pass\nclass M: pass\n"
    yield "code of its own", "./m", _folder(code, {"mine.py": own, "model.safetensors": _safetensors({})})
    for name in ("pytorch_model.bin", "model.pt"):
        yield f"a pickle as {name}", "./m", _pickled(config, name)


def _safetensors(header: dict[str, Any]) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


def _folder(config: dict[str, Any] | None, files: dict[str, bytes]) -> Write:
    def write(folder: Path) -> None:
        own = {} if config is None else {"config.json": json.dumps(config).encode()}
        for name, content in {**own, **files}.items():
            _bytes(f"m/{name}", content)(folder)

    return write


def _pickled(config: dict[str, Any], name: str) -> Write:
    def write(folder: Path) -> None:
        _folder(config, {name: pickle.dumps({"weight": _Bomb(folder)})})(folder)

    return write


def _checkpoints() -> Iterator[tuple[str, Write]]:
    yield (
        "a pickle that makes a folder",
        lambda folder: _bytes("c.pth.tar", pickle.dumps(_Bomb(folder)))(folder),
    )
    yield (
        "a zip with such a pickle",
        lambda folder: _bytes(
            "c.pth.tar",
            _zip({"archive/data.pkl": pickle.dumps({"model": _Bomb(folder)}), "archive/version": b"3\n"}),
        )(folder),
    )
    yield "noise", _bytes("c.pth.tar", bytes(range(256)) * 20)
    yield "empty", _bytes("c.pth.tar", b"")
    yield "a zip without tensors", _bytes("c.pth.tar", _zip({"x": b"y"}))


def _portraits() -> Iterator[tuple[str, Write]]:
    yield "no file", lambda folder: (folder / "portrait").mkdir()
    for what, content in {
        "empty": b"",
        "noise": bytes(range(256)) * 40,
        "a header without an end": b"x" * 10_000,
        "a header of other keys": b'longtail portrait 2\n{"plan": {}}\n'.ljust(4_096) + bytes(64),
        "a header of huge numbers": (
            b'longtail portrait 2\n{"plan": {"n_grams": 1e400, "n_parts": 1e300, "part_words": -1}}\n'.ljust(
                4_096
            )
        ),
    }.items():
        yield what, _bytes("portrait/00000.portrait", content)


def _pararel() -> Iterator[tuple[str, Write]]:
    pattern = b'{"pattern": "[X] was born in [Y].", "lemma": "born", "extended_lemma": "born-in", "tense": "past"}\n'
    fact = b'{"sub_label": "Ada", "obj_label": "Lodz", "uuid": "1"}\n'

    def of(patterns: bytes | None, facts: bytes | None) -> Write:
        def write(folder: Path) -> None:
            for name, content in (("graphs_json", patterns), ("trex_lms_vocab", facts)):
                (folder / "p" / name).mkdir(parents=True)
                if content is not None:
                    (folder / "p" / name / "P19.jsonl").write_bytes(content)

        return write

    yield "a pattern without [Y]", of(pattern + b'{"pattern": "[X] was born."}\n', fact)
    yield "only patterns without [Y]", of(b'{"pattern": "[X] was born."}\n', fact)
    yield "[X] twice and [Y] twice", of(pattern + b'{"pattern": "[X] [X] [Y] [Y]"}\n', fact)
    yield "patterns that are numbers", of(pattern + b'{"pattern": 5}\n', fact)
    yield "patterns that are not JSON", of(b"[X] was born in [Y].\n", fact)
    yield "facts without an object", of(pattern, fact + b'{"sub_label": "Bo", "uuid": "2"}\n')
    yield "a uuid twice", of(pattern, fact + fact.replace(b"Ada", b"Bo"))
    yield "no facts", of(pattern, b"")
    yield "no file of facts", of(pattern, None)
    yield (
        "subjects of placeholders",
        of(pattern, fact + b'{"sub_label": "[Y]", "obj_label": "[X]", "uuid": "3"}\n'),
    )


def _popqas() -> Iterator[tuple[str, str, Write]]:
    """(what, door, writer) of PopQA's own files."""

    def changed(**change: str) -> Write:
        def write(folder: Path) -> None:
            rows = popqa_rows(n=3)
            rows[1] |= change
            write_popqa(folder / "popqa.tsv", rows)

        return write

    yield "answers that are no list", "questions", changed(possible_answers="Ada")
    yield "answers nested 100,000 deep", "questions", changed(possible_answers="[" * 100_000)
    yield "popularity that is no number", "questions", changed(s_pop="many")
    yield "popularity of 10^400", "questions", changed(s_pop="1e400")
    yield "an id twice", "questions", changed(id=popqa_rows(n=1)[0]["id"])
    yield "an address that is no item", "questions", changed(s_uri="javascript:alert(1)")

    def paraphrases(content: bytes) -> Write:
        def write(folder: Path) -> None:
            changed()(folder)
            (folder / "tp.csv").write_bytes(content)

        return write

    head = b"id,template_id,paraphrase,prop,possible_answers\n"
    yield "paraphrases of unknown questions", "paraphrases", paraphrases(head + b"9,1,Who?,author,[]\n")
    yield (
        "template ids that are no numbers",
        "paraphrases",
        paraphrases(head + b"400000,first,Who?,occupation,[]\n"),
    )
    yield "paraphrases without columns", "paraphrases", paraphrases(b"a,b\n1,2\n")


def _cases() -> Iterator[Case]:
    for what, file, content in _tables():
        yield Case(f"table: {what}", "questions", "table", file, _bytes(file, content))
    yield Case("table: a folder", "questions", "table", "q.csv", lambda folder: (folder / "q.csv").mkdir())
    yield Case("table: a pipe", "questions", "table", "q.csv", lambda folder: os.mkfifo(folder / "q.csv"))
    for what, write in _parquets():
        put = lambda folder, write=write: write(folder / "q.parquet")  # noqa: E731
        yield Case(f"parquet: {what}", "questions", "table", "q.parquet", put)
    for format_, end in (("hotpotqa", "json"), ("eli5", "jsonl")):
        for what, content in {
            "empty": b"",
            "numbers": b"5",
            "other keys": b'[{"a": 1}]',
            "cut": b'[{"_id": "1", ',
        }.items():
            yield Case(f"{format_}: {what}", "questions", format_, f"q.{end}", _bytes(f"q.{end}", content))
    for what, content in {"a text": b'"x"', "numbers": b"[1, 2]", "cut": b'[{"question": "Wh'}.items():
        yield Case(
            f"entity_questions: {what}",
            "questions",
            "entity_questions",
            "e",
            _bytes("e/test/P19.test.json", content),
        )
    for what, write in _pararel():
        yield Case(f"pararel: {what}", "questions", "pararel", "p", write)
    for what, door, write in _popqas():
        file, format_ = ("popqa.tsv", "popqa") if door == "questions" else ("tp.csv", "popqa_tp")
        yield Case(f"popqa: {what}", door, format_, file, write)
    for what, format_, file, content in _answer_files():
        yield Case(f"answers: {what}", "answers", format_, file, _bytes(file, content))
    for what, format_, file, content in _collection_files():
        yield Case(what, "collection", format_, file, _bytes(file, content))
    for what, path, write in _model_files():
        yield Case(f"model: {what}", "model", "", path, write)
    for what, write in _checkpoints():
        yield Case(f"checkpoint: {what}", "checkpoint", "", "c.pth.tar", write)
    for what, write in _portraits():
        yield Case(f"portrait: {what}", "portrait", "", "portrait", write)


CASES = tuple(_cases())
