"""docs/real_models.md and docs/how_to_read.md beside the files themselves, by our rules but without the warehouse."""

from __future__ import annotations

import gzip
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from longtail.scoring.match import score_answer
from longtail.statistics.signal_quality import auroc
from longtail.storage.home import PROJECT_ROOT
from tests.real_data import REAL_DATA, needs_real_data
from tools.pages.real_models import PLACE

PAGE = (PROJECT_ROOT / PLACE).read_text(encoding="utf-8")
OF_PAIRS = PAGE[PAGE.index("## Memory or passage?") :]
DECISIONS = (PROJECT_ROOT / "docs/how_to_read.md").read_text(encoding="utf-8")
PAIRS = re.findall(r"^\| `(\w+(?:_test|_dev|_train))` \|.*$", OF_PAIRS, re.MULTILINE)


def records(name: str) -> list[dict[str, Any]]:
    with gzip.open(REAL_DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def cells(first: str, page: str = PAGE[PAGE.index("on songs?") :]) -> list[str]:
    """The cells of the one row of a page's part that begins with `first`, after it."""
    (row,) = re.findall(rf"^\| {re.escape(first)} \| (.*) \|$", page, re.MULTILINE)
    return str(row).split(" | ")


def first_line(text: str) -> str:
    """An answer ends with its line."""
    return text.strip().split("\n")[0]


def short(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")


@needs_real_data
@pytest.mark.parametrize("name", PAIRS)
def test_never_always_and_either_are_those_of_the_file(name: str) -> None:
    rows = records(f"adarague/{name}.jsonl.gz")
    keys = ("no_retrieve", "bm25" if "bm25" in rows[0] else "rag_one_retrieve")
    scores = [[score_answer(row[key], row["answers"]) for key in keys] for row in rows]
    right = np.array([[one.is_correct for one in pair] for pair in scores])
    normalised = np.array([
        [one.is_correct_normalized for one in pair]
        for pair in scores
        if pair[0].is_correct_normalized is not None  # unknown where no gold answer is left once normalised
    ])  # fmt: skip
    shown = [
        (cell.split(" ")[0], cell[cell.index("[") + 1 : -1]) for cell in cells(f"`{name}`", OF_PAIRS)[2:]
    ]
    wanted = [[*one.mean(axis=0), one.any(axis=1).mean()] for one in (right, normalised)]
    assert shown == [tuple(map(short, pair)) for pair in zip(*wanted, strict=True)]


@needs_real_data
@pytest.mark.parametrize(
    ("model", "name"),
    [("GPT-3.5 turbo", "gpt_3.5_turbo"), ("Llama 3 8B", "llama_3_8b"), ("Qwen2.5 7B", "qwen2.5_7b")],
)
def test_aurocs_are_those_of_the_file_and_confidence_tells_more(model: str, name: str) -> None:
    """The last probability of Qwen2.5 7B is its end token's. An answer of several lines has no confidence."""
    rows = records(f"songs_confidence/{name}.jsonl.gz")
    right = np.array(
        [float(score_answer(first_line(row["prediction"]), row["reference"]).is_correct) for row in rows]
    )
    tokens = [row["token_probs"][: -1 if name.startswith("qwen") else None] for row in rows]
    whole = [first_line(row["prediction"]) == row["prediction"].strip() for row in rows]
    sure = np.array([
        math.fsum(map(math.log, one)) / len(one) if is_whole else math.nan
        for one, is_whole in zip(tokens, whole, strict=True)
    ])  # fmt: skip
    known = ~np.isnan(sure)
    found = [
        auroc(np.array([float(row["popularity"]) for row in rows]), right), auroc(sure[known], right[known])
    ]  # fmt: skip
    n, accuracy, popularity, confidence, _ = cells(model)
    assert (n, accuracy.split(" ")[0]) == (f"{len(rows):,}", short(right.mean()))
    assert [popularity.split(" ")[0], confidence.split(" ")[0]] == [*map(short, found)]
    highest, lowest = re.findall(r"\.\d+", popularity)[2], re.findall(r"\.\d+", confidence)[1]
    assert float(lowest) > float(highest)


@needs_real_data
def test_quarters_are_those_of_the_file() -> None:
    import csv

    with gzip.open(REAL_DATA / "popqa/popQA.tsv.gz", "rt", encoding="utf-8", newline="") as lines:
        facts = {row["id"]: row for row in csv.DictReader(lines, delimiter="\t")}
    asked = [(facts[str(row["id"])], row) for row in records("popqa_answers/llama3_70b.jsonl.gz")]
    asked.sort(key=lambda pair: (float(pair[0]["s_pop"]), pair[0]["id"]))
    right = [
        score_answer(first_line(row["closed_book"]), json.loads(fact["possible_answers"])).is_correct
        for fact, row in asked
    ]
    declined = [row["closed_book"] == "No idea." for _, row in asked]
    parts = [np.array_split(np.array(some), 4) for some in (right, declined)]
    for number, (part, none) in enumerate(zip(*parts, strict=True), start=1):
        _, n, accuracy, share = cells(str(number))
        assert (n, accuracy.split(" ")[0], share) == (str(len(part)), short(part.mean()), short(none.mean()))
    attempted = np.mean([one for one, none in zip(right, declined, strict=True) if not none])
    assert f"To {sum(declined)} questions the model said" in PAGE
    assert f"of its other answers {short(attempted)} (" in PAGE.replace("\n", " ")
    source = sum(row["closed_right"] for _, row in asked) / len(asked)
    assert f"PopQA's rule calls {short(np.mean(right))} right, the source's own rule {short(source)}:" in PAGE


@needs_real_data
def test_what_gpt_answers_and_promises_by_confidence_is_that_of_the_file() -> None:
    """Twenty steps by falling confidence; promises by the binomial bounds of all steps so far with 100 answers."""
    rows = records("songs_confidence/gpt_3.5_turbo.jsonl.gz")
    sure = [math.fsum(map(math.log, row["token_probs"])) / len(row["token_probs"]) for row in rows]
    wrong = [not score_answer(first_line(row["prediction"]), row["reference"]).is_correct for row in rows]
    order = np.argsort(sure)[::-1]
    n = np.ceil(np.arange(1, 21) / 20 * len(rows)).astype(int)
    n_wrong = np.cumsum(np.array(wrong)[order])[n - 1]
    bounds = np.where(n >= 100, beta.ppf(0.9, n_wrong + 1, n - n_wrong), 0)
    promised = np.maximum.accumulate(bounds)
    wanted = [n[risks <= most].max() / len(rows) for risks in (n_wrong / n, promised) for most in (0.1, 0.2)]
    assert cells("GPT-3.5 turbo, confidence")[2:] == [*map(short, wanted)]
    last = int(np.flatnonzero(promised <= 0.2)[-1])
    risk, promise = f"{n_wrong[last] / n[last]:.3f}", f"{promised[last]:.3f}"
    assert cells("confidence", DECISIONS)[:4] == [str(n[last]), str(len(rows)), risk, promise]


@needs_real_data
def test_the_surest_answers_of_qwen_and_how_many_are_wrong_are_those_of_the_file() -> None:
    rows = records("songs_confidence/qwen2.5_7b.jsonl.gz")
    sure = np.array([min(row["token_probs"][:-1]) for row in rows])
    wrong = np.array(
        [not score_answer(first_line(row["prediction"]), row["reference"]).is_correct for row in rows]
    )
    n_wrong = np.cumsum(wrong[np.argsort(-sure, kind="stable")])
    shown = DECISIONS[DECISIONS.index("should abstain\n") :]
    for step in (1, 2, 4, 10, 20):
        n = math.ceil(step / 20 * len(rows))
        assert cells(str(step), shown)[:3] == [str(n), str(n_wrong[n - 1]), f"{n_wrong[n - 1] / n:.3g}"]


@needs_real_data
def test_memory_passages_and_either_of_selfrag_are_those_of_the_file() -> None:
    import csv

    with gzip.open(REAL_DATA / "popqa/popQA.tsv.gz", "rt", encoding="utf-8", newline="") as lines:
        gold = {
            int(row["id"]): json.loads(row["possible_answers"])
            for row in csv.DictReader(lines, delimiter="\t")
        }
    right: dict[str, list[bool]] = {"memory": [], "retrieval": []}
    rows = [row for row in records("selfrag_popqa/longtail_pairs.jsonl.gz") if row["model"] == "official"]
    for row in sorted(rows, key=lambda row: int(row["id"])):
        right[row["method"]].append(score_answer(first_line(row["prediction"]), gold[row["id"]]).is_correct)
    never, always = map(np.array, right.values())
    for policy, found in (("never", never), ("always", always), ("oracle", never | always)):
        assert cells(policy, DECISIONS)[:2] == [str(len(never)), f"{found.mean():.3g}"]
