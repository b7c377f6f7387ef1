"""From a case that differs to the name of the cause: ``harness diagnose`` and ``harness reveal-order``.

``observing`` keeps what a path answers to each request of a case (``answers``), ``comparing`` says what of it
is compared (``choices`` and ``roundings``: what is open in it; ``cells``: its form),
``suspects`` is the oracle with faults of the catalogue planted, ``search`` finds the faults that give the
very answers that were observed, ``structure`` describes a difference that none gives, ``revealing`` finds
the order of a kernel's additions.
"""
