"""The second page, `answers.html`: every answer of a published warehouse, to filter and to open.

An index has what the list and its filters need: columns of questions, and columns of answers with the `place` of their
question. Shards have the rest, for some answers each: prompts, passages, raw texts, scores. Index and shards are gzipped
JSON. A page has those of at most `MOST_INSIDE` answers in itself; those of a larger study are files beside it, which it
loads when it needs them.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb

from longtail.report.figure import Column
from longtail.report.page import ANSWERS, encode, render
from longtail.report.published import select, select_columns
from longtail.storage.checksums import record_files
from longtail.storage.files import atomic_file
from longtail.threads import map_in_order, thread_count
from longtail.warehouse.publication import record_of

MOST_INSIDE = 40_000
LONGEST = 20_000
_PER_SHARD = 2_000
_READ_AT_ONCE = 20_000
"""Answers whose prompts are built by one query: most of its time is the same for one answer as for these."""
_SCORES = tuple(Column(name, label, kind) for name, label, kind in (
    ("is_correct", "right, by PopQA's rule", "flag"), ("is_correct_case_sensitive", "right, case-sensitive", "flag"),
    ("is_correct_normalized", "right, normalised", "flag"), ("is_exact_match", "exact match", "flag"),
    ("token_f1", "token F1", "share"), ("rouge_l", "ROUGE-L", "share"), ("confidence", "confidence", "share"),
    ("least_probability", "least probability of a token", "share"), ("has_answer", "a passage has a gold answer", "flag"),
    ("prompt_tokens", "tokens of the prompt", "count"), ("n_truncated_tokens", "tokens cut off the prompt", "count"),
    ("new_tokens", "new tokens", "count"), ("latency_ms", "latency (ms)", "number"), ("cost_usd", "cost (USD)", "number"),
    ("engine", "engine", "text"), ("revision", "revision", "text"),
))  # fmt: skip
_WORDS = ("dataset", "relation", "prompt", "model", "method", "prediction")
_QUESTIONS = """select dataset, question_id, any_value(left(question, 1000)) as question, any_value(relation) as relation,
    any_value(list_transform(gold_answers[:20], lambda gold: left(gold, 200))) as gold_answers,
    any_value(subject_popularity) as popularity
from marts.fct_answers group by dataset, question_id order by dataset, question_id"""
_ANSWERS = """with asked as (
    select dataset, question_id, model, avg(scons) as consistency from marts.fct_question_consistency group by all
)
select dense_rank() over (order by dataset, question_id) - 1 as place, answers.prompt, model, answers.method,
    is_correct::integer as is_correct, round(confidence, 6) as confidence, round(consistency, 6) as consistency,
    left(prediction, 200) as prediction
from marts.fct_answers as answers left join asked using (dataset, question_id, model)
order by dataset, question_id, prompt, model, method"""
_SLICES = """with counted as (select dataset, question_id, count(*) as n from marts.fct_answers group by all),
placed as (select *, (sum(n) over (partition by dataset order by question_id) - n) // $n as slice from counted)
select dataset, min(question_id) as first, max(question_id) as last
from placed group by dataset, slice order by dataset, first"""
_OF_SLICE = "dataset = $dataset and question_id between $first and $last"
_DETAILS = f"""with prompts as (select * from marts.fct_prompts where table_name = 'answers' and {_OF_SLICE})
select {", ".join(f"answers.{column.name}" for column in _SCORES)}, answers.passage_ids,
    left(answers.raw_text, $longest) as raw_text, length(answers.raw_text) as raw_text_length, prompts.is_exact,
    left(prompts.prompt_text, $longest) as prompt_text, length(prompts.prompt_text) as prompt_length,
    list_transform(prompts.passages_apart, lambda passage: left(passage, $longest)) as apart
from marts.fct_answers as answers
left join prompts using (dataset, question_id, prompt, model, method)
where {_OF_SLICE}
order by dataset, question_id, prompt, model, method"""  # noqa: S608
_PASSAGES = f"""with read_passages as (
    select distinct unnest(passage_ids) as passage_id from marts.fct_answers where {_OF_SLICE}
)
select passage_id, title, left(text, $longest) as text, concat_ws(' · ', collection_source, licence, url) as origin
from marts.dim_passages inner join read_passages using (passage_id)
union all
select passage_id, null, left(text, $longest), 'written by model ' || model
from marts.fct_generated_passages where {_OF_SLICE}"""  # noqa: S608


def write_answers(connection: duckdb.DuckDBPyConnection, head: Mapping[str, Any], target: Path) -> Path:
    """Write the page to `target`, and what it loads to the folder of that name without suffix. Errors: `LakeError`.

    `head`: what both pages say of the study. Files beside the page have the names of their contents. They are written
    before the page, and those of an earlier page are removed after it.
    """
    with _no_garbage_collection():
        return _write_answers(connection, head, target)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Python's search for rings of objects, of which there are none here: it would go through millions of values again
    and again, a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _write_answers(connection: duckdb.DuckDBPyConnection, head: Mapping[str, Any], target: Path) -> Path:
    index = {"questions": _columns(connection, _QUESTIONS), "answers": _columns(connection, _ANSWERS)}
    n_answers = len(index["answers"]["place"])
    folder, inside, beside = target.with_suffix(""), dict[str, str](), set[Path]()

    def keep(packed: bytes) -> str:
        name = hashlib.sha256(packed).hexdigest()[:16]
        if n_answers > MOST_INSIDE:
            beside.add(folder / f"{name}.bin")
            with atomic_file(folder / f"{name}.bin") as temporary:
                temporary.write_bytes(packed)
        else:
            inside[name] = base64.b64encode(packed).decode()
        return name

    slices = connection.execute(_SLICES, {"n": _READ_AT_ONCE}).fetchall()
    shards = chain.from_iterable(_shards(connection, *bounds) for bounds in slices)
    packed_shards = map_in_order(_pack_shard, shards, thread_count())  # while others are read
    payload = {
        **head,
        "index": keep(_pack(index)),
        "shards": [{"name": keep(packed), "n": n} for packed, n in packed_shards],
        "n_answers": n_answers,
        "longest": LONGEST,
        "scores": [vars(column) for column in _SCORES],
        "parts": inside,
    }
    with atomic_file(target) as temporary:
        temporary.write_text(render(payload, ANSWERS, "'self'" if beside else ""), encoding="utf-8")
    for stale in set(folder.glob("*.bin")) - beside:
        stale.unlink()
    record_files(record_of(target), [target, *sorted(beside)])
    return target


def _pack(content: Any) -> bytes:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return gzip.compress(text.encode(), 6, mtime=0)


def _pack_shard(shard: Mapping[str, Any]) -> tuple[bytes, int]:
    """The shard, and the number of its answers."""
    return _pack(shard), len(shard["answers"]["raw_text"])


def _columns(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    _, columns = select_columns(connection, sql)
    return {name: encode(values) if name in _WORDS else values for name, values in columns.items()}


def _shards(
    connection: duckdb.DuckDBPyConnection, dataset: str, first: str, last: str
) -> Iterator[dict[str, Any]]:
    """The shards of a slice of questions."""
    bounds = {"dataset": dataset, "first": first, "last": last, "longest": LONGEST}
    passages = {row["passage_id"]: row for row in select(connection, _PASSAGES, bounds)[2]}
    _, columns = select_columns(connection, _DETAILS, bounds)
    for at in range(0, len(columns["raw_text"]), _PER_SHARD):
        yield _shard({name: values[at : at + _PER_SHARD] for name, values in columns.items()}, passages)


def _shard(
    columns: Mapping[str, Sequence[Any]], passages_by_id: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Texts, passages and answers. Prompts share most of their blocks, so each distinct block stands once."""
    blocks: dict[str, int] = {}
    numbers: dict[str, int] = {}

    def places(text: str | None) -> list[int] | None:
        return None if text is None else [blocks.setdefault(item, len(blocks)) for item in text.split("\n\n")]

    names = ("raw_text_length", "prompt_length", "is_exact", *(column.name for column in _SCORES))
    texts = zip(columns["prompt_text"], columns["apart"], strict=True)
    answers = {
        "prompts": [[places(text) for text in (prompt, *(apart or ()))] for prompt, apart in texts],
        "raw_text": [places(text) for text in columns["raw_text"]],
        "passages": [
            [numbers.setdefault(item, len(numbers)) for item in ids or ()] for ids in columns["passage_ids"]
        ],
        **{name: columns[name] for name in names},
    }
    known = [(name, passages_by_id.get(name, {})) for name in numbers]
    passages = [
        [name, item.get("title"), item.get("origin"), places(item.get("text"))] for name, item in known
    ]
    return {"texts": list(blocks), "passages": passages, "answers": answers}
