"""Display objects, as scikit-learn has them: made from results, predictions or an estimator, drawn by ``plot(ax=)``.

The figures of the report are these objects, one file each; import them from `brainroam.report`.
"""
