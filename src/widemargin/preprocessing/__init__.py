"""From a table of numbers and words to a sparse feature matrix, with a schema that is checked at every use."""

from widemargin.preprocessing.bins import QuantileBins, ThermometerEncoder
from widemargin.preprocessing.schema import ColumnSchema, TableSchema
from widemargin.preprocessing.tables import TablePreprocessor, make_preprocessor

__all__ = [
    "ColumnSchema",
    "QuantileBins",
    "TablePreprocessor",
    "TableSchema",
    "ThermometerEncoder",
    "make_preprocessor",
]
