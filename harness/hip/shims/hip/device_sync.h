// Barriers, fences, exchanges between lanes and atomics.
#pragma once

#include "keywords.h"

__device__ __forceinline__ unsigned __lane_id()
{
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}

__device__ __forceinline__ void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__device__ __forceinline__ void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
__device__ __forceinline__ void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }

__device__ __forceinline__ unsigned long long __ballot(int predicate)
{
    return __builtin_amdgcn_ballot_w64(predicate != 0);
}
__device__ __forceinline__ int __any(int predicate) { return __ballot(predicate) != 0; }
__device__ __forceinline__ int __all(int predicate) { return __ballot(!predicate) == 0; }

__device__ __forceinline__ int __popc(unsigned bits) { return __builtin_popcount(bits); }
__device__ __forceinline__ int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
__device__ __forceinline__ int __ffs(int bits) { return __builtin_ffs(bits); }
__device__ __forceinline__ int __ffsll(long long bits) { return __builtin_ffsll(bits); }
__device__ __forceinline__ int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(bits); }
__device__ __forceinline__ int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll(bits); }

namespace __harness
{
// A value of any size through an operation on 32-bit words, the last of them filled up.
template <typename T, typename Move>
__device__ __forceinline__ T by_words(T value, Move move)
{
    constexpr int words = (sizeof(T) + 3) / 4;
    int buffer[words]   = {};
    __builtin_memcpy(buffer, &value, sizeof(T));
#pragma unroll
    for(int i = 0; i < words; ++i)
        buffer[i] = move(buffer[i]);
    __builtin_memcpy(&value, buffer, sizeof(T));
    return value;
}

template <typename T>
__device__ __forceinline__ T from_lane(T value, int lane)
{
    return by_words(value, [=](int word) { return __builtin_amdgcn_ds_bpermute(lane << 2, word); });
}
} // namespace __harness

template <typename T>
__device__ __forceinline__ T __shfl(T value, int source, int width = 64)
{
    const int self = static_cast<int>(__lane_id());
    return __harness::from_lane(value, (source & (width - 1)) + (self & ~(width - 1)));
}

template <typename T>
__device__ __forceinline__ T __shfl_xor(T value, int mask, int width = 64)
{
    const int self  = static_cast<int>(__lane_id());
    const int other = self ^ mask;
    return __harness::from_lane(value, other >= ((self + width) & ~(width - 1)) ? self : other);
}

template <typename T>
__device__ __forceinline__ T __shfl_up(T value, unsigned distance, int width = 64)
{
    const int self  = static_cast<int>(__lane_id());
    const int other = self - static_cast<int>(distance);
    return __harness::from_lane(value, other < (self & ~(width - 1)) ? self : other);
}

template <typename T>
__device__ __forceinline__ T __shfl_down(T value, unsigned distance, int width = 64)
{
    const int self  = static_cast<int>(__lane_id());
    const int other = self + static_cast<int>(distance);
    return __harness::from_lane(value, (self & (width - 1)) + static_cast<int>(distance) >= width ? self : other);
}

template <typename T>
__device__ __forceinline__ T atomicAdd(T* address, T value)
{
    return __hip_atomic_fetch_add(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <typename T>
__device__ __forceinline__ T atomicMax(T* address, T value)
{
    return __hip_atomic_fetch_max(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <typename T>
__device__ __forceinline__ T atomicMin(T* address, T value)
{
    return __hip_atomic_fetch_min(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <typename T>
__device__ __forceinline__ T atomicOr(T* address, T value)
{
    return __hip_atomic_fetch_or(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <typename T>
__device__ __forceinline__ T atomicExch(T* address, T value)
{
    return __hip_atomic_exchange(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <typename T>
__device__ __forceinline__ T atomicCAS(T* address, T expected, T value)
{
    __hip_atomic_compare_exchange_strong(
        address, &expected, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}

// Whether any thread of the block has a predicate that is not zero.
__device__ inline int __syncthreads_or(int predicate)
{
    static __shared__ int seen;
    __syncthreads();
    if(__builtin_amdgcn_workitem_id_x() == 0 && __builtin_amdgcn_workitem_id_y() == 0 &&
       __builtin_amdgcn_workitem_id_z() == 0)
        seen = 0;
    __syncthreads();
    if(predicate != 0)
        atomicOr(&seen, 1);
    __syncthreads();
    return seen;
}
