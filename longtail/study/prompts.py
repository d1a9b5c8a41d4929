"""Keys `prompts` and `sampling` of study.yaml: in which form questions are asked, and how often."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from longtail.prompt_formats import CLOZE_FORMATS
from longtail.study.reader import Reader

PROMPT_FORMATS = ("qa", "question_answer", "question", "popqa_tp", *CLOZE_FORMATS)
CANDIDATES = "candidates"
DRAWS = ("per_question", "per_relation")
DEMONSTRATION_POOLS = ("other_relations", "all_questions")
GENERATIONS = ("questions", "paraphrases", "samples", CANDIDATES)


@dataclass(frozen=True)
class Prompt:
    """The form of a question in a prompt (SPEC §3).

    `format`: `qa` is `Q: … A:`; `question_answer` is `Question: …` and `Answer:` on two lines; `question` is the bare
    question; `popqa_tp` is `question` for encoder-decoders and `question_answer` for other models; `cloze_prefix` is a
    cloze query up to the place of its answer, for decoder-only models; `cloze_t5` is all of it, with a sentinel at that
    place, for encoder-decoders. `demonstrations_from` says where the `shots` demonstrations come from:
    spread over the other relations (PopQA), or a simple random sample of all questions (EntityQuestions). `draw` says
    whether they are drawn for every question or once per relation. With `reference_demos`, a demonstration has a passage
    only if the reference implementation finds one. `generations` says what is written with it: `questions` (lake table
    answers), `paraphrases` (paraphrase_answers), `samples` (sampled_answers), `candidates` (candidate_answers: the
    candidates of a cloze query are scored). PopQA-TP asks paraphrases and samples without demonstrations, and a model
    that does not answer without an example needs some. `methods` are those by which it asks questions; empty: all of
    the study's. An answer under this prompt that is one of `declines` is declined (SPEC §12).
    """

    name: str
    format: str = "qa"
    shots: int = 0
    draw: str | None = None
    demonstrations_from: str = "other_relations"
    reference_demos: bool = False
    generations: tuple[str, ...] = ("questions",)
    methods: tuple[str, ...] = ()
    declines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sampling:
    """How many samples estimate the certainty about a question, and at which temperature (SPEC §3, PopQA-TP)."""

    n: int = 10
    temperature: float = 0.5


def read_prompt(read: Reader, methods: tuple[str, ...]) -> Prompt:
    """One entry of `prompts`; `methods` are all that the study can name. Errors: `StudyError`."""
    read.only(*(f.name for f in dataclasses.fields(Prompt)))
    shots = read.number("shots", 0, 0, 64)
    draw = read.optional("draw", lambda key: read.choice(key, DRAWS))
    if (shots > 0) != (draw is not None):
        raise read.fail("draw", f"goes with shots above 0, and is one of: {', '.join(DRAWS)}")
    for key in ("demonstrations_from", "reference_demos"):
        if not shots and read.raw.get(key):
            raise read.fail(key, "goes with shots above 0")
    format_ = read.choice("format", PROMPT_FORMATS, "qa")
    generations = read.choices("generations", GENERATIONS, ("questions",))
    if format_ in CLOZE_FORMATS and generations != (CANDIDATES,):
        raise read.fail("generations", f"a prompt of format {format_} has only [{CANDIDATES}]")
    if CANDIDATES in generations and (format_ not in CLOZE_FORMATS or shots):
        named = " or ".join(CLOZE_FORMATS)
        raise read.fail("format", f"generations: [{CANDIDATES}] goes with {named}, without shots")
    return Prompt(
        name=read.slug("name"),
        format=format_,
        shots=shots,
        draw=draw,
        demonstrations_from=read.choice("demonstrations_from", DEMONSTRATION_POOLS, "other_relations"),
        reference_demos=read.flag("reference_demos"),
        generations=generations,
        methods=read.choices("methods", methods, ()) if "methods" in read.raw else (),
        declines=read.phrases("declines"),
    )


def read_sampling(read: Reader) -> Sampling:
    """Key `sampling`. Errors: `StudyError`."""
    read.only(*(f.name for f in dataclasses.fields(Sampling)))
    return Sampling(
        n=read.number("n", Sampling.n, 2, 1000),
        temperature=read.real("temperature", Sampling.temperature, 0, 2),
    )
