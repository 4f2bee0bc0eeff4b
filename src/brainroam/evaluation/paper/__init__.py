"""The paper's experiments on one dataset, as runs of the ordinary runner: what each table and figure asks for."""
