// The bf16 types of HIP and the conversions between them and fp32 (round to nearest even).
#pragma once

#include "keywords.h"
#include "vector_types.h"

struct __hip_bfloat16
{
    __bf16 data;
    __hip_bfloat16() = default;
    __host__ __device__ __hip_bfloat16(float value) : data(static_cast<__bf16>(value)) {}
    __host__ __device__ operator float() const { return static_cast<float>(data); }
};
struct alignas(4) __hip_bfloat162
{
    __hip_bfloat16 x, y;
};

__device__ __forceinline__ float __bfloat162float(__hip_bfloat16 value) { return static_cast<float>(value); }
__device__ __forceinline__ __hip_bfloat16 __float2bfloat16(float value) { return __hip_bfloat16(value); }
__device__ __forceinline__ float2 __bfloat1622float2(__hip_bfloat162 value) { return {value.x, value.y}; }
__device__ __forceinline__ __hip_bfloat162 __float22bfloat162_rn(float2 value) { return {value.x, value.y}; }
__device__ __forceinline__ __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 value) { return {value, value}; }

__device__ __forceinline__ __hip_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    __hip_bfloat16 value;
    value.data = __builtin_bit_cast(__bf16, bits);
    return value;
}
__device__ __forceinline__ __hip_bfloat16 __hadd(__hip_bfloat16 x, __hip_bfloat16 y) { return float(x) + float(y); }
__device__ __forceinline__ __hip_bfloat16 __hmul(__hip_bfloat16 x, __hip_bfloat16 y) { return float(x) * float(y); }
__device__ __forceinline__ __hip_bfloat162 __hadd2(__hip_bfloat162 x, __hip_bfloat162 y)
{
    return {__hadd(x.x, y.x), __hadd(x.y, y.y)};
}
__device__ __forceinline__ __hip_bfloat162 __hmul2(__hip_bfloat162 x, __hip_bfloat162 y)
{
    return {__hmul(x.x, y.x), __hmul(x.y, y.y)};
}
// Never compiled into a subject: the headers of the attention kernels only name it.
__device__ __hip_bfloat162 __hfma2(__hip_bfloat162, __hip_bfloat162, __hip_bfloat162);
