"""Settings with which any method is fitted in a second."""

from brainroam.methods.registry import method_info
from brainroam.utils.parameters import settings_of


def cheap(name):
    """One epoch of a small network; nothing for methods without one."""
    if name.startswith("core"):
        return {"hidden": 4, "epochs": 1, "budget": 2, "tau_percentile": 50, "eta": 0.6}
    named = settings_of(method_info(name).make)
    return {key: value for key, value in {"epochs": 1, "hidden": 4}.items() if key in named}
