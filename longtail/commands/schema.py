"""What `longtail schema` does: writes study.schema.json, by which an editor completes and checks a study file."""

from __future__ import annotations

import sys
from pathlib import Path

from longtail.storage.home import IS_CLONE, PROJECT_ROOT
from longtail.study.schema import FILE, fill_tables, schema_text


def main() -> int:
    """Write the schema into the present folder; in a clone into `studies`, and the tables of docs/study_file.md too."""
    file = (PROJECT_ROOT / "studies" if IS_CLONE else Path.cwd()) / FILE
    try:
        file.write_text(schema_text(), encoding="utf-8")
        print(file)
        if IS_CLONE:
            page = PROJECT_ROOT / "docs/study_file.md"
            page.write_text(fill_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
            print(page)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}; let this user write there", file=sys.stderr)
        return 1
    return 0
