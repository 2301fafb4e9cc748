"""What a sweep of one bound gives: `TradeoffPath`, as arrays, a table, a data frame, and prices.

A price is what people are shown: how much the 0/1 objective on held-out rows changes per unit of the bound. It is a
difference between models of the path, with the standard error of that difference; multipliers, which are derivatives
of the training problem, stay under their own name.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._text import aligned, html_report, pandas_for_frames, wrapped
from widemargin._typing import Bools, Floats, Ints
from widemargin.exceptions import DataError
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.measuring import intervals
from widemargin.goals.measuring.rates_of_predictions import form_value

FORMAT = 1
KIND = "widemargin trade-off path"
STRETCHES = 5
"""Prices are quoted over this many stretches of the path: between close neighbours the noise is larger than the
difference."""


@dataclass(frozen=True, eq=False)
class Measures:
    """The K models of a path measured on one set of rows.

    Attributes
    ----------
    objective, ramp_objective : ndarray of shape (K,)
        For the 0/1 predictions and for the randomised classifier.
    reached : ndarray of shape (K,)
        The level that the 0/1 predictions reach in the constraint that is swept (the worst of a bundle); NaN where no
        single constraint is.
    rate, bound, slack, ramp_rate, ramp_slack : ndarray of shape (K, m)
        As in `ConstraintReport`; NaN where undefined, or where the constraint was dropped on these rows.
    compared_with : ndarray of shape (K, m)
        Where two rates are compared by a factor, as in `a >= 0.8 * b`, the one behind it; NaN elsewhere. Divided by it
        the slack is that of the ratio, in which tables show it.
    covariance : ndarray of shape (K, K)
        Of the objectives over the draw of the rows; NaN for training rows, where the models depend on them.
    reached_error : ndarray of shape (K,)
        Standard error of `reached`.
    slack_error : ndarray of shape (K, m)
        Standard error of `slack`.
    """

    n_rows: int
    objective: Floats
    ramp_objective: Floats
    reached: Floats
    rate: Floats
    bound: Floats
    slack: Floats
    ramp_rate: Floats
    ramp_slack: Floats
    compared_with: Floats
    covariance: Floats
    reached_error: Floats
    slack_error: Floats

    @property
    def objective_error(self) -> Floats:
        """Standard error of `objective`, shape (K,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def least_slack(self) -> Floats:
        """The least slack of each model, shape (K,); of rules that compare two rates by a factor that of the ratio.
        Infinite where none is defined."""
        unit = np.where(np.isnan(self.compared_with), 1.0, self.compared_with)
        slack = np.divide(self.slack, unit, out=np.full(self.slack.shape, np.nan), where=unit > 0.0)
        return np.asarray(np.nanmin(slack, axis=1, initial=np.inf))

    def difference_error(self, i: int, j: int) -> float:
        """Standard error of `objective[j] - objective[i]`, from the rows on which the two models differ."""
        c = self.covariance
        return float(np.sqrt(max(0.0, c[i, i] + c[j, j] - 2.0 * c[i, j])))


class MeasureLog:
    """Measures of models on one set of rows, in order.

    Parameters
    ----------
    with_errors : bool
        Whether standard errors are wanted, for rows that the models were not fitted to.
    """

    def __init__(self, n_rows: int, *, with_errors: bool) -> None:
        self.n_rows = n_rows
        self.with_errors = with_errors
        self._rows: list[dict[str, Any]] = []
        self._influences: list[intervals.Influence] = []

    def join(self, other: "MeasureLog") -> None:
        """Append the models of another log on the same rows."""
        self._rows += other._rows
        self._influences += other._influences

    def add(
        self,
        tied: TiedGoal,
        positive: Predictions,
        soft: Predictions,
        keys: Sequence[Constraint],
        swept: Sequence[Constraint],
    ) -> None:
        """Measure one model.

        Parameters
        ----------
        positive, soft : sequence of ndarray of shape (n_s,)
            For each source, whether each row is predicted positive, and the probability of it by the ramp.
        keys : sequence of Constraint
            The constraints of the path, in order; those not bound here are NaN.
        swept : sequence of Constraint
            Those of the constraints whose level is swept.
        """
        hard, ramp = (tied.measure(tied.positive_mass(part)) for part in (positive, soft))
        place = {item.constraint: j for j, item in enumerate(tied.constraints)}
        # Constraints that are not tied on these rows (dropped for lack of rows) read the NaN appended at the end.
        columns = [place.get(key, -1) for key in keys]
        row: dict[str, Any] = {"objective": hard.objective, "ramp_objective": ramp.objective}
        row |= {"reached": np.nan, "reached_error": np.nan, "slack_error": np.full(len(columns), np.nan)}
        measured = {"rate": hard.value, "bound": hard.bound, "slack": hard.slack}
        measured |= {
            "ramp_rate": ramp.value,
            "ramp_slack": ramp.slack,
            "compared_with": np.full_like(hard.value, np.nan),
        }
        for key, j in place.items():
            if key.factor is not None:
                side = hard.bound if key.factor.is_left else hard.value
                measured["compared_with"][j] = side[j] / key.factor.value
        if self.with_errors:
            self._influences.append(intervals.objective_influence(tied, positive))
            measured["slack_error"] = np.sqrt(intervals.slack_variances(tied, positive).sum(axis=0))
        row |= {name: np.append(values, np.nan)[columns] for name, values in measured.items()}
        values = tied.table.values(tied.positive_mass(positive))
        worst = None
        for key in swept:
            if key not in place:
                continue
            above, below, is_floor = key.compared_with_level()
            level = float(form_value(above, tied.table, values))
            if below is not None:
                under = float(form_value(below, tied.table, values))
                level = level / under if under > 0.0 else np.nan
            if worst is None or (level < row["reached"] if is_floor else level > row["reached"]):
                row["reached"], worst = level, key
        if self.with_errors and worst is not None:
            above, below, _ = worst.compared_with_level()
            own = measured["slack_error"][place[worst]]
            row["reached_error"] = own if below is None else intervals.quotient_error(above, below, tied, positive)
        self._rows.append(row)

    def finish(self) -> Measures:
        """All of it as arrays."""
        k = len(self._rows)
        columns = {name: np.array([row[name] for row in self._rows], dtype=np.float64) for name in self._rows[0]}
        between = intervals.covariance(self._influences) if self.with_errors else np.full((k, k), np.nan)
        return Measures(self.n_rows, covariance=between, **columns)


@dataclass(frozen=True)
class Price:
    """What a stretch of the path costs.

    Attributes
    ----------
    start, stop : float
        Values of the bound.
    price : float
        Change of the held-out 0/1 objective per unit of the bound.
    standard_error : float
        Of `price`, over the draw of the held-out rows.
    """

    start: float
    stop: float
    price: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.start:.4g} to {self.stop:.4g}: {self.price:+.4f} +- {self.standard_error:.4f}"


@dataclass(frozen=True, eq=False, repr=False)
class TradeoffPath:
    """Models along the values of one bound. Made by `widemargin.tradeoff_path`; prints as a table.

    Attributes
    ----------
    name : str
        What is swept: the label (or text) of a constraint, or "value" for a function of one's own.
    objective_text : str
    labels : tuple of str, length m
        The constraints, as they are called at the first value.
    is_floor : bool or None
        Whether a higher value asks for more; None where no single constraint is swept.
    floors : ndarray of bool, shape (m,)
        Whether the rate of each constraint has to be at least its bound; else it has to be at most that.
    values : ndarray of shape (K,)
        Of the points done; fewer than `n_asked` after an interrupt or at the end of the time.
    n_asked : int
    coef : ndarray of shape (K, d) or None
        None where a kernel is trained exactly, and of models that are not linear.
    intercept : ndarray of shape (K,)
    training : Measures
    held_out : Measures or None
        None without validation rows.
    gap : ndarray of shape (K,)
        Relative duality gap of the last convex step; NaN of models that are trained by no such step.
    certified : ndarray of bool, shape (K,)
        Whether the model is the point of that gap; False where the bias was moved afterwards.
    multipliers : ndarray of shape (K, m)
        Rate of change of the training objective with each bound; holds for small changes only. NaN as for `gap`.
    met : ndarray of bool, shape (K,)
        Whether the enforced rates meet every bound on the training rows.
    violation : ndarray of shape (K,)
        The largest violation of the enforced rates there; 0 where all are met.
    status : tuple of str
        As `status_` of the estimator.
    seconds : ndarray of shape (K,)
    n_iter : ndarray of int, shape (K,)
        Iterations of the convex solver; of a `GoalReduction` the prices tried.
    models : tuple of fitted classifiers
    """

    name: str
    objective_text: str
    labels: tuple[str, ...]
    is_floor: bool | None
    floors: Bools
    values: Floats
    n_asked: int
    coef: Floats | None
    intercept: Floats
    training: Measures
    held_out: Measures | None
    gap: Floats
    certified: Bools
    multipliers: Floats
    met: Bools
    violation: Floats
    status: tuple[str, ...]
    seconds: Floats
    n_iter: Ints
    models: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.values)

    def model(self, i: int) -> Any:
        """The fitted classifier of point i, with the goal of that point: a clone can be fitted to all rows.

        Raises
        ------
        DataError
            If the path comes from a file, which holds numbers and no models.
        """
        if not self.models:
            raise DataError("this path was read back from numbers and holds no models; train the point again.")
        return self.models[i]

    def to_dict(self) -> dict[str, Any]:
        """Numbers and texts, no models, fit for JSON; `from_dict` reads them. NaN becomes None.

        Returns
        -------
        dict
            "kind" and "format", the attributes of the path but `coef`, `intercept` and `models`, and under "training"
            and "held_out" the attributes of `Measures`: lists of K numbers, or K lists of m (of K in "covariance").
        """
        plain: dict[str, Any] = {"kind": KIND, "format": FORMAT}
        for name, value in vars(self).items():
            if isinstance(value, Measures):
                plain[name] = {part: _plain(numbers) for part, numbers in vars(value).items()}
            elif name not in ("coef", "intercept", "models"):
                plain[name] = _plain(value)
        return plain

    @classmethod
    def from_dict(cls, plain: object) -> "TradeoffPath":
        """A path from what `to_dict` returned (also after JSON), without models.

        Raises
        ------
        DataError
            If it is no stored path, of a newer format, or its parts do not fit together.
        """
        if not isinstance(plain, dict) or plain.get("kind") != KIND:
            raise DataError(f"this is no stored trade-off path (its kind is not {KIND!r}); make one by to_dict().")
        version = plain.get("format")
        if type(version) is not int or not 1 <= version <= FORMAT:
            raise DataError(f"a trade-off path of format {version!r} cannot be read; this version reads {FORMAT}.")
        try:
            # Every array has the shape that the values and the constraints ask for.
            lists = {name: plain[name] for name in ("labels", "status")}
            lists["name and objective_text"] = [plain["name"], plain["objective_text"]]
            for name, texts in lists.items():
                if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                    raise ValueError(f"{name} holds something that is no text")
            k, m = len(plain["values"]), len(plain["labels"])
            values = _array(plain["values"], (k,), "values")
            # Nobody sweeps more values; a stored path that claims more is damaged.
            if not 1 <= k <= 10_000 or len(plain["status"]) != k or not np.isfinite(values).all():
                raise ValueError(f"{k} values (not all finite?) and {len(plain['status'])} of status")
            if type(plain["n_asked"]) is not int or plain["n_asked"] < k:
                raise ValueError(f"n_asked is {plain['n_asked']!r} and there are {k} points")
            if plain["is_floor"] not in (True, False, None):
                raise ValueError(f"is_floor is {plain['is_floor']!r}")
            return cls(
                name=plain["name"], objective_text=plain["objective_text"], labels=tuple(plain["labels"]),
                is_floor=plain["is_floor"], floors=_array(plain["floors"], (m,), "floors", bool),
                status=tuple(plain["status"]), values=values, n_asked=plain["n_asked"],
                coef=None, intercept=np.full(k, np.nan), models=(),
                training=_measures(plain["training"], k, m),
                held_out=None if plain["held_out"] is None else _measures(plain["held_out"], k, m),
                **{name: _array(plain[name], (k,), name) for name in ("gap", "violation", "seconds")},
                **{name: _array(plain[name], (k,), name, bool) for name in ("certified", "met")},
                multipliers=_array(plain["multipliers"], (k, m), "multipliers"),
                n_iter=_array(plain["n_iter"], (k,), "n_iter").astype(np.int64),
            )  # fmt: skip
        except KeyError as error:
            raise DataError(f"the stored trade-off path has no {error}; make it again.") from None
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"the stored trade-off path is damaged: {str(error)[:200]}. Make it again.") from None

    def prices(self, stretches: int | None = None) -> tuple[Price, ...]:
        """Finite differences of the held-out 0/1 objective, per unit of the bound.

        Parameters
        ----------
        stretches : int, optional
            Into how many stretches the points that meet the goal are divided; default: at most 5. With more, the
            differences get smaller, but not their errors.

        Returns
        -------
        tuple of Price
            0 where the bound has slack: the model of the laxer end meets the stricter bound on the training rows, too.

        Raises
        ------
        DataError
            If there are no validation rows.
        """
        if self.held_out is None:
            raise DataError(
                "prices are differences on held-out rows, and this path has none; give validation=(X, y) or "
                "validation_fraction=0.2."
            )
        usable = np.flatnonzero(self.met & np.isfinite(self.held_out.objective))
        usable = usable[np.argsort(self.values[usable], kind="stable")]
        usable = usable[np.flatnonzero(np.diff(self.values[usable], prepend=-np.inf) > 0.0)]
        number = min(len(usable) - 1, STRETCHES if stretches is None else stretches)
        if number < 1:
            return ()
        ends = usable[np.unique(np.round(np.linspace(0, len(usable) - 1, number + 1)).astype(int))]
        stretches_prices = []
        for i, j in itertools.pairwise(ends):
            width = float(self.values[j] - self.values[i])
            change = float(self.held_out.objective[j] - self.held_out.objective[i])
            error = self.held_out.difference_error(int(i), int(j)) / width
            # Nothing is paid where the model at the laxer value reaches the stricter one on the training rows all the
            # same. What is reached is NaN where no single constraint is swept, and then no comparison holds.
            lax, strict, sign = (i, j, 1.0) if self.is_floor else (j, i, -1.0)
            if self.met[i] and self.met[j] and sign * (self.training.reached[lax] - self.values[strict]) >= -1e-9:
                change = error = 0.0
            stretches_prices.append(Price(float(self.values[i]), float(self.values[j]), change / width, error))
        return tuple(stretches_prices)

    def to_frame(self) -> Any:
        """One row per point as a pandas DataFrame, indexed by the value.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        columns: dict[str, Any] = {"status": self.status, "met": self.met, "violation": self.violation}
        for prefix, part in (("training", self.training), ("held_out", self.held_out)):
            if part is None:
                continue
            columns[f"{prefix}_objective"] = part.objective
            columns[f"{prefix}_ramp_objective"] = part.ramp_objective
            columns[f"{prefix}_reached"] = part.reached
            if prefix == "held_out":
                columns["held_out_objective_error"] = part.objective_error
            for j, label in enumerate(self.labels):
                columns[f"{prefix}_rate: {label}"] = part.rate[:, j]
                columns[f"{prefix}_slack: {label}"] = part.slack[:, j]
        columns |= {f"multiplier: {label}": self.multipliers[:, j] for j, label in enumerate(self.labels)}
        columns |= {"gap": self.gap, "iterations": self.n_iter, "seconds": self.seconds}
        return pandas_for_frames().DataFrame(columns, index=self.values).rename_axis(index=self.name)

    def __str__(self) -> str:
        tail = [line for text in self._tail() for line in wrapped(text)]
        return "\n".join([*wrapped(self._headline()), "", *aligned(self._cells(), left=0), "", *tail])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colours = ["#e6f4ea" if met else "#fce8e6" for met in self.met]
        return html_report(self._headline(), [self._cells()], self._tail(), colours)

    def _headline(self) -> str:
        done = f"{len(self)} points" if len(self) == self.n_asked else f"{len(self)} of {self.n_asked} points"
        held = "" if self.held_out is None else f", {self.held_out.n_rows} held-out rows"
        return (
            f"Trade-off of {self.objective_text} against {self.name}: {done} in {self.seconds.sum():.2f} s, "
            f"{self.training.n_rows} training rows{held}."
        )

    def _cells(self) -> list[list[str]]:
        """The table: heads, then one row for each point."""
        swept = np.isfinite(self.training.reached).any()
        columns: list[tuple[str, Sequence[str]]] = [("asked", [f"{value:.4g}" for value in self.values])]
        for name, part in (("training", self.training), ("held-out", self.held_out)):
            if part is None:
                continue
            shown = [
                f"{value:.4f}" + (f" +- {e:.4f}" if np.isfinite(e) else "")
                for value, e in zip(part.objective, part.objective_error, strict=True)
            ]
            columns.append((f"{name} objective", shown))
            if swept:
                columns.append(("reached", [f"{value:.4f}" for value in part.reached]))
            if len(self.labels) > 1 or not swept:
                empty = "undefined" if self.labels else "-"
                least = [f"{slack:+.4f}" if slack < np.inf else empty for slack in part.least_slack]
                columns.append(("least slack", least))
        if np.isfinite(self.gap).any():  # only convex steps have one
            columns.append(("gap", [f"{gap:.0e}" for gap in self.gap]))
        standing = []
        for met, status in zip(self.met, self.status, strict=True):
            done = "met" if status == "converged" else f"met ({status})"
            standing.append(done if met else "NOT MET")
        columns.append(("status", standing))
        return [list(row) for row in zip(*([head, *cells] for head, cells in columns), strict=True)]

    def _tail(self) -> list[str]:
        lines = []
        if self.held_out is not None and (prices := self.prices()):
            lines.append("Price, held-out objective per unit of the bound: " + "; ".join(map(str, prices)) + ".")
        lines.append("asked: the bound; reached: the level that the 0/1 predictions have; +-: one standard error.")
        if not np.isnan(self.training.compared_with).all():
            lines.append("least slack: of the worst rule; where two rates are compared by a factor, of their ratio.")
        if not self.met.all():
            lines.append("NOT MET: no start reached a model that meets the goal on the training rows (no proof).")
        return lines


def _plain(value: object) -> object:
    """Arrays as lists with None for NaN, tuples as lists."""
    if isinstance(value, np.ndarray):
        rows = value.astype(object)
        if value.dtype.kind == "f":
            rows[~np.isfinite(value)] = None
        return rows.tolist()
    return list(value) if isinstance(value, tuple) else value


def _measures(plain: dict[str, Any], k: int, m: int) -> Measures:
    if type(plain["n_rows"]) is not int or plain["n_rows"] < 1:
        raise ValueError(f"n_rows is {plain['n_rows']!r}")
    of_constraints = ("rate", "bound", "slack", "ramp_rate", "ramp_slack", "compared_with", "slack_error")
    plain = {"compared_with": [[None] * m] * k, **plain}  # paths stored by versions before 0.2.0 do not have it
    shapes = dict.fromkeys(of_constraints, (k, m)) | {"covariance": (k, k)}
    names = [field.name for field in fields(Measures) if field.name != "n_rows"]
    measures = Measures(plain["n_rows"], **{name: _array(plain[name], shapes.get(name, (k,)), name) for name in names})
    if (np.diag(measures.covariance) < 0.0).any():
        raise ValueError("covariance holds a negative variance")
    return measures


def _array(values: object, shape: tuple[int, ...], name: str, kind: type = float) -> npt.NDArray[Any]:
    """An array of numbers, NaN where there is None, or of truth values."""
    array = np.array(values, dtype=object).reshape(shape) if 0 in shape else np.array(values, dtype=object)
    if array.shape != shape:
        raise ValueError(f"{name} has the shape {array.shape}, not {shape}")
    for item in array.ravel():
        if kind is bool and type(item) is not bool:
            raise ValueError(f"{name} is no list of {len(array)} times true or false")
        # No number of a stored path is as large as 1e15: no rate, no count of rows, no time.
        if kind is float and item is not None and (type(item) not in (int, float) or not abs(item) < 1e15):
            raise ValueError(f"{name} holds {item!r}")
    return array.astype(kind)
