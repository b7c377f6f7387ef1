#pragma once
namespace c10
{
struct Half;
}
