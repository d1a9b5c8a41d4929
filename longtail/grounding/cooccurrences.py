"""How often a question's entity and its answer stand in one passage of the corpus (According-to prompting, section 4.4).

One pass over the texts finds all names and answers of all questions (`questions.text_matches`). A question without a
subject is linked to the titles of the corpus that stand in it; they are collected in a pass over the titles before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from longtail.grounding.corpus import corpus_passages, grounding_of
from longtail.parsing.dictionary import FUNCTION_WORDS
from longtail.progress import Progress
from longtail.questions.text_matches import Asked, Phrases, as_words
from longtail.scoring.match import dpr_tokens
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.study import Study

SUBJECT, TITLES = "subject", "titles"
MOST_WORDS = 12
"""Words of a title that is looked for in a question."""
_TABLE = "entity_cooccurrences"


def count_cooccurrences(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table entity_cooccurrences. Errors: `LakeError` without questions or passages."""
    grounding = grounding_of(study)
    contents = [lake.content(table) for table in ("questions", "passages")]
    stamp = fingerprint(_TABLE, contents, grounding.portrait.collections, code_version(__name__))

    def compute() -> Computed:
        columns = ["dataset", "question_id", "question", "subject", "subject_aliases", "gold_answers"]
        rows = lake.read("questions", columns=columns).to_pylist()
        titles = (batch["title"].to_pylist() for batch in corpus_passages(grounding, lake, ["title"]))
        asked = list(link_entities(rows, (title for batch in titles for title in batch)))
        passages = (batch.to_pylist() for batch in corpus_passages(grounding, lake, ["title", "text"]))
        counts = count_passages(
            asked, ((passage["title"], passage["text"]) for batch in passages for passage in batch), log
        )
        return Computed([_row(*row) for row in zip(rows, asked, counts.tolist(), strict=True)])

    return lake.materialise(_TABLE, stamp, compute)


def link_entities(questions: Sequence[Mapping[str, Any]], titles: Iterable[str]) -> Iterator[Asked]:
    """Questions with the names of their entity: those of the subject, or titles that stand in the question.

    A title that is an answer is left out: every passage with it would have both.
    """
    known = _titles_in([row["question"] for row in questions if not row["subject"]], titles)
    for row in questions:
        answers = as_words(row["gold_answers"])
        if row["subject"]:
            yield Asked(as_words([row["subject"], *row["subject_aliases"]]), answers, SUBJECT)
        else:
            names = frozenset(_longest(dpr_tokens(row["question"]).split(), known)) - answers
            yield Asked(names, answers, TITLES if names else None)


def count_passages(
    asked: Sequence[Asked], passages: Iterable[tuple[str, str]], log: logging.Logger
) -> np.ndarray:
    """In how many passages, (title, text), each question has a name and an answer: int64[n]."""
    phrases = Phrases(asked)
    counts = np.zeros(len(asked), np.int64)
    with Progress(log, "passages searched for entities and answers") as progress:
        for title, text in passages:
            # No phrase reaches from the title into the text.
            in_passage = phrases.find(f"{dpr_tokens(title)} \n {dpr_tokens(text)}")
            counts[phrases.filter_by_answer(phrases.questions_of(in_passage), in_passage)] += 1
            progress.add(1)
    return counts


def _titles_in(questions: Iterable[str], titles: Iterable[str]) -> set[str]:
    """Titles, as words, that stand in a question and are more than words of questions."""
    parts = {part for question in questions for part in _parts(dpr_tokens(question).split())}
    return {title for title in map(dpr_tokens, titles) if title in parts} if parts else set()


def _parts(words: list[str]) -> Iterator[str]:
    for start in range(len(words)):
        for end in range(start + 1, min(start + MOST_WORDS, len(words)) + 1):
            if not FUNCTION_WORDS.issuperset(words[start:end]):
                yield " ".join(words[start:end])


def _longest(words: list[str], known: set[str]) -> Iterator[str]:
    """The names in a question from left to right: the one that starts first, then the longest."""
    start = 0
    while start < len(words):
        ends = range(min(start + MOST_WORDS, len(words)), start, -1)
        name = next((end for end in ends if " ".join(words[start:end]) in known), None)
        if name is not None:
            yield " ".join(words[start:name])
        start = start + 1 if name is None else name


def _row(question: Mapping[str, Any], asked: Asked, n: int) -> dict[str, Any]:
    return {
        "dataset": question["dataset"],
        "question_id": question["question_id"],
        "named_by": asked.named_by,
        "n_cooccurrences": n if asked.names else None,
    }
