"""The sections about the brain: which pathways, for whom, and whether the embedding knows the site."""
