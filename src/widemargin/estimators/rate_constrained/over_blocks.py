"""`fit_blocks`: rate-constrained training over rows in blocks, as a method of the estimator."""

from collections.abc import Mapping
from typing import Any

from widemargin._threads import limit_threads
from widemargin._typing import Floats
from widemargin.distributed.backends import JoinedMap, SerialMap
from widemargin.distributed.blocks import BlockedRows, BlockMap
from widemargin.distributed.recipes import HeldRows
from widemargin.distributed.tables import computed
from widemargin.estimators._binary import as_goal, external_rows
from widemargin.estimators.feature_space import ColumnSpace
from widemargin.estimators.rate_constrained.blocks import (
    Labels,
    blocked_problem,
    counted_goal,
    counted_predictions,
    survey,
)
from widemargin.estimators.rate_constrained.fitting import step_plan, train_problem
from widemargin.estimators.rate_constrained.infeasibility import find_out
from widemargin.exceptions import CapabilityError, DataError
from widemargin.goals.binding.bind import baselines_used
from widemargin.goals.binding.sources import External, external_data, positive_class
from widemargin.goals.measuring.rates_of_predictions import Measured
from widemargin.rows import Rows
from widemargin.solvers.base import Budget
from widemargin.solvers.convex.checkpoints import Remembered, check_checkpoint
from widemargin.solvers.convex.convex_step import BLOCK_SOLVERS, BlockStep

__all__ = ["BlockTrainingMixin"]


class BlockTrainingMixin:
    """Training over blocks."""

    def fit_blocks(
        self: Any,
        blocks: BlockMap,
        external: Mapping[str, External] | None = None,
        *,
        scratch: str | None = None,
        checkpoint: str | None = None,
        resume: bool = False,
        gather_below: int = 2**28,
    ) -> Any:
        """Train on rows that live in blocks: in memory, in files, on a Dask cluster.

        The same problem as `fit`, with the same certificate; a pass over the rows is a sum over the blocks. Only sums
        come here, and a sample of the rows (at most ten million numbers) for a first start.

        Parameters
        ----------
        blocks : BlockMap
            Training rows by blocks: `block_map(labelled_rows(X, y, ...), workers)`, or with `labelled_parquet`. Blocks
            without rows are left out.
        external : dict of str to External, default=None
            As in `fit`; kept in this process, also where they are Dask collections.
        scratch : path of a folder, default=None
            None: prepared rows stay in the memory of their workers. A folder: in memory-mapped files there, for rows
            that do not fit; on every worker's own disk. The files vanish with the processes that use them.
        checkpoint : path of a file, default=None
            Where the state of the outer iterations is kept: some kilobytes, replaced as a whole after every convex
            step.
        resume : bool, default=False
            Go on from the checkpoint of a run with the same rows and parameters, if there is one.
        gather_below : int, default=2**28
            Bytes. Rows on a cluster that take no more than that are fetched and worked on in this process: a look at
            them is then over sooner than the cluster is asked. 0: they stay with their workers. The model is the same.

        Returns
        -------
        self

        Raises
        ------
        CapabilityError
            If the parameters ask for what needs all rows in one place: kernels, feature maps, a confidence,
            calibration.
        CheckpointError
            If the checkpoint is damaged, or of other rows, another goal or other parameters.
        WorkerLostError
            If workers are lost again and again, or the scheduler; the checkpoint stays.
        MissingDataError
            If there is no folder `scratch` where a worker runs.
        GoalError, DataError, InfeasibleGoalError
            As `fit`.

        Notes
        -----
        "auto" is `solver="newton"`, as in `fit`, up to 1500 features (600 where rows are thin); with more, and at most
        50 constraints, the level method (`solver="bundle"`), which takes far fewer passes there.

        Set besides what `fit` sets: `n_passes_`, how often all rows were looked at. Repairs and interpolations of `fit`
        that move single coordinates by 0/1 rates are left out: each would be a pass. The appendix's generalisation
        bound is not computed.
        """
        self._validate_params()
        self._forget_refits()
        self._refuse_for_blocks()
        check_checkpoint(checkpoint, resume)
        if not hasattr(blocks, "prepared"):
            raise DataError(
                f"blocks is a {type(blocks).__name__}, no blocks of rows. Give block_map(labelled_rows(X, y)), or use "
                "fit."
            )
        self.goal_ = goal = as_goal(self.goal)
        self.calibrator_ = None
        solving = self._options
        budget = Budget(self.time_budget, self._watchers())
        together = self._with_external(blocks.filled().near(gather_below), external)
        with limit_threads(self.n_jobs):
            found = survey(together)
            self._set_classes(found.labels)
            self.n_features_in_ = found.sums.shape[0]
            vars(self).pop("feature_names_in_", None)
            if found.names is not None:
                self.feature_names_in_ = found.names
            pair = positive_class(self.classes_.tolist(), self.positive_class_)
            labels = Labels(pair, goal, dict(self.baselines or {}))
            counts, tied = counted_goal(together, labels)
            problem = blocked_problem(
                together, labels, counts, tied, found, lam=2.0 / (found.weight * self.C),
                fit_intercept=solving.fit_intercept, scratch=scratch,
            )  # fmt: skip
            rows = problem.rows
            assert isinstance(rows, BlockedRows)
            solver = BlockStep(solving.solver, rows, problem.n_constraints)
            convex = Remembered(solver, checkpoint, resume=resume)
            try:
                trained = train_problem(
                    problem, convex, solver.used, enforcement=self.enforce,
                    options=step_plan(self.C, self.max_steps, solving.tol, solving.step_tol), budget=budget,
                )  # fmt: skip
            finally:
                rows.blocks.close()
            self._adopt_point(ColumnSpace(), trained.best.w, trained.best.b)
            self._adopt_course(trained)
            self._adopt_report(trained, *counted_predictions(together, labels, trained.best.w, trained.best.b))
            self.n_passes_ = rows.n_passes

            def measured(w: Floats, b: float) -> Measured:
                other, hard, soft = counted_predictions(together, labels, w, b)
                return other.measure(other.positive_mass(soft if self.enforce == "randomized" else hard))

            self.infeasibility_ = find_out(self, trained, measured)
        self._conclude(trained, budget, None)
        return self

    def _refuse_for_blocks(self: Any) -> None:
        for name, plain in (("kernel", None), ("feature_map", None), ("confidence", None), ("calibration", None)):
            if getattr(self, name) != plain:
                raise CapabilityError(
                    f"{name}={getattr(self, name)!r} needs all rows in one place. Use fit, or {name}=None with blocks."
                )
        if self._options.solver not in BLOCK_SOLVERS:
            raise CapabilityError(
                f"solver={self._options.solver!r} needs all rows in one place. Use 'auto' with blocks."
            )

    def _with_external(self: Any, blocks: BlockMap, external: Mapping[str, External] | None) -> BlockMap:
        """The training rows and the external rows that the goal uses."""
        maps: list[BlockMap] = [blocks]
        for name in sorted(name for name in baselines_used(self.goal_) if name is not None):
            data, X = external_data(name, external or {}), external_rows(external, name)
            X, y, weight, table = map(computed, (X, data.y, data.sample_weight, data.populations))
            baselines = {key: computed(value) for key, value in data.baselines.items()}
            maps.append(SerialMap([HeldRows(Rows(X, y, weight, table, baselines=baselines, source=name))]))
        return blocks if len(maps) == 1 else JoinedMap(maps)
