"""What ``stepscope export`` starts for Parquet and Arrow files: ``FORMAT RUN_DB TABLE FILE [TABLE FILE]…``.

Exit code 0 when all are written, 1 with one line on stderr when not. A file is there whole or not at all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OLDEST_PYARROW = 15  # RecordBatchReader.from_stream


class Trouble(Exception):
    """One line for the user."""


def arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise Trouble(
            f"this format needs pyarrow, which {sys.executable} does not have: pip install pyarrow (or --format csv)"
        ) from None
    if int(pyarrow.__version__.split(".")[0]) < OLDEST_PYARROW:
        raise Trouble(f"pyarrow {pyarrow.__version__} is too old: pip install 'pyarrow>={OLDEST_PYARROW}'")
    return pyarrow


@contextmanager
def whole(path: str) -> Iterator[str]:
    """A name to write to; the file gets `path` when nothing went wrong."""
    part = f"{path}.{os.getpid()}.part"
    try:
        yield part
        os.chmod(part, 0o600)
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def write_parquet(reader: Any, path: str) -> None:
    import pyarrow.parquet as parquet

    with parquet.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)


def write_arrow(reader: Any, path: str) -> None:
    pa = arrow()
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


WRITERS = {"parquet": write_parquet, "arrow": write_arrow}


def main(arguments: list[str]) -> int:
    try:
        form, path, *pairs = arguments
        pa = arrow()
        from stepscope._run import Run, RunError

        try:
            run = Run(path)
            for table, file in zip(pairs[::2], pairs[1::2]):
                with whole(file) as part:
                    WRITERS[form](pa.RecordBatchReader.from_stream(run.table(table)), part)
                print(f"stepscope: written: {file}", file=sys.stderr)
        except (RunError, OSError, pa.ArrowException) as error:
            raise Trouble(" ".join(str(error).split())) from None
        if run.damaged:
            print(f"stepscope: {run.damaged} damaged pieces are left out: {run.damage}", file=sys.stderr)
    except Trouble as trouble:
        print(f"stepscope: {trouble}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
