"""CORE, one file per section of the paper, in its order (see docs/architecture.md)."""
