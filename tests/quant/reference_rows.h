// The rows of ../shared/data/quant: 8 rows of 768 trained weights as f32, as ggml encoded them in each format, and as
// it decoded those blocks again.
#pragma once
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "quant/format.h"
#include "tests/support/shared_data.h"

namespace heddle::quant {

inline constexpr size_t reference_values = 8 * 768;

class ReferenceRows {
 public:
  // both files, which must be there
  ReferenceRows(const std::filesystem::path& gguf, const std::filesystem::path& decoded)
      : gguf_(read(gguf)), decoded_(read(decoded)) {
    size_t at = 24;
    for (uint64_t i = 0; i < number<uint64_t>(gguf_, 16); ++i) {  // its metadata are texts only
      text(at);
      at += 4;
      text(at);
    }
    for (uint64_t i = 0; i < number<uint64_t>(gguf_, 8); ++i) {
      const std::string tensor = text(at);
      at += 4 + 8 * number<uint32_t>(gguf_, at);
      types_[tensor] = number<uint32_t>(gguf_, at);
      offsets_[tensor] = number<uint64_t>(gguf_, at + 4);
      at += 12;
    }
    data_ = (at + 31) / 32 * 32;
    header_ = std::string(decoded_.begin() + 8, decoded_.begin() + 8 + long(number<uint64_t>(decoded_, 0)));
  }

  bool has(Format f) const { return offsets_.count(std::string(name(f))); }
  uint32_t type(Format f) const { return types_.at(std::string(name(f))); }
  const uint8_t* blocks(Format f) const { return gguf_.data() + data_ + offsets_.at(std::string(name(f))); }
  std::vector<float> decoded(Format f) const { return values(std::string(name(f))); }
  std::vector<float> source() const { return values("src.f32"); }

 private:
  static std::vector<uint8_t> read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  template <class T>
  static T number(const std::vector<uint8_t>& file, size_t at) {
    T v;
    std::memcpy(&v, file.data() + at, sizeof v);
    return v;
  }
  std::string text(size_t& at) const {
    const auto length = number<uint64_t>(gguf_, at);
    std::string t(gguf_.begin() + long(at) + 8, gguf_.begin() + long(at + 8 + length));
    at += 8 + length;
    return t;
  }
  std::vector<float> values(const std::string& tensor) const {
    const size_t entry = header_.find('"' + tensor + '"');
    const size_t from = std::stoul(header_.substr(header_.find('[', header_.find("data_offsets", entry)) + 1));
    std::vector<float> v(reference_values);
    std::memcpy(v.data(), decoded_.data() + 8 + header_.size() + from, v.size() * 4);
    return v;
  }

  std::vector<uint8_t> gguf_, decoded_;
  std::map<std::string, uint64_t> offsets_;
  std::map<std::string, uint32_t> types_;
  size_t data_ = 0;
  std::string header_;
};

}  // namespace heddle::quant

// REFERENCE_ROWS(rows): declares them, or skips the test.
#define REFERENCE_ROWS(variable)                                                   \
  SHARED_DATA(variable##_gguf, "quant/ggml-quant-vectors.gguf");                   \
  SHARED_DATA(variable##_f32, "quant/ggml-quant-vectors.dequant-f32.safetensors"); \
  const heddle::quant::ReferenceRows variable(variable##_gguf, variable##_f32)
