"""The page about the service's addresses, written from its OpenAPI description; it needs no network and no script.

What belongs here: the page. What does not: the description itself, at `/openapi.json`, which `service` makes.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any

_STYLE = (
    "body{font:16px/1.5 system-ui;max-width:50em;margin:2em auto;padding:0 1em}"
    "pre{background:#f4f4f4;padding:1em;overflow:auto}"
)


def page(description: Mapping[str, Any]) -> str:
    """One HTML page: every address with its words, and every schema. `description` is an OpenAPI document."""
    title = html.escape(description["info"]["title"])
    parts = [f"<h1>{title}</h1><p>{html.escape(description['info']['description'])}.</p>"]
    for path, methods in description["paths"].items():
        parts += [_address(path, method, said) for method, said in methods.items()]
    parts.append('<h2>Schemas</h2><p>The whole description: <a href="/openapi.json">/openapi.json</a></p>')
    for name, schema in description["components"]["schemas"].items():
        parts.append(f"<h3>{html.escape(name)}</h3><p>{html.escape(schema.get('description', ''))}</p>")
        parts.append(
            f"<pre>{html.escape(json.dumps(schema.get('properties', {}), indent=1, ensure_ascii=False))}</pre>"
        )
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>'


def _address(path: str, method: str, said: Mapping[str, Any]) -> str:
    takes = [f"{one['name']} (in the {one['in']})" for one in said.get("parameters", ())]
    takes += [_schema(content) for content in said.get("requestBody", {}).get("content", {}).values()]
    gives = [_schema(content) for content in said["responses"]["200"]["content"].values()]
    takes_text = f"<p>Takes: {html.escape(', '.join(takes))}</p>" if takes else ""
    return (
        f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{html.escape(said['description'])}</p>"
        f"{takes_text}<p>Gives: {html.escape(', '.join(gives))}</p>"
    )


def _schema(content: Mapping[str, Any]) -> str:
    schema = content["schema"]
    of = schema.get("items", schema).get("$ref", "").rpartition("/")[2]
    return f"a list of {of}" if schema.get("type") == "array" else of
