"""Which questions are asked alone to learn what one user waits, and in which order.

If methods were timed one after another, a change of the machine's speed would look like a difference between them. So
in each round all methods and prompts of a model are asked one question in turn, and such a change affects all alike.
The order within a round is drawn anew for each, so that no method always follows the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from longtail.generation.backends.base import Decoding
from longtail.generation.engine.items import ModelInput
from longtail.generation.prompts.build import bare_prompt
from longtail.generation.tasks.answers import AskedQuestion
from longtail.methods import BACKGROUND
from longtail.prompt_formats import BACKGROUND_TEMPLATE
from longtail.study.study import Study

N_QUESTIONS = 50
N_LEAST = 6
"""With fewer times, their median has no interval of 95 %."""
SECONDS = 60.0
"""Once a model has answered for so long, and in a quick run, no way is asked more than `N_LEAST` questions."""
Place = tuple[str, str]
"""Dataset and question id."""
Way = tuple[str, str]
"""Method and prompt: a way of asking."""
Steps = tuple[tuple[ModelInput, Decoding], ...]
"""What is generated for one answer, in order: prompts with their decoding."""


@dataclass(frozen=True)
class Round:
    """One question, and the ways in which it is asked, in their order."""

    place: Place
    rows: Mapping[Way, AskedQuestion]

    def without(self, ways: Collection[Way]) -> Round:
        """The same question, not asked in these ways."""
        return Round(self.place, {way: row for way, row in self.rows.items() if way not in ways})

    def turns(self, study: Study) -> dict[Steps, list[Way]]:
        """Each distinct prompt once, with the ways that ask it."""
        found: dict[Steps, list[Way]] = {}
        for (method, prompt), row in self.rows.items():
            found.setdefault(_steps(study, method, row), []).append((method, prompt))
        return found


def choose_rounds(plans: Mapping[str, Sequence[AskedQuestion]], seed: int) -> list[Round]:
    """The rounds of a calibration, from the planned items of each method.

    Each way is asked at most 50 questions. Questions that suit all ways come first, so that times are compared on the
    same question, then those whose hash of (seed, question) is smallest.
    """
    asked: dict[Way, dict[Place, AskedQuestion]] = {}
    for method, rows in plans.items():
        for row in rows:
            way = (method, str(row.group.prompt))
            asked.setdefault(way, {})[row.group.dataset, row.question.question_id] = row
    common = set.intersection(*map(set, asked.values())) if asked else set()
    places = {
        question: (question not in common, _digest(seed, *question))
        for question in set().union(*asked.values())
    }
    chosen: dict[Place, list[Way]] = {}
    for way, rows_of in asked.items():
        for question in sorted(rows_of, key=places.__getitem__)[:N_QUESTIONS]:
            chosen.setdefault(question, []).append(way)
    return [
        Round(question, {way: asked[way][question] for way in _shuffled(chosen[question], seed, question)})
        for question in sorted(chosen, key=places.__getitem__)
    ]


def _shuffled(ways: Sequence[Way], seed: int, question: Place) -> list[Way]:
    return sorted(ways, key=lambda way: _digest(seed, *question, *way))


def _digest(*parts: str | int) -> bytes:
    text = "\n".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _steps(study: Study, method: str, row: AskedQuestion) -> Steps:
    answer = (row.prompt(), row.request.decoding or Decoding(study.max_new_tokens))
    if study.method(method).kind != BACKGROUND:
        return (answer,)
    background = bare_prompt(row.question.question, BACKGROUND_TEMPLATE)
    return ((ModelInput(background), Decoding(study.background_tokens)), answer)
