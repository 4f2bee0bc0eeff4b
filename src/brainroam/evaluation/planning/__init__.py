"""How much more data is worth collecting: learning curves over sites and people, and the size of a comparison."""
