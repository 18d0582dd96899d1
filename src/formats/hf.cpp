// The class of the model decides how config.json is described; the description is bound to the tensors of the files.
#include "formats/hf.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/hf/bind.h"
#include "formats/hf/classes.h"
#include "formats/hf/quantization.h"

namespace heddle::formats {
namespace {

// Of "org/models--org--name", "name/" or "name/model.safetensors": the folder's name.
std::string model_name(const std::filesystem::path& path) {
  std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // a slash at the end
  if (std::filesystem::is_regular_file(folder)) folder = folder.parent_path();
  return folder.filename().string();
}

std::string class_name(const Json& config) {
  const auto names = config.find("architectures");
  if (names != config.end() && names->is_array() && !names->empty() && names->front().is_string())
    return names->front().get<std::string>();
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() ? "of type " + type->get<std::string>() : "unnamed";
}

// What the description wants as a list of metadata, read from tensors of one value each.
void put_lists(Metadata& to, const hf::Description& description, const std::vector<Tensor>& tensors,
               const std::string& source) {
  std::map<std::string_view, const Tensor*> by_name;
  if (!description.lists.empty())
    for (const Tensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  for (const auto& [key, names] : description.lists) {
    std::vector<float> values;
    for (const std::string& name : names) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) throw Error("{}: 1 tensors are missing: {}", source, name);
      const Tensor& tensor = *found->second;
      if (tensor.values() != 1 || tensor.format > quant::Format::bf16)
        throw Error("{}: tensor {}: expected 1 value of f32, f16 or bf16, found {} of {}", source, name,
                    tensor.values(), quant::name(tensor.format));
      quant::decode(tensor.format, tensor.view.data(), 1, &values.emplace_back());
    }
    to.set(key, Array::of(values));
  }
}

}  // namespace

void apply_hf_config(Checkpoint& checkpoint, const Json& config) {
  const std::string source = checkpoint.path.string();
  hf::Config(config, source + ": config.json");  // an object
  const std::string name = class_name(config);
  if (!hf::is_known(name)) {
    checkpoint.unknown_class = name;
    checkpoint.metadata = Metadata(source);
    checkpoint.metadata.set("general.name", model_name(checkpoint.path));
    return;
  }
  hf::Description description = hf::describe(config, source + ": config.json");
  checkpoint.quantization = hf::unpack_quantized(config, checkpoint.tensors, checkpoint.unreadable, source);
  const auto is_in_file = [&](const hf::Wanted& wanted) {
    return std::any_of(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                       [&](const Tensor& tensor) { return tensor.name == wanted.sources.at(0); });
  };
  if (std::any_of(description.next_head.begin(), description.next_head.end(), is_in_file)) description.take_next_head();
  checkpoint.warnings = std::move(description.warnings);
  if (description.text_only) checkpoint.text_part_of = name;
  Metadata lists(source);
  put_lists(lists, description, checkpoint.tensors, source);
  checkpoint.tensors = hf::bind(description, std::move(checkpoint.tensors), checkpoint.unreadable, source);
  checkpoint.unreadable.clear();  // buffers that are not needed, or bind() would have thrown
  checkpoint.metadata = Metadata(source);
  for (const auto& [key, value] : description.metadata.all()) checkpoint.metadata.set(key, value);
  for (const auto& [key, value] : lists.all()) checkpoint.metadata.set(key, value);
  checkpoint.metadata.set("general.name", model_name(checkpoint.path));
  checkpoint.index();
}

std::string hf_known_classes() { return fmt::format("{}", fmt::join(hf::known_classes(), ", ")); }

void apply_hf_pooling(Checkpoint& checkpoint, const Json& pooling, const std::string& where) {
  if (!checkpoint.unknown_class.empty()) return;
  hf::Config config(pooling, where);
  config.ignore({"word_embedding_dimension", "embedding_dimension", "include_prompt"});
  constexpr std::pair<std::string_view, uint32_t> modes[] = {// as GGUF numbers them
                                                             {"pooling_mode_mean_tokens", 1},
                                                             {"pooling_mode_cls_token", 2},
                                                             {"pooling_mode_lasttoken", 3}};
  std::optional<uint32_t> type;
  // newer files have one name
  constexpr std::pair<std::string_view, uint32_t> names[] = {{"mean", 1}, {"cls", 2}, {"lasttoken", 3}};
  if (const std::string name = config.string("pooling_mode", ""); !name.empty()) {
    for (const auto& [text, number] : names)
      if (name == text) type = number;
    if (!type) config.refuse("pooling_mode", "mean, cls or lasttoken");
  }
  for (const auto& [key, number] : modes) {
    if (!config.boolean(key, false)) continue;
    if (type) config.refuse(key, "one mode of pooling, not several");
    type = number;
  }
  config.finish();
  checkpoint.warnings.insert(checkpoint.warnings.end(), config.warnings().begin(), config.warnings().end());
  if (type) checkpoint.metadata.set(std::string(checkpoint.architecture()) + ".pooling_type", *type);
}

HfModules read_hf_modules(const Json& modules, const std::string& where) {
  if (!modules.is_array()) throw Error("{}: expected a list of modules, found {}", where, modules.type_name());
  HfModules found{.pooling = ""};
  bool normalised = false;
  for (size_t i = 0; i < modules.size(); ++i) {
    const auto text = [&](const char* name) {
      const bool there = modules[i].is_object() && modules[i].contains(name) && modules[i][name].is_string();
      return there ? modules[i][name].get<std::string>() : std::string();
    };
    const std::string type = text("type");
    const std::string_view last = std::string_view(type).substr(type.rfind('.') + 1);
    if (last != "Transformer" && last != "Pooling" && last != "Dense" && last != "Normalize")
      throw Error("{}: [{}].type: expected a Transformer, Pooling, Dense or Normalize, found {}", where, i,
                  in_quotes(type));
    if (last == "Pooling") found.pooling = text("path");
    if (last == "Dense") {
      if (normalised || found.pooling.empty() || found.dense.size() == 2)
        throw Error("{}: [{}].type: expected up to two Dense modules between Pooling and Normalize, found another one",
                    where, i);
      found.dense.push_back(text("path"));
    }
    normalised = normalised || last == "Normalize";
  }
  return found;
}

void apply_hf_dense(Checkpoint& checkpoint, const Json& dense, std::vector<Tensor> tensors, const std::string& where) {
  if (!checkpoint.unknown_class.empty()) return;
  hf::Config config(dense, where);
  const uint64_t in = config.integer("in_features", 0), out = config.integer("out_features", 0);
  if (in == 0) config.refuse("in_features", "a whole number from 1 to 2^30");
  if (out == 0) config.refuse("out_features", "a whole number from 1 to 2^30");
  const bool bias = config.boolean("bias", true);
  const std::string activation = config.string("activation_function", "torch.nn.modules.activation.Tanh");
  const bool tanh = activation.ends_with(".Tanh");
  if (!tanh && !activation.ends_with(".Identity"))
    config.refuse("activation_function", "torch.nn.modules.linear.Identity or torch.nn.modules.activation.Tanh");
  config.finish();

  // GGUF's names: pooling was the module before.
  const std::string name = checkpoint.find("dense_2.weight") ? "dense_3" : "dense_2";
  hf::Description description(checkpoint.architecture());
  description.add(name + ".weight", "linear.weight", {in, out});
  if (bias) description.add(name + ".bias", "linear.bias", {out});
  for (Tensor& tensor : hf::bind(description, std::move(tensors), {}, where))
    checkpoint.tensors.push_back(std::move(tensor));
  const std::string prefix = std::string(checkpoint.architecture()) + "." + name;
  checkpoint.metadata.set(prefix + "_feat_in", static_cast<uint32_t>(in));
  checkpoint.metadata.set(prefix + "_feat_out", static_cast<uint32_t>(out));
  if (tanh) checkpoint.metadata.set(prefix + "_activation", std::string("tanh"));
  checkpoint.index();
}

namespace {

// What Qwen3-Reranker was trained with, and llama.cpp writes into GGUF files of it.
constexpr const char* qwen3_rerank_template =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a "
    "web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: "
    "{document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

bool is_qwen3_reranker(const Checkpoint& checkpoint, const Json& config) {
  const auto path = config.find("_name_or_path");
  std::string names = model_name(checkpoint.path);
  if (path != config.end() && path->is_string()) names += " " + path->get<std::string>();
  for (char& c : names) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return names.find("qwen3-reranker") != names.npos;
}

uint64_t token_of(const Json& tokenizer, const std::string& text, const std::string& where) {
  const auto model = tokenizer.is_object() ? tokenizer.find("model") : tokenizer.end();
  if (model != tokenizer.end() && model->is_object() && model->contains("vocab") && (*model)["vocab"].is_object())
    if (const auto found = (*model)["vocab"].find(text);
        found != (*model)["vocab"].end() && found->is_number_unsigned())
      return found->get<uint64_t>();
  throw Error("{}: model.vocab: expected the token {}, with which this reranker answers, found none", where,
              in_quotes(text));
}

}  // namespace

void apply_hf_reranker(Checkpoint& checkpoint, const Json& config) {
  if (!checkpoint.unknown_class.empty() || checkpoint.architecture() != "qwen3") return;
  if (!is_qwen3_reranker(checkpoint, config)) return;
  const std::string where = checkpoint.path.string() + ": tokenizer.json";
  const Json tokenizer = parse_json(checkpoint.text.tokenizer, where);
  const bool tied = checkpoint.find("output.weight") == nullptr;
  const Tensor head = checkpoint.tensor(tied ? "token_embd.weight" : "output.weight");
  check(!head.view.empty(), "a head that lies in the file as it is");
  const uint64_t row = head.bytes() / head.rows();
  std::vector<std::span<const uint8_t>> rows;
  for (const char* answer : {"yes", "no"}) {
    const uint64_t id = token_of(tokenizer, answer, where);
    if (id >= head.rows()) throw Error("{}: token {}: expected one below {}, found {}", where, answer, head.rows(), id);
    rows.push_back(head.view.subspan(id * row, row));
  }
  Tensor classifier;
  classifier.name = "cls.output.weight";
  classifier.source = head.source;
  classifier.shape = {head.shape[0], rows.size()};
  classifier.format = head.format;
  classifier.produce = [rows](std::span<uint8_t> to) {
    for (size_t i = 0; i < rows.size(); ++i) std::ranges::copy(rows[i], to.begin() + long(i * rows[i].size()));
  };
  if (!tied) std::erase_if(checkpoint.tensors, [](const Tensor& tensor) { return tensor.name == "output.weight"; });
  checkpoint.tensors.push_back(std::move(classifier));
  checkpoint.metadata.set("qwen3.pooling_type", uint32_t(4));  // rank
  checkpoint.metadata.set("qwen3.classifier.output_labels", Array::of(std::vector<std::string>{"yes", "no"}));
  checkpoint.metadata.set("tokenizer.chat_template.rerank", std::string(qwen3_rerank_template));
  checkpoint.index();
}

}  // namespace heddle::formats
