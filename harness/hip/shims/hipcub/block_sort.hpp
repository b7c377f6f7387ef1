// BlockRadixSort: the keys of a block in ascending order. Keys only, so that any order of sorting gives the
// same result; a bitonic network stands in for the radix passes.
#pragma once

#include "../hip/device_indices.h"
#include "../hip/device_sync.h"

namespace hipcub
{
template <typename Key, int Threads, int Items>
class BlockRadixSort
{
    static constexpr int Keys = Threads * Items;
    static_assert((Keys & (Keys - 1)) == 0, "the shim sorts a power of two of keys");

  public:
    struct TempStorage
    {
        Key keys[Keys];
    };
    __device__ __forceinline__ explicit BlockRadixSort(TempStorage& storage) : storage_(storage) {}

    __device__ __forceinline__ void Sort(Key (&keys)[Items])
    {
#pragma unroll
        for(int i = 0; i < Items; ++i)
            storage_.keys[threadIdx.x * Items + i] = keys[i];
        __syncthreads();
#pragma clang loop unroll(disable)
        for(unsigned size = 2; size <= Keys; size *= 2)
        {
#pragma clang loop unroll(disable)
            for(unsigned distance = size / 2; distance > 0; distance /= 2)
            {
#pragma unroll
                for(unsigned i = threadIdx.x; i < Keys; i += Threads)
                    exchange(i, i ^ distance, (i & size) == 0);
                __syncthreads();
            }
        }
#pragma unroll
        for(int i = 0; i < Items; ++i)
            keys[i] = storage_.keys[threadIdx.x * Items + i];
    }

  private:
    TempStorage& storage_;

    // The thread of the lower place swaps when the two are not in the order wanted.
    __device__ __forceinline__ void exchange(unsigned low, unsigned high, bool ascending)
    {
        if(high < low)
            return;
        const Key first = storage_.keys[low], second = storage_.keys[high];
        if((second < first) == ascending)
        {
            storage_.keys[low]  = second;
            storage_.keys[high] = first;
        }
    }
};
} // namespace hipcub
