// hipCUB's block primitives with the interface and the synchronisation contract of the originals, written anew:
// a call writes its storage at once and ends without a barrier, so that storage reused without a barrier between
// two calls is a race here as it is there. Only what is called by the kernels under test; blocks of one dimension.
#pragma once

#include "block_load.hpp"
#include "block_scan.hpp"
#include "block_sort.hpp"
#include "util_type.hpp"
