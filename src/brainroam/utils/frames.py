"""Tables of other libraries at the gates where arrays and tables of pandas come in."""

from typing import Any

import pandas as pd


def as_pandas(table: Any) -> Any:
    """A table of polars, or of another library with named columns, as one of pandas; anything else as it is.

    Column by column through numpy, so that neither pyarrow nor the library itself has to be imported here.

    >>> as_pandas([1, 2])
    [1, 2]
    """
    if isinstance(table, (pd.DataFrame, pd.Series)) or not (hasattr(table, "columns") and hasattr(table, "to_numpy")):
        return table
    return pd.DataFrame({str(name): table[name].to_numpy() for name in table.columns})
