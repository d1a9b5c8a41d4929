"""A sample of a world's facts, from dumps to questions: counts before and after, time and memory of each stage.

What belongs here: making the dumps (not timed), running the stages, the tables. What does not: the stages.

The facts come in one dump that also has articles and numbers of sitelinks, like Wikidata's dump of everything. With
`--served` they come in the dumps that the sandbox serves. Like Wikimedia's truthy dumps these have neither, so that
every entity is requested over HTTP. Making and downloading them is then part of the stages.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import last_line, machine, say, table
from dagster_project.core.questions.build import build_questions
from dagster_project.core.questions.candidates import sample_facts
from dagster_project.core.questions.frequencies import measure_frequencies
from dagster_project.core.questions.sampling import OUTCOMES
from dagster_project.core.sandbox.dumps import page_view_lines, write_dump
from dagster_project.core.sandbox.rdf import write_ntriples
from dagster_project.core.sandbox.world import World
from dagster_project.core.storage.lake import Lake, Outcome
from dagster_project.core.study.file import load_study
from dagster_project.core.study.study import Study
from dagster_project.core.wikimedia.dump_store import cached_page_view_dump, cached_truthy_dump
from dagster_project.core.wikimedia.ingest import ingest_entities, ingest_triples
from dagster_project.core.wikimedia.page_views import ingest_page_view_months

MONTH = "2026-10"
_STUDY = """
name: sampled
description: A sample of a large world
source:
  kind: sandbox
  facts_per_relation: {size}
  snapshot: "{month}"
  facts_from: truthy_dump
  views_from: dump
  sample: {{{sample}, per_relation: {cap}}}
datasets: [{{name: sandbox}}]
prompts: [{{name: zero_shot}}]
models: [{{name: none, path: none, backend: fake}}]
methods: [closed_book]
popularity: {{measure: page_views, n_months: 1, last_month: "{month}", redirects: ignore}}
"""
Stage = Callable[[Study, Lake, logging.Logger], Outcome]


def _page_views(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    return ingest_page_view_months(study, lake, [MONTH], log)[0]


STAGES: tuple[tuple[str, Stage], ...] = (
    ("facts", ingest_triples),
    ("entities", ingest_entities),
    ("frequencies", measure_frequencies),
    ("sample", sample_facts),
    ("questions", build_questions),
    ("page views for the questions", _page_views),
)


def main() -> None:
    """Run all stages once; the last line is JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--facts-per-relation", type=int, default=62_500, help="questions per relation")
    parser.add_argument("--per-relation", type=int, default=2_000, help="facts kept per relation")
    parser.add_argument("--served", action="store_true", help="use the dumps that the sandbox serves")
    parser.add_argument(
        "--text", type=Path, help="file or folder of text in which names are counted, instead of page views"
    )
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="longtail-sampling-") as folder:
        os.environ["LONGTAIL_HOME"] = folder
        study = _study(Path(folder), chosen)
        if not chosen.served:
            _make_dumps(study)
        lake = Lake(study.home.lake)
        lake.ensure_schemas()
        seconds = _run(study, lake)
        _print_counts(lake)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    last_line({**{f"{name.split()[0]}_s": s for name, s in seconds.items()}, "peak_mb": peak})


def _study(folder: Path, chosen: argparse.Namespace) -> Study:
    by_text = f"frequency: text, text: {str(chosen.text and chosen.text.resolve())!r}"
    sample = by_text if chosen.text else f'frequency: popularity, month: "{MONTH}"'
    path = folder / "study.yaml"
    path.write_text(
        _STUDY.format(size=chosen.facts_per_relation, cap=chosen.per_relation, sample=sample, month=MONTH),
        encoding="utf-8",
    )
    return load_study(path)


def _make_dumps(study: Study) -> None:
    source, home = study.source, study.home
    world = World(source.seed, source.facts_per_relation)
    facts = cached_truthy_dump(source, home)
    facts.parent.mkdir(parents=True)
    say("writing the world's facts …")
    write_ntriples(world, facts)
    say("writing its page views …")
    write_dump(page_view_lines(world, MONTH), cached_page_view_dump(source, home, MONTH))


def _run(study: Study, lake: Lake) -> dict[str, float]:
    log = logging.getLogger("longtail.benchmark")
    seconds: dict[str, float] = {}
    rows = []
    for name, stage in STAGES:
        say(f"{name} …")
        began, began_cpu = time.perf_counter(), time.process_time()
        outcome = stage(study, lake, log)
        seconds[name] = time.perf_counter() - began
        cpu = time.process_time() - began_cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append((name, f"{outcome.stamp.n_rows:,}", f"{seconds[name]:.1f}", f"{cpu:.1f}", f"{peak:.0f}"))
    print(machine("pyarrow", "numpy", "ahocorasick_rs"))
    table("Stages", ("stage", "rows", "seconds", "of them CPU", "peak MB so far"), rows)
    return seconds


def _print_counts(lake: Lake) -> None:
    columns = lake.read("candidate_triples", columns=["relation", "outcome"]).to_pydict()
    counts = Counter(zip(columns["relation"], columns["outcome"], strict=True))
    questions = Counter(lake.read("questions", columns=["relation"])["relation"].to_pylist())
    rows = []
    for relation in sorted(questions):
        of = [counts[relation, outcome] for outcome in OUTCOMES]
        rows.append((relation, *(f"{n:,}" for n in (sum(of), *of, questions[relation]))))
    total = [sum(counts[relation, outcome] for relation in questions) for outcome in OUTCOMES]
    rows.append(("all", *(f"{n:,}" for n in (sum(total), *total, questions.total()))))
    table("Facts before and after", ("relation", "candidates", *OUTCOMES, "questions"), rows)


if __name__ == "__main__":
    main()
