"""Names of a dbt context mean what they mean in dbt, also where several packages have a macro of one name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt.clients.jinja import MacroStack
from dbt.context.macros import MacroNamespace, MacroNamespaceBuilder

from dagster_project.core.warehouse import dbt_macros as ours

INTERNAL = ["dbt_duckdb", "dbt"]
MACROS: dict[str, list[str]] = {
    "dbt": ["everywhere", "inner", "of_dbt"],
    "dbt_duckdb": ["everywhere", "inner", "dbt"],  # a macro of a package's name
    "longtail": ["everywhere", "rate", "other"],
    "other": ["everywhere", "rate", "of_other"],
}


def by_package() -> dict[str, dict[str, Any]]:
    return {
        package: {
            name: SimpleNamespace(name=name, package_name=package, unique_id=f"macro.{package}.{name}")
            for name in names
        }
        for package, names in MACROS.items()
    }


def dbts(
    builder: MacroNamespaceBuilder, macros: dict[str, dict[str, Any]], ctx: dict[str, Any]
) -> MacroNamespace:
    """dbt's own namespace: what `build_namespace` does before it is replaced."""
    for package in macros.values():
        builder.add_macros(package.values(), ctx)
    inner: dict[str, Any] = {}
    for name in reversed(builder.internal_package_names_order):
        inner.update(builder.internal_packages.get(name, {}))
    return MacroNamespace(builder.globals, builder.locals, inner, builder.packages)


def told(found: Any) -> Any:
    """A macro's id and what it is bound to, or those of a package's macros."""
    if isinstance(found, dict):
        return {name: told(one) for name, one in found.items()}
    return found.macro.unique_id, id(found.context), found.node, id(found.stack)


@pytest.mark.parametrize("package", ["longtail", "other", "dbt", "nowhere"])
def test_every_name_is_found_where_dbt_finds_it(package: str) -> None:
    ctx: dict[str, Any] = {}
    stack, node = MacroStack(), object()
    macros = by_package()
    own, theirs = (
        build(MacroNamespaceBuilder("longtail", package, stack, INTERNAL, node), macros, ctx)
        for build in (ours.build_namespace, dbts)
    )
    assert {name: told(one) for name, one in dict(own).items()} == {
        name: told(one) for name, one in theirs.items()
    }
    assert len(own) == len(theirs)
    for where in (None, "dbt", "other"):
        for name in ("everywhere", "rate", "inner", "of_dbt", "nothing"):
            found, wanted = (one.get_from_package(where, name) for one in (own, theirs))
            assert (found and told(found)) == (wanted and told(wanted))
