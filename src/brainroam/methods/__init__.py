"""Every method under one contract: see `base.Method`, the `registry`, and `tuning`."""
