// The attributes behind HIP's keywords.
#pragma once

#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

#define __harness_bounds_1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define __harness_bounds_2(threads, blocks) \
    __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(blocks)))
#define __harness_bounds_pick(first, second, chosen, ...) chosen
#define __launch_bounds__(...) \
    __harness_bounds_pick(__VA_ARGS__, __harness_bounds_2, __harness_bounds_1, )(__VA_ARGS__)
