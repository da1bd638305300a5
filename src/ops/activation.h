// How fused activations are written on a node (compile side; kinds and formulas: cpu/activation_kind.h).
#pragma once

#include "cpu/activation_kind.h"
#include "graph/graph.h"

namespace kiln {

// Reads the attributes `activation` ("Clip", "LeakyRelu", "Sigmoid", "Silu", "HardSigmoid", "HardSwish",
// "Tanh"; absent = none), `activation_a`, `activation_b` that the fusing passes set on a node. Compile side
// only.
inline Activation read_activation(const Node& node) {
  static constexpr const char* kNames[kNumActivations] = {"",     "Clip",        "LeakyRelu", "Sigmoid",
                                                          "Silu", "HardSigmoid", "HardSwish", "Tanh"};
  Activation activation;
  const std::string name = attr_string(node, "activation", "");
  for (int32_t i = 0; i < kNumActivations; ++i) {
    if (name == kNames[i]) activation.kind = i;
  }
  activation.a = attr_float(node, "activation_a", 0.0f);
  activation.b = attr_float(node, "activation_b", 0.0f);
  return activation;
}

}  // namespace kiln
