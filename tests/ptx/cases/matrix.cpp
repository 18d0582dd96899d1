// mma, wgmma, ldmatrix and stmatrix against a plain triple loop. Every fragment is loaded and every shared tile laid
// out here, by the kernel, from the PTX manual's description of the layout; the interpreter has its own.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tests/ptx/cases/case.h"

namespace heddle::ptx::cases {
namespace {

// --- numbers --------------------------------------------------------------------------------------------------------

double read_number(Type t, const uint8_t* at) {
  const auto as = [&](auto x) {
    std::memcpy(&x, at, sizeof x);
    return x;
  };
  switch (t) {
    case Type::f16:
      return heddle::to_f32(as(heddle::f16{}));
    case Type::bf16:
      return heddle::to_f32(as(heddle::bf16{}));
    case Type::e4m3:
      return heddle::to_f32(as(heddle::e4m3{}));
    case Type::e5m2:
      return heddle::to_f32(as(heddle::e5m2{}));
    case Type::tf32:
      return std::bit_cast<float>(as(uint32_t{}) & 0xffffe000u);
    case Type::f32:
      return as(float{});
    case Type::s8:
      return as(int8_t{});
    case Type::u8:
      return as(uint8_t{});
    case Type::s32:
      return as(int32_t{});
    default:
      return std::nan("");
  }
}
void write_number(Type t, double v, uint8_t* at) {
  const auto put = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  switch (t) {
    case Type::f16:
      return put(heddle::to_f16(v));
    case Type::bf16:
      return put(heddle::to_bf16(v));
    case Type::e4m3:
      return put(heddle::to_e4m3(v));
    case Type::e5m2:
      return put(heddle::to_e5m2(v));
    case Type::tf32:
    case Type::f32:
      return put(float(v));
    case Type::s8:
    case Type::u8:
      return put(uint8_t(int64_t(v)));
    case Type::s32:
      return put(uint32_t(int64_t(v)));
    default:
      check(false, "not a type of a matrix");
  }
}

// --- a product as an item: A, B, C and a word that says whether to add C; D is the result ----------------------------

struct Product {
  Type a = Type::f16, b = Type::f16, sum = Type::f32;
  uint32_t m = 16, n = 8, k = 16;
  uint32_t steps = 1;                       // instructions along k
  bool a_k_first = true, b_k_first = true;  // in memory: k is the contiguous dimension
  bool negate_a = false, negate_b = false;
  bool read_flag = false;  // the word decides; else C is added

  uint32_t a_bytes() const { return m * k * size_of(a); }
  uint32_t b_bytes() const { return k * n * size_of(b); }
  uint32_t c_bytes() const { return m * n * size_of(sum); }
  uint32_t b_at() const { return a_bytes(); }
  uint32_t c_at() const { return b_at() + b_bytes(); }
  uint32_t flag_at() const { return c_at() + c_bytes(); }
  uint32_t in_bytes() const { return flag_at() + 16; }

  double a_of(const uint8_t* in, uint32_t row, uint32_t i) const {
    const double v = read_number(a, in + (a_k_first ? row * k + i : i * m + row) * size_of(a));
    return negate_a ? -v : v;
  }
  double b_of(const uint8_t* in, uint32_t i, uint32_t col) const {
    const double v = read_number(b, in + b_at() + (b_k_first ? col * k + i : i * n + col) * size_of(b));
    return negate_b ? -v : v;
  }
  double c_of(const uint8_t* in, uint32_t row, uint32_t col) const {
    uint32_t flag;
    std::memcpy(&flag, in + flag_at(), 4);
    return read_flag && !flag ? 0 : read_number(sum, in + c_at() + (row * n + col) * size_of(sum));
  }
};

// Even items hold small integers: whatever the order and width of the sums, the result is exact and a misplaced
// element shows. Odd ones hold random numbers of many magnitudes.
void fill_floats(const Product& p, Rng& rng, size_t index, uint8_t* in) {
  const auto number = [&](int whole) -> double {
    if (index % 2 == 0) return double(int64_t(rng() % uint64_t(2 * whole + 1)) - whole);
    return std::ldexp(double(int64_t(rng() % 2001) - 1000) / 1000, int(rng() % 7) - 3);
  };
  for (uint32_t i = 0; i < p.m * p.k; ++i) write_number(p.a, number(4), in + i * size_of(p.a));
  for (uint32_t i = 0; i < p.k * p.n; ++i) write_number(p.b, number(4), in + p.b_at() + i * size_of(p.b));
  for (uint32_t i = 0; i < p.m * p.n; ++i) write_number(p.sum, number(64), in + p.c_at() + i * size_of(p.sum));
  if (p.a == Type::tf32)  // the low bits do not count
    for (uint32_t i = 0; i < (p.a_bytes() + p.b_bytes()) / 4; ++i) {
      uint32_t word;
      std::memcpy(&word, in + i * 4, 4);
      word = (word & ~0x1fffu) | uint32_t(rng() & 0x1fff);
      std::memcpy(in + i * 4, &word, 4);
    }
}
void fill_integers(const Product& p, Rng& rng, size_t index, uint8_t* in) {
  const auto extreme = [&] { return uint8_t(rng() % 2 ? 0x80 : rng() % 2 ? 0x7f : 0xff); };
  for (uint32_t i = 0; i < p.c_at(); ++i) in[i] = index % 4 == 0 ? extreme() : uint8_t(rng());
  for (uint32_t i = p.c_at(); i < p.flag_at(); ++i) in[i] = uint8_t(rng());  // most sums wrap for some
}

void triple_loop(const Product& p, const uint8_t* in, uint8_t* out) {
  for (uint32_t row = 0; row < p.m; ++row)
    for (uint32_t col = 0; col < p.n; ++col) {
      double sum = p.c_of(in, row, col);
      for (uint32_t i = 0; i < p.k; ++i) sum += p.a_of(in, row, i) * p.b_of(in, i, col);
      write_number(p.sum, sum, out + (row * p.n + col) * size_of(p.sum));
    }
}

// The bound at the top of src/ptx/machine/matrix.cpp.
struct Bound {
  double per_term = 0, at_end = 0;  // relative to S = |c| + sum of |a||b|; the first k + steps times
  std::string words;
};
Bound bound_of(const Product& p) {
  if (p.sum == Type::s32) return {0, 0, "exact"};
  const bool fp8 = size_of(p.a) == 1, half = p.sum == Type::f16;
  return {fp8 ? 0x1p-13 : 0x1p-23, half ? p.steps * 0x1p-10 : 0,
          std::string("integers exact; else (k + 1) ") + (fp8 ? "2^-13" : "2^-23") + (half ? " + 2^-10" : "") +
              " of sum |a||b|"};
}

std::string compare_products(const Product& p, const uint8_t* in, const uint8_t* got, const uint8_t* want) {
  const Bound bound = bound_of(p);
  for (uint32_t row = 0; row < p.m; ++row)
    for (uint32_t col = 0; col < p.n; ++col) {
      const uint32_t at = (row * p.n + col) * size_of(p.sum);
      if (!std::memcmp(got + at, want + at, size_of(p.sum))) continue;
      double size = std::abs(p.c_of(in, row, col));
      bool whole = p.sum == Type::s32 || size == std::floor(size);
      for (uint32_t i = 0; i < p.k; ++i) {
        const double a = p.a_of(in, row, i), b = p.b_of(in, i, col);
        size += std::abs(a * b);
        whole = whole && a == std::floor(a) && b == std::floor(b);
      }
      const double x = read_number(p.sum, got + at), y = read_number(p.sum, want + at);
      const double most = whole ? 0 : size * ((p.k + p.steps) * bound.per_term + bound.at_end);
      if (!(std::abs(x - y) <= most))
        return fmt::format("row {}, column {}: got {}, expected {}, at most {} apart", row, col, x, y, most);
    }
  return "";
}

Case product_case(std::string name, const Product& p, std::function<Kernel()> build) {
  Case c;
  c.name = std::move(name);
  c.family = "matrix";
  c.build = std::move(build);
  c.in_bytes = p.in_bytes();
  c.out_bytes = p.c_bytes();
  c.items_per_block = 1;
  c.fill = [p](Rng& rng, size_t index, uint8_t* in) {
    if (p.sum == Type::s32)
      fill_integers(p, rng, index, in);
    else
      fill_floats(p, rng, index, in);
    std::memset(in + p.flag_at(), 0, 16);
    in[p.flag_at()] = uint8_t(index / 2 % 2);
  };
  c.reference = [p](const uint8_t* in, uint8_t* out) { triple_loop(p, in, out); };
  if (p.sum != Type::s32)
    c.compare = [p](const uint8_t* in, const uint8_t* got, const uint8_t* want) {
      return compare_products(p, in, got, want);
    };
  c.bound = bound_of(p).words;
  c.fewest_items = 200;
  return c;
}

// --- what the kernels share -----------------------------------------------------------------------------------------

struct ItemKernel : Builder<Args> {
  ItemKernel(const std::string& name, uint32_t threads, uint32_t in_bytes, uint32_t out_bytes)
      : Builder<Args>(name, threads),
        in(arg(&Args::in) + block_id() * in_bytes),
        out(arg(&Args::out) + block_id() * out_bytes) {}
  Global<uint8_t> in, out;
};

// Register i of an accumulator whose 16 x n piece begins at row `first`: where in the row-major (m, n) matrix it lies.
// An 8 x 8 piece is split among lanes 4g + t: columns 2t, 2t + 1 of row g.
template <class T>
Global<T> accumulator_place(Global<uint8_t> matrix, U32 first, U32 lane, uint32_t n, uint32_t i) {
  const bool pairs = std::same_as<T, f16x2>;
  const uint32_t lower = pairs ? i % 2 : i / 2 % 2, right = pairs ? i / 2 : i / 4, column = pairs ? 0 : i % 2;
  const uint32_t bytes = pairs ? 2 : 4;
  U32 row = first + lane / 4u + lower * 8;
  U32 col = lane % 4u * 2u + (right * 8 + column);
  return (matrix + (row * n + col) * bytes).template as<T>();
}
template <class R>
void load_accumulator(std::vector<Var<R>>& acc, Global<uint8_t> c, U32 first, U32 lane, uint32_t n) {
  for (uint32_t i = 0; i < acc.size(); ++i) acc[i] = load(accumulator_place<R>(c, first, lane, n, i));
}
template <class R>
void store_accumulator(const std::vector<Var<R>>& acc, Global<uint8_t> d, U32 first, U32 lane, uint32_t n) {
  for (uint32_t i = 0; i < acc.size(); ++i) store(accumulator_place<R>(d, first, lane, n, i), acc[i].get());
}
// Register r of A: 32-bit word 4 (r / 2) + t of row g + 8 (r % 2); rows have k elements of `bytes` bytes.
U32 load_a(Global<uint8_t> a, U32 first, U32 lane, uint32_t row_bytes, uint32_t r) {
  return load((a + ((first + lane / 4u + r % 2 * 8) * row_bytes + lane % 4u * 4u + r / 2 * 16)).as<uint32_t>());
}

// --- mma
// --------------------------------------------------------------------------------------------------------------

template <class T, class A, class B, uint32_t M, uint32_t K>
void add_mma(std::vector<Case>& all) {
  const Product p{.a = type_of<A>, .b = type_of<B>, .sum = type_of<T>, .m = M, .n = 8, .k = K};
  std::string name = fmt::format("mma.m{}n8k{}.{}.{}.{}", M, K, ptx::name(p.sum), ptx::name(p.a), ptx::name(p.b));
  all.push_back(product_case(name, p, [p] {
    ItemKernel k("mma", 32, p.in_bytes(), p.c_bytes());
    U32 lane = k.lane(), top = k.constant(0u);
    Tile<A, M, K> a;
    Tile<B, K, 8> b;
    for (uint32_t r = 0; r < a.regs; ++r) a.reg[r] = load_a(k.in, top, lane, K * uint32_t(sizeof(A)), r);
    for (uint32_t r = 0; r < b.regs; ++r)  // word 4r + t of column g
      b.reg[r] = load((k.in + p.b_at() + (lane / 4u * (K * uint32_t(sizeof(B))) + lane % 4u * 4u + r * 16))
                          .template as<uint32_t>());
    Acc<T, M, 8> acc(k);
    load_accumulator(acc.var, k.in + p.c_at(), top, lane, 8);
    mma(acc, a, b);
    store_accumulator(acc.var, k.out, top, lane, 8);
    return k.finish();
  }));
}
template <class A, class B>
void add_mma_integer(std::vector<Case>& all) {
  add_mma<int32_t, A, B, 8, 16>(all);
  add_mma<int32_t, A, B, 16, 16>(all);
  add_mma<int32_t, A, B, 16, 32>(all);
}
template <class A, class B>
void add_mma_fp8(std::vector<Case>& all) {
  add_mma<float, A, B, 16, 16>(all);
  add_mma<float, A, B, 16, 32>(all);
  add_mma<heddle::f16, A, B, 16, 16>(all);
  add_mma<heddle::f16, A, B, 16, 32>(all);
}

// --- ldmatrix, stmatrix
// -----------------------------------------------------------------------------------------------

// Where row r of `rows` lies in shared memory: not in order, so that every lane's address counts.
U32 scattered(U32 row, uint32_t rows) { return (row * 3u + 1u) & (rows - 1); }

// Rows of 16 bytes in; out word (i, lane) is what register i of the lane holds.
template <size_t N>
void add_ldmatrix(std::vector<Case>& all, bool transpose) {
  constexpr uint32_t rows = 8 * N;
  Case c;
  c.name = fmt::format("ldmatrix.x{}{}", N, transpose ? ".trans" : "");
  c.family = "matrix";
  c.in_bytes = c.out_bytes = rows * 16;
  c.items_per_block = 1;
  c.fewest_items = 400;
  c.build = [transpose] {
    ItemKernel k("ldmatrix", 32, rows * 16, rows * 16);
    U32 lane = k.lane();
    auto tile = k.shared<uint32_t>(rows * 4);
    U32 row = lane & (rows - 1);  // lanes that name no row have a good address too: sm_75 wants that
    k.when(lane < rows,
           [&] { store_vec(tile + scattered(row, rows) * 4u, load_vec<4>((k.in + row * 16u).as<uint32_t>())); });
    k.barrier();
    auto got = load_matrices<N>(tile + scattered(row, rows) * 4u, transpose);
    for (uint32_t i = 0; i < N; ++i) store((k.out + lane * 4u).as<uint32_t>().offset(i * 32), got[i]);
    return k.finish();
  };
  c.fill = [](Rng& rng, size_t, uint8_t* in) { std::generate_n(in, rows * 16, [&] { return uint8_t(rng()); }); };
  c.reference = [transpose](const uint8_t* in, uint8_t* out) {
    for (uint32_t i = 0; i < N; ++i)
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t half = 0; half < 2; ++half) {
          const uint32_t line = lane / 4, at = lane % 4 * 2 + half;
          const uint32_t r = transpose ? at : line, col = transpose ? line : at;
          std::memcpy(out + (i * 32 + lane) * 4 + half * 2, in + (i * 8 + r) * 16 + col * 2, 2);
        }
  };
  all.push_back(std::move(c));
}
template <size_t N>
void add_stmatrix(std::vector<Case>& all, bool transpose) {
  constexpr uint32_t rows = 8 * N;
  Case c;
  c.name = fmt::format("stmatrix.x{}{}", N, transpose ? ".trans" : "");
  c.family = "matrix";
  c.in_bytes = c.out_bytes = rows * 16;
  c.items_per_block = 1;
  c.fewest_items = 400;
  c.build = [transpose] {
    ItemKernel k("stmatrix", 32, rows * 16, rows * 16);
    U32 lane = k.lane();
    auto tile = k.shared<uint32_t>(rows * 4);
    std::array<U32, N> v;
    for (uint32_t i = 0; i < N; ++i) v[i] = load((k.in + lane * 4u).as<uint32_t>().offset(i * 32));
    U32 row = lane & (rows - 1);
    store_matrices(tile + scattered(row, rows) * 4u, v, transpose);
    k.barrier();
    k.when(lane < rows,
           [&] { store_vec((k.out + row * 16u).as<uint32_t>(), load_vec<4>(tile + scattered(row, rows) * 4u)); });
    return k.finish();
  };
  c.fill = [](Rng& rng, size_t, uint8_t* in) { std::generate_n(in, rows * 16, [&] { return uint8_t(rng()); }); };
  c.reference = [transpose](const uint8_t* in, uint8_t* out) {
    for (uint32_t i = 0; i < N; ++i)
      for (uint32_t r = 0; r < 8; ++r)
        for (uint32_t col = 0; col < 8; ++col) {
          const uint32_t line = transpose ? col : r, at = transpose ? r : col;
          std::memcpy(out + (i * 8 + r) * 16 + col * 2, in + (i * 32 + line * 4 + at / 2) * 4 + at % 2 * 2, 2);
        }
  };
  all.push_back(std::move(c));
}

// ldmatrix feeds mma as kernels use them: A (16, 16) row by row, B (16, 8) row by row and so transposed on the way.
void add_mma_from_shared(std::vector<Case>& all) {
  using heddle::f16;
  const Product p{.sum = Type::f16, .b_k_first = false};
  all.push_back(product_case("ldmatrix+mma.m16n8k16+stmatrix.f16", p, [p] {
    ItemKernel k("mma_from_shared", 32, p.in_bytes(), p.c_bytes());
    U32 lane = k.lane(), top = k.constant(0u);
    auto a = k.shared<f16>(16 * 16), b = k.shared<f16>(16 * 8), d = k.shared<f16>(16 * 8);
    store_vec((a + lane * 8u).as<uint32_t>(), load_vec<4>((k.in + lane * 16u).as<uint32_t>()));
    store_vec((b + lane * 4u).as<uint32_t>(), load_vec<2>((k.in + p.b_at() + lane * 8u).as<uint32_t>()));
    k.barrier();
    // matrices of A: upper left, lower left, upper right, lower right; of B: upper, lower
    Tile<f16, 16, 16> ta{load_matrices<4>(a + (lane % 16u * 16u + lane / 16u * 8u))};
    Tile<f16, 16, 8> tb{load_matrices<2>(b + lane % 16u * 8u, true)};
    Acc<f16, 16, 8> acc(k);
    load_accumulator(acc.var, k.in + p.c_at(), top, lane, 8);
    mma(acc, ta, tb);
    store_matrices(d + lane % 16u * 8u, std::array{bitcast<uint32_t>(acc.get(0)), bitcast<uint32_t>(acc.get(1))});
    k.barrier();
    store_vec((k.out + lane * 8u).as<uint32_t>(), load_vec<2>((d + lane * 4u).as<uint32_t>()));
    return k.finish();
  }));
}

// --- wgmma
// ------------------------------------------------------------------------------------------------------------

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
// 8-bit types have K-major layouts only.
template <class T, class A, class B>
void add_wgmma_bytes(std::vector<Case>& all) {
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
  add_wgmma_bytes<int32_t, A, B>(all);
  add_wgmma_some<int32_t, A, B, 8, 256>(all);
}
template <class A, class B>
void add_wgmma_fp8(std::vector<Case>& all) {
  add_wgmma_bytes<float, A, B>(all);
  add_wgmma_some<float, A, B, 8, 40, 256>(all);
  add_wgmma_some<heddle::f16, A, B, 8, 40, 128, 256>(all);
}

}  // namespace

void add_matrix(std::vector<Case>& all) {
  using heddle::bf16;
  using heddle::e4m3;
  using heddle::e5m2;
  using heddle::f16;
  add_mma<float, f16, f16, 16, 8>(all);
  add_mma<float, f16, f16, 16, 16>(all);
  add_mma<f16, f16, f16, 16, 8>(all);
  add_mma<f16, f16, f16, 16, 16>(all);
  add_mma<float, bf16, bf16, 16, 8>(all);
  add_mma<float, bf16, bf16, 16, 16>(all);
  add_mma<float, tf32, tf32, 16, 4>(all);
  add_mma<float, tf32, tf32, 16, 8>(all);
  add_mma_integer<int8_t, int8_t>(all);
  add_mma_integer<int8_t, uint8_t>(all);
  add_mma_integer<uint8_t, int8_t>(all);
  add_mma_integer<uint8_t, uint8_t>(all);
  add_mma_fp8<e4m3, e4m3>(all);
  add_mma_fp8<e4m3, e5m2>(all);
  add_mma_fp8<e5m2, e4m3>(all);
  add_mma_fp8<e5m2, e5m2>(all);

  for (bool transpose : {false, true}) {
    add_ldmatrix<1>(all, transpose);
    add_ldmatrix<2>(all, transpose);
    add_ldmatrix<4>(all, transpose);
    add_stmatrix<1>(all, transpose);
    add_stmatrix<2>(all, transpose);
    add_stmatrix<4>(all, transpose);
  }
  add_mma_from_shared(all);

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
}

}  // namespace heddle::ptx::cases
