// The kernels of every instruction set that can be tested here: products of every format against sums in f64 of what
// quant decodes, products of floats, activations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "base/f16.h"
#include "cpu/cpu.h"
#include "cpu/isa.h"
#include "cpu/pack.h"
#include "cpu/products.h"
#include "cpu/rows.h"
#include "tests/cpu/random_weights.h"
#include "tests/cpu/tested_isas.h"

namespace heddle::cpu {
namespace {

using quant::Format;
using test::random_values;
using test::tested_isa;
using test::tested_isa_names;

struct Case {
  std::string isa;
  Format format;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.isa << " " << quant::name(one.format); }

// A set that has the kernels of another for a format is not tested again.
std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<std::string> isas = tested_isa_names();
  for (auto isa = isas.begin(); isa != isas.end(); ++isa)
    for (const Format format : quant::all_formats()) {
      const auto few = [&](const std::string& name) { return tested_isa(name).tiles[unsigned(format)].few; };
      const auto is_same = [&](const std::string& other) { return few(other) && few(other) == few(*isa); };
      if (x_kind(format, 256, tested_isa(*isa), false) != XKind::f32 && std::none_of(isa + 1, isas.end(), is_same))
        all.push_back({*isa, format});
    }
  return all;
}

class Packed : public testing::TestWithParam<Case> {
 protected:
  // `rows` rows of `cols` weights, packed, and as quant decodes them; F16 becomes BF16.
  void pack(uint64_t rows, uint64_t cols) { pack(rows, cols, random_values(rows * cols, 1)); }
  void pack(uint64_t rows, uint64_t cols, const std::vector<float>& values) {
    const Format format = GetParam().format;
    bytes_ = test::random_weights(format, values);
    decoded_.resize(rows * cols);
    quant::decode(format, bytes_.data(), rows * cols, decoded_.data());
    if (format == Format::f16)
      for (float& value : decoded_) value = to_f32(to_bf16(value));
    const model::Matrix matrix{format, rows, cols, bytes_};
    weights_ = describe_weights(matrix, isa_, false);
    tiles_.resize(weights_.tiles() * weights_.tile_bytes);
    pack_tiles(matrix, weights_, 0, weights_.tiles(), tiles_.data());
    weights_.data = tiles_.data();
    slab_.resize(slab_bytes(weights_, isa_));
  }
  Rows make_rows(uint32_t count, uint32_t cols, float outlier = 0) {
    RowForms forms;
    forms.add(weights_.kind);
    Rows rows(count, cols, forms);
    const std::vector<float> values = random_values(uint64_t(count) * cols, 2);
    for (uint32_t i = 0; i < count; ++i) {
      std::copy_n(values.data() + uint64_t(i) * cols, cols, rows.row(i));
      if (outlier != 0) rows.row(i)[i % cols] = outlier;
      rows.finish(i, isa_);
    }
    return rows;
  }
  std::vector<float> multiply(const Rows& rows, uint32_t count) {
    const RowsView view = rows.view(count);
    const XRow* const all = view.of(weights_.kind);
    // Where the heap has fences, the last row ends at one.
    const size_t bytes = weights_.cols * (weights_.kind == XKind::bf16 ? 2 : 1);
    const size_t stride = count > 1 ? size_t(all[1].q - all[0].q) : bytes;
    std::vector<int8_t> q((count - 1) * stride + bytes);
    std::vector<XRow> xs(all, all + count);
    for (uint32_t i = 0; i < count; ++i) {
      xs[i].q = q.data() + i * stride;
      std::copy_n(all[i].q, bytes, q.data() + i * stride);
    }
    std::vector<float> out(uint64_t(count) * weights_.tiles() * isa_.tile_rows, NAN);
    multiply_tiles(weights_, isa_, 0, uint32_t(weights_.tiles()), xs.data(), count, out.data(), slab_.data());
    return out;
  }
  void compare(uint32_t weight_rows, uint32_t cols, uint32_t count) {
    pack(weight_rows, cols);
    compare(make_rows(count, cols, 40), count);
  }
  void compare(const Rows& rows, uint32_t count) {
    const size_t weight_rows = weights_.rows, cols = weights_.cols;
    const std::vector<float> found = multiply(rows, count);
    const size_t stride = weights_.tiles() * isa_.tile_rows;
    for (uint32_t i = 0; i < count; ++i) {
      const std::vector<double> x = x_of(rows, i);
      for (size_t r = 0; r < weight_rows; ++r) {
        double sum = 0, size = 0;
        for (size_t c = 0; c < cols; ++c) {
          sum += decoded_[r * cols + c] * x[c];
          size += std::abs(decoded_[r * cols + c] * x[c]);
        }
        ASSERT_NEAR(found[i * stride + r], sum, 2e-6 * size) << "row " << r << " of " << i;
      }
      for (size_t r = weight_rows; r < stride; ++r)
        ASSERT_EQ(found[i * stride + r], 0) << "the filling of the last tile";
    }
  }
  // What a quantised row stands for.
  std::vector<double> x_of(const Rows& rows, uint32_t index) const {
    const XRow& x = rows.view(index + 1).of(weights_.kind)[index];
    std::vector<double> values(weights_.cols);
    const auto bf16 = [&](size_t c) {
      float value;
      quant::decode(Format::bf16, reinterpret_cast<const uint8_t*>(x.q) + 2 * c, 1, &value);
      return double(value);
    };
    for (size_t c = 0; c < values.size(); ++c) switch (weights_.kind) {
        case XKind::bf16:
          values[c] = bf16(c);
          break;
        default:
          values[c] = double(x.d[c / (weights_.kind == XKind::by_32 ? 32 : 256)]) * x.q[c];
      }
    return values;
  }

  const Isa& isa_ = tested_isa(GetParam().isa);
  const bool is_emulated_ = test::tested_isa_named(GetParam().isa).is_emulated;
  std::vector<uint8_t> bytes_, tiles_, slab_;
  std::vector<float> decoded_;
  Weights weights_;
};

TEST_P(Packed, ProductsAreThoseOfTheDecodedWeights) { compare(21, 768, 11); }

TEST_P(Packed, ProductsOfOneBlockAndOfAnOddNumberOfThem) {
  for (const uint32_t blocks : {1u, 3u})
    for (const uint32_t rows : {1u, 8u, 35u})
      for (const uint32_t count : {1u, 2u, 9u}) compare(rows, blocks * pack_values(GetParam().format), count);
}

// More tiles than are unpacked at a time.
TEST_P(Packed, ProductsOfManyTilesAndRows) { compare((is_emulated_ ? 5 : 17) * isa_.tile_rows + 3, 256, 43); }

// Rows that do not stay in the first cache: some instruction sets multiply them by parts.
TEST_P(Packed, ProductsOfLongRows) {
  constexpr uint32_t most = 43;
  const uint32_t cols = (is_emulated_ ? 5 : 41) * 256;
  compare(3, cols, 9);
  compare(3, cols, 23);
  const Rows rows = make_rows(most, cols, 40);
  const std::vector<float> all = multiply(rows, most);
  for (const uint32_t count : {1u, 2u, 4u, 6u, 9u, 21u}) {
    const std::vector<float> some = multiply(rows, count);
    ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << count << " rows";
  }
}

// Weights and rows are as large as they can be, of one sign: the sums are the largest that there are.
TEST_P(Packed, ProductsOfTheLargestValues) {
  constexpr uint32_t weight_rows = 4, cols = 512, count = 9;
  std::vector<float> values(weight_rows * cols);
  for (uint32_t i = 0; i < values.size(); ++i) {
    // One of 16 is the largest of all, so that the others are quantised to the last number of the other sign.
    const float size = i % 16 == i / 16 % 16 ? -1.04f : 1;
    values[i] = i / cols % 2 ? size : -size;
  }
  pack(weight_rows, cols, values);
  RowForms forms;
  forms.add(weights_.kind);
  Rows rows(count, cols, forms);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t c = 0; c < cols; ++c) rows.row(i)[c] = i % 2 ? 1 : -1;
    rows.finish(i, isa_);
  }
  compare(rows, count);
}

TEST_P(Packed, QuantisedRowsAreNearTheirValues) {
  pack(1, 512);
  const Rows rows = make_rows(2, 512);
  for (uint32_t i = 0; i < 2; ++i) {
    const std::vector<double> x = x_of(rows, i);
    for (size_t c = 0; c < 512; ++c) ASSERT_NEAR(x[c], rows.row(i)[c], 4.5 / 127 / 2);
  }
}

// A NaN or an infinity makes every product of its row a NaN, and no product of another.
TEST_P(Packed, WhatIsNotFiniteIsNotANumber) {
  pack(19, 512);
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY})
    for (const uint32_t count : {2u, 4u, 8u, 21u}) {
      if (is_emulated_ && count > 4 && std::isinf(bad)) continue;
      Rows rows = make_rows(count, 512);
      rows.row(1)[300] = bad;
      rows.finish(1, isa_);
      const std::vector<float> found = multiply(rows, count);
      const size_t stride = weights_.tiles() * isa_.tile_rows;
      for (uint32_t i = 0; i < count; ++i)
        for (uint32_t r = 0; r < 19; ++r) ASSERT_EQ(std::isnan(found[i * stride + r]), i == 1) << bad << " " << count;
    }
}

// Values whose inverse is infinite become zeros.
TEST_P(Packed, TinyValuesAreZeros) {
  pack(3, 512);
  Rows rows = make_rows(1, 512);
  for (uint32_t c = 0; c < 512; ++c) rows.row(0)[c] = c % 3 ? 1e-39f : -1e-42f;
  rows.finish(0, isa_);
  for (const float value : multiply(rows, 1)) EXPECT_EQ(value, 0);
}

// Few rows read packed weights, many read a slab, and a pass has any number of them: the result of a row is the same.
TEST_P(Packed, ARowDoesNotDependOnTheOthers) {
  pack(19, 512);
  const uint32_t most = is_emulated_ ? 40 : 150;
  const Rows rows = make_rows(most, 512);
  const size_t stride = weights_.tiles() * isa_.tile_rows;
  const std::vector<float> all = multiply(rows, most);
  for (uint32_t count = 1; count < most; count += is_emulated_ ? 9 : count < 34 ? 1 : 7) {
    const std::vector<float> some = multiply(rows, count);
    ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << count << " rows";
  }
  ASSERT_EQ(all.size(), most * stride);
}

TEST_P(Packed, RowsMayLieAnywhere) {
  pack(19, 512);
  const uint32_t count = is_emulated_ ? 20 : 71;
  const Rows rows = make_rows(count, 512);
  const size_t stride = weights_.tiles() * isa_.tile_rows;
  const std::vector<float> all = multiply(rows, count);
  const RowsView view = rows.view(count);
  const XRow* const in_order = view.of(weights_.kind);
  std::vector<XRow> picked;
  for (uint32_t i = 0; i < count; ++i) picked.push_back(in_order[i * 7 % count]);
  std::vector<float> found(count * stride, NAN);
  multiply_tiles(weights_, isa_, 0, uint32_t(weights_.tiles()), picked.data(), count, found.data(), slab_.data());
  for (uint32_t i = 0; i < count; ++i)
    ASSERT_TRUE(
        std::equal(found.begin() + i * stride, found.begin() + (i + 1) * stride, all.begin() + i * 7 % count * stride))
        << i;
}

TEST_P(Packed, ARowOfATileIsDecodedAsQuantDoes) {
  pack(21, 512);
  std::vector<float> row(512);
  for (uint32_t r = 0; r < 21; ++r) {
    decode_tile_row(weights_, isa_, r, row.data(), slab_.data());
    for (size_t c = 0; c < 512; ++c) ASSERT_EQ(row[c], decoded_[r * 512 + c]) << r << " " << c;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Packed, testing::ValuesIn(cases()), [](const auto& one) {
  std::string name = one.param.isa + "_" + std::string(quant::name(one.param.format));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Every F16 but NaN, most of which are no BF16, in the rows of one tile; and none of it with exact products.
TEST(F16, IsRoundedToBf16WhereThatIsPacked) {
  std::vector<uint8_t> bytes(2 * 65536);
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint32_t bits = (i & 0x7fff) > 0x7c00 ? 0 : i;
    bytes[2 * i] = uint8_t(bits);
    bytes[2 * i + 1] = uint8_t(bits >> 8);
  }
  std::vector<float> row(8192);
  for (const std::string& name : tested_isa_names()) {
    const Isa& isa = tested_isa(name);
    if (x_kind(Format::f16, 8192, isa, false) != XKind::bf16) continue;
    const model::Matrix matrix{Format::f16, 8, 8192, bytes};
    Weights weights = describe_weights(matrix, isa, false);
    std::vector<uint8_t> tiles(weights.tiles() * weights.tile_bytes), slab(slab_bytes(weights, isa));
    pack_tiles(matrix, weights, 0, weights.tiles(), tiles.data());
    weights.data = tiles.data();
    for (uint32_t r = 0; r < 8; ++r) {
      decode_tile_row(weights, isa, r, row.data(), slab.data());
      for (uint32_t c = 0; c < 8192; ++c) {
        const uint8_t* from = &bytes[2 * (r * 8192 + c)];
        ASSERT_EQ(row[c], to_f32(to_bf16(to_f32(f16{uint16_t(from[0] | from[1] << 8)})))) << name << r << " " << c;
      }
    }
    const Weights exact = describe_weights(matrix, isa, true),
                  odd = describe_weights({Format::f16, 1, 24, bytes}, isa, false);
    for (const Weights& plain : {exact, odd}) {
      EXPECT_EQ(plain.format, Format::f16);
      EXPECT_EQ(plain.kind, XKind::f32);
      EXPECT_EQ(plain.data, bytes.data());
    }
  }
}

TEST(Nvfp4, EveryByteIsAScale) {
  std::vector<uint8_t> bytes(64 * quant::block_bytes(Format::nvfp4));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(i % 36 < 4 ? i / 36 * 4 + i % 36 : i * 37);
  std::vector<float> expected(4096), found(4096);
  quant::decode(Format::nvfp4, bytes.data(), 4096, expected.data());
  for (const std::string& name : tested_isa_names()) {
    const Isa& isa = tested_isa(name);
    const model::Matrix matrix{Format::nvfp4, 1, 4096, bytes};
    Weights weights = describe_weights(matrix, isa, false);
    std::vector<uint8_t> tiles(weights.tile_bytes), slab(slab_bytes(weights, isa));
    pack_tiles(matrix, weights, 0, 1, tiles.data());
    weights.data = tiles.data();
    decode_tile_row(weights, isa, 0, found.data(), slab.data());
    EXPECT_EQ(found, expected) << name;
  }
}

// Every exponent up to 2^120: beyond, 127 times the scale is more than f32 can hold, before that of x comes to it.
TEST(Mxfp4, EveryByteIsAScale) {
  for (const std::string& name : tested_isa_names()) {
    const Isa& isa = tested_isa(name);
    Rows rows(1, 32, {.by_32 = true});
    for (uint32_t c = 0; c < 32; ++c) rows.row(0)[c] = c == 3 ? 1 : 0;
    rows.finish(0, isa);
    const XRow* x = rows.view(1).by_32;
    for (uint32_t e = 0; e <= 248; ++e) {
      std::vector<uint8_t> block(17, 0x11);  // all values 1, in halves
      block[0] = uint8_t(e);
      const model::Matrix matrix{Format::mxfp4, 1, 32, block};
      Weights weights = describe_weights(matrix, isa, false);
      std::vector<uint8_t> tiles(weights.tile_bytes), slab(slab_bytes(weights, isa));
      pack_tiles(matrix, weights, 0, 1, tiles.data());
      weights.data = tiles.data();
      std::vector<float> found(isa.tile_rows);
      multiply_tiles(weights, isa, 0, 1, x, 1, found.data(), slab.data());
      const double expected = std::ldexp(127 * double(x->d[0]), int(e) - 128);
      ASSERT_NEAR(found[0], expected, 1e-6 * expected + 0x1p-149) << name << " " << e;
    }
  }
}

class Floats : public testing::TestWithParam<std::string> {
 protected:
  struct Size {
    uint32_t cols, count;
  };
  const Isa& isa_ = tested_isa(GetParam());
};

TEST_P(Floats, DotsOfAnyNumberOfRows) {
  for (const auto& [cols, count] : {Size{1, 9}, {5, 4}, {64, 1}, {259, 9}, {512, 6}, {1100, 7}, {1541, 51}}) {
    const uint32_t rows = 13;
    const std::vector<float> w = random_values(rows * cols, 3), x = random_values(count * cols, 4);
    std::vector<const float*> xs;
    for (uint32_t i = 0; i < count; ++i) xs.push_back(x.data() + i * cols);
    std::vector<float> found(count * rows, NAN), one(rows, NAN);
    isa_.dots[0](w.data(), rows, cols, xs.data(), count, found.data(), rows);
    for (uint32_t i = 0; i < count; ++i) {
      isa_.dots[0](w.data(), rows, cols, xs.data() + i, 1, one.data(), rows);
      for (uint32_t r = 0; r < rows; ++r) {
        double sum = 0, size = 0;
        for (uint32_t c = 0; c < cols; ++c) {
          sum += double(w[r * cols + c]) * x[i * cols + c];
          size += std::abs(double(w[r * cols + c]) * x[i * cols + c]);
        }
        ASSERT_NEAR(found[i * rows + r], sum, 1e-6 * size);
        ASSERT_EQ(found[i * rows + r], one[r]) << "alone";
      }
    }
  }
}

TEST_P(Floats, DotsOfHalvesAreThoseOfTheirF32) {
  for (const Format format : {Format::f16, Format::bf16})
    for (const auto& [cols, count] : {Size{3, 5}, {64, 1}, {259, 5}, {259, 3}, {1100, 26}}) {
      const uint32_t rows = 13;
      const std::vector<float> x = random_values(count * cols, 4);
      const std::vector<uint8_t> halves = test::random_weights(format, random_values(rows * cols, 3));
      std::vector<float> w(rows * cols), expected(count * rows), found(count * rows, NAN);
      quant::decode(format, halves.data(), w.size(), w.data());
      std::vector<const float*> xs;
      for (uint32_t i = 0; i < count; ++i) xs.push_back(x.data() + i * cols);
      isa_.dots[0](w.data(), rows, cols, xs.data(), count, expected.data(), rows);
      isa_.dots[unsigned(format)](halves.data(), rows, cols, xs.data(), count, found.data(), rows);
      EXPECT_EQ(found, expected) << quant::name(format) << " " << cols;
    }
}

TEST_P(Floats, ActivationsAreThoseOfTheirFormulas) {
  const float xielu[] = {0.75f, 1.5f, 0.5f, -0.25f};
  std::vector<float> x, up(2003, 2), found(2003);
  for (int i = 0; i < 2003; ++i) x.push_back(float(i - 1000) * 0.05f);
  const auto compare = [&](uint8_t kind, auto&& formula) {
    isa_.activate(kind, xielu, x.data(), up.data(), 2003, found.data());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(found[i], 2 * formula(double(x[i])), 2e-6 * std::abs(x[i]) + 1e-7) << int(kind) << " of " << x[i];
    isa_.activate(kind, xielu, x.data(), nullptr, 2003, found.data());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(found[i], formula(double(x[i])), 2e-6 * std::abs(x[i]) + 1e-7);
  };
  compare(0, [](double v) { return v / (1 + std::exp(-v)); });
  compare(1, [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
  compare(2, [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); });
  up.assign(2003, 1);  // clamped_swiglu adds 1 to it
  compare(4, [](double v) { return std::min(v, 7.0) / (1 + std::exp(-1.702 * std::min(v, 7.0))); });
  for (float& one : up) one = 100;
  isa_.activate(4, xielu, x.data(), up.data(), 2003, found.data());
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(found[i], 8 * std::min(x[i], 7.0f) / (1 + std::exp(-1.702 * std::min(x[i], 7.0f))), 1e-4);
  up.assign(2003, 2);
  for (float& one : x) one /= 20;  // squares
  compare(3, [](double v) { return v > 0 ? v * v : 0; });
  compare(5,
          [](double v) { return v > 0 ? v * (0.75 * v + 0.5) : 1.5 * (std::expm1(std::min(v, -0.25)) - v) + 0.5 * v; });
}

INSTANTIATE_TEST_SUITE_P(All, Floats, testing::ValuesIn(tested_isa_names()), [](const auto& one) {
  std::string name = one.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(ChooseIsa, RefusesWhatTheMachineLacks) {
  EXPECT_EQ(choose_isa("auto").name, isa_names().front());
  EXPECT_EQ(isa_names().back(), "plain");
  const std::vector<std::string> here = isa_names();
  for (const std::string& name : built_isa_names())
    if (std::find(here.begin(), here.end(), name) == here.end()) {
      EXPECT_THROW(choose_isa(name), Error) << name;
    } else {
      EXPECT_EQ(choose_isa(name).name, name);
    }
  EXPECT_THROW(choose_isa("mmx"), Error);
}

}  // namespace
}  // namespace heddle::cpu
