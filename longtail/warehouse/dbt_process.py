"""The process that dbt runs in: `python -m longtail.warehouse.dbt_process build` does what `dbt build` does.

It ends with the process that started it, and leaves no temporary files. Python's garbage collector would go through the
graph again and again, although dbt needs it until its end. DuckDB takes half of the memory that it counts on this machine
or in this container: statistics and dbt need room beside it.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile

import duckdb
from dbt.cli.main import cli

from longtail.processes import end_with_parent
from longtail.storage.files import temporary_folder


def half_of_memory() -> str:
    """Such as 11.8GiB."""
    ((limit,),) = duckdb.execute("select current_setting('memory_limit')").fetchall()  # 80 % of the memory
    amount, unit = limit.split()
    return f"{float(amount) / 0.8 / 2:.1f}{unit}"


if __name__ == "__main__":
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # at once; dbt would wait for its queries
    gc.disable()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for statistics: several parts at a time, each on one thread
    os.environ["LONGTAIL_WAREHOUSE_MEMORY"] = os.environ.get("LONGTAIL_WAREHOUSE_MEMORY") or half_of_memory()
    # dbt-duckdb writes each Python model to a temporary file, and Python keeps its compiled code beside it.
    with temporary_folder("dbt") as folder:
        tempfile.tempdir = str(folder)
        cli()
