// The type __half as storage: kernels that do fp16 arithmetic use the compiler's own _Float16.
#pragma once

#include "keywords.h"
#include "vector_types.h"

struct __half
{
    _Float16 data;
    __half() = default;
    __host__ __device__ __half(float value) : data(static_cast<_Float16>(value)) {}
    __host__ __device__ operator float() const { return static_cast<float>(data); }
};
struct __half2
{
    __half x, y;
};
typedef __half half;
typedef __half2 half2;
