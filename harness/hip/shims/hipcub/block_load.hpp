// BlockLoad and BlockStore: thread t holds items t * Items .. t * Items + Items - 1, whatever the algorithm.
#pragma once

#include "../hip/device_indices.h"
#include "../hip/device_sync.h"

namespace hipcub
{
enum BlockLoadAlgorithm
{
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE,
};
enum BlockStoreAlgorithm
{
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE,
};

template <typename T, int Threads, int Items, BlockLoadAlgorithm = BLOCK_LOAD_DIRECT>
struct BlockLoad
{
    struct TempStorage
    {
    };
    __device__ __forceinline__ explicit BlockLoad(TempStorage&) {}

    template <typename Source>
    __device__ __forceinline__ void Load(Source source, T (&items)[Items])
    {
#pragma unroll
        for(int i = 0; i < Items; ++i)
            items[i] = source[threadIdx.x * Items + i];
    }
};

template <typename T, int Threads, int Items, BlockStoreAlgorithm = BLOCK_STORE_DIRECT>
struct BlockStore
{
    struct TempStorage
    {
    };
    __device__ __forceinline__ explicit BlockStore(TempStorage&) {}

    template <typename Target>
    __device__ __forceinline__ void Store(Target target, T (&items)[Items])
    {
#pragma unroll
        for(int i = 0; i < Items; ++i)
            target[threadIdx.x * Items + i] = items[i];
    }
};
} // namespace hipcub
