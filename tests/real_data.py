"""Where tests find real records: the folder that LONGTAIL_REAL_DATA names, or `shared/data` beside the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longtail.storage.home import PROJECT_ROOT

REAL_DATA = Path(os.environ.get("LONGTAIL_REAL_DATA") or PROJECT_ROOT.parent / "shared" / "data")
needs_real_data = pytest.mark.skipif(
    not REAL_DATA.is_dir(),
    reason=f"LONGTAIL_REAL_DATA names no folder and {REAL_DATA} is none: real records were NOT read",
)
