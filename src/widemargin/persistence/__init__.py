"""Model files: written whole or not at all, checked before they are read, never able to run code."""

from widemargin.persistence.model_files import FORMAT, ModelInfo, load_model, load_plain_model, model_info, save_model
from widemargin.persistence.onnx_export import to_onnx

__all__ = ["FORMAT", "ModelInfo", "load_model", "load_plain_model", "model_info", "save_model", "to_onnx"]
