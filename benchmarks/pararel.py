"""How fast cloze queries are answered (SPEC §8), by a decoder-only model and by Fusion-in-Decoder, and then measured.

    python -m benchmarks.pararel --full

- `scoring_ratio`: the candidates of cloze queries, scored by the task that fills lake table candidate_answers, through
  row cache and lake. Its peer is transformers, with a forward pass for each candidate.
- `fid_ratio`: the candidates of queries with 20 passages each, scored by backend fusion_in_decoder. Its peer is
  transformers, one query at a time: it encodes the passages once, and each candidate's forward pass reads the same
  fused states. The model has T5-small's shape and RANDOM WEIGHTS. A table also shows short generated texts.
- `measures_s`: dbt's models that measure factual consistency, and the bootstrap between them, on 177,027 generated
  predictions, as many as ParaRel's shipped files ask for. `peak_mb`: peak memory of that process and its largest child.

A time counts only if the scores equal the peer's. A peer gets a part of the queries, since it is slow. Ratios are those
of processor seconds, because other work on the machine must not count; the tables have both.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fusion import race_fusion
from benchmarks.generated_pararel import (
    METHOD,
    MODEL,
    PARAREL,
    Row,
    write_inputs,
    write_predictions,
    write_study,
)
from benchmarks.harness import Contestant, last_line, machine, race, spread, table
from benchmarks.peers import Transformers
from benchmarks.prompts import candidates
from benchmarks.shapes import T5_SMALL, TINY_T5
from benchmarks.warehouse import Step, timed_step
from longtail.generation.engine.partition import generate
from longtail.generation.engine.session import ModelSession
from longtail.generation.tasks.registry import TASKS
from longtail.prompt_formats import CLOZE_PREFIX, CLOZE_T5
from longtail.relations.cloze import prefix_of
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.model_files import reference_model_path
from longtail.study.study import Study
from longtail.threads import thread_count
from longtail.warehouse.build import dbt_command

_LOG = logging.getLogger("longtail.benchmark")
_REFERENCE = "l"
_ALLOWED_NATS = 0.01
_ANSWERS = "int_candidate_answers"
_FACTS = (_ANSWERS, "int_pattern_agreement", "int_fact_agreement", "int_fact_measures")
_INTERVALS = "int_factual_consistency_intervals"
_MARTS = (
    *("fct_factual_consistency", "fct_fact_agreement"),
    *("fct_factual_consistency_by_popularity", "fct_pattern_effects"),
)


def race_scoring(
    folder: Path, n_patterns: int, n_candidates: int, n_peer: int, rounds: int
) -> list[Contestant]:
    """Longtail's task and transformers' loop over candidates, on reference model L; as many facts as candidates."""
    names = [label.strip() for label in candidates(n_candidates)]
    shape = (n_patterns, n_candidates, n_candidates)
    write_study(folder, [shape], names, CLOZE_PREFIX, {"path": f"sandbox:{_REFERENCE}"})
    homes = [f"home_{number}" for number in range(rounds + 1)]  # each has a row cache of its own
    for home in homes:
        write_inputs(_study(folder, home), _LOG)
    waiting = iter(homes)
    peer = Transformers(reference_model_path(_REFERENCE))
    with ModelSession(_LOG) as session:

        def ours() -> list[Row]:
            return _scored(_study(folder, next(waiting)), session)

        rows = ours()  # it loads the model, and says what the peer is to score
        some = rows[:: max(1, len(rows) // n_peer)][:n_peer]
        targets = [f" {name}" for name in sorted(names)]

        def theirs() -> list[Row]:
            scores = peer.score_each([row["text"] for row in some], targets)
            return [{**row, "log_likelihood": max(own)} for row, own in zip(some, scores, strict=True)]

        contestants = [
            Contestant("Longtail, through row cache and lake", ours, len(rows)),
            Contestant("transformers, a forward pass a candidate", theirs, len(some)),
        ]
        reference = {row["prompt_hash"]: row["log_likelihood"] for row in theirs()}
        race(contestants, rounds, lambda name, made: _check(name, made, reference))
    return contestants


def _study(folder: Path, home: str) -> Study:
    os.environ["LONGTAIL_HOME"] = str(folder / home)
    return load_study(folder / "study.yaml")


def _scored(study: Study, session: ModelSession) -> list[Row]:
    """The rows that the task writes, each with the text that the model read."""
    lake = Lake(study.home.lake)
    session.backend(study.models[0]).forget()
    task = TASKS["candidate_answers"]
    generate(task, study, lake, MODEL, METHOD, session=session, run_id="benchmark", log=_LOG)
    wordings = {
        (row["question_id"], row["paraphrase_id"]): prefix_of(row["paraphrase"])
        for row in lake.read("paraphrases").to_pylist()
    }
    rows = lake.read_all("candidate_answers").to_pylist()
    return [{**row, "text": wordings[row["question_id"], row["paraphrase_id"]]} for row in rows]


def _check(name: str, made: Sequence[Row], reference: dict[str, float]) -> None:
    compared = [row for row in made if row["prompt_hash"] in reference]
    furthest = max(abs(row["log_likelihood"] - reference[row["prompt_hash"]]) for row in compared)
    if len(compared) < len(reference) or furthest > _ALLOWED_NATS:
        raise SystemExit(f"error: {name}: a score is {furthest:.4f} nats from its own forward pass")


def predicted(folder: Path, every: int) -> int:
    """Write the lake and build the models before the measures; returns the predictions. `every`: every n-th fact."""
    labels = [f"object {i}" for i in range(max(n for *_, n in PARAREL))]
    relations = [(n_patterns, n_facts // every, n) for n_patterns, n_facts, n in PARAREL]
    study = write_study(folder, relations, labels, CLOZE_T5, {"path": "none", "backend": "fake"})
    n = write_predictions(study, write_inputs(study, _LOG))
    _dbt(study, *(f"+{_ANSWERS}", "+int_question_bins", "+int_majority_answers"), "--exclude", _ANSWERS)
    return n


def measured(folder: Path) -> Row:
    """dbt's seconds for the facts' own models, for the bootstrap, and for the marts."""
    study = load_study(folder / "study.yaml")
    parts = {"dbt, what a fact adds": _FACTS, "bootstrap": (_INTERVALS,), "dbt, marts": _MARTS}
    return {name: _dbt(study, *models) for name, models in parts.items()}


def _dbt(study: Study, *selected: str) -> float:
    """Run these models; the seconds from the first one's start to the last one's end. A failure ends the benchmark."""
    done = dbt_command(study, ["run", "--select", *selected])
    if done.returncode:
        sys.exit(f"dbt failed:\n{done.stdout[-3000:]}")
    results = json.loads((study.home.build / "dbt" / "target" / "run_results.json").read_text("utf-8"))
    return float(results["elapsed_time"])


def main() -> None:
    """Print tables for people and, as the last line, JSON for machines."""
    chosen = _options()
    import torch

    torch.set_num_threads(thread_count())
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with tempfile.TemporaryDirectory(prefix="longtail-pararel-") as name:
        folder = Path(name)
        made = timed_step("generate predictions", predicted, folder / "measures", chosen.every)
        step = timed_step("measure them", measured, folder / "measures")
        n_patterns, n_peer = (3, 16) if chosen.full else (1, 5)
        scoring = race_scoring(folder / "scoring", n_patterns, chosen.candidates, n_peer, chosen.rounds)
        n, n_fused = (8, 2) if chosen.full else (3, 1)
        names = [label.strip() for label in candidates(chosen.fused)]
        shape = TINY_T5 if chosen.tiny else T5_SMALL
        fused = race_fusion(shape, folder / "t5", n, names, n_fused, chosen.rounds)
    _show_measures(made.found, step)
    _show(f"Queries with {chosen.candidates} candidates, reference model {_REFERENCE.upper()}", scoring)
    reader = f"{shape.name}'s shape, {fused.n_parameters / 1e6:.0f} million RANDOM WEIGHTS, 20 passages"
    _show(f"Queries with {chosen.fused} candidates, {reader}", fused.scoring)
    _show(f"Greedy texts, {reader}", fused.generating)
    print(
        f"\n{machine('torch', 'transformers', 'duckdb', 'dbt-core', 'numpy')}, {thread_count()} threads. "
        f"{chosen.rounds} rounds; seconds are medians."
    )
    last_line({
        "scoring_ratio": _ratio(*scoring), "fid_ratio": _ratio(*fused.scoring),
        "measures_s": sum(step.found.values()), "peak_mb": step.peak_mb,
    })  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.pararel", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="more queries, for the record")
    parser.add_argument("--candidates", type=int, default=200, help="candidates of a query without passages")
    parser.add_argument("--fused", type=int, default=96, help="candidates of a query with passages")
    parser.add_argument("--tiny", action="store_true", help="a tiny reader, to test the code")
    parser.add_argument("--every", type=int, default=1, help="measure every n-th fact")
    parser.add_argument("--rounds", type=int, default=1)
    return parser.parse_args()


def _ratio(ours: Contestant, peer: Contestant) -> float:
    """How many times as many queries a second of the processor."""
    return (ours.n / ours.processor_median) / (peer.n / peer.processor_median)


def _show(title: str, contestants: Sequence[Contestant]) -> None:
    rows = [
        (one.name, f"{one.n:,}", f"{one.processor_median:.2f}", f"{one.median:.2f}", spread(one),
         f"{one.n / one.processor_median:.3f}")
        for one in contestants
    ]  # fmt: skip
    header = ("contestant", "queries", "processor s", "seconds", "range", "queries per processor s")
    table(title, header, rows)
    ours, peer = contestants
    of_clock = (ours.n / ours.median) / (peer.n / peer.median)
    print(f"Longtail is {_ratio(ours, peer):.1f} times as fast, by the clock {of_clock:.1f} times.")


def _show_measures(n: int, step: Step) -> None:
    rows = [(name, f"{seconds:.1f}") for name, seconds in step.found.items()]
    table(f"{n:,} predictions", ("step", "seconds"), rows)
    print(
        f"With the starts of dbt: {step.seconds:.1f} s, {step.cpu_s:.1f} s of the processor. Peak {step.peak_mb:,.0f} MB."
    )


if __name__ == "__main__":
    main()
