"""``traceml.utils``: here for ``traceml.utils.lightning`` only."""
