// Random blocks are encoded once per format and row length, and repeated: writing is as fast as the disk.
#include "formats/synth.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numbers>

#include "base/error.h"
#include "base/parallel.h"
#include "formats/gguf.h"
#include "formats/hf/classes.h"

namespace heddle::formats {
namespace {

using quant::Format;

// splitmix64: a good step, and any seed will do.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>((next() >> 11) + 1) * 0x1p-53; }  // above 0, up to 1
  float normal() {
    return static_cast<float>(std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()));
  }

 private:
  uint64_t state_;
};

// About a million values. Prime numbers of blocks: no row length divides them, so rows repeat only after all.
uint64_t pool_blocks(Format format) {
  const uint32_t values = quant::block_values(format);
  return values == 256 ? 4099 : values == 32 ? 32771 : 1048583;
}

class Pools {
 public:
  explicit Pools(uint64_t seed) : seed_(seed) {}

  // Blocks of values with a deviation of 1 / sqrt(cols): a product with them keeps the size of what goes in.
  const std::vector<uint8_t>& get(Format format, uint64_t cols) {
    std::vector<uint8_t>& pool = pools_[{format, cols}];
    if (!pool.empty()) return pool;
    const uint64_t blocks = pool_blocks(format), values = quant::block_values(format),
                   bytes = quant::block_bytes(format);
    const float scale = 1 / std::sqrt(static_cast<float>(cols));
    pool.resize(blocks * bytes);
    const uint64_t pieces = 16, piece = (blocks + pieces - 1) / pieces;
    parallel_for(pieces, 0, [&](size_t i) {
      const uint64_t first = i * piece, count = std::min(piece, blocks - first);
      Random random(seed_ + i * 0x632be59bd9b4e019);
      std::vector<float> normals(count * values);
      for (float& value : normals) value = random.normal() * scale;
      quant::encode(format, normals.data(), normals.size(), &pool[first * bytes]);
    });
    return pool;
  }

 private:
  uint64_t seed_;
  std::map<std::pair<Format, uint64_t>, std::vector<uint8_t>> pools_;
};

// Every byte first, as byte-level BPE spells it, so that any text has tokens; then pairs of printable characters, then
// pairs with a third; at the end the special ones.
void put_vocabulary(Metadata& metadata, uint64_t size) {
  constexpr uint64_t special = 3, printable = 94;  // '!' to '~'
  if (size < 256 + special) throw Error("a vocabulary of {} has no room for every byte", size);
  std::vector<std::string> tokens, merges;
  std::vector<int32_t> types;
  uint32_t shifted = 256;  // where bytes that do not print are moved to
  const auto utf8 = [](uint32_t c) {
    if (c < 0x80) return std::string(1, static_cast<char>(c));
    return std::string{static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
  };
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    tokens.push_back(utf8(prints ? byte : shifted++));
  }
  for (uint64_t n = 0; tokens.size() < size - special; ++n) {
    const auto letter = [](uint64_t i) { return std::string(1, static_cast<char>('!' + i % printable)); };
    const bool is_pair = n < printable * printable;
    const uint64_t rest = is_pair ? n : n - printable * printable;
    const std::string left = is_pair ? letter(n / printable) : tokens[256 + rest / printable];
    merges.push_back(left + " " + letter(rest));
    tokens.push_back(left + letter(rest));
  }
  types.assign(tokens.size(), 1);
  for (const char* token : {"<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"}) {
    tokens.push_back(token);
    types.push_back(3);  // control
  }
  metadata.set("tokenizer.ggml.model", std::string("gpt2"));
  metadata.set("tokenizer.ggml.pre", std::string("llama-bpe"));
  metadata.set("tokenizer.ggml.tokens", Array::of(tokens));
  metadata.set("tokenizer.ggml.token_type", Array::of(types));
  metadata.set("tokenizer.ggml.merges", Array::of(merges));
  metadata.set("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(size - 3));
  metadata.set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(size - 2));
  metadata.set("tokenizer.ggml.eot_token_id", static_cast<uint32_t>(size - 1));
  metadata.set("tokenizer.ggml.add_bos_token", true);
}

const SynthShape& shape_named(const std::string& name) {
  std::vector<std::string> names;
  for (const SynthShape& shape : synth_shapes()) {
    if (shape.name == name) return shape;
    names.push_back(shape.name);
  }
  throw Error("there is no shape \"{}\"; there are {}", name, fmt::join(names, ", "));
}

// Leaves the first layers.
void keep_layers(Json& config, const SynthOptions& options) {
  if (options.layers == 0) return;
  Json& count = config.contains("n_layer") ? config["n_layer"] : config["num_hidden_layers"];
  if (options.layers > count.get<uint64_t>())
    throw Error("--layers: expected 1 to {} for {}, or 0 for all, found {}", count.get<uint64_t>(), options.shape,
                static_cast<int64_t>(options.layers));
  count = options.layers;
  if (config.contains("layer_types")) {
    Json& types = config["layer_types"];
    types.erase(types.begin() + static_cast<long>(options.layers), types.end());
  }
  if (config.contains("full_attn_idxs")) {
    Json kept = Json::array();
    for (const Json& index : config["full_attn_idxs"])
      if (index.get<uint64_t>() < options.layers) kept.push_back(index);
    config["full_attn_idxs"] = kept;
  }
}

// As many bytes of the pool as the tensor has, from a place of its own on.
void write_repeated(GgufWriter& writer, const std::vector<uint8_t>& pool, uint64_t start, uint64_t bytes) {
  while (bytes) {
    const uint64_t now = std::min<uint64_t>(bytes, pool.size() - start);
    writer.write_slice({&pool[start], now});
    bytes -= now;
    start = 0;
  }
}

void write_vector(GgufWriter& writer, const std::string& architecture, const hf::Wanted& wanted, Random& random) {
  std::vector<float> values = wanted.values;
  if (values.empty()) {
    uint64_t count = 1;
    for (uint64_t n : wanted.shape) count *= n;
    values.resize(count, 1);  // a norm or a scale
    float scale = wanted.shape.size() > 1 ? 1 / std::sqrt(static_cast<float>(wanted.shape[0])) : 0.02f;
    // As in trained models, the last of the chosen experts has little weight: rounding may choose another one.
    if (wanted.name.ends_with("ffn_gate_inp.weight")) scale *= 4;
    const bool stays_1 = wanted.name.find("norm") != wanted.name.npos || wanted.name.ends_with(".scale") ||
                         wanted.name.ends_with("_scale.weight");
    if (!stays_1)
      for (float& value : values) value = random.normal() * scale;
    if (wanted.name.ends_with("ffn_gate_inp.scale"))  // of Gemma's router, which divides by this
      for (float& value : values) value = std::sqrt(static_cast<float>(wanted.shape[0]));
    // Gemma 4 does not divide scores by this: its norms have learnt to. With scores of 16 and more, rounding decides
    // which position is attended to.
    if (architecture == "gemma4" && wanted.name.ends_with("attn_q_norm.weight"))
      for (float& value : values) value = 1 / std::sqrt(static_cast<float>(wanted.shape[0]));
    if (wanted.name.ends_with("ssm_a"))  // states must decay
      for (float& value : values) value = -1 - std::abs(value);
  }
  writer.write({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)});
}

}  // namespace

Written write_synthetic(const SynthOptions& options, const std::filesystem::path& path) {
  const SynthShape& shape = shape_named(options.shape);
  Json config = parse_json(shape.config, shape.name);
  keep_layers(config, options);
  hf::Description description = hf::describe(config, shape.name);
  if (config.contains("mtp_num_hidden_layers")) description.take_next_head();
  bool tied = true;
  uint64_t expert_values = 0;
  Written result;
  std::vector<Tensor> tensors;
  for (const hf::Wanted& wanted : description.tensors) {
    Tensor tensor;
    tensor.name = wanted.name;
    tensor.shape = wanted.shape;
    result.values += tensor.values();
    if (wanted.name == "output.weight") tied = false;
    if (wanted.name.find("_exps.") != std::string::npos) expert_values += tensor.values();
    tensors.push_back(std::move(tensor));
  }
  const std::string& architecture = description.architecture;
  const MixModel model = mix_model(description.metadata, tied);
  Metadata metadata(path.string());
  metadata.set("general.architecture", architecture);
  metadata.set("general.type", std::string("model"));
  metadata.set("general.name", shape.name + " with random weights");
  metadata.set("general.size_label", size_label(result.values, expert_values, model.experts));
  for (const auto& [key, value] : description.metadata.all()) metadata.set(key, value);
  metadata.set("general.file_type", gguf_file_type(options.type));
  metadata.set("general.quantization_version", uint32_t{2});
  put_vocabulary(metadata, description.metadata.integer(architecture + ".vocab_size"));

  std::vector<GgufWriter::Announced> announced;
  for (Tensor& tensor : tensors) {
    result.bytes_before += tensor.bytes();
    tensor.format = choose_format(options.type, model, tensor.name, tensor.shape);
    result.bytes_after += tensor.bytes();
    announced.push_back({tensor.name, tensor.shape, tensor.format});
  }
  GgufWriter writer(path, metadata, std::move(announced), options.existing);
  Pools pools(options.seed);
  Random random(~options.seed);
  Progress progress;
  progress.tensors = tensors.size();
  progress.to_write = result.bytes_after;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    ++progress.tensor;
    if (stays_f32(tensor.name, tensor.shape)) {
      write_vector(writer, architecture, description.tensors[i], random);
    } else {
      const uint64_t start = random.next() % pool_blocks(tensor.format) * quant::block_bytes(tensor.format);
      write_repeated(writer, pools.get(tensor.format, tensor.shape[0]), start, tensor.bytes());
    }
    progress.written += tensor.bytes();
    if (options.progress) options.progress(progress);
  }
  writer.commit();
  return result;
}

}  // namespace heddle::formats
