"""A study file that names every key of a study of the sandbox, for tests that change one of them."""

from __future__ import annotations

import copy
from typing import Any

VALID: dict[str, Any] = {
    "name": "fair",
    "description": "A valid study",
    "owners": ["team:nlp"],
    "source": {"kind": "sandbox", "seed": 1, "facts_per_relation": 8, "snapshot": "2026-10"},
    "datasets": [{"name": "facts", "relations": ["father", "capital"], "max_questions_per_relation": 5,
                  "split_by": "subject", "drawn_as": None, "end_task": "f1"}],
    "prompts": [
        {"name": "plain", "format": "qa", "shots": 0, "generations": ["questions", "paraphrases"],
         "declines": ["unknown"]},
        {
            "name": "shots", "shots": 15, "draw": "per_relation", "demonstrations_from": "all_questions",
            "reference_demos": True, "methods": ["closed_book"],
        },
        {"name": "bare", "format": "question", "generations": ["samples"]},
    ],
    "models": [
        {
            "name": "tiny", "path": "sandbox:s", "backend": "fusion_in_decoder", "family": "f", "n_parameters": 7,
            "revision": "main", "dtype": "float16", "quantisation": "8bit", "device": "cuda", "device_map": "balanced",
            "batch_tokens": 128, "device_hour_usd": 0.5, "rambles": True, "encoder_decoder": True,
            "instruction_tuned": False, "thinking_tokens": 900, "declines": ["No idea.", "I don't know"],
            "passages": 1, "passage_tokens": 200, "obtain": "ask Ada for it",
        },
        {
            "name": "served", "path": "some/name", "backend": "openai",
            "service": {
                "base_url": "https://127.0.0.1:8000/v1/", "api": "chat", "api_key_env": "SOME_KEY",
                "max_concurrency": 4, "requests_per_minute": 60, "tokens_per_minute": 9000, "max_cost_usd": 2.5,
                "prompt_usd_per_million": 1, "completion_usd_per_million": 0.0,
                "log_probabilities": True,
            },
        },
    ],
    "methods": ["closed_book", "genread", "oracle", "stemmed", "nearest"],
    "retrievers": [
        {
            "name": "stemmed", "kind": "bm25", "k1": 0.9, "b": 0,
            "stop_words": "english", "stemmer": "porter", "tokens": "cjk_bigrams",
        },
        {
            "name": "nearest", "kind": "dense", "path": "encoder", "revision": "main", "query_path": "asking",
            "query_revision": "main", "pooling": "cls",
            "normalise": False, "query_prefix": "query: ", "passage_prefix": "passage: ", "max_tokens": 64,
            "dtype": "float16", "device": "cpu", "batch_tokens": 512,
            "search": "ivf_pq", "nlist": 64, "nprobe": 9, "sub_vectors": 8, "bits": 6, "refine_factor": 2,
        },
    ],
    "popularity": {"measure": "page_views", "n_months": 3, "last_month": "2026-09", "redirects": "sum", "agent": "all"},
    "reference_questions": [{"name": "nq", "format": "nq_open", "path": "nq.jsonl", "tagme": {"min_rho": 0.3}}],
    "counts": [
        {"name": "leads", "path_env": "LONGTAIL_LEADS"},
        {"name": "published", "path": "counts.csv", "dataset": "facts", "columns": {"count": "n"}},
    ],
    "decisions": [{"name": "theirs", "path": "decided.csv", "dataset": "facts", "columns": {"retrieve": "asked"}}],
    "retrieve_paraphrases": True,
    "top_k": 2,
    "max_new_tokens": 7,
    "background_tokens": 90,
    "sampling": {"n": 4, "temperature": 1},
    "embeddings": {"device": "cpu", "least_paraphrase_cosine": 0.9},
    "nli": {"path": "nli", "revision": "main", "device": "cpu"},
    "grounding": {
        "portrait": {"false_positive_rate": 0.01}, "prompts": [None, "expert_editor"], "steps": {"tiny": 2},
        "max_new_tokens": 300, "datasets": ["facts"], "turns": {"tiny": "<user>{prompt}<model>"},
        "methods": ["closed_book"], "long_answers": ["facts"], "assembly": "reference",
    },
    "sweep": {
        "model": "tiny", "retriever": "nearest", "dataset": "facts", "seed": 5, "schedule": "reference", "settings": 3,
        "batch_sizes": [2, 4], "learning_rates": [{"reader": 0.01, "retriever": 0.02}], "temperatures": [0.5],
        "passages": [3], "training_relations": [["father"], ["father", "sport"]], "steps": 6, "every": 2,
        "judged_relations": ["capital"], "judged_facts": 7, "held_out": 0.2, "patience": 1,
    },
    "seed": 3,
}  # fmt: skip


def edited(raw: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of `raw` with another value for one key, as in `models.0.dtype`; `...` removes the key."""
    raw = copy.deepcopy(raw)
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = raw
    for part in way:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return raw
