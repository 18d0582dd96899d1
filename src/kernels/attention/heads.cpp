// A warp takes a head of q, k or v; where a norm is over all heads, a block takes all of q, of k or of v. The row is
// read once more for what is written: it comes out of L1. A q8 cache is written from the finished row, a group at a
// time, because a scale needs all of its values. Where values are keys, the warp or block of a head stores its values
// first.
#include "kernels/attention/heads.h"

#include "kernels/attention/kv_cache.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t warps_of_heads = 4, threads_of_rows = 256;

// NaN stays NaN.
F32 clamped(F32 v, F32 largest) { return select(v > largest, largest, select(v < -largest, -largest, v)); }

// The nearest f16, clamped to +-65504. NaN stays NaN.
F16 to_f16_in_range(F32 v) { return to_f16(select(v == v, min(max(v, -65504.0f), 65504.0f), v)); }

}  // namespace

Kernel Heads::build() const {
  check_fields(*this);
  const bool by_block = over == all_heads && (q_norm != norm_none || k_norm != norm_none);
  if (by_block && v_norm != norm_none)
    throw Error("{}: a norm of each head of v beside one over all heads of q or k", name);
  if (leaves_q() && !kv_units()) throw Error("{}: q stays as it is and nothing is stored", name);
  Builder<Args> k(std::string(name),
                  {.threads = by_block ? threads_of_rows : warps_of_heads * 32, .max_registers = 64});
  chain_start(k, chained);
  const U32 row = k.block_id(), unit = by_block ? k.block_y() : k.block_y() * warps_of_heads + k.warp();
  const U32 heads = k.arg(&Args::heads), kv_heads = k.arg(&Args::kv_heads);
  const U32 member = by_block ? k.thread() : k.lane();  // of those that share a unit
  const uint32_t members = by_block ? threads_of_rows : 32;

  struct Slice {
    Global<float> x;   // of this row
    U32 first, count;  // heads of this unit
    U32 size;          // of a head
    uint32_t norm = norm_none;
    Global<float> weight{}, bias{};
    F32 epsilon{};
    bool turned = false;
    bool clamped = false;    // after the norm
    bool of_values = false;  // one weight for all heads, and no bias
  };
  // put(head, index, value) for every value of a unit.
  auto make = [&](const Slice& slice, U32 position, auto&& put) {
    const U32 start = slice.first * slice.size, span = by_block ? slice.count * slice.size : slice.size;
    const auto x = slice.x + start;
    auto each = [&](auto&& f) { k.loop(member, span, members, [&](U32 i) { f(load(x + i)); }); };
    auto finished = [&](F32 v) { return slice.clamped ? clamped(v, k.arg(&Args::largest)) : v; };
    const bool one_weight = over == each_head || slice.of_values;
    auto sum = [&](F32 v) { return by_block ? block_sum(k, v) : warp_sum(v); };
    const RowNorm norm = row_norm(k, slice.norm, span, slice.epsilon, each, sum);

    // first the rotated pairs of each head, then its other values one by one
    const U32 half = slice.turned ? k.arg(&Args::dimensions) >> 1 : k.constant(0u), items = slice.size - half;
    k.loop(member, by_block ? slice.count * items : items, members, [&](U32 unit_item) {
      const U32 in_unit = by_block ? unit_item / items : k.constant(0u), item = unit_item - in_unit * items;
      const U32 head = slice.first + in_unit;
      auto value = [&](U32 i) {
        const U32 at = in_unit * slice.size + i;
        F32 v = norm.of(load(x + at));
        if (slice.norm == norm_none) return finished(v);
        const U32 of_weight = one_weight ? i : start + at;
        const F32 w = load(slice.weight + of_weight, {.nc = true});
        if (!bias || slice.of_values) return finished(v * w);
        auto added = k.var(0.0f);
        k.when(slice.bias.address() != uint64_t(0), [&] { added = load(slice.bias + of_weight, {.nc = true}); });
        return finished(fma(v, w, added.get()));
      };
      auto keep = [&] {
        const U32 i = item + half;
        put(head, i, value(i));
      };
      auto turn = [&] {
        const U32 i = rotation == pairs ? item * 2u : item, j = rotation == pairs ? i + 1u : i + half;
        const U64 turns = widen(position) * load(k.arg(&Args::turns) + item, {.nc = true});
        const auto [sin, cos] = sin_cos_of_turns(turns);
        const F32 m = k.arg(&Args::magnitude), s = sin * m, c = cos * m, a = value(i), b = value(j);
        put(head, i, fma(a, c, -(b * s)));
        put(head, j, fma(a, s, b * c));
      };
      slice.turned ? k.when_else(item < half, turn, keep) : keep();
    });
  };

  // The same, with the norm after the rotation: the rotated values go through memory.
  auto make_in_order = [&](const Slice& slice, U32 position, auto&& put) {
    if (!norm_last || slice.norm == norm_none || !slice.turned) return make(slice, position, put);
    Slice turn = slice, rest = slice;
    turn.norm = norm_none;
    turn.clamped = false;
    make(turn, position, [&](U32 h, U32 i, F32 v) { store(slice.x + (h * slice.size + i), v); });
    by_block ? k.barrier() : k.warp_sync();
    rest.turned = false;
    make(rest, position, put);
  };

  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows), [&] {
    const U32 position = k.assume_uniform(load(k.arg(&Args::positions) + row));
    k.when(position < no_position, [&] {
      const PagedRows<Args> pages(k, load(k.arg(&Args::sequences) + row));
      const U32 q_units = leaves_q() ? k.constant(0u) : by_block ? k.constant(1u) : heads;
      const U32 kv_units = by_block ? k.constant(1u) : kv_heads;
      const U32 values_from = stores == keys_and_values ? q_units + kv_units : q_units;
      const U32 head = k.arg(&Args::head), value_head = k.arg(&Args::value_head);
      auto of_row = [&](auto buffer, auto stride) { return k.arg(buffer) + mul_wide(row, k.arg(stride)); };
      auto heads_from = [&](U32 unit_before) { return by_block ? k.constant(0u) : unit - unit_before; };
      auto into = [&](Global<f16> cache, U32 size) {
        return [&pages, position, cache, size](U32 kv_head, U32 i, F32 v) {
          store(cache + pages.row(position, kv_head) * widen(size) + i, to_f16_in_range(v));
        };
      };
      const Pred is_k = unit >= q_units && unit < q_units + kv_units;
      const Pred is_v = unit >= q_units + kv_units && unit < q_units + kv_units + kv_units;
      if (!leaves_q())
        k.when(unit < q_units, [&] {
          const Slice q{.x = of_row(&Args::q, &Args::q_stride),
                        .first = heads_from(k.constant(0u)),
                        .count = heads,
                        .size = head,
                        .norm = q_norm,
                        .weight = k.arg(&Args::q_weight),
                        .bias = k.arg(&Args::q_bias),
                        .epsilon = k.arg(&Args::q_epsilon),
                        .turned = rotation != none,
                        .clamped = clamp != 0};
          F32 factor;
          if (temperature) {
            const F32 steps = to_f32((position + k.arg(&Args::offset)) / k.arg(&Args::length));
            factor = fma(lg2_approx(steps + 1.0f) * 0x1.62e43p-1f, k.arg(&Args::temperature), 1.0f);
          }
          make_in_order(q, position,
                        [&](U32 h, U32 i, F32 v) { store(q.x + (h * head + i), temperature ? v * factor : v); });
        });
      if (stores == nothing) return;
      const Slice keys{.x = of_row(&Args::k, &Args::k_stride),
                       .first = heads_from(q_units),
                       .count = kv_heads,
                       .size = head,
                       .norm = k_norm,
                       .weight = k.arg(&Args::k_weight),
                       .bias = k.arg(&Args::k_bias),
                       .epsilon = k.arg(&Args::k_epsilon),
                       .turned = rotation != none,
                       .clamped = clamp != 0};
      const Slice values{.x = of_row(&Args::v, &Args::v_stride),
                         .first = heads_from(values_from),
                         .count = kv_heads,
                         .size = value_head,
                         .norm = v_norm,
                         .weight = k.arg(&Args::v_weight),
                         .epsilon = k.arg(&Args::v_epsilon),
                         .clamped = clamp != 0,
                         .of_values = true};
      auto meet = [&] { by_block ? k.barrier() : k.warp_sync(); };
      if (kv == kv_f16) {
        auto store_values = [&] { make(values, position, into(k.arg(&Args::v_cache), value_head)); };
        k.when(is_k, [&] {
          if (stores == keys_as_values) store_values();
          if (stores == keys_as_values && norm_last) meet();
          make_in_order(keys, position, into(k.arg(&Args::k_cache), head));
        });
        if (stores == keys_and_values) k.when(is_v, store_values);
        return;
      }
      // each warp takes one group of up to 32 values of the unit at a time
      auto quantise = [&](const Slice& slice, Global<f16> cache, Global<f16> scales) {
        const U32 of_head = q8_groups(slice.size), groups = by_block ? slice.count * of_head : of_head;
        const auto x = slice.x + slice.first * slice.size;
        auto each = [&](auto&& f) { k.loop(member, slice.size, members, [&](U32 i) { f(load(x + i)); }); };
        const RowNorm norm =
            row_norm(k, slice.norm, slice.size, slice.epsilon, each, [](F32 v) { return warp_sum(v); });
        k.loop(by_block ? k.warp() : k.constant(0u), groups, by_block ? k.warps() : 1, [&](U32 group) {
          const U32 in_unit = by_block ? group / of_head : k.constant(0u), in_head = group - in_unit * of_head;
          const U32 kv_head = slice.first + in_unit, at = in_head * 32u + k.lane();
          auto given = k.var(0.0f);
          k.when(at < slice.size, [&] {
            given = norm.of(load(slice.x + (kv_head * slice.size + at)));
            if (slice.norm != norm_none) given *= load(slice.weight + at, {.nc = true});
          });
          const KvQ8 value(slice.clamped ? clamped(given.get(), k.arg(&Args::largest)) : given.get());
          const U64 place = pages.row(position, kv_head);
          k.when(at < slice.size,
                 [&] { store(cache.as<uint8_t>() + place * widen(slice.size) + at, bitcast<uint32_t>(value.q)); });
          k.when(k.lane() == 0u, [&] { store(scales + place * widen(of_head) + in_head, value.scale); });
        });
      };
      auto quantise_values = [&] { quantise(values, k.arg(&Args::v_cache), k.arg(&Args::v_scale)); };
      if (stores == keys_as_values)
        k.when(is_k, [&] {
          quantise_values();
          meet();  // they are read before keys are made of them
        });
      const bool makes_k = k_norm != norm_none || rotation != none;
      if (makes_k) {
        k.when(is_k,
               [&] { make_in_order(keys, position, [&](U32 h, U32 i, F32 v) { store(keys.x + (h * head + i), v); }); });
        k.barrier();
      }
      Slice made = keys;
      made.norm = norm_none;
      made.clamped = keys.clamped && !makes_k;
      k.when(is_k, [&] { quantise(made, k.arg(&Args::k_cache), k.arg(&Args::k_scale)); });
      if (stores == keys_and_values) k.when(is_v, quantise_values);
    });
  });
  return k.finish();
}

Grid Heads::grid(const Args& args) const {
  check_paged_heads(name, args, 512);
  if (rotation != none && (args.dimensions % 2 || args.dimensions > args.head))
    throw Error("{}: {} dimensions of heads of {} values are rotated; an even number, not above that, expected", name,
                args.dimensions, args.head);
  check_stride(name, "q", args.rows, args.q_stride, uint64_t(args.heads) * args.head);
  if (kv_units()) {
    check_stride(name, "k", args.rows, args.k_stride, uint64_t(args.kv_heads) * args.head);
    check_stride(name, "v", args.rows, args.v_stride, uint64_t(args.kv_heads) * args.value_head);
  }
  if (stores == keys_as_values &&
      (args.head != args.value_head || args.k.address != args.v.address || args.k_stride != args.v_stride))
    throw Error("{}: values that are keys, but they lie elsewhere or have heads of {} and {}", name, args.value_head,
                args.head);
  const bool by_block = over == all_heads && (q_norm != norm_none || k_norm != norm_none);
  const uint64_t units = (leaves_q() ? 0 : args.heads) + kv_units() * uint64_t(args.kv_heads);
  const uint64_t blocks = by_block ? !leaves_q() + kv_units() : (units + warps_of_heads - 1) / warps_of_heads;
  if (blocks > 65535) throw Error("{}: {} heads, {} at most", name, units, 65535 * warps_of_heads);
  return {.x = args.rows ? args.rows : 1, .y = uint32_t(blocks)};
}

void add_heads_kernels(std::vector<Entry>& all) { all.push_back(entry<Heads>()); }

}  // namespace heddle::kernels
