"""``traceml.integrations``: huggingface, lightning, ray."""
