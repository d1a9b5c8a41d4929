"""Files and folders of indexes and models that appear whole or not at all, each of which is a part of a longer work."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from longtail.storage.files import staged, sync


@contextlib.contextmanager
def whole(path: Path, staging: Path | None = None) -> Iterator[Path]:
    """Yield a path for a file or a folder; on success flush it and rename it to `path`, which it replaces.

    `staging`: a folder on the same file system; without one, that of `path`. After an error nothing is left.
    Errors: `OSError`.
    """
    with staged(staging or path.parent, path.name) as temporary:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        for file in (*temporary.rglob("*"), temporary):
            sync(file)
        remove(path)
        os.rename(temporary, path)
        sync(path.parent)


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_array(path: Path, array: np.ndarray) -> None:
    """Write a `.npy` file. Errors: `OSError`; `numpy.save` is silent where the last bytes find no room."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)
