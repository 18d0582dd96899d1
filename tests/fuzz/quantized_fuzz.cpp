// The tensors of a quantised folder with any names, types and shapes: weights come out, or it is refused.
//
// The input: a JSON object with quantization_config and tensors, each a list of type, shape and, where they matter, the
// values: a text, or integers.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "formats/hf/quantization.h"
#include "formats/safetensors.h"
#include "tests/formats/built_files.h"
#include "tests/fuzz/target.h"

namespace heddle {
namespace {

uint64_t bytes_of_type(const std::string& type) {
  const std::pair<const char*, uint64_t> sizes[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2},    {"I32", 4},    {"I64", 8},
                                                    {"I8", 1},  {"U8", 1},  {"F8_E4M3", 1}, {"F8_E8M0", 1}};
  for (const auto& [name, size] : sizes)
    if (type == name) return size;
  return 0;
}

// A safetensors file with those tensors. Bytes without a text are a sequence in which every one occurs.
std::string file_with(const Json& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, entry] : tensors.items()) {
    const std::string type = entry.at(0).get<std::string>();
    const uint64_t size = bytes_of_type(type);
    std::string bytes;
    if (entry.size() > 2 && entry.at(2).is_string()) {
      bytes = entry.at(2).get<std::string>();
    } else if (entry.size() > 2) {
      for (const Json& n : entry.at(2)) bytes += formats::test::raw(n.get<int64_t>()).substr(0, size);
    } else {
      uint64_t count = size;
      for (const Json& n : entry.at(1)) {
        count *= n.get<uint64_t>() % (1 << 16);
        if (count > 1 << 16) return {};
      }
      for (uint64_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 89 + count);
    }
    header[name] = {
        {"dtype", type}, {"shape", entry.at(1)}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  }
  return formats::test::safetensors(header.dump(-1, ' ', true), data);
}

}  // namespace
}  // namespace heddle

FUZZ_TARGET(quantized) {
  using namespace heddle;
  using namespace heddle::formats;
  try {
    const Json input = parse_json({reinterpret_cast<const char*>(data), size}, "input");
    const std::string file = file_with(input.at("tensors"));
    std::vector<Unreadable> unreadable;
    std::vector<Tensor> tensors = read_safetensors(formats::test::bytes_of(file), "fuzz", &unreadable);
    hf::unpack_quantized(input, tensors, unreadable, "fuzz");
    std::vector<uint8_t> scratch;
    for (const Tensor& tensor : tensors) {
      if (tensor.values() > 1 << 18) continue;
      if (tensor.exact) {
        std::vector<float> values(tensor.values());
        tensor.exact(0, tensor.rows(), values.data());
      }
      check(tensor.data(scratch).size() == tensor.bytes(), "all bytes of a weight");
    }
  } catch (const Error&) {
  } catch (const Json::exception&) {  // no such input
  }
  return 0;
}
