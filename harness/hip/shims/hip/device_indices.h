// threadIdx, blockIdx, blockDim, gridDim: objects whose members read the hardware's registers and the
// hidden kernel arguments (code object version 5 and later), as ROCm's headers do.
#pragma once

#include "keywords.h"

struct __harness_thread_index
{
    static __device__ __forceinline__ unsigned x() { return __builtin_amdgcn_workitem_id_x(); }
    static __device__ __forceinline__ unsigned y() { return __builtin_amdgcn_workitem_id_y(); }
    static __device__ __forceinline__ unsigned z() { return __builtin_amdgcn_workitem_id_z(); }
};

struct __harness_block_index
{
    static __device__ __forceinline__ unsigned x() { return __builtin_amdgcn_workgroup_id_x(); }
    static __device__ __forceinline__ unsigned y() { return __builtin_amdgcn_workgroup_id_y(); }
    static __device__ __forceinline__ unsigned z() { return __builtin_amdgcn_workgroup_id_z(); }
};

struct __harness_block_size
{
    static __device__ __forceinline__ unsigned x() { return __builtin_amdgcn_workgroup_size_x(); }
    static __device__ __forceinline__ unsigned y() { return __builtin_amdgcn_workgroup_size_y(); }
    static __device__ __forceinline__ unsigned z() { return __builtin_amdgcn_workgroup_size_z(); }
};

struct __harness_grid_size
{
    // The hidden arguments begin with the three block counts.
    static __device__ __forceinline__ unsigned count(int axis)
    {
        return ((const __attribute__((address_space(4))) unsigned*)__builtin_amdgcn_implicitarg_ptr())[axis];
    }
    static __device__ __forceinline__ unsigned x() { return count(0); }
    static __device__ __forceinline__ unsigned y() { return count(1); }
    static __device__ __forceinline__ unsigned z() { return count(2); }
};

template <typename Source>
struct __harness_indices
{
    struct X { __device__ __forceinline__ operator unsigned() const { return Source::x(); } };
    struct Y { __device__ __forceinline__ operator unsigned() const { return Source::y(); } };
    struct Z { __device__ __forceinline__ operator unsigned() const { return Source::z(); } };
    X x;
    Y y;
    Z z;
};

inline constexpr __harness_indices<__harness_thread_index> threadIdx{};
inline constexpr __harness_indices<__harness_block_index> blockIdx{};
inline constexpr __harness_indices<__harness_block_size> blockDim{};
inline constexpr __harness_indices<__harness_grid_size> gridDim{};

inline constexpr int warpSize = 64;
