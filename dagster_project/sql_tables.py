"""What the terminal of `longtail sql` knows of the tables: their list, grouped by question, and completion of names.

What belongs here: choosing and ordering names. What does not: reading and answering queries (`sql`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb

QUESTIONS = {
    "accuracy": "How often is a model right?",
    "adaptive": "When to retrieve?",
    "prediction": "Which answers are right, without a reference?",
    "retrieval": "What does retrieval find, mend and break?",
    "comparisons": "Which method or model is better?",
    "popularity": "How popular are the subjects?",
    "consistency": "Does a model say the same when asked otherwise?",
    "factual": "Is it consistent about facts (cloze queries)?",
    "grounding": "Does it quote its sources?",
    "cost": "What do answers cost, in time and money?",
    "prompts": "What exactly was asked?",
    "sampling": "Which facts were sampled?",
    "dimensions": "What are the models, questions and datasets?",
    "audit": "Is anything missing or put aside?",
    "catalogue": "What is in this file?",
}
"""The question that the tables of each topic answer, in the order of the list."""
_TABLES = "select table_name, topic, n_rows, description from catalogue where topic <> 'deprecated' order by table_name"
_COLUMNS = "select table_name, column_name from duckdb_columns() where schema_name = 'marts' order by all"
_KEYWORDS = (
    "all", "asc", "avg", "between", "by", "count", "desc", "distinct", "from", "group", "having", "join", "limit", "not",
    "null", "order", "over", "select", "using", "where", "with",
)  # fmt: skip
_ROW = re.compile(r"^One row[^:]*(\([^)]*\)[^:]*)?: ")
_NAME = re.compile(r"\w+")


def listing(connection: duckdb.DuckDBPyConnection, width: int | None) -> Iterator[str]:
    """A line for each table that has rows, below the question that it answers; lines are cut at `width`, if any."""
    tables = connection.execute(_TABLES).fetchall()
    longest = max((len(name) for name, *_ in tables), default=0)
    topics = [*QUESTIONS, *sorted({topic for _, topic, *_ in tables} - QUESTIONS.keys())]
    for topic in topics:
        filled = [(name, n_rows, said) for name, of, n_rows, said in tables if of == topic and n_rows != 0]
        if filled:
            yield QUESTIONS.get(topic, topic)
        for name, n_rows, said in filled:
            rows = "view" if n_rows is None else f"{n_rows:,}"
            yield f"  {name.ljust(longest)} {rows:>11}  {_ROW.sub('', said)}"[:width]
    empty = [name for name, _, n_rows, _ in tables if n_rows == 0]
    if empty:
        yield f"Without rows in this study: {', '.join(empty)}"


class Completion:
    """Completes names of tables, of columns, and SQL's words."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._columns: dict[str, list[str]] = {}
        for table, column in connection.execute(_COLUMNS).fetchall():
            self._columns.setdefault(table, []).append(column)

    def matches(self, word: str, typed: str) -> list[str]:
        """How `word` may go on, in the query or command `typed`: its tables' columns, where it names any already."""
        if typed.startswith("\\"):
            return [table for table in self._columns if table.startswith(word)]
        alias, dot, begun = word.rpartition(".")
        named = [name for name in _NAME.findall(typed) if name in self._columns and name != word]
        columns = [column for table in named or self._columns for column in self._columns[table]]
        names = columns if dot else [*columns, *self._columns, *_KEYWORDS]
        return sorted({f"{alias}{dot}{name}" for name in names if name.startswith(begun)})
