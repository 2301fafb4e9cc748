"""Kinds of parameters: the type of each, with what scikit-learn checks of it where the type does not say it."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Annotated, Literal, TypeAlias

from sklearn.utils._param_validation import Interval, StrOptions

from widemargin._typing import ArrayLike, Label, Seed
from widemargin.kernels.functions import FEATURE_MAPS, KERNELS, KernelFunction
from widemargin.solvers.base import Callback

Positive: TypeAlias = Annotated[float, Interval(Real, 0.0, None, closed="neither")]
PositiveOrAuto: TypeAlias = Positive | Literal["auto"]
NotNegative: TypeAlias = Annotated[float, Interval(Real, 0.0, None, closed="left")]
AnyNumber: TypeAlias = Annotated[float, Interval(Real, None, None, closed="neither")]
Share: TypeAlias = Annotated[float, Interval(Real, 0.0, 1.0, closed="neither")]
Confidence: TypeAlias = Annotated[float, Interval(Real, 0.5, 1.0, closed="left")]
Count: TypeAlias = Annotated[int, Interval(Integral, 1, None, closed="left")]
Gamma: TypeAlias = Annotated[str | float, StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")]
KernelName: TypeAlias = Annotated[str | KernelFunction, StrOptions(set(KERNELS)), callable]
FeatureMapName: TypeAlias = Annotated[str | None, StrOptions(set(FEATURE_MAPS)), None]
ClassWeight: TypeAlias = Annotated[Mapping[Label, float] | str | None, StrOptions({"balanced"}), dict, None]
Array: TypeAlias = Annotated[ArrayLike, "array-like"]
PosLabel: TypeAlias = Annotated[Label, Real, str, "boolean", None]
Random: TypeAlias = Annotated[Seed, "random_state"]
Verbose: TypeAlias = Annotated[int, "verbose"]
Callbacks: TypeAlias = Annotated[Sequence[Callback] | None, "array-like", None]
Calibration: TypeAlias = Annotated[str | None, StrOptions({"sigmoid", "isotonic"}), None]
OnInfeasible: TypeAlias = Annotated[str, StrOptions({"raise", "warn"})]
Rescaling: TypeAlias = Annotated[str, StrOptions({"slack", "margin"})]
OnInterrupt: TypeAlias = Literal["raise", "return"]
