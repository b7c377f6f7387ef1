"""The mutation engine over aiter's HIP kernels: ``targets`` -> ``beside`` -> ``bench``, ``inert``."""
