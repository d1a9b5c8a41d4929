"""Rows of a row cache as earlier versions wrote them."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any


def change_accounts(path: Path, change: Callable[[dict[str, Any]], object], *keys: bytes) -> None:
    """Change what is kept beside texts, checksum included; of all rows where no key is given."""
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("select key, text, accounts, origin from generations").fetchall()
        for key, text, accounts, origin in rows:
            if not keys or key in keys:
                numbers = json.loads(accounts)
                change(numbers)
                changed = json.dumps(numbers).encode()
                checksum = zlib.crc32(b"\0".join((key, text, changed, origin)))
                update = "update generations set accounts = ?, checksum = ? where key = ?"
                connection.execute(update, (changed, checksum, key))
