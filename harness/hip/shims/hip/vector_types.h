// The short vectors of HIP, as plain structures with HIP's size and alignment.
#pragma once

#include "keywords.h"

#define __harness_vectors(name, element)                                                                   \
    struct name##1 { element x; };                                                                         \
    struct alignas(2 * sizeof(element)) name##2 { element x, y; };                                         \
    struct name##3 { element x, y, z; };                                                                   \
    struct alignas(4 * sizeof(element)) name##4 { element x, y, z, w; };                                   \
    __host__ __device__ inline name##2 make_##name##2(element x, element y) { return {x, y}; }             \
    __host__ __device__ inline name##4 make_##name##4(element x, element y, element z, element w)          \
    {                                                                                                      \
        return {x, y, z, w};                                                                               \
    }

__harness_vectors(char, signed char)
__harness_vectors(uchar, unsigned char)
__harness_vectors(short, short)
__harness_vectors(ushort, unsigned short)
__harness_vectors(int, int)
__harness_vectors(uint, unsigned)
__harness_vectors(longlong, long long)
__harness_vectors(ulonglong, unsigned long long)
__harness_vectors(float, float)
__harness_vectors(double, double)

#undef __harness_vectors
