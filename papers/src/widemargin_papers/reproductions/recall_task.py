"""The recall + churn task: three data sets of different origin and a deployed model, drawn from a9a by fixed seeds.

The paper's section 4.2 on public data. 1 000 rows train the deployed model; D1 holds 8 000 labelled rows chosen near
its boundary with positives twice as likely (as active sampling would), D2 6 000 and D3 9 780 rows as they come, D3
without labels:

    minimise errors(D1) + false_positives(D2)   subject to   recall(D2) >= r,   churn(D3) <= c.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from widemargin.goals import External, Goal, Population, churn, col, errors, false_positives, recall
from widemargin_papers.data import Adult

SHARES = (1000, 8000, 6000, 9780)  # of a9a's 32 561 rows: deployed, D1, D2, D3
DEPLOYED_COLUMNS = 73  # the deployed model does not see capital gains, hours and country
STEEPNESS = 2.0  # D1 is drawn with probability exp(-2 |score|), positives twice as often: base rate about .415

D1 = Population("d1", where=col("part") == "d1")
D2 = Population("d2", where=col("part") == "d2")
D3 = Population.external("traffic")


@dataclass(frozen=True)
class RecallTask:
    """One draw of the task.

    Attributes
    ----------
    X, y : rows of D1 and then of D2.
    n1 : int
        Rows of D1.
    X3 : rows of D3.
    deployed3 : ndarray of shape (n3,)
        Predictions of the deployed model on D3.
    deployed_recall : float
        Recall of the deployed model on D2.
    """

    X: sp.csr_matrix
    y: npt.NDArray[np.float64]
    n1: int
    X3: sp.csr_matrix
    deployed3: npt.NDArray[np.float64]
    deployed_recall: float

    @property
    def populations(self) -> pa.Table:
        """Which of D1 and D2 a row belongs to."""
        return pa.table({"part": np.where(np.arange(self.y.shape[0]) < self.n1, "d1", "d2")})

    @property
    def external(self) -> dict[str, External]:
        """D3 with the deployed model's predictions."""
        return {"traffic": External(self.X3, deployed=self.deployed3)}

    def measure(self, share: npt.NDArray[np.float64], share3: npt.NDArray[np.float64]) -> tuple[float, float, float]:
        """Objective (a count), recall on D2 and churn on D3 of shares of positive predictions (0/1 for one model)."""
        positive = self.y > 0
        wrong = np.where(positive, 1.0 - share, share)
        second = slice(self.n1, None)
        objective = wrong[: self.n1].sum() + share[second][~positive[second]].sum()
        said = self.deployed3 > 0
        return (
            float(objective),
            float(share[second][positive[second]].mean()),
            float(np.where(said, 1.0 - share3, share3).mean()),
        )


def draw(adult: Adult, seed: int) -> RecallTask:
    """Draw the task; the same seed gives the same rows on every machine.

    Data sets other than a9a are cut in the same shares.
    """
    rng = np.random.default_rng(seed)
    n = adult.y.shape[0]
    first, n1, second, third = (share * n // 32561 for share in SHARES)
    rows = rng.permutation(n)
    for_deployed, for_second, for_third, pool = np.split(rows, np.cumsum([first, second, third]))
    deployed = LinearSVC(C=0.1, random_state=0).fit(adult.X[for_deployed, :DEPLOYED_COLUMNS], adult.y[for_deployed])
    near = np.exp(-STEEPNESS * np.abs(deployed.decision_function(adult.X[pool, :DEPLOYED_COLUMNS])))
    near *= np.where(adult.y[pool] > 0, 2.0, 1.0)
    for_first = rng.choice(pool, n1, replace=False, p=near / near.sum())
    said = deployed.predict(adult.X[:, :DEPLOYED_COLUMNS])
    both = np.concatenate([for_first, for_second])
    positives = for_second[adult.y[for_second] > 0]
    return RecallTask(
        X=adult.X[both],
        y=adult.y[both],
        n1=n1,
        X3=adult.X[for_third],
        deployed3=said[for_third],
        deployed_recall=float((said[positives] > 0).mean()),
    )


def goal_of(least_recall: float, most_churn: float) -> Goal:
    """The goal at one operating point."""
    return Goal(
        errors(on=D1) + false_positives(on=D2),
        [
            (recall(on=D2) >= least_recall).named("recall"),
            (churn("deployed", on=D3) <= most_churn).named("churn"),
        ],
    )
