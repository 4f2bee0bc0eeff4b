"""Statistics over sites: metrics, meta-analysis, paired tests, comparison."""
