"""The recall + churn task; it lives in the package, because `widemargin reproduce dataset-constraints-fig3` runs it."""

from widemargin_papers.reproductions.recall_task import INFEASIBLE, POINTS, RecallTask, draw, goal_of

__all__ = ["INFEASIBLE", "POINTS", "RecallTask", "draw", "goal_of"]
