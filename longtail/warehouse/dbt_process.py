"""The process that dbt runs in: `python -m longtail.warehouse.dbt_process build` does what `dbt build` does.

It ends with the process that started it, and leaves no temporary files. Python's garbage collector would go through the
graph again and again, although dbt needs it until its end.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile

from dbt.cli.main import cli

from longtail.processes import end_with_parent
from longtail.storage.files import temporary_folder

if __name__ == "__main__":
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # at once; dbt would wait for its queries
    gc.disable()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for statistics: several parts at a time, each on one thread
    # dbt-duckdb writes each Python model to a temporary file, and Python keeps its compiled code beside it.
    with temporary_folder("dbt") as folder:
        tempfile.tempdir = str(folder)
        cli()
