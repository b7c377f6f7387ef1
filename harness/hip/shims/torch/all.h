// The names of torch that the signatures of host functions hold; their bodies are not compiled.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace at
{
struct Tensor
{
};
} // namespace at

namespace torch
{
using at::Tensor;
} // namespace torch
