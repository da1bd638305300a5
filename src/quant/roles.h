// What each node is to quantisation.
#pragma once

#include <vector>

#include "ops/definition.h"

namespace kiln {

enum class Role {
  kFloat,    // stays as it is
  kProduct,  // Conv, Gemm, MatMul with constant weights
  kSum,      // Add, Mul of two computed operands
  kTable,    // a function of one number
  kMove,     // only moves numbers: its output has its input's scale
  kJoin,     // Concat
};

Role role_of(const NodeView& node, const OpRegistry& ops);

// Inputs that are data, for roles other than kFloat.
std::vector<size_t> data_inputs(const NodeView& node, Role role);

// Multiply-adds of a Conv, Gemm or MatMul, constant weights or not; 0 for others.
int64_t product_macs(const NodeView& node);

}  // namespace kiln
