"""Times in synthetic lakes: questions asked alone, and generations that two methods share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

N_TIMED = 20


def single_latency_rows(
    model: str, methods: Sequence[str], prompts: Sequence[str], questions: Sequence[dict[str, Any]], seed: int
) -> Iterator[dict[str, Any]]:
    """Questions asked in turn with all methods. The machine's speed varies, and a passage adds about 5 ms.

    The last prompt is the paraphrases' one, which closed_book answers.
    """
    rng = np.random.default_rng([seed, len(model)])
    for number, question in enumerate(questions[:N_TIMED]):
        level = rng.uniform(20, 90)
        for turn, method in enumerate(methods):
            for prompt in prompts if method == "closed_book" else prompts[:-1]:
                more = rng.normal(0 if method == "closed_book" else 5, 2)
                yield {
                    "dataset": question["dataset"],
                    "question_id": question["question_id"],
                    "model": model,
                    "method": method,
                    "prompt": prompt,
                    "single_latency_ms": level + more,
                    "round_number": number,
                    "turn": turn,
                }


def with_reused(rows: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; a row whose prompt partition `before` also has takes over that partition's generation.

    As in a real lake, the rows of each partition share the cost of the generation equally.
    """
    made: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in before:
        made[row["prompt_hash"]].append(row)
    copies = Counter(row["prompt_hash"] for row in rows)
    found = []
    for row in rows:
        same = made.get(row["prompt_hash"])
        if same:
            parts = {
                name: None
                if same[0][name] is None
                else sum(one[name] for one in same) / copies[row["prompt_hash"]]
                for name in ("device_seconds", "cost_usd")
            }
            row = {**row, **parts, "generated_for": same[0]["generated_for"], "is_reused": True}
        found.append(row)
    return found
