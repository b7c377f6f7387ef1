"""The second front end: LLVM IR text of HIP kernels, device side, for amdgcn."""
