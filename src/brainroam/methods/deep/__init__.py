"""The deep baselines of the paper, one file each."""
