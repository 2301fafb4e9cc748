"""The first step of a model's pipeline: a table goes in, a feature matrix comes out."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import ArrayLike, Features
from widemargin.exceptions import DataError, TableWarning
from widemargin.preprocessing.bins import QuantileBins, dense_for_frames
from widemargin.preprocessing.schema import TableSchema

DatePart = Literal["month", "weekday"]
DATE_PARTS: dict[DatePart, tuple[str, ...]] = {
    "month": ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
              "November", "December"),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
}  # fmt: skip
"""Parts of a date that can become 0/1 columns, each with its values."""


@dataclass(eq=False, repr=False)
class TablePreprocessor(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a pandas, polars or pyarrow table into a CSR matrix, and refuse tables that do not fit the training table.

    Words and flags are one-hot, with a column for missing values where training had some. Numbers are scaled to mean 0
    and variance 1 (missing ones become the median, and a 0/1 column says so), or cut into one-hot bins.

    A table given later is checked against `schema_`. An absent column, another type, infinite numbers or a word column
    without one known word raise `DataError`. Unknown words, and missing values where training had none, give one
    `TableWarning` that counts them: an unknown word counts as rare if the column has rare words, else it sets none of
    the column's 0/1 columns; a missing number becomes the median. Columns that are no features are ignored.

    Parameters
    ----------
    columns : sequence of str, default=None
        Feature columns; None takes all columns of the table given to `fit`.
    words : sequence of str, default=()
        Number columns to be read as words (codes without an order).
    dates : sequence of str, default=()
        Columns of days or times, or of texts such as `2024-01-31` or `31.01.2024`, to be read as numbers of days since
        1970.
    date_parts : sequence of {"month", "weekday"}, default=()
        Further columns of dates: a 0/1 column for each month of the year, or day of the week. Of a missing date none is
        set.
    numbers : {"scale", "bins"}, default="scale"
        Encoding of numbers; bins let a linear model follow any shape (see `QuantileBins`).
    n_bins : int, default=30
        Quantiles for `numbers="bins"`.
    max_words : int, default=1000
        Word columns with more distinct values are refused as identifiers.
    rare_words : int, default=1
        Words (and missing ones) that occur in fewer training rows share one 0/1 column, so that no weight is learned
        from a few rows. With 1 every word has a column of its own.
    word_codes : bool, default=False
        For trees: one column of codes for each column of words (1 for the commonest word, 2 for the next, 0 for unknown
        ones) in place of a 0/1 column for each word. Boosted trees do as well with codes, and fit many times faster
        with many words.
    sparse_output : bool, default=True
        A CSR matrix, or with False an array, which histogram boosting needs.

    Attributes
    ----------
    schema_ : TableSchema
    feature_names_in_ : ndarray of str
        The feature columns.
    n_features_in_ : int

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [20, 40, None], "work": ["own", None, "state"]})
    >>> step = TablePreprocessor().fit(table)
    >>> step.get_feature_names_out().tolist()
    ['age', 'age missing', 'work = own', 'work = state', 'work missing']
    >>> step.transform(table).toarray()
    array([[-1.,  0.,  1.,  0.,  0.],
           [ 1.,  0.,  0.,  0.,  1.],
           [ 0.,  1.,  0.,  1.,  0.]])
    """

    columns: Sequence[str] | None = None
    _: KW_ONLY
    words: Sequence[str] = ()
    dates: Sequence[str] = ()
    date_parts: Sequence[DatePart] = ()
    numbers: Literal["scale", "bins"] = "scale"
    n_bins: int = 30
    max_words: int = 1000
    rare_words: int = 1
    word_codes: bool = False
    sparse_output: bool = True

    schema_: TableSchema = field(init=False)
    number_step_: Any = field(init=False)
    word_step_: Any = field(init=False)
    feature_names_in_: npt.NDArray[np.object_] = field(init=False)
    n_features_in_: int = field(init=False)

    def fit(self, X: Features, y: object = None) -> Self:
        """Learn the schema, the scales and the words.

        Parameters
        ----------
        X : data frame
        y : ignored

        Raises
        ------
        DataError
            See `TableSchema.of`.
        """
        if type(self.rare_words) is bool or not isinstance(self.rare_words, int | np.integer) or self.rare_words < 1:
            raise DataError(f"rare_words must be a whole number above 0; got {self.rare_words!r}. Use 1 for no limit")
        if self.numbers not in ("scale", "bins"):
            raise DataError(f"numbers must be 'scale' or 'bins'; got {self.numbers!r}. Choose one of the two")
        strange = [part for part in self.date_parts if part not in DATE_PARTS]
        if strange:
            raise DataError(f"date_parts holds {strange[0]!r}. Choose among {', '.join(map(repr, DATE_PARTS))}")
        self.schema_ = TableSchema.of(
            X, columns=self.columns, words=self.words, dates=self.dates, max_words=self.max_words
        )
        self.feature_names_in_ = np.array(self.schema_.names, dtype=object)
        self.n_features_in_ = len(self.schema_.names)
        contents = self.schema_.read(X)
        number_step: Any = QuantileBins(self.n_bins)
        if self.numbers == "scale":
            # In the other order the 0/1 columns of missing values would be scaled, too.
            impute = SimpleImputer(strategy="median", add_indicator=True)
            number_step = Pipeline([("scale", StandardScaler()), ("impute", impute)])
        categories = [
            np.array([*column.values, *([None] if column.has_missing else [])], dtype=object)
            for column in self.schema_.of_kind("word", "flag")
        ]
        if self.word_codes:  # the encoder keeps their order
            counts = [Counter(column) for column in contents.words.T]
            categories = [
                words[np.argsort([-count[word] for word in words], kind="stable")]
                for words, count in zip(categories, counts, strict=True)
            ]
        options: dict[str, Any] = {"handle_unknown": "ignore"}
        if self.rare_words > 1:
            options = {"handle_unknown": "infrequent_if_exist", "min_frequency": int(self.rare_words)}
        word_step = OneHotEncoder(categories=categories, dtype=np.float64, **options)
        with config_context(transform_output="default"):
            self.number_step_ = number_step.fit(contents.numbers) if self.schema_.of_kind("number", "date") else None
            self.word_step_ = word_step.fit(contents.words) if categories else None
        return self

    def transform(self, X: Features) -> Any:
        """Feature matrix of shape (n_rows, n_features_out), or a data frame where `set_output` asks for one.

        Raises
        ------
        DataError
            The table does not fit (see `TableSchema.read`).

        Warns
        -----
        TableWarning
            Some values were unknown in training.
        """
        check_is_fitted(self)
        contents = self.schema_.read(X)
        if contents.deviations:
            texts = []
            for column, n_rows, what, examples in contents.deviations:
                share = f"{n_rows} of {len(contents.numbers)} rows"
                if what == "missing":
                    texts.append(f"{column!r} is missing in {share} (unlike in training)")
                else:
                    texts.append(f"{column!r} holds unknown words in {share} ({', '.join(examples)})")
            warnings.warn(
                f"the table differs from the training table, and the model falls back: {'; '.join(texts)}. Unknown "
                "words count as rare ones, or set none of their column's features; missing numbers count as the "
                "median. Retrain if this matters",
                TableWarning,
                stacklevel=2,
            )
        blocks = []
        with config_context(transform_output="default"):  # arrays from the inner steps, whatever the user has set
            if self.number_step_ is not None:
                blocks.append(sparse.csr_array(self.number_step_.transform(contents.numbers)))
            if self.word_step_ is not None:
                words = self.word_step_.transform(contents.words)
                blocks.append(words @ _code_of_each(self.word_step_) if self.word_codes else words)
        for j, schema in enumerate(self.schema_.of_kind("number", "date")):
            if schema.kind == "date":
                # 0/1 columns for months or weekdays of days since 1970, which was a Thursday; none for a missing day.
                days = contents.numbers[:, j]
                known = np.flatnonzero(~np.isnan(days))
                whole = np.floor(days[known]).astype(np.int64)
                for part in self.date_parts:
                    number = (whole + 3) % 7
                    if part == "month":
                        number = whole.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
                    shape = len(days), len(DATE_PARTS[part])
                    blocks.append(sparse.csr_array((np.ones(len(known)), (known, number)), shape=shape))
        features = sparse.csr_array(sparse.hstack(blocks, format="csr"))
        return dense_for_frames(self, features) if self.sparse_output else features.toarray()

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> npt.NDArray[np.object_]:
        """Names of the output columns, such as `age`, `age missing`, `age in [30, 35)`, `work = own`, `work rare`."""
        check_is_fitted(self)
        names: list[str] = []
        number_names = [column.name for column in self.schema_.of_kind("number", "date")]
        if isinstance(self.number_step_, QuantileBins):
            names += self.number_step_.get_feature_names_out(number_names).tolist()
        elif self.number_step_ is not None:
            with_missing = self.number_step_[-1].indicator_.features_
            names += [*number_names, *(f"{number_names[j]} missing" for j in with_missing)]
        for j, column in enumerate(self.schema_.of_kind("word", "flag")):
            if self.word_codes:
                names.append(column.name)
                continue
            # words of this column that share a feature, None for missing ones among them
            sharing = None if self.word_step_.min_frequency is None else self.word_step_.infrequent_categories_[j]
            rare = [] if sharing is None else list(sharing)
            names += [f"{column.name} = {value}" for value in column.values if value not in rare]
            names += [f"{column.name} missing"] * (column.has_missing and None not in rare)
            names += [f"{column.name} rare"] * bool(rare)
        for column in self.schema_.of_kind("date"):
            names += [f"{column.name} {part} = {value}" for part in self.date_parts for value in DATE_PARTS[part]]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: words and missing values are welcome, the output is sparse."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _code_of_each(step: Any) -> sparse.csr_array:
    """Codes from 1 on for the 0/1 columns of each column of words, shape (0/1 columns, columns of words)."""
    numbers = [len(words) for words in step.categories_]
    if step.min_frequency is not None:  # rare words share the last one
        rare = [0 if words is None else len(words) - 1 for words in step.infrequent_categories_]
        numbers = [of_all - more for of_all, more in zip(numbers, rare, strict=True)]
    codes = [sparse.csr_array(np.arange(1.0, number + 1.0)[:, None]) for number in numbers]
    return sparse.csr_array(sparse.block_diag(codes, format="csr"))


def make_preprocessor(
    columns: Sequence[str] | None = None,
    *,
    words: Sequence[str] = (),
    dates: Sequence[str] = (),
    date_parts: Sequence[DatePart] = (),
    numbers: Literal["scale", "bins"] = "scale",
    n_bins: int = 30,
    rare_words: int = 1,
    word_codes: bool = False,
    sparse_output: bool = True,
) -> TablePreprocessor:
    """First step for `Pipeline([("table", make_preprocessor(...)), ("model", ...)])`; see `TablePreprocessor`.

    Parameters
    ----------
    columns : sequence of str, default=None
        Feature columns (None: all). Leave out the target, the protected columns and the baselines.
    words, dates, date_parts, numbers, n_bins, rare_words, word_codes, sparse_output
        As in `TablePreprocessor`.
    """
    return TablePreprocessor(
        columns, words=words, dates=dates, date_parts=date_parts, numbers=numbers, n_bins=n_bins,
        rare_words=rare_words, word_codes=word_codes, sparse_output=sparse_output,
    )  # fmt: skip
