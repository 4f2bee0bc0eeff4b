"""Small helpers every room uses: files, model files, cache, parameter checks, optional imports."""
