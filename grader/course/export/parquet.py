"""Write the rows of `plain`, with types, as Parquet."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from headcheck.grader.course.export.gradebook import ExportedFiles, Gradebook
from headcheck.grader.course.export.plain import make_table

TYPES = {
    str: pa.string(),
    float: pa.float64(),
    float | None: pa.float64(),
    bool: pa.bool_(),
    int: pa.int32(),
}


def render(book: Gradebook) -> ExportedFiles:
    """Return one file. Text is not escaped: Parquet has no formulas."""
    types, rows = make_table(book)
    schema = pa.schema([(name, TYPES[kind]) for name, kind in types.items()])
    table = pa.Table.from_pylist(rows, schema=schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return ExportedFiles({"grades.parquet": buffer.getvalue()})
