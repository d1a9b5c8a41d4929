"""From a Wikipedia XML dump to answers of BM25: seconds and memory of each step, in one process.

    python -m benchmarks.wiki_dump --passages 3000000 --folder DISK

The sandbox writes the dump (several articles a page, as sections), as multi-stream bzip2. Then the steps are those of a
study: collection, sorted shards, index, search. `recall_at_1` and `recall_at_20`: how many of the world's questions find
a passage with an answer. `peak_mb` is the most memory of this process, pages of mapped files included, `peak_child_mb`
that of a process that reads wikitext or counts tokens, and `peak_all_mb` that of all processes together, looked at five
times a second.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from benchmarks.generated_wiki import page_lines, write_dump
from benchmarks.harness import last_line, machine
from benchmarks.memory import Memory
from benchmarks.retrieval_process import K, search, timed
from longtail.errors import LongtailError
from longtail.retrieval.base import Hit
from longtail.retrieval.indexes import build_index
from longtail.retrieval.passages import build_passages
from longtail.retrieval.stored_passages import open_passages
from longtail.sandbox.world import World, WorldEntity
from longtail.scoring.match import has_answer
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.threads import thread_count

_LOG = logging.getLogger("longtail.benchmark")
_ARTICLES_PER_FACT = 7.4  # articles of a world with one more fact per relation
_DUMP = "enwiki-pages-articles-multistream.xml.bz2"
_STUDY = f"""
name: wiki_dump
description: A dump that the sandbox writes
datasets: [{{name: asked, import: {{format: table, path: asked.csv}}}}]
prompts: [{{name: plain}}]
models: [{{name: fake, path: "fake:echo", backend: fake}}]
methods: [bm25]
popularity: {{measure: imported}}
collections:
  - {{name: wiki, format: wikipedia_xml, path: {_DUMP}, source: the sandbox, date: 2026-10-01, licence: CC0}}
"""


def main() -> None:
    """Run all steps once; the last line is JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=1_000)
    parser.add_argument("--per-page", type=int, default=10, help="articles a page")
    parser.add_argument(
        "--folder", type=Path, help="where the dump, the lake and the index stand for a while"
    )
    chosen = parser.parse_args()
    if chosen.folder:
        chosen.folder.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    print(machine("mwxml", "mwparserfromhell", "bm25s"), f"{thread_count()} threads", flush=True)
    with tempfile.TemporaryDirectory(prefix="longtail-wiki-", dir=chosen.folder) as name:
        folder = Path(name)
        os.environ["LONGTAIL_HOME"] = str(folder / "home")
        world = World(0, round(chosen.passages / _ARTICLES_PER_FACT) + 8)
        with Memory() as memory:
            told = _steps(folder, world, chosen.questions, chosen.per_page)
        last_line({**told, "peak_child_mb": memory.of_a_child, "peak_all_mb": memory.of_all})


def _steps(folder: Path, world: World, n_questions: int, per_page: int) -> dict[str, float]:
    told: dict[str, float] = {}
    asked = _questions(world, n_questions)
    (folder / "asked.csv").write_text("question,answer\nWho?,Ann\n", encoding="utf-8")
    (folder / "study.yaml").write_text(_STUDY, encoding="utf-8")
    study = load_study(folder / "study.yaml")
    lake = Lake(study.home.lake)
    lake.write("entities", [], fingerprint="none")
    timed(told, "dump_s", lambda: write_dump(page_lines(world, per_page), folder / _DUMP))
    told["dump_mb"] = (folder / _DUMP).stat().st_size / 1e6
    timed(told, "collect_s", lambda: build_passages(study, lake, _LOG))
    passages = timed(told, "sort_s", lambda: open_passages(lake, study.home.indexes, _LOG))
    told["n_passages"] = len(passages)
    timed(told, "build_s", lambda: build_index(study, lake, "bm25", _LOG))
    timed(told, "load_s", lambda: search(study, lake, [question for question, _ in asked[:1]]))
    found: list[list[Hit]] = timed(told, "search_s", lambda: search(study, lake, [one for one, _ in asked]))
    texts = passages.texts({hit.passage_id for hits in found for hit in hits})
    for k in (1, K):
        right = [
            any(has_answer(texts[hit.passage_id], golds) for hit in hits[:k])
            for hits, (_, golds) in zip(found, asked, strict=True)
        ]
        told[f"recall_at_{k}"] = sum(right) / len(right)
    told["lake_mb"] = lake.path("passages").stat().st_size / 1e6
    told["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return told


def _questions(world: World, n: int) -> list[tuple[str, list[str]]]:
    """Questions about entities with an article, spread over the world, and their answers."""
    facts = (
        fact
        for entity in _some_entities(world, max(world.n_entities // (4 * n), 1))
        if entity.article_title
        for fact in world.facts_about(entity.entity_id)[:1]
    )
    return [
        (
            fact.relation.question(world.label_of(fact.subject_id)),
            [world.label_of(one) for one in fact.object_ids],
        )
        for fact in islice(facts, n)
    ]


def _some_entities(world: World, step: int) -> Iterator[WorldEntity]:
    """Every `step`-th entity, as far as there are such."""
    first = int(next(world.entities()).entity_id[1:])
    for number in range(first, first + world.n_entities, step):
        with suppress(LongtailError):
            yield world.entity(f"Q{number}")


if __name__ == "__main__":
    main()
