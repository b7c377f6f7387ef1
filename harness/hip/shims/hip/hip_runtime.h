// The part of the HIP language and runtime that kernels and the headers around them name.
// Device functions are the instructions that ROCm's own headers end in, so that the IR is the same.
// Host functions are declared and never defined: only device code is compiled.
#pragma once

#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "device_indices.h"
#include "device_math.h"
#include "device_sync.h"
#include "host_api.h"
#include "vector_types.h"
