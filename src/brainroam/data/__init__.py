"""What a study is made of: cohorts, atlases, file layouts, synthetic cohorts, checks of the data."""
