"""Ready-made structured models: label sets with pairs, classes, sequences, hierarchies."""

from widemargin.structured.models.chain import ChainModel
from widemargin.structured.models.hierarchy import HierarchyModel
from widemargin.structured.models.multiclass import MulticlassModel, PowersetModel
from widemargin.structured.models.multilabel import MultiLabelModel

__all__ = ["ChainModel", "HierarchyModel", "MultiLabelModel", "MulticlassModel", "PowersetModel"]
