"""Finds the parent columns that each column of a query comes from, by sqlglot.

A column comes from the columns that its expression reads, including conditions inside the expression. Joins, filters
and groupings of the query choose rows and are not origins. So `count(*)` has no origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from sqlglot import MappingSchema, exp, parse_one
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from longtail.tables import TABLES

_DIALECT = "duckdb"
_CATALOG = "build"
LAKE = "lake"

Relation = tuple[str, str]
"""A schema and a name in it. Sources are in schema `lake`."""
Origins = frozenset[tuple[str, str]]
"""Columns of direct parents, each as the parent's dbt unique_id and the column's name."""


class _Unresolved(Exception):
    """A column whose origin sqlglot does not find."""


def lineage_schema(relations: Mapping[Relation, Sequence[str]]) -> MappingSchema:
    """The columns of built relations and of the lake, which sqlglot needs to expand `*` and bare names."""
    mapping: dict[str, dict[str, dict[str, str]]] = {}
    lake = {(LAKE, table.name): [column.name for column in table.columns] for table in TABLES.values()}
    for (schema, name), columns in {**relations, **lake}.items():
        mapping.setdefault(schema, {})[name] = dict.fromkeys(columns, "unknown")
    return MappingSchema({_CATALOG: mapping}, dialect=_DIALECT)


def column_lineage(sql: str, schema: MappingSchema, parents: Mapping[Relation, str]) -> dict[str, Origins]:
    """The origins of every column of a compiled query. Relations outside `parents` are not origins.

    Errors: those of sqlglot if it cannot read the SQL or does not know a name.
    """
    tree = parse_one(sql, dialect=_DIALECT)
    for table in tree.find_all(exp.Table):
        _name_relation(table)
    qualified = qualify(tree, schema=schema, dialect=_DIALECT, identify=False, quote_identifiers=False)
    return dict(_Tracer(traverse_scope(qualified), parents).outputs_of_query())


class _Tracer:
    """Follows columns of one qualified query through its scopes (CTEs, subqueries) down to relations."""

    def __init__(self, scopes: list[Scope], parents: Mapping[Relation, str]) -> None:
        self._root = scopes[-1]
        self._scopes = {id(scope.expression): scope for scope in scopes}
        self._parents = parents
        self._outputs: dict[int, list[tuple[str, Origins]]] = {}

    def outputs_of_query(self) -> list[tuple[str, Origins]]:
        return self._outputs_of(self._root)

    def _outputs_of(self, scope: Scope) -> list[tuple[str, Origins]]:
        """Name and origins of each column that a scope yields, in order."""
        if id(scope) not in self._outputs:
            query = scope.expression
            if isinstance(query, exp.SetOperation):
                outputs = self._of_union(query)
            elif isinstance(query, exp.Select):
                outputs = [(item.alias_or_name.lower(), self._origins(item, scope)) for item in query.selects]
            else:
                raise _Unresolved(f"a {type(query).__name__} as a query")
            self._outputs[id(scope)] = outputs
        return self._outputs[id(scope)]

    def _scope_of(self, query: exp.Expr) -> Scope:
        """The scope of a nested query, without its parentheses."""
        scope = self._scopes.get(id(query.unnest()))
        if scope is None:
            raise _Unresolved("a query without a scope")
        return scope

    def _of_union(self, query: exp.SetOperation) -> list[tuple[str, Origins]]:
        left, right = (self._outputs_of(self._scope_of(side)) for side in (query.this, query.expression))
        if query.args.get("by_name"):
            names = dict.fromkeys(name for name, _ in [*left, *right])
            sides = dict(left), dict(right)
            return [(name, sides[0].get(name, Origins()) | sides[1].get(name, Origins())) for name in names]
        return [(name, own | other) for (name, own), (_, other) in zip(left, right, strict=True)]

    def _origins(self, expression: exp.Expr, scope: Scope) -> Origins:
        """The origins of all columns that an expression of `scope` reads."""
        found: set[tuple[str, str]] = set()
        waiting = [expression]
        while waiting:
            node = waiting.pop()
            if isinstance(node, exp.Column):
                found |= self._of_column(node, scope)
            elif isinstance(node, (exp.Select, exp.SetOperation)):
                found |= {o for _, origins in self._outputs_of(self._scope_of(node)) for o in origins}
            else:
                waiting += [*node.iter_expressions(), *_window_definition(node, scope)]
        return frozenset(found)

    def _of_column(self, column: exp.Column, scope: Scope) -> Origins:
        at: Scope | None = scope
        while at is not None and column.table not in at.sources:
            # A correlated subquery reads columns of the queries around it.
            at = at.parent
        if at is None:
            raise _Unresolved(f"column {column.sql(_DIALECT)}")
        source = at.sources[column.table]
        name = column.name.lower()
        if isinstance(source, exp.Table):
            return self._of_table(source, name, at)
        if isinstance(source.expression, exp.UDTF):
            return frozenset(o for item in source.expression.expressions for o in self._origins(item, source))
        outputs = dict(self._outputs_of(source))
        if name not in outputs:
            raise _Unresolved(f"column {column.sql(_DIALECT)}")
        return outputs[name]

    def _of_table(self, table: exp.Table, column: str, scope: Scope) -> Origins:
        if not isinstance(table.this, exp.Identifier):
            return self._origins(table.this, scope)
        parent = self._parents.get((table.db, table.name))
        return frozenset({(parent, column)}) if parent else Origins()


def _name_relation(table: exp.Table) -> None:
    """Give every relation one catalog, and a lake table's `read_parquet('…/<table>/*.parquet')` its name."""
    catalog, schema, name = _CATALOG, table.db, table.name
    if isinstance(table.this, exp.ReadParquet):
        schema, name = LAKE, PurePosixPath(table.this.expressions[0].name).parent.name
    elif not schema:
        # A CTE, or a function such as `range`.
        return
    for part, value in (("catalog", catalog), ("db", schema), ("this", name)):
        table.set(part, exp.to_identifier(value))


def _window_definition(node: exp.Expr, scope: Scope) -> Iterator[exp.Expr]:
    """The definition of the window that `over <name>` refers to."""
    if isinstance(node, exp.Window) and node.alias:
        for window in scope.expression.args.get("windows") or []:
            if window.name.lower() == node.alias.lower():
                yield window
