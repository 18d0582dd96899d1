// Cases of tensor copies: a box of a tensor by coordinates that may lie outside, for every rank, type and swizzle.
// The tensor's last dimension counts items, so that every block has its own (an item has one dimension less than the
// tensor); a tensor of rank 1 has the items in a row. What the hardware does not do is left out here and reported by
// the interpreter (see machine/tensor.cpp): boxes that begin between multiples of 16 bytes, stores below 0 or across
// rows that end inside 16 bytes, rows shorter than the span of the swizzle.
#include "tests/ptx/cases/threads.h"

namespace heddle::ptx::cases {

void add_tensor_copies(std::vector<Case>& all);

namespace {

constexpr uint32_t tensor_threads = 128;
constexpr uint32_t coordinate_bytes = 16;  // four s32 behind an item's data

struct Shape {
  Type type;
  uint32_t rank;
  std::array<uint32_t, 4> size{};  // of an item, in elements
  std::array<uint32_t, 4> box{};
  Swizzle swizzle = Swizzle::none;

  uint32_t inner() const { return rank == 1 ? 1 : rank - 1; }  // dimensions of an item
  uint32_t element() const { return size_of(type); }
  // Rows begin at multiples of 16 bytes: where a row is shorter, unused bytes follow.
  uint32_t stride(uint32_t d) const {
    uint32_t s = element();
    for (uint32_t i = 0; i < d; ++i) s = i == 0 ? (size[0] * s + 15) / 16 * 16 : s * size[i];
    return s;
  }
  uint32_t item_bytes() const { return stride(inner()); }
  uint32_t box_bytes() const {
    uint32_t n = element();
    for (uint32_t d = 0; d < inner(); ++d) n *= box[d];
    return n;
  }
  TensorMapSpec map(uint64_t address, uint32_t items, uint32_t pitch) const {
    TensorMapSpec m{.type = type, .rank = rank, .address = address, .swizzle = swizzle};
    for (uint32_t d = 0; d < inner(); ++d) {
      m.size[d] = size[d];
      m.stride[d] = stride(d);
      m.box[d] = box[d];
    }
    m.stride[0] = 0;
    if (rank == 1)
      m.size[0] = uint64_t(items) * pitch / element();
    else {
      m.size[rank - 1] = items;
      m.stride[rank - 1] = pitch;
      m.box[rank - 1] = 1;
    }
    return m;
  }
};

// f(byte in the item or -1 if outside, byte in the tile) for every element of the box.
void each_element(const Shape& s, const int32_t* at, auto f) {
  uint32_t elements = s.box_bytes() / s.element();
  for (uint32_t e = 0; e < elements; ++e) {
    int64_t byte = 0;
    bool inside = true;
    uint32_t rest = e;
    for (uint32_t d = 0; d < s.inner(); ++d) {
      const int64_t c = at[d] + int64_t(rest % s.box[d]);
      rest /= s.box[d];
      inside = inside && c >= 0 && c < s.size[d];
      byte += c * (d == 0 ? s.element() : s.stride(d));
    }
    // swizzling: chunks of 16 bytes; the number of the 128-byte line, as far as the span has chunks, is xored in
    uint32_t tile = e * s.element();
    const uint32_t chunks = s.swizzle == Swizzle::b128  ? 8
                            : s.swizzle == Swizzle::b64 ? 4
                            : s.swizzle == Swizzle::b32 ? 2
                                                        : 1;
    const uint32_t chunk = tile / 16, line = tile / 128;
    tile = ((chunk / chunks) * chunks + (chunk % chunks ^ line % chunks)) * 16 + tile % 16;
    f(inside ? byte : -1, tile);
  }
}

// Where boxes may lie. A tensor of rank 1 has its neighbours' items around it, so there they stay inside.
enum class Reach { inside, edge, anywhere };  // edge: also across the upper ends; anywhere: also below 0

void fill_coordinates(Rng& rng, size_t index, const Shape& s, Reach reach, uint8_t* to) {
  int32_t at[4] = {};
  for (uint32_t d = 0; d < s.inner(); ++d) {
    const int32_t unit = d == 0 ? 16 / int32_t(s.element()) : 1;  // what a coordinate must be a multiple of
    const int32_t size = int32_t(s.size[d]) / unit, box = int32_t(s.box[d]) / unit;
    const int32_t lowest = reach == Reach::anywhere ? -box - 1 : 0;
    const int32_t highest = reach == Reach::inside ? size - box : size + 1;
    if (index % 4) at[d] = (lowest + int32_t(rng() % uint32_t(highest - lowest + 1))) * unit;
  }
  std::memcpy(to, at, sizeof at);
}

// The coordinates of this block's box, from `where` on.
template <size_t Rank>
Vec<int32_t, Rank> coordinates(Code& k, Global<uint8_t> where, uint32_t pitch_elements) {
  Vec<int32_t, Rank> c;
  for (size_t d = 0; d < (Rank == 1 ? 1 : Rank - 1); ++d) c[d] = load(where.as<int32_t>().offset(int64_t(d)));
  S32 item = bitcast<int32_t>(k.block_id());
  if constexpr (Rank == 1)
    c[0] = mad(item, int32_t(pitch_elements), c[0]);
  else
    c[Rank - 1] = item;
  return c;
}
void with_rank(uint32_t rank, auto f) {
  switch (rank) {
    case 1:
      f.template operator()<1>();
      break;
    case 2:
      f.template operator()<2>();
      break;
    case 3:
      f.template operator()<3>();
      break;
    case 4:
      f.template operator()<4>();
      break;
    default:
      f.template operator()<5>();
  }
}
template <Space From, Space To>
void copy_tensor_words(Code& k, Ptr<uint8_t, To> to, Ptr<uint8_t, From> from, uint32_t bytes) {
  k.loop(k.thread(), bytes / 4, tensor_threads,
         [&](U32 i) { store(to.template as<uint32_t>() + i, load(from.template as<uint32_t>() + i)); });
}

const char* name_of_swizzle(Swizzle s) {
  const char* const names[] = {"", ".swizzle32", ".swizzle64", ".swizzle128"};
  return names[size_t(s)];
}
Case tensor_case(const Shape& s, const char* what, const std::string& suffix) {
  Case c;
  c.name = fmt::format("cp.async.bulk.tensor.{}.{}d.{}{}{}", what, s.rank, ptx::name(s.type),
                       name_of_swizzle(s.swizzle), suffix);
  c.family = "async";
  c.items_per_block = 1;
  return c;
}

// Item: the tensor, then the coordinates. Result: the tile as it lies in shared memory.
void add_load(std::vector<Case>& all, const Shape& s, Reach reach, const std::string& suffix = "") {
  Case c = tensor_case(s, "load", suffix);
  const uint32_t data = s.item_bytes(), pitch = data + coordinate_bytes;
  c.in_bytes = pitch;
  c.out_bytes = s.box_bytes();
  c.map_in = [=](uint64_t address, uint32_t items) { return s.map(address, items, pitch); };
  c.fill = [=](Rng& rng, size_t index, uint8_t* in) {
    random_bytes(rng, in, data);
    fill_coordinates(rng, index, s, reach, in + data);
  };
  c.reference = [=](const uint8_t* in, uint8_t* out) {
    int32_t at[4];
    std::memcpy(at, in + data, sizeof at);
    each_element(s, at, [&](int64_t from, uint32_t tile) {
      if (from >= 0)
        std::memcpy(out + tile, in + from, s.element());
      else
        std::memset(out + tile, 0, s.element());
    });
  };
  c.build = [=] {
    Builder<Args> k("item", tensor_threads);
    const uint32_t bytes = s.box_bytes();
    auto tile = k.shared<uint8_t>(bytes, 1024);
    Mbarrier full = mbarrier(k);
    U64 map = k.arg(&Args::map_in);
    k.when(k.thread() == 0u, [&] {
      tensor_prefetch(map);
      full.init(1u);
      fence_mbarrier_init(k);
    });
    k.barrier();
    k.when(k.thread() == 0u, [&] {
      full.arrive_expect_bytes(bytes);
      auto where = (k.arg(&Args::in) + mul_wide(k.block_id(), pitch)).offset(data);
      with_rank(s.rank,
                [&]<size_t R>() { tensor_load(tile, map, coordinates<R>(k, where, pitch / s.element()), full); });
    });
    full.wait(k, 0u);
    copy_tensor_words(k, k.arg(&Args::out) + mul_wide(k.block_id(), bytes), tile, bytes);
    return k.finish();
  };
  all.push_back(c);
}

// Item: the tile as it lies in shared memory, then the coordinates. Result: the tensor, untouched outside the box.
void add_store(std::vector<Case>& all, const Shape& s, Reach reach, const std::string& suffix = "") {
  Case c = tensor_case(s, "store", suffix);
  const uint32_t bytes = s.box_bytes(), in_pitch = bytes + coordinate_bytes, out_pitch = s.item_bytes();
  c.in_bytes = in_pitch;
  c.out_bytes = out_pitch;
  c.map_out = [=](uint64_t address, uint32_t items) { return s.map(address, items, out_pitch); };
  c.fill = [=](Rng& rng, size_t index, uint8_t* in) {
    random_bytes(rng, in, bytes);
    fill_coordinates(rng, index, s, reach, in + bytes);
  };
  c.reference = [=](const uint8_t* in, uint8_t* out) {
    int32_t at[4];
    std::memcpy(at, in + bytes, sizeof at);
    each_element(s, at, [&](int64_t to, uint32_t tile) {
      if (to >= 0) std::memcpy(out + to, in + tile, s.element());
    });
  };
  c.build = [=] {
    Builder<Args> k("item", tensor_threads);
    auto tile = k.shared<uint8_t>(bytes, 1024);
    auto in = k.arg(&Args::in) + mul_wide(k.block_id(), in_pitch);
    copy_tensor_words(k, tile, in, bytes);
    fence_async_shared(k);
    k.barrier();
    k.when(k.thread() == 0u, [&] {
      with_rank(s.rank, [&]<size_t R>() {
        tensor_store(k.arg(&Args::map_out), tile, coordinates<R>(k, in.offset(bytes), out_pitch / s.element()));
      });
      bulk_commit(k);
      bulk_wait(k, 0);
    });
    return k.finish();
  };
  all.push_back(c);
}

}  // namespace

void add_tensor_copies(std::vector<Case>& all) {
  auto both = [&](const Shape& s, const std::string& suffix = "") {
    add_load(all, s, s.rank == 1 ? Reach::inside : Reach::anywhere, suffix);
    add_store(all, s, s.rank == 1 ? Reach::inside : Reach::edge, suffix);
  };
  for (Type type :
       {Type::u8, Type::u16, Type::u32, Type::s32, Type::u64, Type::s64, Type::f16, Type::bf16, Type::f32, Type::f64}) {
    const uint32_t row = 16 / size_of(type);  // elements in the shortest row of a box
    both({type, 1, {16 * row}, {5 * row}});
    both({type, 2, {5 * row}, {3 * row}});
    both({type, 3, {4 * row, 11}, {2 * row, 5}});
    both({type, 4, {2 * row, 5, 4}, {row, 3, 2}});
    both({type, 5, {2 * row, 3, 4, 3}, {row, 2, 2, 2}});
    const Shape ragged{type, 3, {4 * row - 1, 11}, {2 * row, 5}};  // rows end inside 16 bytes
    add_load(all, ragged, Reach::anywhere, ".ragged");
    add_store(all, ragged, Reach::inside, ".ragged");
  }
  for (Type type : {Type::u8, Type::f16, Type::f32})
    for (Swizzle s : {Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
      const uint32_t span = (s == Swizzle::b32 ? 32 : s == Swizzle::b64 ? 64 : 128) / size_of(type);
      both({type, 3, {3 * span / 2, 40}, {span, 32}, s});
      both({type, 4, {2 * span, 9, 5}, {span, 7, 3}, s});
    }
  both({Type::f16, 3, {304, 20}, {256, 16}}, ".wide");  // the widest box
  both({Type::u8, 3, {32, 300}, {16, 256}}, ".tall");
}

}  // namespace heddle::ptx::cases
