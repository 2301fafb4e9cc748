"""Reports as pandas data frames: the one place that imports pandas for them."""

from typing import Any

__all__ = ["pandas_for_frames"]


def pandas_for_frames() -> Any:
    """The module pandas, for `to_frame`.

    Raises
    ------
    ImportError
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install 'widemargin[frame]', or use to_dict().") from None
    return pd
