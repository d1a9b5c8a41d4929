"""What `longtail sql` does: DuckDB's own shell over the published warehouse, read-only and locked down.

The shell can read only this one file: no other file, no network, no extension, no variable of the environment, and none
of its commands that write a file or start a program. Two locks cover the file itself: it is open for reading, and
DuckDB's access to local files is off, without which `copy … to` could still overwrite the path of the open database.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from longtail.errors import LongtailError, single_line
from longtail.needs import check_package
from longtail.storage.home import study_file
from longtail.study.file import load_study
from longtail.warehouse.publication import connect_to_publication, literal

QUESTIONS = {
    "accuracy": "How often is a model right?",
    "adaptive": "When to retrieve?",
    "prediction": "Which answers are right, without a reference?",
    "retrieval": "What does retrieval find, mend and break?",
    "comparisons": "Which method or model is better?",
    "popularity": "How popular are the subjects?",
    "consistency": "Does a model say the same when asked otherwise?",
    "factual": "Is it consistent about facts (cloze queries)?",
    "grounding": "Does it quote its sources?",
    "cost": "What do answers cost, in time and money?",
    "prompts": "What exactly was asked?",
    "sampling": "Which facts were sampled?",
    "dimensions": "What are the models, questions and datasets?",
    "audit": "Is anything missing or put aside?",
    "catalogue": "What is in this file?",
}
"""The question that the tables of each topic answer, in the order of `tables()`."""

FORMATS = ("box", "csv", "html", "json", "jsonlines", "line", "list", "markdown", "table")
"""The output formats of DuckDB's shell that are offered."""

_LOCKS = """
set temp_directory = '';
set enable_external_access = false;
set autoload_known_extensions = false;
set autoinstall_known_extensions = false;
set allow_community_extensions = false;
set disabled_filesystems = 'LocalFileSystem';
"""

_TOPICS = ", ".join(
    f"({place}, {literal(topic)}, {literal(question)})"
    for place, (topic, question) in enumerate(QUESTIONS.items())
)
_MACROS = f"""
set search_path = 'marts';
create temp macro tables() as table
select topics.question, c.table_name, c.n_rows, c.description
from marts.catalogue as c
left join (values {_TOPICS}) as topics (place, topic, question) using (topic)
order by c.n_rows = 0, topics.place, c.table_name;
create temp macro columns_of(name) as table
select column_name, data_type, comment
from duckdb_columns()
where schema_name = 'marts' and table_name = name
order by column_index;
"""  # noqa: S608  (texts of this module)

_START = """{path}, read-only. A query ends with ;
  from tables();                      the tables, by the question that they answer
  from columns_of('fct_accuracy');    the columns of one, and what they mean
  .columns                            a column for each row, where rows are wide; .rows undoes it
  .help, .exit                        the commands of DuckDB's shell; those that write files or start programs are off"""

_REFERENCE = re.compile(rb"\{\{\s*ref\('(\w+)'\)\s*\}\}")


def main(query: str = "", form: str = "box") -> int:
    """Run `query` or what a pipe sends, or start a session in the terminal; return the exit code."""
    try:
        if form not in FORMATS:
            raise LongtailError(f"--format: {form!r} is not one of: {', '.join(FORMATS)}")
        published = load_study(study_file()).home.published_warehouse
        connect_to_publication(published).close()
        shell = shell_command(published, form, for_terminal=sys.stdout.isatty())
        signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the shell's: it stops a query
        if not query.strip() and sys.stdin.isatty():
            print(_first_screen(published), flush=True)
            subprocess.run(shell, check=False)
            return 0
        return run_query(shell, os.fsencode(query) if query.strip() else sys.stdin.buffer.read())
    except LongtailError as error:
        print(f"error: {single_line(str(error))}", file=sys.stderr)
        return 1


def shell_command(published: Path, form: str, for_terminal: bool = False) -> list[str]:
    """The command that starts DuckDB's shell over a published file, with all locks and macros.

    Errors: `LongtailError` if the package duckdb-cli is not installed.
    """
    check_package("duckdb_cli", "[platform]")
    package = importlib.util.find_spec("duckdb_cli")
    program = Path(package.origin).with_name("duckdb") if package and package.origin else Path("duckdb")
    # The shell's -box leaves control characters as they are; its default box escapes them.
    flags = {"box": [], "csv": ["-csv", "-nullvalue", ""]}.get(form, [f"-{form}"])
    settings = (
        _LOCKS,
        _MACROS,
        f".maxrows {200 if for_terminal else 10_000}",
        ".safe_mode",
    )  # the last one locks all
    commands = [part for setting in settings for part in ("-cmd", setting)]
    # -bail: where a lock is refused, nothing runs.
    return [str(program), "-readonly", "-no-init", "-bail", *flags, *commands, str(published)]


def run_query(shell: list[str], query: bytes) -> int:
    """Run the statements of a text up to the first error; return the exit code of the shell, 1 if there was one.

    dbt's `{{ ref('table') }}` means the table, so that the files of `dbt/analyses` run unchanged.
    """
    if b"\0" in query:
        raise LongtailError("the query contains a NUL byte")
    with tempfile.TemporaryFile() as text:
        text.write(_REFERENCE.sub(rb"\1", query))
        text.seek(0)
        if sys.stdout.isatty():
            return int(subprocess.run(shell, stdin=text, check=False).returncode != 0)
        # DuckDB's shell does not notice that a disk is full.
        with subprocess.Popen(shell, stdin=text, stdout=subprocess.PIPE) as process:
            try:
                shutil.copyfileobj(process.stdout, sys.stdout.buffer)  # type: ignore[arg-type]
                sys.stdout.buffer.flush()
            except OSError as error:
                process.kill()
                sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (Python flushes it once more at the end)
                if isinstance(error, BrokenPipeError):  # the reader stopped early, as in `… | head`
                    return 0
                raise LongtailError(f"the answer could not be written: {error.strerror or error}") from error
        return int(process.returncode != 0)


def _first_screen(path: Path) -> str:
    """What a person reads first; where Harlequin, an SQL editor for the terminal, is installed, also its command."""
    offer = (
        f"\nHarlequin is installed too: harlequin -r {shlex.quote(str(path))}"
        if shutil.which("harlequin")
        else ""
    )
    return _START.format(path=path) + offer
