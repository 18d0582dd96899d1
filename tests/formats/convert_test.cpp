// Writing a checkpoint in another type: every value, and what is refused.

#include "formats/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "formats/gguf.h"
#include "tests/formats/hf/hf_files.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace heddle::formats {
namespace {

using namespace test;
using heddle::test::Folder;
using quant::Format;

// A llama with rows of 256 values, random between -1 and 1.
class Model {
 public:
  explicit Model(Format format = Format::f32) {
    checkpoint_.path = "invented";
    checkpoint_.metadata = Metadata("invented");
    checkpoint_.metadata.set("general.architecture", std::string("llama"));
    checkpoint_.metadata.set("llama.block_count", uint32_t{1});
    checkpoint_.metadata.set("llama.attention.head_count", uint32_t{4});
    checkpoint_.metadata.set("split.count", uint16_t{2});
    add("token_embd.weight", {256, 37}, format);
    add("blk.0.attn_q.weight", {256, 256}, format);
    add("blk.0.ffn_down.weight", {32, 256}, format);
    add("blk.0.ffn_up.weight", {256, 5, 3}, format);
    add("output_norm.weight", {256}, quant::is_float(format) ? format : Format::f32);
    checkpoint_.index();
  }
  Tensor& add(const std::string& name, const std::vector<uint64_t>& shape, Format format) {
    Tensor tensor;
    tensor.name = name;
    tensor.shape = shape;
    tensor.format = format;
    std::vector<float> values(tensor.values());
    for (float& value : values) value = static_cast<float>((state_ = state_ * 1103515245 + 12345) >> 8) * 0x1p-23f - 1;
    auto& bytes = kept_.emplace_back(std::make_unique<std::vector<uint8_t>>(tensor.bytes()));
    quant::encode(format, values.data(), values.size(), bytes->data());
    tensor.view = *bytes;
    checkpoint_.tensors.push_back(tensor);
    return checkpoint_.tensors.back();
  }
  Checkpoint& operator*() { return checkpoint_; }
  Checkpoint* operator->() { return &checkpoint_; }

 private:
  Checkpoint checkpoint_;
  std::vector<std::unique_ptr<std::vector<uint8_t>>> kept_;
  uint32_t state_ = 7;
};

TEST(Quantize, EveryTypeHoldsTheValues) {
  Folder folder;
  Model model;
  const std::filesystem::path path = folder.path() / "out.gguf";
  for (FileType type : all_file_types()) {
    const Written written = write_gguf(*model, model->metadata, type, path);
    const Checkpoint back = read_gguf(path);
    EXPECT_EQ(back.metadata.integer("general.file_type"), gguf_file_type(type));
    EXPECT_EQ(back.metadata.integer("general.quantization_version"), 2u);
    EXPECT_EQ(back.metadata.find("split.count"), nullptr);
    ASSERT_EQ(back.tensors.size(), model->tensors.size());
    uint64_t bytes = 0;
    const MixModel mix = mix_model(model->metadata, true);
    for (size_t i = 0; i < back.tensors.size(); ++i) {
      const Tensor &before = model->tensors[i], &after = back.tensors[i];
      EXPECT_EQ(after.name, before.name);
      EXPECT_EQ(after.shape, before.shape);
      EXPECT_EQ(after.format, choose_format(type, mix, before.name, before.shape)) << name(type) << " " << before.name;
      bytes += after.bytes();
      const std::vector<float> expected = values_of(before), found = values_of(after);
      // What the encoder gives for the whole tensor at once: slices and threads change nothing.
      std::vector<uint8_t> blocks(after.bytes());
      quant::encode(after.format, expected.data(), expected.size(), blocks.data());
      EXPECT_TRUE(std::equal(blocks.begin(), blocks.end(), after.view.begin())) << name(type) << " " << before.name;
      double error = 0;
      for (size_t k = 0; k < expected.size(); ++k) error = std::max(error, std::fabs(double(expected[k]) - found[k]));
      EXPECT_LT(error, 0.5) << name(type) << " " << before.name;
    }
    EXPECT_EQ(written.bytes_after, bytes);
    EXPECT_EQ(written.values, 256u * 37 + 256 * 256 + 32 * 256 + 256 * 15 + 256);
    EXPECT_DOUBLE_EQ(written.bits_per_value(), 8.0 * static_cast<double>(bytes) / static_cast<double>(written.values));
  }
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Quantize, WithoutATypeWeightsStayAsTheyAre) {
  Folder folder;
  for (const Format format : {Format::f32, Format::f16, Format::bf16, Format::q4_k}) {
    Model model;
    model->tensors.clear();
    model.add("token_embd.weight", {256, 8}, format);
    model.add("blk.0.attn_norm.weight", {256}, format == Format::q4_k ? Format::f16 : format);
    model->index();
    write_gguf(*model, model->metadata, std::nullopt, folder.path() / "out.gguf");
    const Checkpoint back = read_gguf(folder.path() / "out.gguf");
    EXPECT_EQ(back.tensors[0].format, format);
    EXPECT_EQ(back.tensors[1].format, Format::f32);
    EXPECT_EQ(values_of(back.tensors[1]), values_of(model->tensors[1]));
    EXPECT_TRUE(std::equal(back.tensors[0].view.begin(), back.tensors[0].view.end(), model->tensors[0].view.begin()));
    const uint32_t numbers[] = {0, 1, 32, 14};
    EXPECT_EQ(back.metadata.integer("general.file_type"), numbers[format == Format::q4_k ? 3 : size_t(format)]);
  }
}

TEST(Quantize, AgainOnlyWhereAllowed) {
  Folder folder;
  const std::filesystem::path path = folder.path() / "out.gguf";
  Model model(Format::q8_0);
  EXPECT_REFUSED(write_gguf(*model, model->metadata, FileType::q4_0, path),
                 "invented: tensor token_embd.weight is q8_0 already", "--allow-requantize");
  EXPECT_EQ(folder.files(), 0u);
  write_gguf(*model, model->metadata, FileType::q4_0, path, {.allow_requantize = true, .threads = 1, .progress = {}});
  EXPECT_EQ(read_gguf(path).tensor("blk.0.attn_q.weight").format, Format::q4_0);
  // What is in the right format already is copied, with or without.
  Model same(Format::q8_0);
  write_gguf(*same, same->metadata, FileType::q8_0, path);
  EXPECT_EQ(read_gguf(path).tensor("blk.0.attn_q.weight").format, Format::q8_0);
}

TEST(Quantize, TensorsThatAreMadeAndProgress) {
  Folder folder;
  Model model;
  Tensor& produced = model->tensors[1];
  const std::vector<float> expected = values_of(produced);
  produced.produce = [bytes = std::vector<uint8_t>(produced.view.begin(), produced.view.end())](std::span<uint8_t> to) {
    std::copy(bytes.begin(), bytes.end(), to.begin());
  };
  produced.view = {};
  std::vector<size_t> seen;
  uint64_t done = 0;
  const Written written =
      write_gguf(*model, model->metadata, FileType::f32, folder.path() / "out.gguf",
                 {.allow_requantize = false, .threads = 3, .progress = [&](const Progress& progress) {
                    seen.push_back(progress.tensor);
                    EXPECT_EQ(progress.tensors, 5u);
                    done = progress.written;
                  }});
  EXPECT_EQ(seen, (std::vector<size_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(done, written.bytes_after);
  EXPECT_EQ(values_of(read_gguf(folder.path() / "out.gguf").tensor("blk.0.attn_q.weight")), expected);
}

// A tensor of a quantised folder: another type is encoded from the exact values, its own is what it produces.
TEST(Quantize, FromExactValues) {
  Folder folder;
  Model model;
  Tensor& tensor = model.add("blk.0.ffn_gate.weight", {256, 100}, Format::q8_0);
  const auto value = [](uint64_t i) { return static_cast<float>(i % 977) * 0.001f; };
  tensor.exact = [&](uint64_t first, uint64_t count, float* to) {
    for (uint64_t i = first * 256; i < (first + count) * 256; ++i) *to++ = value(i);
  };
  model->index();
  const auto path = folder.path() / "m.gguf";
  write_gguf(*model, model->metadata, FileType::f32, path);
  const Checkpoint exact = read_gguf(path);
  const std::vector<float> values = values_of(exact.tensor(tensor.name));
  for (uint64_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], value(i)) << i;
  write_gguf(*model, model->metadata, FileType::q4_0, path);
  EXPECT_EQ(read_gguf(path).tensor(tensor.name).format, Format::q4_0);
  write_gguf(*model, model->metadata, {}, path);
  const Checkpoint same = read_gguf(path);
  EXPECT_EQ(same.tensor(tensor.name).format, Format::q8_0);
  EXPECT_TRUE(std::ranges::equal(same.tensor(tensor.name).view, tensor.view));
}

TEST(Quantize, ExpertsInMxfp4OfAFolderStay) {
  Folder folder;
  Model model;
  model->kind = Checkpoint::Kind::safetensors;
  const Tensor& experts = model.add("blk.0.ffn_down_exps.weight", {32, 4, 2}, Format::mxfp4);
  model->index();
  const auto path = folder.path() / "m.gguf";
  for (const FileType type : {FileType::q8_0, FileType::q4_k_m, FileType::bf16}) {
    write_gguf(*model, model->metadata, type, path);
    const Checkpoint back = read_gguf(path);
    EXPECT_EQ(back.tensor(experts.name).format, Format::mxfp4);
    EXPECT_TRUE(std::ranges::equal(back.tensor(experts.name).view, experts.view));
  }
  write_gguf(*model, model->metadata, FileType::q8_0, path, {.allow_requantize = true});
  EXPECT_EQ(read_gguf(path).tensor(experts.name).format, Format::q8_0);
}

TEST(Quantize, BrokenWeightsAreNamedAndNothingIsLeft) {
  Folder folder;
  const std::filesystem::path path = folder.write("out.gguf", "older");
  Model model;
  std::vector<float> values(256 * 37, std::numeric_limits<float>::quiet_NaN());
  model->tensors[0].view = {reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4};
  EXPECT_REFUSED(write_gguf(*model, model->metadata, FileType::q8_0, path), "tensor token_embd.weight: ");
  EXPECT_EQ(heddle::test::contents(path), "older");
  EXPECT_EQ(folder.files(), 1u);
  model->unreadable.push_back({"x", "has the type F8_E4M3"});
  EXPECT_REFUSED(write_gguf(*model, model->metadata, FileType::f32, path), "1 tensors cannot be read", "F8_E4M3");
}

TEST(Quantize, SizeLabels) {
  EXPECT_EQ(size_label(260'032, 0, 0), "260K");
  EXPECT_EQ(size_label(15'191'712, 0, 0), "15M");
  EXPECT_EQ(size_label(1'235'814'400, 0, 0), "1.2B");
  EXPECT_EQ(size_label(70'553'706'496, 0, 0), "71B");
  EXPECT_EQ(size_label(46'702'792'704, 45'097'156'608, 8), "8x7.2B");
  EXPECT_EQ(size_label(5, 0, 0), "0.0K");
}

TEST(Convert, KeysOfTheWholeFile) {
  const HfFiles files = tiny_llama();
  Checkpoint model = files.model(tiny_llama_config());
  model.text.chat_template = "{{ messages }}";
  const Metadata metadata = converted_metadata(model);
  EXPECT_EQ(metadata.all()[0].first, "general.architecture");
  EXPECT_EQ(metadata.string("general.type"), "model");
  EXPECT_EQ(metadata.string("general.name"), "folder");
  EXPECT_EQ(metadata.string("general.size_label"), "0.2K");
  EXPECT_EQ(metadata.string("tokenizer.chat_template"), "{{ messages }}");
  EXPECT_EQ(metadata.integer("llama.block_count"), 1u);
  model.text.chat_template.clear();
  model.text.tokenizer_config = R"({"chat_template": [{"name": "tool_use", "template": "T"},
    {"name": "default", "template": "D"}]})";
  const Metadata named = converted_metadata(model);
  EXPECT_EQ(named.string("tokenizer.chat_template"), "D");
  EXPECT_EQ(named.string("tokenizer.chat_template.tool_use"), "T");
  EXPECT_EQ(named.array("tokenizer.chat_templates").strings(), std::vector<std::string_view>{"tool_use"});
  EXPECT_REFUSED(converted_metadata(files.model(R"({"architectures": ["ViTModel"]})")),
                 "folder: config.json: ", "class \"ViTModel\"; it knows LlamaForCausalLM, ");
  EXPECT_REFUSED(converted_metadata(Checkpoint()), "expected a config.json");
}

// The reference was written by llama.cpp's converter from the same model.
TEST(Convert, AsLlamaCppDoesIt) {
  SHARED_DATA(folder, "weights/stories260K-hf-f32");
  SHARED_DATA(other, "weights/stories260K-f32.gguf");
  const Checkpoint ours = open_checkpoint(folder), theirs = open_checkpoint(other);
  for (const Tensor& expected : theirs.tensors) {
    const Tensor* found = ours.find(expected.name);
    if (!found) {
      EXPECT_EQ(expected.name, "output.weight");  // llama2.c's converter writes the tied one as well
      continue;
    }
    EXPECT_EQ(found->shape, expected.shape) << expected.name;
    EXPECT_EQ(values_of(*found), values_of(expected)) << expected.name;
  }
  for (const char* key : {"llama.embedding_length", "llama.block_count", "llama.feed_forward_length",
                          "llama.attention.head_count", "llama.attention.head_count_kv", "llama.rope.dimension_count"})
    EXPECT_EQ(ours.metadata.integer(key), theirs.metadata.integer(key)) << key;
  EXPECT_EQ(ours.metadata.number("llama.attention.layer_norm_rms_epsilon"),
            theirs.metadata.number("llama.attention.layer_norm_rms_epsilon"));
}

}  // namespace
}  // namespace heddle::formats
