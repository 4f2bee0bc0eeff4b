"""Honest protocols, per-site metrics and comparisons in which the site is the unit."""
