"""HIP kernels of a source tree, compiled to LLVM IR without a GPU: subjects, compilers, shims, cache."""
