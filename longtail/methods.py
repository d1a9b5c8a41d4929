"""The methods: the ways in which a study can ask a question, one record for each.

A retriever is a module with its record, `RETRIEVER`, of the module's name: in `longtail/retrieval/retrievers`, or of an
installed package (group `longtail.retrievers` of entry points). A study may declare further retrievers: records made from
one of these, with other settings (`Study.method`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longtail.listed import Listed, ListedModules

MEMORY = "memory"
"""Kind: the prompt is the question alone. Paraphrases and samples are asked in this way too."""
BACKGROUND = "background"
"""Kind: the model first writes a background text, which then stands before the question."""
RETRIEVAL = "retrieval"
"""Kind: the first passage that a retriever finds stands before the question."""
SEARCHED, FUSED, BOUND, CONDITION = "searched", "fused", "bound", "condition"
"""How a retriever comes by its passages: it searches; it ranks what the study's other retrievers found; it takes them
because they hold the answer, an upper bound; it takes them without regard to the question, to compare with. The last two
are no methods to use: their passages are chosen once a question, and hold for all its paraphrases."""
VERBALISED = "verbalised"
"""Column `source` of passages that are triples put into sentences: their last sentence is never cut."""


@dataclass(frozen=True)
class Method:
    """One method. All fields below `kind` are for methods of kind `retrieval`, but for `is_default`.

    `retriever`: its class, as `module:class`. `index`: the library that builds its index; None: it has no index.
    `settings`: what the class is made with, a dataclass of keys (`study.values`), of which an entry of a study's
    `retrievers` may give others; None: it takes none.
    `is_dense`: it compares embeddings of questions and passages.
    `cuts_last_sentence`: its passages lose their last sentence before the model reads them (SPEC §3).
    `may_find_nothing`: it may leave every question without a passage, and that is no fault.
    `passages`: how it comes by them, `SEARCHED`, `FUSED`, `BOUND` or `CONDITION`.
    `is_borrower`: it takes what one of the study's other retrievers found.
    `is_seeded`: the study's seed decides its passages.
    `is_default`: a study that names no methods has it.
    """

    name: str
    description: str
    kind: str
    retriever: str | None = None
    index: str | None = None
    settings: Any = None
    is_dense: bool = False
    cuts_last_sentence: bool = False
    may_find_nothing: bool = False
    passages: str = SEARCHED
    is_borrower: bool = False
    is_seeded: bool = False
    is_default: bool = False

    @property
    def is_parametric(self) -> bool:
        """It answers from the model's memory; no retriever is asked."""
        return self.kind != RETRIEVAL

    @property
    def reads_results(self) -> bool:
        """It searches nothing itself, and needs what other retrievers of the study found."""
        return self.passages == FUSED or self.is_borrower

    @property
    def can_be_fused(self) -> bool:
        """A fusion takes its results: it is a retriever that could be used."""
        return self.kind == RETRIEVAL and self.passages == SEARCHED and not self.is_borrower

    @property
    def is_fixed(self) -> bool:
        """Its passages are chosen once a question, and hold for all its paraphrases."""
        return self.passages in (BOUND, CONDITION)


METHODS: Listed[Method] = Listed(
    ListedModules("longtail.retrieval.retrievers", "longtail.retrievers"),
    "RETRIEVER",
    {
        method.name: method
        for method in (
            Method(
                "closed_book", "the question alone: the model answers from memory", MEMORY, is_default=True
            ),
            Method(
                "genread",
                "a background text that the model wrote itself stands before the question",
                BACKGROUND,
            ),
        )
    },
)
"""Every method by name, in the order in which messages list them."""


def memory_method() -> Method:
    """The method by which paraphrases and samples are asked: the question alone."""
    return next(method for method in METHODS.values() if method.kind == MEMORY)
