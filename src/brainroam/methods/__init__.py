"""Every method under one contract: see `base.Method`, the `registry`, and `selection` for how they are tuned."""
