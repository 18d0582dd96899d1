// Kernels with a block for each row of `cols` values.
#pragma once
#include "kernels/spec/functions.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// body(k, row, cols), for the blocks that have a row.
template <class Spec>
ptx::Kernel row_kernel(const Spec& spec, auto&& body) {
  using Args = typename Spec::Args;
  check_fields(spec);
  ptx::Builder<Args> k(std::string(Spec::name), spec.threads);
  chain_start(k, spec.chained);
  const ptx::U32 row = k.block_id(), cols = k.arg(&Args::cols);
  chain_wait(k, spec.chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows), [&] { body(k, row, cols); });
  return k.finish();
}

template <class Spec>
ptx::Grid row_grid(const Spec&, const typename Spec::Args& args) {
  if (args.cols == 0) throw Error("{}: rows of 0 columns", Spec::name);
  return {.x = args.rows ? args.rows : 1};  // an empty grid cannot be launched
}

}  // namespace heddle::kernels
