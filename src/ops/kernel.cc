#include "ops/kernel.h"

#include <cstring>

namespace kiln {

#define KILN_OP(folder)                 \
  namespace ops::folder {               \
  std::span<const KernelDef> kernels(); \
  }
#include "ops/ops.def"
#undef KILN_OP

Status check_operands(const KernelArgs& args, int min_in, int max_in, int num_out) {
  if (args.num_in < min_in || args.num_in > max_in) return {Code::kCorrupt, strf("step has %d inputs", args.num_in)};
  if (args.num_out != num_out) return {Code::kCorrupt, strf("step has %d outputs, not %d", args.num_out, num_out)};
  for (int i = 0; i < min_in; ++i) {
    if (!args.in[i].present()) return {Code::kCorrupt, strf("input %d is absent", i)};
  }
  for (int i = 0; i < num_out; ++i) {
    if (!args.out[i].present()) return {Code::kCorrupt, strf("output %d is absent", i)};
  }
  return {};
}

void KernelRegistry::add(std::span<const KernelDef> table) {
  DCHECK(num_tables_ < kMaxTables);
  tables_[num_tables_++] = table;
}

const KernelDef* KernelRegistry::find(const char* name) const {
  for (int t = num_tables_ - 1; t >= 0; --t) {  // later tables replace earlier kernels of the same name
    for (const KernelDef& def : tables_[t]) {
      if (std::strcmp(def.name, name) == 0) return &def;
    }
  }
  return nullptr;
}

const KernelRegistry& builtin_kernels() {
  static const KernelRegistry registry = [] {
    KernelRegistry all;
#define KILN_OP(folder) all.add(ops::folder::kernels());
#include "ops/ops.def"
#undef KILN_OP
    return all;
  }();
  return registry;
}

}  // namespace kiln
