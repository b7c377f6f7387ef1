// The unsigned integer of a floating-point key, as radix kernels ask hipCUB for it.
#pragma once

namespace hipcub
{
template <typename T>
struct Traits;

template <>
struct Traits<float>
{
    using UnsignedBits = unsigned;
};
} // namespace hipcub
