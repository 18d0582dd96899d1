// Any bytes as a GGUF file: read or refused, and what was read can be asked for everything.
#include "base/error.h"
#include "formats/gguf.h"
#include "tests/fuzz/target.h"

namespace {

void use(const heddle::formats::Array& array) {
  using heddle::formats::ValueType;
  array.describe();
  if (array.type() == ValueType::string) {
    size_t length = 0;
    for (const std::string_view text : array.strings()) length += text.size();
    heddle::check(length + 8 * array.size() == array.encoded().size(), "the strings fill the array");
  } else if (array.type() == ValueType::boolean) {
    array.integers();
  } else {
    array.numbers();
  }
}

}  // namespace

FUZZ_TARGET(gguf) {
  using namespace heddle::formats;
  try {
    const Checkpoint checkpoint = read_gguf({data, size}, "fuzz.gguf");
    for (const auto& [key, value] : checkpoint.metadata.all()) {
      to_string(value);
      if (const auto* array = std::get_if<Array>(&value)) use(*array);
    }
    std::vector<uint8_t> scratch;
    for (const Tensor& tensor : checkpoint.tensors) {
      heddle::check(&checkpoint.tensor(tensor.name) == &tensor, "a tensor is found by its name");
      const auto bytes = tensor.data(scratch);
      heddle::check(bytes.data() >= data && bytes.data() + bytes.size() <= data + size, "a view lies in the file");
    }
    checkpoint.chat_template();
  } catch (const heddle::Error&) {
  }
  return 0;
}
