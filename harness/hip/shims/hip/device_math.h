// Device versions of the C functions, as ROCm's headers map them for fp32.
#pragma once

#include "keywords.h"

#include <cmath>

__device__ __forceinline__ float fabsf(float x) { return __builtin_fabsf(x); }
__device__ __forceinline__ float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
__device__ __forceinline__ float fminf(float x, float y) { return __builtin_fminf(x, y); }
__device__ __forceinline__ float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__device__ __forceinline__ float ceilf(float x) { return __builtin_ceilf(x); }
__device__ __forceinline__ float floorf(float x) { return __builtin_floorf(x); }
__device__ __forceinline__ float truncf(float x) { return __builtin_truncf(x); }
__device__ __forceinline__ float rintf(float x) { return __builtin_rintf(x); }
__device__ __forceinline__ float roundf(float x) { return __builtin_roundf(x); }
__device__ __forceinline__ float exp2f(float x) { return __builtin_exp2f(x); }
__device__ __forceinline__ float log2f(float x) { return __builtin_log2f(x); }
__device__ __forceinline__ float sqrtf(float x) { return __builtin_sqrtf(x); }
__device__ __forceinline__ float rsqrtf(float x) { return __builtin_amdgcn_rsqf(x); }
__device__ __forceinline__ float ldexpf(float x, int e) { return __builtin_amdgcn_ldexpf(x, e); }
__device__ __forceinline__ float copysignf(float x, float y) { return __builtin_copysignf(x, y); }

__device__ __forceinline__ double fmax(double x, double y) { return __builtin_fmax(x, y); }
__device__ __forceinline__ double fmin(double x, double y) { return __builtin_fmin(x, y); }
__device__ __forceinline__ double fabs(double x) { return __builtin_fabs(x); }

__device__ __forceinline__ int abs(int x) { return x < 0 ? -x : x; }
__device__ __forceinline__ int min(int x, int y) { return x < y ? x : y; }
__device__ __forceinline__ int max(int x, int y) { return x > y ? x : y; }
__device__ __forceinline__ unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
__device__ __forceinline__ unsigned max(unsigned x, unsigned y) { return x > y ? x : y; }

__device__ __forceinline__ unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
__device__ __forceinline__ int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
__device__ __forceinline__ float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
__device__ __forceinline__ float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
