"""Pages of the documentation site that are made of other files: the README, the tables of the warehouse.

`make docs` runs it.
"""

from __future__ import annotations

import html
import posixpath
import re
import textwrap
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from longtail.warehouse.sources import describe_column, lake_texts

_ROOT = Path(__file__).parents[1]
_MODELS = _ROOT / "dbt/models"
_MARTS = _MODELS / "marts"
_ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "dbt/README.md": "dbt.md",
    "longtail/sandbox/weights/README.md": "reference_models.md",
    "LICENSE": "LICENSE.txt",
    "CITATION.cff": "CITATION.cff",
}
"""Files outside docs/ that the site has, and their names there."""
_WIDTH = 80
_LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")
_DOCS_BLOCK = re.compile(r"{% docs (\w+) %}(.*?){% enddocs %}", re.DOTALL)
_DOCS_CALL = re.compile(r"{{ doc\('(\w+)'\) }}")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of tables to the navigation."""
    tables = [f"tables/{topic.name}.md" for topic in _topics()]
    config.nav = [*(config.nav or []), {"Tables": tables}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files from elsewhere, and one page of tables per topic."""
    for source, name in _ELSEWHERE.items():
        files.append(File.generated(config, name, content=(_ROOT / source).read_text(encoding="utf-8")))
    words = lake_texts() | {
        name: text.strip()
        for path in _MODELS.rglob("*.md")
        for name, text in _DOCS_BLOCK.findall(path.read_text(encoding="utf-8"))
    }
    for topic in _topics():
        files.append(File.generated(config, f"tables/{topic.name}.md", content=_tables(topic, words)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links between files of the repository lead to their pages."""
    sources = {name: source for source, name in _ELSEWHERE.items()}
    folder = posixpath.dirname(sources.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def to_page(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        name = _ELSEWHERE.get(path, path.removeprefix("docs/"))
        return f"]({name}{link[2] or ''})"

    is_of_tables = page.file.src_uri.startswith("tables/")
    return markdown if is_of_tables else _LINK.sub(to_page, markdown)


def _topics() -> list[Path]:
    return sorted(path for path in _MARTS.iterdir() if any(path.glob("*.yml")))


def _tables(topic: Path, words: dict[str, str]) -> str:
    """A page with every mart of a topic: its grain, source, an example, its columns."""
    parts = [f"# Tables: {topic.name}"]
    for path in sorted(topic.glob("*.yml")):
        for model in yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)["models"]:
            more = model.get("config", {}).get("meta", {}).get("longtail", {})
            parts += [f"## {model['name']}", _text(model["description"], words)]
            parts += [f"Source: {html.escape(more['source'])}."] if "source" in more else []
            parts += [f"```sql\n{textwrap.fill(more['example'], _WIDTH)}\n```"] if "example" in more else []
            rows = [_row(column, words) for column in model.get("columns", [])]
            parts.append("\n".join(["| column | type | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _row(column: dict[str, Any], words: dict[str, str]) -> str:
    description = column.get("description") or describe_column(column["name"])
    meaning = _text(description, words).replace("|", "\\|").replace("\n", " ")
    return f"| `{column['name']}` | {column.get('data_type', '')} | {meaning} |"


def _text(description: str, words: dict[str, str]) -> str:
    whole = _DOCS_CALL.sub(lambda call: words[call[1]], description)
    return html.escape(whole, quote=False).replace("*", "\\*")
