"""From the runs of a study, or from a fitted model, to pages, figures and tables.

The room carries the name of the public verb ``brainroam.report(results)``. Importing any of its modules makes Python
set ``brainroam.report`` to this package, so the package itself can be called, and both spellings keep working.
"""

import sys
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        from brainroam.report.build import report

        return report(*args, **options)


sys.modules[__name__].__class__ = _CallableRoom
