#pragma once
namespace c10
{
struct BFloat16;
}
