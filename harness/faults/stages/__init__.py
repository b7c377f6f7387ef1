"""The faults, one module a stage; each has ``FAULTS``, which `harness.faults.catalogue` finds by itself."""
