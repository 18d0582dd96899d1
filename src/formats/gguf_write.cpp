// The table comes first, computed from the announced tensors, then the data.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/error.h"
#include "formats/gguf.h"

namespace heddle::formats {
namespace {

uint64_t bytes_of(const GgufWriter::Announced& announced) {
  Tensor tensor;
  tensor.shape = announced.shape;
  tensor.format = announced.format;
  return tensor.bytes();
}

class Encoder {
 public:
  template <class T>
  void number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    number(uint64_t{value.size()});
    text_.append(value);
  }
  void value(const Value& value) {
    number(uint32_t(type_of(value)));
    std::visit(
        [this](const auto& held) {
          using Held = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<Held, std::string>) {
            text(held);
          } else if constexpr (std::is_same_v<Held, Array>) {
            number(uint32_t(held.type()));
            number(held.size());
            text_.append(reinterpret_cast<const char*>(held.encoded().data()), held.encoded().size());
          } else {
            number(held);
          }
        },
        value);
  }
  const std::string& bytes() const { return text_; }

 private:
  std::string text_;
};
static_assert(sizeof(bool) == 1, "a bool is written as it lies in memory");

}  // namespace

GgufWriter::GgufWriter(const std::filesystem::path& path, const Metadata& metadata, std::vector<Announced> tensors,
                       OutputFile::Existing existing)
    : file_(path, existing), tensors_(std::move(tensors)), alignment_(gguf_alignment(metadata)) {
  Encoder head;
  head.number(std::array{'G', 'G', 'U', 'F'});
  head.number(uint32_t{3});
  head.number(uint64_t{tensors_.size()});
  head.number(uint64_t{metadata.all().size()});
  for (const auto& [key, value] : metadata.all()) {
    head.text(key);
    head.value(value);
  }
  uint64_t offset = 0;
  std::unordered_set<std::string_view> names;
  for (const Announced& tensor : tensors_) {
    check(names.insert(tensor.name).second, "tensors have different names");
    check(
        !tensor.shape.empty() && tensor.shape.size() <= 4 && std::ranges::find(tensor.shape, 0u) == tensor.shape.end(),
        "a tensor has 1 to 4 dimensions, none of them 0");
    head.text(tensor.name);
    head.number(static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t n : tensor.shape) head.number(n);
    head.number(quant::gguf_type(tensor.format));
    head.number(offset);
    offset += (bytes_of(tensor) + alignment_ - 1) / alignment_ * alignment_;
  }
  file_.write(head.bytes());
  if (!tensors_.empty()) file_.pad_to(alignment_);
}

void GgufWriter::write(std::span<const uint8_t> data) {
  check(next_ < tensors_.size() && written_ == 0 && data.size() == bytes_of(tensors_[next_]),
        "the data of the next tensor that was announced, whole");
  write_slice(data);
}

void GgufWriter::write_slice(std::span<const uint8_t> data) {
  check(next_ < tensors_.size() && data.size() <= bytes_of(tensors_[next_]) - written_,
        "data of the next tensor that was announced");
  file_.write(data);
  written_ += data.size();
  if (written_ < bytes_of(tensors_[next_])) return;
  file_.pad_to(alignment_);
  ++next_;
  written_ = 0;
}

void GgufWriter::commit() {
  check(next_ == tensors_.size(), "every tensor that was announced is written before commit()");
  file_.commit();
}

}  // namespace heddle::formats
