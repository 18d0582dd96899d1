// Any bytes as a safetensors file: read or refused, and what was read lies in the file and fills it.
#include "base/error.h"
#include "formats/safetensors.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(safetensors) {
  using namespace heddle::formats;
  try {
    std::vector<Unreadable> unreadable;
    const auto tensors = read_safetensors({data, size}, "fuzz.safetensors", &unreadable);
    std::vector<uint8_t> scratch;
    uint64_t used = 0;
    for (const Tensor& tensor : tensors) {
      const auto bytes = tensor.data(scratch);
      heddle::check(bytes.data() >= data && bytes.data() + bytes.size() <= data + size, "a view lies in the file");
      used += bytes.size();
    }
    heddle::check(used <= size, "no byte is in two tensors");
  } catch (const heddle::Error&) {
  }
  return 0;
}
