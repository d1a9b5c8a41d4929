"""The classes of lake tables: columns with types and meanings, a grain, partitions.

What belongs here: the classes, and the columns that several tables share. What does not: the tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TEXTS = pa.list_(pa.string())


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type and its meaning, with units."""

    name: str
    type: pa.DataType
    description: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """One lake table: its grain, its columns, and the columns that define its partitions."""

    name: str
    grain: str
    columns: tuple[Column, ...]
    partitioned_by: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])


def column(name: str, type_: pa.DataType, description: str, *, null: bool = False) -> Column:
    """A column. `null`: a value may be missing."""
    return Column(name, type_, description, null)


DATASET = column("dataset", pa.string(), "dataset, as named in the study")
QUESTION_ID = column(
    "question_id",
    pa.string(),
    "question within its dataset: subject and property, as in Q42-P19, or the id in an imported file",
)
MODEL = column("model", pa.string(), "model, as named in the study")
METHOD = column(
    "method",
    pa.string(),
    "closed_book (no passage), genread (a background text that the model wrote), or the retriever whose first passage"
    " is put before the question",
)
PROMPT = column("prompt", pa.string(), "prompt, as named in the study")
POLICY = column(
    "policy",
    pa.string(),
    "what decides whether to retrieve: never, always, a threshold on a signal (one for all questions; _per_relation: one"
    " for each relation), the oracle that picks a right answer if there is one, or a policy of others by its name",
)
GROUNDING_PROMPT = column(
    "grounding_prompt",
    pa.string(),
    "name of the text behind the question that asks the model to quote, or not to quote; the one called null adds no"
    " text",
)
GROUNDING_KIND = column(
    "grounding_kind", pa.string(), "what the grounding prompt asks for: null, grounding or anti_grounding"
)
RELATION = column("relation", pa.string(), "name of the relation that is asked about (SPEC §1)")
PROMPT_HASH = column(
    "prompt_hash",
    pa.string(),
    "SHA-256 of the exact prompt text; null if it comes from a file without prompts",
    null=True,
)
HAS_ANSWER_POPQA = column(
    "has_answer_popqa", pa.bool_(), "the passage contains a gold answer by PopQA's substring rule"
)
PARAPHRASE_ID = column(
    "paraphrase_id", pa.int32(), "number of the paraphrase within its relation; 0 = the question itself"
)
