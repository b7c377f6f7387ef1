"""Runs gfx950 kernels on any torch device by executing their lowered IR over all lanes at once.

front end (``flydsl_frontend``) -> typed program (``program``) -> executor (``executor``, with
``operations``, ``lanes``, ``memory`` and ``matrix``, which know nothing of MLIR or FlyDSL).
``backend`` plugs the whole into FlyDSL's own registries.
"""
