// The codebooks of the formats with grids, as the kernels read them: the values of an entry are bytes of one word.
#pragma once
#include <cstddef>
#include <cstdint>

namespace heddle::cpu {

template <class Word, size_t entries>
struct Codebook {
  Word at[entries];
};
extern const Codebook<uint64_t, 256> iq2_xxs_book;
extern const Codebook<uint64_t, 512> iq2_xs_book;
extern const Codebook<uint64_t, 1024> iq2_s_book;
extern const Codebook<uint64_t, 2048> iq1_book;  // eight times the values
extern const Codebook<int32_t, 256> iq3_xxs_book;
extern const Codebook<int32_t, 512> iq3_s_book;

}  // namespace heddle::cpu
