// Any metadata with the tensors of a tiny model, from the file to the first logits on both CPU backends: it runs, or it
// is refused.
//
// The input: a letter for the form ('g': a GGUF file, else a Hugging Face folder), a letter for the backend's options,
// the name of a fixture of tests/model on the rest of the line, then a JSON object: the keys of the GGUF file, or
// config.json.
#include <map>
#include <numeric>

#include "base/error.h"
#include "cpu/cpu.h"
#include "formats/gguf.h"
#include "formats/hf.h"
#include "formats/safetensors.h"
#include "model/forward.h"
#include "model/load.h"
#include "model/session.h"
#include "tests/formats/built_files.h"
#include "tests/fuzz/target.h"
#include "tests/model/fixture.h"

namespace heddle {
namespace {

namespace built = formats::test;

// The tensors of a fixture in both forms.
struct Tensors {
  std::string safetensors;
  built::GgufBytes gguf;  // without keys

  explicit Tensors(const test::Fixture& fixture) : safetensors(fixture.safetensors()) {
    formats::Checkpoint checkpoint = folder(fixture.config);
    std::vector<uint8_t> scratch;
    for (const formats::Tensor& tensor : checkpoint.tensors) {
      gguf.tensors.push_back(built::tensor(tensor.name, tensor.shape, 0, gguf.data.size()));
      const auto bytes = tensor.data(scratch);
      gguf.data.append(bytes.begin(), bytes.end());
      gguf.data.resize((gguf.data.size() + 31) / 32 * 32);
    }
  }

  formats::Checkpoint folder(const Json& config) const {
    formats::Checkpoint checkpoint;
    checkpoint.path = "fuzz";
    checkpoint.kind = formats::Checkpoint::Kind::safetensors;
    checkpoint.tensors = formats::read_safetensors(built::bytes_of(safetensors), "fuzz", &checkpoint.unreadable);
    formats::apply_hf_config(checkpoint, config);
    return checkpoint;
  }
};

// The values that a JSON value stands for, as GGUF has them: the type's number and the bytes.
std::pair<uint32_t, std::string> gguf_value(const Json& value) {
  if (value.is_boolean()) return {7, built::raw(uint8_t(value.get<bool>()))};
  if (value.is_string()) return {8, built::text(value.get<std::string>())};
  if (value.is_number_float()) return {6, built::raw(static_cast<float>(value.get<double>()))};
  if (value.is_number_unsigned() && value.get<uint64_t>() <= UINT32_MAX)
    return {4, built::raw(static_cast<uint32_t>(value.get<uint64_t>()))};
  if (value.is_number_unsigned()) return {10, built::raw(value.get<uint64_t>())};
  if (value.is_number_integer()) return {11, built::raw(value.get<int64_t>())};
  return {7, built::raw(uint8_t{0})};
}

std::string gguf_key(const std::string& name, const Json& value) {
  if (!value.is_array()) {
    const auto [type, bytes] = gguf_value(value);
    return built::key(name, type, bytes);
  }
  uint32_t type = 4;
  std::string bytes;
  uint64_t count = 0;
  for (const Json& entry : value) {
    const auto [found, one] = gguf_value(entry);
    if (count && found != type) continue;
    type = found;
    bytes += one;
    ++count;
  }
  return built::array_key(name, type, count, bytes);
}

// The head for multi-token prediction, after the tokens of the session.
void predict(const model::Model& model, model::Backend& backend, const model::Limits& limits,
             const model::Session& session) {
  model::Batch batch;
  batch.predicts = true;
  batch.tokens = batch.sequences = batch.outputs = {0};
  batch.positions = {session.length()};
  batch.after = {(session.length() - 1) % limits.rows};
  batch.blocks.resize(1, std::vector<uint32_t>(limits.kv_blocks));
  std::iota(batch.blocks[0].begin(), batch.blocks[0].end(), 0u);
  model::forward(model, backend, batch);
  check(backend.result().logits.size() == model.vocabulary, "logits for every token");
}

void run(const model::Model& model, char options, const std::vector<uint32_t>& ids) {
  model::Limits limits = model::limits_for(std::min(model.context, 64u), 4);
  if (options & 1) limits.kv = model::KvFormat::q8;
  const cpu::Options cpu{.threads = 1, .exact = (options & 2) != 0};
  check(cpu::memory_needed(model, limits, cpu).total() < 64 << 20, "sizes are bounded by the tensors");
  const std::span<const uint32_t> some(ids.data(), std::min<size_t>(ids.size(), 6));
  for (const bool reference : {false, true}) {
    const auto backend = reference ? cpu::make_reference(model, limits) : cpu::make_cpu(model, limits, cpu);
    model::Session session(model, *backend, limits);
    check(session.feed(some).size() == model.vocabulary, "logits for every token");
    if (model::next_head(model) && session.length() < session.context()) predict(model, *backend, limits, session);
  }
}

}  // namespace

FUZZ_TARGET(model) {
  static const std::vector<std::string> names = test::Fixture::names();
  static std::map<std::string, std::unique_ptr<Tensors>, std::less<>> known;
  static std::map<std::string, std::vector<uint32_t>, std::less<>> ids;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\n');
  if (end == input.npos || end < 3) return 0;
  const std::string name(input.substr(2, end - 2));
  if (std::find(names.begin(), names.end(), name) == names.end()) return 0;
  std::unique_ptr<Tensors>& tensors = known[name];
  if (!tensors) {
    const test::Fixture fixture(name);
    tensors = std::make_unique<Tensors>(fixture);
    ids[name] = fixture.ids;
  }
  try {
    const Json json = parse_json(input.substr(end + 1), "fuzz");
    if (!json.is_object()) return 0;
    if (input[0] != 'g') {
      run(model::load(tensors->folder(json), {.next_head = true}), input[1], ids[name]);
      return 0;
    }
    built::GgufBytes file = tensors->gguf;
    for (const auto& [key, value] : json.items()) file.keys.push_back(gguf_key(key, value));
    const std::string bytes = file.bytes();
    run(model::load(formats::read_gguf(built::bytes_of(bytes), "fuzz.gguf"), {.next_head = true}), input[1], ids[name]);
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace heddle
