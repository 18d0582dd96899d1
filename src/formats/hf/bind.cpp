// Finds each wanted tensor among those of the files, and decides how its bytes are produced.
#include "formats/hf/bind.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/parallel.h"
#include "formats/mix.h"

namespace heddle::formats::hf {
namespace {

using Kind = Change::Kind;

std::string described_name(const Description& description, std::string_view name) {
  for (const auto& [from, to] : description.prefixes)
    if (name.starts_with(from)) return to + std::string(name.substr(from.size()));
  return std::string(name);
}

// (1, n) and (n) are one shape.
Shape without_ones(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

// Gate or up, of experts that have both in one tensor.
bool is_part(Kind kind) {
  return kind == Kind::first_half || kind == Kind::second_half || kind == Kind::even || kind == Kind::odd;
}
// The dimension of the rows that gate and up share: that of the values where the experts have vectors.
size_t shared_dimension(const Shape& shape) { return shape.size() - 2; }

Shape transposed(Shape shape) {
  std::swap(shape[0], shape[1]);
  return shape;
}

Shape file_shape(const Wanted& wanted, const Change& change, bool stacked) {
  Shape shape = wanted.shape;
  if (stacked) shape.pop_back();
  if (change.kind == Kind::transpose) shape = transposed(shape);
  if (change.kind == Kind::q_of_qkv) shape.back() += shape.back() / change.queries * 2;
  if (change.kind == Kind::k_of_qkv || change.kind == Kind::v_of_qkv) shape.back() *= change.queries + 2;
  if (is_part(change.kind)) shape[shared_dimension(shape)] *= 2;
  if (change.kind == Kind::top_half || change.kind == Kind::bottom_half) shape[1] *= 2;
  if (change.kind == Kind::gather || (change.kind == Kind::decay && change.all)) shape.back() = change.all;
  if (change.kind == Kind::gather_columns) shape[0] = change.all;
  if (change.kind == Kind::flat) return {shape[0] * shape[1]};
  if (change.kind == Kind::latent_keys) return {shape[1], (shape[0] + change.other) * shape[2]};
  if (change.kind == Kind::latent_values) return {shape[0], (shape[1] + change.other) * shape[2]};
  if (wanted.rows) shape.back() = wanted.rows->all;
  return shape;
}

// Where the row lies that becomes row `row`, where heads have `size` rows.
uint64_t interleaved(uint64_t row, uint64_t size) {
  const uint64_t in_head = row % size;
  return row - in_head + in_head % 2 * (size / 2) + in_head / 2;
}

// The first row of a head of q (0), k (1) or v (2).
uint64_t row_of_qkv(const Change& change, uint64_t size, uint64_t head, uint64_t which) {
  const uint64_t group = which == 0 ? head / change.queries : head;
  const uint64_t in_group = which == 0 ? head % change.queries : change.queries + which - 1;
  return (group * (change.queries + 2) + in_group) * size;
}

// Which row of the file's tensor is row `row` of GGUF's.
uint64_t source_row(const Change& change, const Shape& shape, uint64_t rows, uint64_t row) {
  switch (change.kind) {
    case Kind::interleave:
      return interleaved(row, rows / change.heads);
    case Kind::split_qkv: {
      const uint64_t size = rows / (change.heads * (change.queries + 2)), q = size * change.heads * change.queries;
      if (row < q) return row_of_qkv(change, size, row / size, 0) + row % size;
      const uint64_t head = (row - q) / size;
      return row_of_qkv(change, size, head % change.heads, head < change.heads ? 1 : 2) + row % size;
    }
    case Kind::q_of_qkv:
    case Kind::k_of_qkv: {
      const bool of_q = change.kind == Kind::q_of_qkv;
      const uint64_t size = rows / (change.heads * (of_q ? change.queries : 1));
      return row_of_qkv(change, size, row / size, of_q ? 0 : 1) + interleaved(row % size, size);
    }
    case Kind::v_of_qkv: {
      const uint64_t size = rows / change.heads;
      return row_of_qkv(change, size, row / size, 2) + row % size;
    }
    case Kind::first_half:
    case Kind::second_half: {
      const uint64_t inner = shape[shared_dimension(shape)], expert = row / inner;
      return (2 * expert + (change.kind == Kind::second_half)) * inner + row % inner;
    }
    case Kind::even:
    case Kind::odd:
      return 2 * row + (change.kind == Kind::odd);
    case Kind::bottom_half:
      return row + rows;
    case Kind::latent_values: {
      const uint64_t size = shape[1];
      return row / size * (size + change.other) + change.other + row % size;
    }
    case Kind::gather:
      for (const Change::Run& run : change.runs) {
        if (row < run.count) return run.first + row;
        row -= run.count;
      }
      return row;
    default:
      return row;
  }
}

void copy_rows(std::span<const uint8_t> from, const Change& change, const Shape& shape, std::span<uint8_t> to) {
  // Of a vector, and of the vectors of experts, each value is a row.
  const bool values = shape.size() == 1 || (is_part(change.kind) && shape.size() == 2);
  uint64_t rows = 1;
  for (size_t i = values ? 0 : 1; i < shape.size(); ++i) rows *= shape[i];
  const uint64_t bytes = to.size() / rows;
  for (uint64_t row = 0; row < rows; ++row)
    std::memcpy(&to[row * bytes], &from[source_row(change, shape, rows, row) * bytes], bytes);
}

// Value (r, c) of each matrix in `to` is value (c, column(r)) of a matrix in `from` that has `file_cols` columns, and
// of which `file_rows` are one further.
void transpose(std::span<const uint8_t> from, const Shape& shape, uint64_t file_rows, uint64_t file_cols,
               const auto& column, std::span<uint8_t> to) {
  const uint64_t cols = shape[0], rows = shape[1], count = shape.size() > 2 ? shape[2] : 1;
  const uint64_t size = to.size() / (cols * rows * count);
  constexpr uint64_t tile = 32;  // both sides stay in the cache
  for (uint64_t matrix = 0; matrix < count; ++matrix) {
    uint8_t* const here = &to[matrix * rows * cols * size];
    const uint8_t* const there = &from[matrix * file_rows * file_cols * size];
    for (uint64_t r0 = 0; r0 < rows; r0 += tile)
      for (uint64_t c0 = 0; c0 < cols; c0 += tile)
        for (uint64_t r = r0; r < std::min(r0 + tile, rows); ++r)
          for (uint64_t c = c0; c < std::min(c0 + tile, cols); ++c)
            std::memcpy(&here[(r * cols + c) * size], &there[(c * file_cols + column(r)) * size], size);
  }
}

void transpose(std::span<const uint8_t> from, const Change& change, const Shape& shape, std::span<uint8_t> to) {
  const uint64_t cols = shape[0], rows = shape[1];
  const auto itself = [](uint64_t row) { return row; };
  switch (change.kind) {
    case Kind::latent_keys:
      return transpose(from, shape, cols + change.other, rows, itself, to);
    case Kind::first_half:
      return transpose(from, shape, cols, 2 * rows, itself, to);
    case Kind::second_half:
      return transpose(
          from, shape, cols, 2 * rows, [rows](uint64_t row) { return rows + row; }, to);
    case Kind::even:
      return transpose(
          from, shape, cols, 2 * rows, [](uint64_t row) { return 2 * row; }, to);
    case Kind::odd:
      return transpose(
          from, shape, cols, 2 * rows, [](uint64_t row) { return 2 * row + 1; }, to);
    default:
      return transpose(from, shape, cols, rows, itself, to);
  }
}

void plus_one(std::span<const uint8_t> from, quant::Format format, std::span<uint8_t> to) {
  std::vector<float> values(to.size() / sizeof(float));
  quant::decode(format, from.data(), values.size(), values.data());
  for (float& value : values) value += 1;
  std::memcpy(to.data(), values.data(), to.size());
}

// Some runs of the columns of rows that have `file_cols` of them.
void copy_columns(std::span<const uint8_t> from, const Change& change, const Shape& shape, std::span<uint8_t> to) {
  const uint64_t rows = shape[1], size = to.size() / (rows * shape[0]);
  uint8_t* at = to.data();
  for (uint64_t row = 0; row < rows; ++row)
    for (const Change::Run& run : change.runs) {
      std::memcpy(at, &from[(row * change.all + run.first) * size], run.count * size);
      at += run.count * size;
    }
}

void decay(std::span<const uint8_t> from, quant::Format format, const Change& change, std::span<uint8_t> to) {
  std::vector<float> values(to.size() / sizeof(float)), given(change.all ? change.all : values.size());
  quant::decode(format, from.data(), given.size(), given.data());
  const Change order{.kind = Kind::gather, .runs = change.runs};
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(-std::exp(double(given[source_row(order, {}, values.size(), i)])));
  std::memcpy(to.data(), values.data(), to.size());
}

void multiply_row(const std::vector<Change::Scale>& scales, uint64_t row, uint64_t cols, float* values) {
  size_t i = 0;
  for (; i + 1 < scales.size() && row >= scales[i].rows; ++i) row -= scales[i].rows;
  for (uint64_t c = 0; c < cols; ++c) values[c] = static_cast<float>(values[c] * scales[i].by);
}
// A tensor with its rows multiplied, as f32: in the file's format they would be rounded once more.
Tensor scaled(const Tensor& from, const std::vector<Change::Scale>& scales) {
  Tensor result = from;
  result.format = quant::Format::f32;
  result.view = {};
  result.exact = nullptr;
  result.produce = [from, scales, cols = from.shape[0]](std::span<uint8_t> to) {
    std::vector<uint8_t> scratch;
    const std::span<const uint8_t> given = from.exact ? std::span<const uint8_t>() : from.data(scratch);
    const size_t bytes = quant::row_bytes(from.format, cols), to_bytes = cols * sizeof(float);
    parallel_for(from.rows(), 0, [&](size_t row) {
      thread_local std::vector<float> values;
      values.resize(cols);
      if (from.exact)
        from.exact(row, 1, values.data());
      else
        quant::decode(from.format, &given[row * bytes], cols, values.data());
      multiply_row(scales, row, cols, values.data());
      std::memcpy(&to[row * to_bytes], values.data(), to_bytes);
    });
  };
  return result;
}

// The exact rows of a tensor whose row i is row `row_of(i)` of `from`.
auto exact_rows_of(const Tensor& from, auto row_of) {
  return [exact = from.exact, cols = from.shape[0], row_of](uint64_t first, uint64_t count, float* to) {
    for (uint64_t row = first; row < first + count; ++row, to += cols) exact(row_of(row), 1, to);
  };
}

// Every value matters in norms, biases and routers: they are f32 in every file type.
void keep_f32(Tensor& tensor) {
  if (!tensor.exact || !stays_f32(tensor.name, tensor.shape)) return;
  tensor.format = quant::Format::f32;
  tensor.produce = [exact = tensor.exact, rows = tensor.rows(), cols = tensor.shape[0]](std::span<uint8_t> to) {
    std::vector<float> values(rows * cols);
    exact(0, rows, values.data());
    std::memcpy(to.data(), values.data(), to.size());
  };
}

// A change that is none of whole rows has to see values: bf16 of a quantised weight.
Tensor as_bf16(const Tensor& from) {
  Tensor result = from;
  result.format = quant::Format::bf16;
  result.exact = nullptr;
  result.produce = [exact = from.exact, rows = from.rows(), cols = from.shape[0]](std::span<uint8_t> to) {
    parallel_for(rows, 0, [&](size_t row) {
      thread_local std::vector<float> values;
      values.resize(cols);
      exact(row, 1, values.data());
      quant::encode(quant::Format::bf16, values.data(), cols, &to[row * cols * 2]);
    });
  };
  return result;
}

// Rows of a tensor that has more.
Tensor some_rows(const Tensor& from, const Wanted::Rows& rows, const Shape& shape) {
  Tensor result = from;
  result.shape = shape;
  const uint64_t begin = from.bytes() / rows.all * rows.first, size = result.bytes();
  if (from.bytes() < size) {
    result.view = {};
    result.produce = [from](std::span<uint8_t> to) {
      std::vector<uint8_t> scratch;
      const auto rest = std::ranges::copy(from.data(scratch), to.begin()).out;
      std::fill(rest, to.end(), uint8_t{0});
    };
  } else if (!from.produce) {
    result.view = from.view.subspan(begin, size);
  } else {
    result.produce = [from, begin](std::span<uint8_t> to) {
      std::vector<uint8_t> scratch;
      std::ranges::copy(from.data(scratch).subspan(begin, to.size()), to.begin());
    };
  }
  return result;
}

// Older files of GPTQ have biases where the model has none.
bool is_zero_bias(const Tensor& tensor) {
  return tensor.name.ends_with(".bias") && quant::is_float(tensor.format) &&
         std::all_of(tensor.view.begin(), tensor.view.end(), [](uint8_t byte) { return byte == 0; });
}

class Binder {
 public:
  Binder(const Description& description, std::vector<Tensor> tensors, const std::vector<Unreadable>& unreadable,
         const std::string& source)
      : description_(description), tensors_(std::move(tensors)), source_(source) {
    for (const Unreadable& tensor : unreadable) unreadable_.emplace(described_name(description, tensor.name), &tensor);
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (!places_.emplace(described_name(description, tensors_[i].name), i).second)
        throw Error("{}: expected every tensor once, found two of {}", source, tensors_[i].name);
  }

  std::vector<Tensor> all() {
    std::vector<Tensor> result;
    for (const Wanted& wanted : description_.tensors) {
      result.push_back(one(wanted));
      keep_f32(result.back());
    }
    refuse("tensors are missing", missing_);
    std::vector<std::string> unexpected;
    for (const auto& [name, place] : places_)
      if (!used_.count(place) && !is_unneeded(name) && !is_zero_bias(tensors_[place]))
        unexpected.push_back(tensors_[place].name);
    for (const auto& [name, tensor] : unreadable_)
      if (!is_unneeded(name)) unexpected.push_back(tensor->name);
    std::sort(unexpected.begin(), unexpected.end());
    refuse("tensors that are not part of the model", unexpected);
    return result;
  }

 private:
  bool is_unneeded(std::string_view name) const {
    return std::any_of(description_.unneeded.begin(), description_.unneeded.end(),
                       [&](const std::string& text) { return name.find(text) != name.npos; });
  }

  void refuse(std::string_view what, const std::vector<std::string>& names) const {
    constexpr size_t shown = 8;
    if (names.empty()) return;
    throw Error("{}: {} {}: {}{}", source_, names.size(), what,
                fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), shown)), ", "),
                names.size() > shown ? ", ..." : "");
  }

  const Tensor* find(const std::string& name, const Shape& shape) {
    const auto place = places_.find(name);
    if (place == places_.end()) {
      const auto unreadable = unreadable_.find(name);
      if (unreadable != unreadable_.end())
        throw Error("{}: tensor {} {}; expected f32, f16 or bf16", source_, unreadable->second->name,
                    unreadable->second->reason);
      missing_.push_back(name);
      return nullptr;
    }
    const Tensor& tensor = tensors_[place->second];
    used_.insert(place->second);
    if (without_ones(tensor.shape) != without_ones(shape))
      throw Error("{}: tensor {}: expected {}, as config.json says, found {}", source_, tensor.name,
                  fmt::join(shape.rbegin(), shape.rend(), " x "),
                  fmt::join(tensor.shape.rbegin(), tensor.shape.rend(), " x "));
    if (tensor.produce) return &tensor;  // of a quantised folder
    if (tensor.format > quant::Format::bf16)
      throw Error("{}: tensor {}: expected f32, f16 or bf16, found {}", source_, tensor.name,
                  quant::name(tensor.format));
    check(!tensor.view.empty(), "a tensor of a file has a view");
    return &tensor;
  }

  Tensor one(const Wanted& wanted) {
    Tensor result;
    result.name = wanted.name;
    result.shape = wanted.shape;
    if (!wanted.values.empty()) {
      result.produce = [values = wanted.values](std::span<uint8_t> to) {
        std::memcpy(to.data(), values.data(), to.size());
      };
      return result;
    }
    if (const std::string experts = mxfp4_experts_of(wanted); !experts.empty()) return from_one(wanted, experts, {});
    if (!wanted.fused.empty() && places_.count(wanted.fused))
      return from_one(wanted, wanted.fused, wanted.fused_change);
    if (!wanted.otherwise.empty() && !places_.count(wanted.sources[0]))
      return from_one(wanted, wanted.otherwise, wanted.change);
    if (wanted.sources.size() == 1 && wanted.fused.empty()) return from_one(wanted, wanted.sources[0], wanted.change);
    return stacked(wanted);
  }

  // The experts as unpack_mxfp4 names them, where the folder has such; gate and up are two there. "" for others.
  std::string mxfp4_experts_of(const Wanted& wanted) const {
    constexpr std::string_view both = "gate_up_proj";
    std::string name = wanted.fused.empty() ? wanted.sources.at(0) : wanted.fused;
    if (name.ends_with(both))
      name.replace(name.size() - both.size(), both.size(),
                   wanted.name.find("ffn_gate_exps") == std::string::npos ? "up_proj" : "gate_proj");
    const auto place = places_.find(name);
    return place != places_.end() && tensors_[place->second].format == quant::Format::mxfp4 ? name : "";
  }

  // Whether the file has `name` transposed. `shape` is what it has if not.
  bool lies_in_columns(const std::string& name, const Shape& shape, Change::Lies usual) const {
    const auto place = places_.find(name);
    if (place == places_.end()) return false;
    const Shape found = without_ones(tensors_[place->second].shape);
    const bool rows = found == without_ones(shape), columns = found == without_ones(transposed(shape));
    return columns && (!rows || usual == Change::Lies::rather_in_columns);
  }

  Tensor from_one(const Wanted& wanted, const std::string& name, const Change& change) {
    Tensor result;
    result.name = wanted.name;
    result.shape = wanted.shape;
    Shape shape = file_shape(wanted, change, false);
    bool turned = change.kind == Kind::transpose || change.kind == Kind::latent_keys;
    if (change.lies != Change::Lies::in_rows && lies_in_columns(name, shape, change.lies)) {
      shape = transposed(shape);
      turned = true;
    }
    const Tensor* found = find(name, shape);
    if (!found) return result;
    result.source = found->source.empty() ? found->name : found->source;
    const bool of_rows =
        change.kind != Kind::plus_one && change.kind != Kind::gather_columns && change.kind != Kind::decay && !turned;
    Tensor from = found->exact && (!of_rows || wanted.rows) ? as_bf16(*found) : *found;
    if (wanted.rows) from = some_rows(from, *wanted.rows, wanted.shape);
    result.format = from.format;
    if (turned) {
      result.produce = [from, change, shape = wanted.shape](std::span<uint8_t> to) {
        std::vector<uint8_t> scratch;
        transpose(from.data(scratch), change, shape, to);
      };
      return result;
    }
    switch (change.kind) {
      case Kind::none:
      case Kind::flat:
        result.view = from.view;
        result.produce = from.produce;
        result.exact = from.exact;
        break;
      case Kind::plus_one:
        result.format = quant::Format::f32;
        result.produce = [from](std::span<uint8_t> to) {
          std::vector<uint8_t> scratch;
          plus_one(from.data(scratch), from.format, to);
        };
        break;
      case Kind::decay:
        result.format = quant::Format::f32;
        result.produce = [from, change](std::span<uint8_t> to) {
          std::vector<uint8_t> scratch;
          decay(from.data(scratch), from.format, change, to);
        };
        break;
      case Kind::gather_columns:
        result.produce = [from, change, shape = wanted.shape](std::span<uint8_t> to) {
          std::vector<uint8_t> scratch;
          copy_columns(from.data(scratch), change, shape, to);
        };
        break;
      default:
        result.produce = [from, change, shape = wanted.shape](std::span<uint8_t> to) {
          std::vector<uint8_t> scratch;
          copy_rows(from.data(scratch), change, shape, to);
        };
        if (from.exact)
          result.exact = exact_rows_of(from, [change, shape = wanted.shape, rows = result.rows()](uint64_t row) {
            return source_row(change, shape, rows, row);
          });
    }
    return change.scales.empty() ? result : scaled(result, change.scales);
  }

  Tensor stacked(const Wanted& wanted) {
    Tensor result;
    result.name = wanted.name;
    result.shape = wanted.shape;
    std::vector<Tensor> slices;
    for (const std::string& name : wanted.sources) {
      const Tensor* found = find(name, file_shape(wanted, {}, true));
      if (!found) continue;
      if (slices.empty()) {
        result.source = found->source.empty() ? found->name : found->source;
        result.format = found->format;
      } else if (found->format != result.format) {
        throw Error("{}: tensor {}: expected {} as {} has, found {}", source_, found->name, quant::name(result.format),
                    result.source, quant::name(found->format));
      }
      slices.push_back(*found);
    }
    result.produce = [slices](std::span<uint8_t> to) {
      for (const Tensor& slice : slices) {
        const auto part = to.first(slice.bytes());
        if (slice.produce)
          slice.produce(part);
        else
          std::memcpy(part.data(), slice.view.data(), part.size());
        to = to.subspan(part.size());
      }
    };
    if (!slices.empty() && slices[0].exact)
      result.exact = [slices, rows = slices[0].rows(), cols = wanted.shape[0]](uint64_t first, uint64_t count,
                                                                               float* to) {
        for (const uint64_t end = first + count; first < end; first += count, to += count * cols) {
          count = std::min(end - first, rows - first % rows);
          slices[first / rows].exact(first % rows, count, to);
        }
      };
    return result;
  }

  const Description& description_;
  std::vector<Tensor> tensors_;
  const std::string& source_;
  std::unordered_map<std::string, size_t> places_;                 // by the described name
  std::unordered_map<std::string, const Unreadable*> unreadable_;  // likewise
  std::unordered_set<size_t> used_;
  std::vector<std::string> missing_;
};

}  // namespace

std::vector<Tensor> bind(const Description& description, std::vector<Tensor> tensors,
                         const std::vector<Unreadable>& unreadable, const std::string& source) {
  return Binder(description, std::move(tensors), unreadable, source).all();
}

}  // namespace heddle::formats::hf
