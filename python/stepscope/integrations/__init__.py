"""Callbacks for training frameworks: ``huggingface``, ``lightning``, ``accelerate``, ``ray``.

Steps, phases and ranks are seen without them. They only add names: epoch, global step, loss, learning rate, and where
an evaluation or a checkpoint begins and ends. A framework is imported when one of its classes is asked for.
"""
