"""Statistics over sites: metrics, one model for the verdict, paired tests, families, comparison."""
