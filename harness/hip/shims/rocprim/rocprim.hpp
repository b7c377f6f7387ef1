// The two moves between lanes that kernels take out of rocPRIM.
#pragma once

#include "../hip/device_sync.h"

namespace rocprim
{
namespace detail
{
// A data-parallel move: what the control word says, one 32-bit word at a time. A lane without a source, and one
// outside the masks, holds nothing that is defined.
template <typename T, int Control, int RowMask = 0xf, int BankMask = 0xf, bool Bound = false>
__device__ __forceinline__ T warp_move_dpp(const T& input)
{
    return __harness::by_words(
        input, [](int word) { return __builtin_amdgcn_mov_dpp(word, Control, RowMask, BankMask, Bound); });
}
} // namespace detail

template <typename T>
__device__ __forceinline__ T warp_shuffle(const T& input, int source, int width = 64)
{
    return __shfl(input, source, width);
}
} // namespace rocprim
