// A thread has four accesses in flight: the host's memory is far away.
#include "kernels/layer/move_parts.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t in_flight = 4;

}  // namespace

Kernel MoveParts::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const U32 part = k.block_y();
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(part < k.arg(&Args::count), [&] {
    const auto place = k.arg(&Args::places) + part * 3u;
    const U64 address = load(place), bytes = load(place + 1u), offset = load(place + 2u);
    const Global<uint32_t> device{address + bytes * widen(k.arg(&Args::index))};
    const Global<uint32_t> host{k.arg(&Args::host).base + offset};
    const auto from = to_host ? device : host, to = to_host ? host : device;
    const U32 words = ptx::to<uint32_t>(bytes >> 2);
    const U32 first = (k.block_id() * (threads * in_flight) + k.thread()) * vec;
    std::vector<std::vector<Var<uint32_t>>> held;
    for (uint32_t i = 0; i < in_flight; ++i) {
      held.emplace_back();
      for (uint32_t j = 0; j < vec; ++j) held.back().push_back(k.var(0u));
    }
    const auto each = [&](auto&& f) {
      for (uint32_t i = 0; i < in_flight; ++i) {
        const U32 at = first + i * threads * vec;
        k.when(at < words, [&] { f(at, held[i]); });
      }
    };
    each([&](U32 at, auto& values) {
      const auto loaded = load_wide(from + at, vec);
      for (uint32_t j = 0; j < vec; ++j) values[j] = loaded[j];
    });
    each([&](U32 at, auto& values) {
      std::vector<U32> stored;
      for (auto& value : values) stored.push_back(value.get());
      store_wide(to + at, stored);
    });
  });
  return k.finish();
}

Grid MoveParts::grid(const Args& args) const {
  if (args.largest == 0 || args.largest % (vec * 4))
    throw Error("{}: parts of up to {} bytes, expected multiples of {}", name, args.largest, vec * 4);
  if (args.count == 0 || args.count > 65535) throw Error("{}: {} parts, expected 1 to 65535", name, args.count);
  const uint32_t of_block = threads * vec * 4 * in_flight;
  return {.x = (args.largest + of_block - 1) / of_block, .y = args.count};
}

void add_move_parts_kernels(std::vector<Entry>& all) { all.push_back(entry<MoveParts>()); }

}  // namespace heddle::kernels
