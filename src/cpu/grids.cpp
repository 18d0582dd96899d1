// The entries of the codebooks, computed by the compiler.
#include "cpu/grids.h"

#include "quant/grid_codes.h"

namespace heddle::cpu {
namespace {

// The first value of an entry is the lowest byte.
template <class Word, size_t entries, size_t levels>
constexpr auto expand(const uint16_t (&codes)[entries], const int8_t (&level)[levels]) {
  constexpr int bits = sizeof(Word) == 8 ? 2 : 3;
  Codebook<Word, entries> book{};
  for (size_t e = 0; e < entries; ++e) {
    uint64_t word = 0;
    for (size_t i = 0; i < sizeof(Word); ++i)
      word |= uint64_t(uint8_t(level[codes[e] >> bits * i & ((1 << bits) - 1)])) << 8 * i;
    book.at[e] = Word(word);
  }
  return book;
}

constexpr int8_t iq2_levels[] = {8, 25, 43}, iq1_levels[] = {-8, 0, 8};
constexpr int8_t iq3_xxs_levels[] = {4, 12, 20, 28, 36, 44, 52, 62}, iq3_s_levels[] = {1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace

constexpr Codebook<uint64_t, 256> iq2_xxs_book = expand<uint64_t>(quant::iq2_xxs_codes, iq2_levels);
constexpr Codebook<uint64_t, 512> iq2_xs_book = expand<uint64_t>(quant::iq2_xs_codes, iq2_levels);
constexpr Codebook<uint64_t, 1024> iq2_s_book = expand<uint64_t>(quant::iq2_s_codes, iq2_levels);
constexpr Codebook<uint64_t, 2048> iq1_book = expand<uint64_t>(quant::iq1_codes, iq1_levels);
constexpr Codebook<int32_t, 256> iq3_xxs_book = expand<int32_t>(quant::iq3_xxs_codes, iq3_xxs_levels);
constexpr Codebook<int32_t, 512> iq3_s_book = expand<int32_t>(quant::iq3_s_codes, iq3_s_levels);

}  // namespace heddle::cpu
