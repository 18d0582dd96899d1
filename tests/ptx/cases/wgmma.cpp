// wgmma against a plain triple loop. The kernel lays the tiles out in shared memory in every way that a descriptor can
// describe, from the PTX manual's canonical layouts; the interpreter has its own.
#include "base/error.h"
#include "tests/ptx/cases/product.h"

namespace heddle::ptx::cases {
namespace {

// How a matrix of `lines` (m or n) by k lies in shared memory. `spread` is the second way to place the pieces: the two
// distances of the descriptor change their order.
struct Layout {
  Swizzle swizzle = Swizzle::b128;
  bool k_major = true;
  bool spread = false;
};
constexpr uint32_t width_of(Swizzle s) { return 16u << uint32_t(s); }

// A matrix in shared memory in 16-byte chunks. In global memory the contiguous dimension is k (K-major) or m/n.
struct SharedMatrix {
  Layout layout;
  uint32_t lines, k, bytes;  // elements, elements, bytes of an element

  uint32_t width() const { return width_of(layout.swizzle); }
  uint32_t chunks_in_row() const { return (layout.k_major ? k : lines) * bytes / 16; }  // of global memory
  uint32_t rows() const { return layout.k_major ? lines : k; }
  uint32_t across() const { return (chunks_in_row() * 16 + width() - 1) / width(); }  // pieces along a row
  uint32_t down() const { return (rows() + 7) / 8; }                                  // pieces of 8 rows
  uint32_t piece() const { return 8 * width(); }
  uint32_t size() const { return across() * down() * piece(); }
  // Bytes from a piece to the next one along a row, and to the one 8 rows below.
  uint32_t next_across() const { return layout.spread ? piece() : down() * piece(); }
  uint32_t next_down() const { return layout.spread ? across() * piece() : piece(); }

  // What the descriptor calls them depends on the layout.
  uint32_t leading() const {
    if (layout.swizzle == Swizzle::none) return layout.k_major ? next_across() : next_down();
    return layout.k_major ? 16 : next_across();  // K-major with a swizzle: not used
  }
  uint32_t stride() const {
    if (layout.swizzle == Swizzle::none) return layout.k_major ? next_down() : next_across();
    return next_down();
  }
  // Where the part for instruction `step` along k begins; one takes 32 bytes of each K-major row, or 16 MN-major rows.
  uint32_t start(uint32_t step) const {
    if (!layout.k_major) return 2 * step * next_down();
    if (layout.swizzle == Swizzle::none) return 2 * step * next_across();
    const uint32_t per_piece = width() / 32;
    return step / per_piece * next_across() + step % per_piece * 32;
  }

  // Copies the matrix from `from` with all threads of the block.
  void fill(Code& k_, Global<uint8_t> from, Shared<uint8_t> to) const {
    const uint32_t chunks = rows() * chunks_in_row();
    for (uint32_t base = 0; base < chunks; base += k_.threads()) {
      const auto copy = [&] {
        U32 i = k_.thread() + base;
        U32 row = i / chunks_in_row(), chunk = i % chunks_in_row();
        const uint32_t per_row = width() / 16;
        U32 at = row / 8u * next_down() + row % 8u * width() + chunk / per_row * next_across() + chunk % per_row * 16u;
        U32 place = at ^ (at >> 3u & (width() - 16));  // to begins at a multiple of 1024
        store_vec((to + place).as<uint32_t>(), load_vec<4>((from + i * 16u).as<uint32_t>()));
      };
      if (base + k_.threads() <= chunks)
        copy();
      else
        k_.when(k_.thread() + base < chunks, copy);
    }
  }
  U64 descriptor(Shared<uint8_t> at, uint32_t step) const {
    return matrix_descriptor(at.offset(start(step)), leading(), stride(), layout.swizzle);
  }
};

struct WgmmaCase {
  Layout a{}, b{};
  bool a_in_registers = false;
  uint32_t steps = 1, groups = 1;
  bool negate_a = false, negate_b = false;
  bool read_flag = false;
  std::string note{};
};

// What a kernel has ready when its products begin.
struct Operands {
  std::vector<std::array<U32, 4>> a_fragments{};  // of each step, or
  std::vector<U64> a{}, b{};                      // descriptors of each step
  WgmmaOptions options{};
  Pred add{};  // of the first step, where it is read
  Global<uint8_t> c;
  U32 first;  // row of this warp
};

// The part that depends on the types and the width.
template <class T, class A, class B, uint32_t N>
void multiply(ItemKernel& k, const Operands& o) {
  U32 lane = k.lane();
  GroupAcc<T, N> acc(k);
  load_accumulator(acc.var, o.c, o.first, lane, N);
  wgmma_fence(k);
  for (size_t s = 0; s < o.b.size(); ++s) {
    const Arg<bool> add = s == 0 && o.add.rec ? Arg<bool>(o.add) : Arg<bool>(true);
    if (o.a.empty())
      wgmma<A, B>(acc, o.a_fragments[s], o.b[s], add, o.options);
    else
      wgmma<A, B>(acc, o.a[s], o.b[s], add, o.options);
  }
  wgmma_commit(k);
  wgmma_wait(k, 0);
  store_accumulator(acc.var, k.out, o.first, lane, N);
}

Kernel wgmma_kernel(const Product& p, const WgmmaCase& w, void (*products)(ItemKernel&, const Operands&)) {
  const uint32_t bytes = size_of(p.a);
  ItemKernel k("wgmma", 128 * w.groups, p.in_bytes(), p.c_bytes());
  Operands o{.options = {.transpose_a = !w.a_in_registers && !w.a.k_major,
                         .transpose_b = !w.b.k_major,
                         .negate_a = w.negate_a,
                         .negate_b = w.negate_b},
             .c = k.in + p.c_at(),
             .first = k.warp() * 16u};
  SharedMatrix ma{w.a, 64, p.k, bytes}, mb{w.b, p.n, p.k, bytes};
  auto b = k.shared<uint8_t>(mb.size(), 1024);
  mb.fill(k, k.in + p.b_at(), b);
  for (uint32_t s = 0; s < w.steps; ++s) o.b.push_back(mb.descriptor(b, s));
  if (w.a_in_registers) {
    for (uint32_t s = 0; s < w.steps; ++s) {
      auto& fragment = o.a_fragments.emplace_back();
      for (uint32_t r = 0; r < 4; ++r) fragment[r] = load_a(k.in + s * 32, o.first, k.lane(), p.k * bytes, r);
    }
  } else {
    auto a = k.shared<uint8_t>(ma.size() * w.groups, 1024);
    for (uint32_t g = 0; g < w.groups; ++g) ma.fill(k, k.in + g * 64 * p.k * bytes, a.offset(g * ma.size()));
    auto own = w.groups == 1 ? a : a + k.group() * ma.size();
    for (uint32_t s = 0; s < w.steps; ++s) o.a.push_back(ma.descriptor(own, s));
  }
  if (w.read_flag) o.add = k.assume_uniform(load((k.in + p.flag_at()).as<uint32_t>())) != 0u;
  fence_async_shared(k);
  k.barrier();
  products(k, o);
  return k.finish();
}

void add_wgmma(std::vector<Case>& all, Type sum, Type a, Type b, uint32_t n, const WgmmaCase& w,
               void (*products)(ItemKernel&, const Operands&)) {
  const uint32_t step_k = 32 / size_of(a);
  const Product p{.a = a,
                  .b = b,
                  .sum = sum,
                  .m = 64 * w.groups,
                  .n = n,
                  .k = step_k * w.steps,
                  .steps = w.steps,
                  .a_k_first = w.a_in_registers || w.a.k_major,
                  .b_k_first = w.b.k_major,
                  .negate_a = w.negate_a,
                  .negate_b = w.negate_b,
                  .read_flag = w.read_flag};
  const std::string name = fmt::format("wgmma.m64n{}k{}.{}.{}.{}{}{}", n, step_k, ptx::name(sum), ptx::name(a),
                                       ptx::name(b), w.note.empty() ? "" : " ", w.note);
  all.push_back(product_case(name, p, [p, w, products] { return wgmma_kernel(p, w, products); }));
}
template <class T, class A, class B, uint32_t N>
void add_wgmma(std::vector<Case>& all, const WgmmaCase& w = {}) {
  add_wgmma(all, type_of<T>, type_of<A>, type_of<B>, N, w, multiply<T, A, B, N>);
}

// f16 and bf16: every way a matrix can lie in shared memory.
template <class E>
void add_wgmma_layouts(std::vector<Case>& all) {
  const char* names[] = {"none", "32", "64", "128"};
  for (bool spread : {false, true})
    for (uint32_t s = 0; s < 4; ++s) {
      const Layout k_major{Swizzle(s), true, spread}, mn_major{Swizzle(s), false, spread};
      const std::string way = fmt::format("swizzle {}{}", names[s], spread ? " spread" : "");
      const uint32_t steps = s == 3 ? 8 : 4;  // two pieces along k for the widest swizzle, more for the others
      add_wgmma<float, E, E, 128>(all, {.a = k_major, .b = k_major, .steps = steps, .note = "A K, B K, " + way});
      add_wgmma<float, E, E, 128>(all, {.a = k_major, .b = mn_major, .steps = 2, .note = "A K, B N, " + way});
      add_wgmma<float, E, E, 128>(all, {.a = mn_major, .b = k_major, .steps = 2, .note = "A M, B K, " + way});
      add_wgmma<float, E, E, 128>(all, {.a = mn_major, .b = mn_major, .steps = 2, .note = "A M, B N, " + way});
      add_wgmma<float, E, E, 64>(
          all, {.b = mn_major, .a_in_registers = true, .steps = 2, .note = "A registers, B N, " + way});
      add_wgmma<float, E, E, 64>(
          all, {.b = k_major, .a_in_registers = true, .steps = 2, .note = "A registers, B K, " + way});
    }
}
// All but 16-bit types have K-major layouts only.
template <class T, class A, class B>
void add_wgmma_k_major(std::vector<Case>& all) {
  const char* names[] = {"none", "32", "64", "128"};
  for (uint32_t s = 0; s < 4; ++s) {
    const Layout layout{Swizzle(s), true, s % 2 == 1};
    add_wgmma<T, A, B, 64>(all, {.a = layout, .b = layout, .steps = 4, .note = fmt::format("swizzle {}", names[s])});
  }
  add_wgmma<T, A, B, 128>(all, {.a_in_registers = true, .steps = 4, .note = "A registers"});
}
template <class T, class A, class B, uint32_t... I>
void add_wgmma_widths(std::vector<Case>& all, std::integer_sequence<uint32_t, I...>) {
  (add_wgmma<T, A, B, 8 * (I + 1)>(all), ...);
}
template <class T, class A, class B, uint32_t... N>
void add_wgmma_some(std::vector<Case>& all) {
  (add_wgmma<T, A, B, N>(all), ...);
}
template <class A, class B>
void add_wgmma_integer(std::vector<Case>& all) {
  add_wgmma_k_major<int32_t, A, B>(all);
  add_wgmma_some<int32_t, A, B, 8, 256>(all);
}
template <class A, class B>
void add_wgmma_fp8(std::vector<Case>& all) {
  add_wgmma_k_major<float, A, B>(all);
  add_wgmma_some<float, A, B, 8, 40, 256>(all);
  add_wgmma_some<heddle::f16, A, B, 8, 40, 128, 256>(all);
}

}  // namespace

void add_wgmma(std::vector<Case>& all) {
  using heddle::bf16;
  using heddle::e4m3;
  using heddle::e5m2;
  using heddle::f16;
  add_wgmma_layouts<f16>(all);
  add_wgmma_some<float, bf16, bf16, 8, 72, 256>(all);
  add_wgmma<float, bf16, bf16, 96>(
      all, {.a = {Swizzle::b64, false}, .b = {Swizzle::b64, false}, .steps = 2, .note = "A M, B N, swizzle 64"});
  add_wgmma_widths<float, f16, f16>(all, std::make_integer_sequence<uint32_t, 32>{});
  add_wgmma_some<f16, f16, f16, 8, 40, 128, 256>(all);
  add_wgmma<float, f16, f16, 64>(all, {.steps = 4, .negate_a = true, .note = "-A"});
  add_wgmma<float, f16, f16, 64>(all, {.steps = 4, .negate_b = true, .note = "-B"});
  add_wgmma<float, f16, f16, 64>(all, {.steps = 4, .negate_a = true, .negate_b = true, .note = "-A, -B"});
  add_wgmma<float, f16, f16, 64>(all, {.steps = 4, .read_flag = true, .note = "C added or not"});
  add_wgmma<int32_t, int8_t, int8_t, 64>(all, {.steps = 2, .read_flag = true, .note = "C added or not"});
  add_wgmma<float, f16, f16, 64>(all, {.steps = 4, .groups = 2, .note = "two groups"});
  add_wgmma_integer<int8_t, int8_t>(all);
  add_wgmma_integer<int8_t, uint8_t>(all);
  add_wgmma_integer<uint8_t, int8_t>(all);
  add_wgmma_integer<uint8_t, uint8_t>(all);
  add_wgmma_some<int32_t, int8_t, int8_t, 16, 24, 32, 48, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240>(all);
  add_wgmma_fp8<e4m3, e4m3>(all);
  add_wgmma_fp8<e4m3, e5m2>(all);
  add_wgmma_fp8<e5m2, e4m3>(all);
  add_wgmma_fp8<e5m2, e5m2>(all);
  add_wgmma_k_major<float, tf32, tf32>(all);
  add_wgmma_some<float, tf32, tf32, 8, 256>(all);
}

}  // namespace heddle::ptx::cases
