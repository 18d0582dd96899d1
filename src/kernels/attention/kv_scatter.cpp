// KV scatter: a block takes one row and 128 times four values of it, K and V alike.
#include "kernels/attention/kv_scatter.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/chain.h"

namespace heddle::kernels {

using namespace ptx;

namespace {
constexpr uint32_t threads = 128;
}

Kernel KvScatter::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  chain_wait(k, chained);
  U32 row = k.block_id(), quad = k.block_y() * threads + k.thread();
  U32 head = quad / (head_dim / 4), value = quad * 4u;  // of the row
  k.when(row < k.arg(&Args::rows) && head < k.arg(&Args::kv_heads), [&] {
    S32 position = load(k.arg(&Args::positions) + row);
    k.when(position >= 0, [&] {
      U32 sequence = mapped ? bitcast<uint32_t>(load(k.arg(&Args::sequence_of) + row)) : row;
      KvCache<Args> cache(k, layout, head_dim * kv_bytes(kv), sequence, head);
      U64 to = cache.offset(bitcast<uint32_t>(position)) + widen((value - head * head_dim) * kv_bytes(kv));
      auto copy = [&](Global<float> from, U32 stride, Global<uint8_t> base) {
        auto v = load_vec<4>(from + mul_wide(row, stride) + value);
        if (kv == kv_f32)
          store_vec((base + to).as<float>(), v);
        else
          store_vec((base + to).as<f16>(), Vec<f16, 4>{to_f16(v[0]), to_f16(v[1]), to_f16(v[2]), to_f16(v[3])});
      };
      copy(k.arg(&Args::k_new), k.arg(&Args::k_stride), cache.k());
      copy(k.arg(&Args::v_new), k.arg(&Args::v_stride), cache.v());
    });
  });
  return k.finish();
}

Grid KvScatter::grid(const Args& args) const {
  const uint64_t values = uint64_t(args.kv_heads) * head_dim;
  auto suits = [&](const char* which, uint64_t address, uint32_t stride) {
    if (address % 16 || stride % 4 || (args.rows > 1 && stride < values))
      throw Error(
          "kv_scatter: {} at {:#x} with a stride of {}; 16-byte alignment and a multiple of 4, at least {}, "
          "expected",
          which, address, stride, values);
  };
  suits("k_new", args.k_new.address, args.k_stride);
  suits("v_new", args.v_new.address, args.v_stride);
  if (layout == kv_paged && (args.page_size == 0 || args.page_size % 16))
    throw Error("kv_scatter: pages of {} positions, but they must be a positive multiple of 16", args.page_size);
  if (layout != kv_batched && (args.k.address % 16 || args.v.address % 16))
    throw Error("kv_scatter: k and v must be 16-byte aligned, found {:#x} and {:#x}", args.k.address, args.v.address);
  const uint64_t blocks = (values / 4 + threads - 1) / threads;
  if (blocks > 65535) throw Error("kv_scatter: {} values per row, {} at most", values, 65535u * threads * 4);
  return {.x = args.rows ? args.rows : 1, .y = blocks ? uint32_t(blocks) : 1};
}

void add_kv_scatter_kernels(std::vector<Entry>& all) { all.push_back(entry<KvScatter>()); }

}  // namespace heddle::kernels
