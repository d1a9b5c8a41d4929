"""From the lake's questions and passages to a prompt: SPEC §3.

A prompt is its blocks, joined by blank lines: the demonstrations, then the question. A block is the template with the
question in it. If the question has a passage that is not blank, the passage and a blank line stand before it. A
demonstration ends with a space and its answer. SQL rebuilds a prompt by this rule alone, so nothing here depends on
more.

A draw is a function of (seed, dataset, key) and the pool alone, never of the order in which questions come: `key` is
the question's id under `per_question`, and its relation's name under `per_relation`. The question itself and questions
of the same wording are never drawn.

The demonstrations of a question without a relation are drawn from all other questions of its dataset. Under
`per_relation` such questions share one draw. In the draws of the others they count as questions of one more relation.

The paper leaves open what stands between a question and its grounding prompt: by assembly `paper` it is one space. By
assembly `reference` it is what the authors' code writes: grounding prompts stand on lines of their own, the question is
capitalised as Python does it (its other letters in lower case) except in the second step, a short answer's question ends
with a question mark, and white space at the ends of a prompt is dropped. At the place of the null prompt stands nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import LakeError
from longtail.methods import VERBALISED, Method
from longtail.prompt_formats import GROUNDING_PROMPTS, PAPER
from longtail.storage.lake import Lake
from longtail.study.prompts import Prompt
from longtail.study.study import Study

_BLANK_LINE = "\n\n"
_BATCH_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a dataset; `answer` is for demonstrations: its first object's label, else its first gold answer."""

    question_id: str
    relation: str | None
    question: str
    answer: str
    gold_answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as the model reads it (`text_as_read`)."""

    passage_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Passages:
    """One method's passages by question_id: before a question that is asked, and before a demonstration.

    `apart`: those that the model reads apart from the question, best first; the others are then empty.
    """

    asked: Mapping[str, Passage]
    shown: Mapping[str, Passage]
    apart: Mapping[str, Sequence[Passage]] = field(default_factory=dict)

    def of(self, question_id: str) -> Sequence[Passage]:
        """All that the model reads for a question, best first."""
        passage = self.asked.get(question_id)
        return self.apart.get(question_id, ()) if passage is None else (passage,)


def read_questions(study: Study, lake: Lake) -> dict[str, list[Question]]:
    """The study's questions by dataset, in the order of the datasets' names and of question_id."""
    columns = ["dataset", "question_id", "relation", "question", "objects", "gold_answers"]
    by_dataset: dict[str, list[Question]] = {}
    wanted = {dataset.name for dataset in study.datasets}
    for row in records(lake.read("questions", columns=columns)):
        if row["dataset"] in wanted:
            by_dataset.setdefault(row["dataset"], []).append(
                Question(
                    row["question_id"],
                    row["relation"],
                    row["question"],
                    next(iter(row["objects"] or row["gold_answers"]), ""),
                    tuple(row["gold_answers"]),
                )
            )
    for questions in by_dataset.values():
        questions.sort(key=lambda question: question.question_id)
    return dict(sorted(by_dataset.items()))


def read_wordings(lake: Lake) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """From (dataset, question_id) to the question's paraphrases as (paraphrase_id, text), sorted."""
    columns = ["dataset", "question_id", "paraphrase_id", "paraphrase"]
    by_question: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for row in records(lake.read("paraphrases", columns=columns)):
        by_question.setdefault((row["dataset"], row["question_id"]), []).append(
            (row["paraphrase_id"], row["paraphrase"])
        )
    for wordings in by_question.values():
        wordings.sort()
    return by_question


def read_candidates(lake: Lake) -> dict[tuple[str, str], list[str]]:
    """From (dataset, relation) to the candidates of its cloze queries, in the order in which they are scored."""
    by_relation: dict[tuple[str, str], list[str]] = {}
    for row in records(lake.read("candidates")):
        by_relation.setdefault((row["dataset"], row["relation"]), []).append(row["candidate"])
    return by_relation


def read_passages(lake: Lake, retriever: Method, n: int) -> dict[str, dict[str, list[Passage]]]:
    """Dataset → question_id → the retriever's `n` best passages, which the model reads apart from the question; with 0
    the first one, as the model reads it before the question.

    Errors: `LakeError` where lake table cited_passages lacks one that was retrieved.
    """
    by_dataset: dict[str, dict[str, list[Passage]]] = {}
    for row, passage in _read(lake, retriever, pc.field("paraphrase_id") == 0, n):
        by_dataset.setdefault(row["dataset"], {}).setdefault(row["question_id"], []).append(passage)
    return by_dataset


def first_passages(passages: Mapping[str, Mapping[str, Sequence[Passage]]]) -> dict[str, dict[str, Passage]]:
    return {
        dataset: {question_id: best[0] for question_id, best in by_question.items()}
        for dataset, by_question in passages.items()
    }


def read_passages_of_wordings(
    lake: Lake, retriever: Method, n: int
) -> dict[tuple[str, str, int], list[Passage]]:
    """From (dataset, question_id, paraphrase_id) to passages, as `read_passages` has them by question."""
    by_wording: dict[tuple[str, str, int], list[Passage]] = {}
    for row, passage in _read(lake, retriever, None, n):
        by_wording.setdefault((row["dataset"], row["question_id"], row["paraphrase_id"]), []).append(passage)
    return by_wording


def _read(
    lake: Lake, retriever: Method, only: pc.Expression | None, n: int
) -> Iterator[tuple[dict[str, Any], Passage]]:
    """Rows of what was retrieved with their passages, best first: `n` that are read apart, or with 0 the first."""
    columns = ["dataset", "question_id", "paraphrase_id", "rank", "passage_id"]
    first = pc.field("rank") <= max(n, 1)
    chosen = first if only is None else only & first
    best = lake.read("retrieved_passages", retriever.name, columns, chosen).sort_by("rank")
    cited = pc.field("passage_id").isin(best["passage_id"].unique().cast(pa.string()))
    passages = {}
    for row in records(
        lake.read("cited_passages", columns=["passage_id", "title", "text", "source"], only=cited)
    ):
        text = text_as_read(row["text"], row["source"], retriever)
        text = text_apart(row["title"], text) if n else text
        passages[row["passage_id"]] = Passage(row["passage_id"], text)
    for row in records(best):
        passage = passages.get(row["passage_id"])
        if passage is None:
            raise LakeError(
                f"lake table retrieved_passages, partition {retriever.name}: passage {row['passage_id']} is not in lake"
                " table cited_passages; materialise lake/cited_passages again"
            )
        yield row, passage


def read_generated_passages(lake: Lake, model_name: str) -> dict[str, dict[str, Passage]]:
    """Dataset → question_id → the background text that the model wrote, uncut."""
    columns = ["dataset", "question_id", "passage_id", "text"]
    by_dataset: dict[str, dict[str, Passage]] = {}
    for row in records(lake.read("generated_passages", model_name, columns)):
        passage = Passage(row["passage_id"], row["text"])
        by_dataset.setdefault(row["dataset"], {})[row["question_id"]] = passage
    return by_dataset


def passages_of_questions(
    questions: Iterable[Question], passages: Mapping[str, Passage], *, reference_demos: bool
) -> Passages:
    """Passages before questions and before demonstrations.

    With `reference_demos` a demonstration's passage is looked up as in the reference implementation: there
    retrieval results are kept under the questions' text as the dataset has it. A question that is asked is looked up
    by just that text, a demonstration by its text in lower case without question marks. A demonstration so finds a
    passage only where some question of the dataset is written in that way, and then it finds that question's passage
    (the last one's by question_id, if there are several). Questions made from templates begin with a capital, so
    their demonstrations have no passage.
    """
    if not reference_demos:
        return Passages(passages, passages)
    listed = list(questions)
    by_text = {q.question: passages[q.question_id] for q in listed if q.question_id in passages}
    looked_up = ((q.question_id, by_text.get(q.question.replace("?", "").lower())) for q in listed)
    return Passages(passages, {key: passage for key, passage in looked_up if passage is not None})


def records(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a table, few at a time as Python objects."""
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        yield from batch.to_pylist()


def build_prompt(
    question: Question, template: str, shown: Sequence[Question] = (), passages: Passages | None = None
) -> str:
    """The prompt for a question after the demonstrations `shown`. A question without a passage appears alone."""
    blocks = []
    for demonstration in shown:
        passage = passages.shown.get(demonstration.question_id) if passages else None
        text = passage.text if passage else ""
        blocks.append(block(template, demonstration.question, text, demonstration.answer))
    passage = passages.asked.get(question.question_id) if passages else None
    blocks.append(block(template, question.question, passage.text if passage else ""))
    return _BLANK_LINE.join(blocks)


def block(template: str, question: str, passage_text: str = "", answer: str | None = None) -> str:
    """A question in its template, its passage before it, its answer behind it; a blank passage is none."""
    before = "" if is_blank(passage_text) else f"{passage_text}{_BLANK_LINE}"
    behind = "" if answer is None else f" {answer}"
    return f"{before}{bare_prompt(question, template)}{behind}"


def bare_prompt(question: str, template: str) -> str:
    """The closed-book, zero-shot prompt for any wording of a question."""
    return template.replace("{question}", question)


def text_as_read(text: str, source: str, method: Method) -> str:
    """A retrieved passage as the model reads it. Some methods cut its last piece, unless nothing would be left.

    `source` as in lake table `passages`. Chosen: verbalised triples stay whole for every retriever. SPEC §3 cuts
    because articles are broken after about 100 words; a verbalised passage is whole sentences, and its last one is
    a fact, not a fragment.
    """
    if not method.cuts_last_sentence or source == VERBALISED:
        return text
    whole = text.rpartition(". ")[0]
    return text if is_blank(whole) else f"{whole}."


def text_apart(title: str, text: str) -> str:
    """A passage as a model reads it that reads passages apart from the question (Atlas)."""
    return f"title: {title} context: {text}"


def background_passage_id(model_name: str, question_id: str) -> str:
    """passage_id of the background text that a model wrote for a question (GenRead)."""
    return f"genread:{model_name}:{question_id}"


def is_blank(text: str) -> bool:
    """Whether there is nothing but spaces (as for SQL's `trim`; other white space counts as text)."""
    return not text.strip(" ")


_WHOLE_POOL = "all questions"
_NO_RELATION = ""


class Demonstrations:
    """The pool of one dataset's questions, and draws from it."""

    def __init__(self, dataset: str, questions: Iterable[Question], seed: int) -> None:
        self._stem = f"{seed}\n{dataset}"
        self._all = sorted(questions, key=lambda q: q.question_id)
        self._by_relation: dict[str, list[Question]] = {}
        for question in self._all:
            self._by_relation.setdefault(question.relation or _NO_RELATION, []).append(question)
        self._shared: dict[tuple[str, int, str], tuple[Question, ...]] = {}

    def draw(self, question: Question, prompt: Prompt) -> tuple[Question, ...]:
        """The prompt's `shots` demonstrations for a question, shuffled; fewer only where the dataset holds no more.

        From `other_relations` they are spread evenly over them (15 shots and 16 relations: one each), and come from
        the question's own relation only when the others are used up. From `all_questions`, and for a question without
        a relation, they are a simple random sample of the dataset.
        """
        if not prompt.shots:
            return ()
        relation = question.relation or _NO_RELATION
        if prompt.draw == "per_question":
            return self._draw(question.question_id, relation, prompt, question)
        key = (relation, prompt.shots, prompt.demonstrations_from)
        if key not in self._shared:  # the draw for all questions of a relation that are not drawn themselves
            self._shared[key] = self._draw(relation, relation, prompt, None)
        if any(_is_same(drawn, question) for drawn in self._shared[key]):
            return self._draw(relation, relation, prompt, question)
        return self._shared[key]

    def _draw(self, key: str, relation: str, prompt: Prompt, barred: Question | None) -> tuple[Question, ...]:
        chance = _Chance(f"{self._stem}\n{key}")
        if prompt.demonstrations_from == "all_questions" or relation == _NO_RELATION:
            chosen = list(islice(_stream(self._all, chance, _WHOLE_POOL, barred), prompt.shots))
        else:
            others = [name for name in self._by_relation if name != relation]
            others.sort(key=lambda name: chance.number("relations", name))
            chosen = self._spread(others, prompt.shots, chance, barred)
            chosen += self._spread([relation], prompt.shots - len(chosen), chance, barred)
        return tuple(sorted(chosen, key=lambda q: chance.number("order", q.question_id)))

    def _spread(
        self, relations: Sequence[str], n: int, chance: _Chance, barred: Question | None
    ) -> list[Question]:
        """Up to `n` questions, in turn one of each relation."""
        streams = [_stream(self._by_relation.get(name, []), chance, name, barred) for name in relations]
        chosen: list[Question] = []
        while streams and len(chosen) < n:
            for stream in list(streams):
                if len(chosen) == n:
                    break
                drawn = next(stream, None)
                if drawn is None:
                    streams.remove(stream)
                else:
                    chosen.append(drawn)
        return chosen


class _Chance:
    """Random numbers that follow from a key and the numbers' own names."""

    def __init__(self, key: str) -> None:
        self._begun = hashlib.sha256(key.encode("utf-8", "surrogatepass"))

    def number(self, kind: str, name: str) -> int:
        digest = self._begun.copy()
        digest.update(f"\n{kind}\n{name}".encode("utf-8", "surrogatepass"))
        return int.from_bytes(digest.digest()[:8], "big")


def _stream(
    pool: Sequence[Question], chance: _Chance, pool_name: str, barred: Question | None
) -> Iterator[Question]:
    """The pool in random order, without repetition (Fisher-Yates on demand), without what is `barred`."""
    moved: dict[int, int] = {}
    for i in range(len(pool)):
        j = i + chance.number(pool_name, str(i)) % (len(pool) - i)
        drawn = pool[moved.get(j, j)]
        moved[j] = moved.get(i, i)
        if barred is None or not _is_same(drawn, barred):
            yield drawn


def _is_same(left: Question, right: Question) -> bool:
    return left.question_id == right.question_id or left.question == right.question


_BOTH = (
    "You are a highly intelligent & complex question-answer generative model. You take a question as an input and answer"
    " it by imitating the way a human gives short answers with a corresponding explanation. You answer should be short -"
    " only a few words.\n\nYour output format should be the answer, then a semicolon, then the explanation.\n"
)
_SEPARATOR = ";"


def one_step_prompt(question: str, grounding_prompt: str, assembly: str = PAPER) -> str:
    """Asks for a short answer and its explanation at once."""
    asked = _question_text(question, assembly, mark="? ")
    return _trim(f"{_BOTH}{asked}{_behind(grounding_prompt, assembly)}", assembly)


def first_step_prompt(question: str, assembly: str = PAPER) -> str:
    """Asks for a short answer; the grounding prompt comes in the second step alone."""
    return f"Output the answer only. {_question_text(question, assembly, mark='?')}\nAnswer string only:"


def second_step_prompt(question: str, answer: str, grounding_prompt: str, assembly: str = PAPER) -> str:
    """Asks for the explanation of the answer that the first step gave."""
    return (
        f"Question: {question}\nAnswer: {answer}\n\n\n"
        f"Give a detailed explanation for why this is true.{_behind(grounding_prompt, assembly)}\nExplanation:"
    )


def long_form_prompt(question: str, grounding_prompt: str, assembly: str = PAPER, *, is_small: bool) -> str:
    """Asks for a long answer. Small models need the word `Answer:` at the end, else they hardly write anything."""
    asked = _question_text(question, assembly, mark="")
    return _trim(f"{asked}{_behind(grounding_prompt, assembly)}{' Answer:' if is_small else ''}", assembly)


def split_answer(text: str) -> tuple[str, str | None]:
    """The answer before the first semicolon and the explanation behind it, without white space at their ends.

    Without a semicolon all of the text is the answer, and the explanation is None.
    """
    answer, separator, explanation = text.partition(_SEPARATOR)
    return answer.strip(), explanation.strip() if separator else None


def reference_parts(text: str) -> tuple[str, str]:
    """Answer and explanation as the authors' code tells them apart: the explanation ends before a second semicolon;
    without any, all of the text is both."""
    parts = text.split(_SEPARATOR)
    return parts[0], parts[1].strip() if len(parts) > 1 else text


def _behind(grounding_prompt: str, assembly: str) -> str:
    return GROUNDING_PROMPTS[grounding_prompt].behind(assembly)


def _question_text(question: str, assembly: str, mark: str) -> str:
    """The question as a prompt has it; `mark` follows one that does not end with a question mark."""
    if assembly == PAPER:
        return question
    return question.capitalize() + ("" if question.endswith("?") else mark)


def _trim(prompt: str, assembly: str) -> str:
    return prompt if assembly == PAPER else prompt.strip()
