// BlockScan: prefix sums over the threads of a block, or over Items values of each of them in thread order.
#pragma once

#include "../hip/device_indices.h"
#include "../hip/device_sync.h"

namespace hipcub
{
enum BlockScanAlgorithm
{
    BLOCK_SCAN_RAKING,
    BLOCK_SCAN_RAKING_MEMOIZE,
    BLOCK_SCAN_WARP_SCANS,
};

template <typename T, int Threads, BlockScanAlgorithm = BLOCK_SCAN_RAKING>
class BlockScan
{
    static constexpr int Waves = (Threads + 63) / 64;
    static_assert(Threads % 64 == 0, "the shim scans whole waves");
    static_assert((Waves & (Waves - 1)) == 0, "the shim scans a power of two of waves");

  public:
    struct TempStorage
    {
        T wave_sums[Waves];
    };
    __device__ __forceinline__ explicit BlockScan(TempStorage& storage) : storage_(storage) {}

    __device__ __forceinline__ void InclusiveSum(T value, T& sum)
    {
        T total;
        InclusiveSum(value, sum, total);
    }

    __device__ __forceinline__ void InclusiveSum(T value, T& sum, T& total)
    {
        const int lane = static_cast<int>(__lane_id());
        const int wave = static_cast<int>(threadIdx.x) / 64;
        const T within = lanes_before<64>(value, lane);
        if(lane == 63)
            storage_.wave_sums[wave] = within;
        __syncthreads();
        const T sums  = lanes_before<Waves>(storage_.wave_sums[lane % Waves], lane % Waves);
        const T before = __shfl(sums, wave == 0 ? 0 : wave - 1);
        sum            = wave == 0 ? within : before + within;
        total          = __shfl(sums, Waves - 1);
    }

    __device__ __forceinline__ void ExclusiveSum(T value, T& sum)
    {
        T total;
        ExclusiveSum(value, sum, total);
    }

    __device__ __forceinline__ void ExclusiveSum(T value, T& sum, T& total)
    {
        T inclusive;
        InclusiveSum(value, inclusive, total);
        sum = inclusive - value;
    }

    template <int Items>
    __device__ __forceinline__ void InclusiveSum(T (&values)[Items], T (&sums)[Items])
    {
        T own[Items];
        own[0] = values[0];
#pragma unroll
        for(int i = 1; i < Items; ++i)
            own[i] = own[i - 1] + values[i];
        T before;
        ExclusiveSum(own[Items - 1], before);
#pragma unroll
        for(int i = 0; i < Items; ++i)
            sums[i] = before + own[i];
    }

  private:
    TempStorage& storage_;

    // Sum of the values of a group of Width lanes up to and including this one.
    template <int Width>
    static __device__ __forceinline__ T lanes_before(T value, int index)
    {
#pragma unroll
        for(int distance = 1; distance < Width; distance *= 2)
        {
            const T other = __shfl_up(value, distance, Width);
            value += index >= distance ? other : T(0);
        }
        return value;
    }
};
} // namespace hipcub
