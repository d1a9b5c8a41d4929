"""The classes of lake tables: columns with types and meanings, a grain, partitions."""

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


def text(name: str, description: str, *, null: bool = False) -> Column:
    return column(name, pa.string(), description, null=null)


def flag(name: str, description: str, *, null: bool = False) -> Column:
    return column(name, pa.bool_(), description, null=null)


def int32(name: str, description: str, *, null: bool = False) -> Column:
    return column(name, pa.int32(), description, null=null)


def int64(name: str, description: str, *, null: bool = False) -> Column:
    return column(name, pa.int64(), description, null=null)


def float64(name: str, description: str, *, null: bool = False) -> Column:
    return column(name, pa.float64(), description, null=null)


def measure(name: str, description: str) -> Column:
    """A number that may be undefined."""
    return float64(name, description, null=True)


DATASET = text("dataset", "dataset, as named in the study")
QUESTION_ID = text(
    "question_id",
    "question within its dataset: subject and property, as in Q42-P19, or the id in an imported file",
)
MODEL = text("model", "model, as named in the study")
METHOD = text(
    "method",
    "closed_book (no passage), genread (a background text that the model wrote), or the retriever whose first passage"
    " is put before the question",
)
PROMPT = text("prompt", "prompt, as named in the study")
POLICY = text(
    "policy",
    "what decides whether to retrieve: never, always, a threshold on a signal (one for all questions; _per_relation: one"
    " for each relation; best_signal: on a signal that the training questions choose), the oracle that picks a right"
    " answer if there is one, or a policy of others by its name",
)
GROUNDING_PROMPT = text(
    "grounding_prompt",
    "name of the text behind the question that asks the model to quote, or not to quote; the one called null adds no"
    " text",
)
GROUNDING_KIND = text(
    "grounding_kind", "what the grounding prompt asks for: null, grounding or anti_grounding"
)
RELATION = text("relation", "name of the relation that is asked about (SPEC §1)")
PROMPT_HASH = text(
    "prompt_hash", "SHA-256 of the exact prompt text; null if it comes from a file without prompts", null=True
)
HAS_ANSWER_POPQA = flag("has_answer_popqa", "the passage contains a gold answer by PopQA's substring rule")
PARAPHRASE_ID = int32(
    "paraphrase_id", "number of the paraphrase within its relation; 0 = the question itself"
)
