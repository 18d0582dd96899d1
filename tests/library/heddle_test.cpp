// Models, tokens, embeddings and ranks through the C functions, by value against the program's commands.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json.h"
#include "base/version.h"
#include "main/device/open_model.h"
#include "main/device/running_model.h"
#include "tests/library/open_library.h"
#include "tests/model/encoder_fixture.h"
#include "tests/support/folder.h"
#include "tests/support/sanitized.h"
#include "tests/text/letters_tokenizer.h"

namespace heddle::test {
namespace {

struct Library : testing::Test {
  ModelHandle model = open_on_cpu("weft");
  heddle_error error{};
};

struct EncoderFolder {
  explicit EncoderFolder(const std::string& name) : path(EncoderFixture(name).write_in(folder).string()) {
    folder.write(name + "/tokenizer.json", letters_json());
  }
  Folder folder;
  std::string path;
};

TEST_F(Library, KnowsItsVersionAndItsModel) {
  EXPECT_STREQ(heddle_version(), version);
  const heddle_model_info* info = heddle_model_get_info(model.get());
  ASSERT_NE(info, nullptr);
  const auto running = open_running("weft", {.device = "cpu"});
  EXPECT_EQ(info->name, running->model.name);
  EXPECT_EQ(info->architecture, running->model.architecture);
  EXPECT_STREQ(info->type, "Q8_0");
  EXPECT_EQ(info->backend, running->backend->describe());
  EXPECT_EQ(info->context, running->model.context);
  EXPECT_EQ(info->vocabulary, running->model.vocabulary);
  EXPECT_EQ(info->embedding_width, running->model.width);
  EXPECT_GT(info->parameters, 1000000u);
  EXPECT_TRUE(info->can_generate && info->can_chat && info->can_embed);
  EXPECT_FALSE(info->can_rank);
  EXPECT_EQ(heddle_model_get_info(nullptr), nullptr);
}

TEST_F(Library, TokensAreThoseOfTheTokenizer) {
  const text::Tokenizer tokenizer = open_tokenizer(open_model("weft"));
  for (const std::string text : {"", "Once upon a time", "<|im_start|>user\n\xc3\xa9\xe2\x82\xac", "\xff half"})
    for (int32_t flags = 0; flags < 4; ++flags) {
      uint32_t* tokens = nullptr;
      size_t count = 0;
      ASSERT_EQ(heddle_tokenize(model.get(), text.c_str(), flags, &tokens, &count, &error), HEDDLE_OK) << error.message;
      const std::vector<uint32_t> found(tokens, tokens + count);
      heddle_free(tokens);
      EXPECT_EQ(found, tokenizer.encode(text, {.add_special = (flags & HEDDLE_ADD_SPECIAL) != 0,
                                               .parse_special = (flags & HEDDLE_PARSE_SPECIAL) != 0}));
      for (const bool special : {false, true}) {
        char* back = nullptr;
        size_t length = 0;
        ASSERT_EQ(heddle_detokenize(model.get(), found.data(), found.size(), special, &back, &length, &error),
                  HEDDLE_OK);
        EXPECT_EQ(std::string(back, length), tokenizer.decode(found, special));
        EXPECT_EQ(back[length], 0);
        heddle_free(back);
      }
    }
}

TEST_F(Library, RendersAConversationAsTheTemplateDoes) {
  char* text = nullptr;
  const char* messages = R"([{"role": "user", "content": "Tell me \"more\"."}])";
  ASSERT_EQ(heddle_render_chat(model.get(), messages, nullptr, &text, &error), HEDDLE_OK) << error.message;
  const Result rendered = heddle({"template", "weft", "--messages", "-"}, messages);
  EXPECT_EQ(text, rendered.out) << rendered.err;
  heddle_free(text);

  const auto refused = [&](const char* list, const char* variables = nullptr) {
    error.message[0] = 0;
    EXPECT_EQ(heddle_render_chat(model.get(), list, variables, &text, &error), HEDDLE_INVALID);
    return std::string(error.message);
  };
  expect_says(refused("[{"), {"messages"});
  expect_says(refused("[]"), {"messages: expected a list with a message in it, found []"});
  expect_says(refused("[3]"), {"messages[0]: expected an object, found 3"});
  expect_says(refused(R"([{"role": 1}])"), {"messages[0]: role: expected a text, found 1"});
  expect_says(refused(R"([{"content": ""}])"), {"messages[0]: role: expected a text, found none"});
  expect_says(refused(R"([{"role": "user", "content": "a"}])", "[1]"), {"variables: expected an object, found [1]"});
  expect_says(refused(nullptr), {"messages: expected a pointer, found NULL"});
}

TEST_F(Library, WrongArgumentsAreNamed) {
  const auto says = [this](heddle_status status, heddle_status expected, const char* text) {
    EXPECT_EQ(status, expected);
    EXPECT_NE(std::string(error.message).find(text), std::string::npos) << error.message;
    error.message[0] = 0;
  };
  heddle_model* to = nullptr;
  says(heddle_model_open(nullptr, nullptr, &to, &error), HEDDLE_INVALID, "name: expected a pointer, found NULL");
  says(heddle_model_open("weft", nullptr, nullptr, &error), HEDDLE_INVALID, "model: expected a pointer, found NULL");
  says(heddle_model_open("", nullptr, &to, &error), HEDDLE_INVALID, "name: expected a model, found an empty name");
  says(heddle_model_open("/nowhere/x.gguf", nullptr, &to, &error), HEDDLE_NOT_FOUND, "/nowhere/x.gguf");
  says(heddle_model_open("no-such-model:7b", nullptr, &to, &error), HEDDLE_NOT_FOUND, "no-such-model:7b");
  Folder folder;
  const std::string broken = folder.write("broken.gguf", "GGUF but no more");
  says(heddle_model_open(broken.c_str(), nullptr, &to, &error), HEDDLE_FAILED, "broken.gguf");
  EXPECT_EQ(to, nullptr);
  EXPECT_EQ(heddle_model_open("/nowhere/x.gguf", nullptr, &to, nullptr), HEDDLE_NOT_FOUND) << "without a message";

  uint32_t* tokens = nullptr;
  size_t count = 7;
  says(heddle_tokenize(nullptr, "a", 0, &tokens, &count, &error), HEDDLE_INVALID, "model: expected a pointer");
  says(heddle_tokenize(model.get(), nullptr, 0, &tokens, &count, &error), HEDDLE_INVALID, "text: expected a pointer");
  says(heddle_tokenize(model.get(), "a", 4, &tokens, &count, &error), HEDDLE_INVALID, "flags: expected");
  says(heddle_tokenize(model.get(), "a", 0, nullptr, &count, &error), HEDDLE_INVALID, "tokens: expected a pointer");
  EXPECT_EQ(tokens, nullptr);
  EXPECT_EQ(count, 7u) << "outputs are left as they were";
  char* text = nullptr;
  const uint32_t beyond = 1u << 30;
  says(heddle_detokenize(model.get(), &beyond, 1, 0, &text, nullptr, &error), HEDDLE_INVALID, "1073741824");
  says(heddle_detokenize(model.get(), nullptr, 1, 0, &text, nullptr, &error), HEDDLE_INVALID, "tokens: expected");
  float* values = nullptr;
  const char* texts[] = {"a", nullptr};
  says(heddle_embed(model.get(), texts, 2, &values, &error), HEDDLE_INVALID, "texts[1]: expected a text, found NULL");
  says(heddle_embed(model.get(), nullptr, 1, &values, &error), HEDDLE_INVALID, "texts: expected a pointer");
  says(heddle_rank(model.get(), "a", texts, 1, 0, &values, &error), HEDDLE_INVALID, "is not a reranker");
  const std::string long_text(100000, 'x');
  texts[1] = long_text.c_str();
  says(heddle_embed(model.get(), texts, 2, &values, &error), HEDDLE_INVALID, "too long");
  heddle_model_close(nullptr);
  heddle_free(nullptr);
}

std::vector<std::vector<float>> rows_of(const std::string& lines) {
  std::vector<std::vector<float>> rows;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) rows.push_back(parse_json(line, "line").get<std::vector<float>>());
  return rows;
}

TEST_F(Library, EmbeddingsAreThoseOfTheCommand) {
  const EncoderFolder encoder("bert-cls");
  for (const std::string& path : {std::string("weft"), encoder.path}) {
    const ModelHandle opened = open_on_cpu(path);
    ASSERT_TRUE(opened);
    const std::vector<const char*> texts{"cat", "a dog", "a", "the cat and the dog"};
    std::vector<std::string> arguments{"embed", path, "--device", "cpu"};
    arguments.insert(arguments.end(), texts.begin(), texts.end());
    const std::vector<std::vector<float>> expected = rows_of(heddle(arguments).out);
    ASSERT_EQ(expected.size(), texts.size());
    float* values = nullptr;
    ASSERT_EQ(heddle_embed(opened.get(), texts.data(), texts.size(), &values, &error), HEDDLE_OK) << error.message;
    const size_t width = heddle_model_get_info(opened.get())->embedding_width;
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(std::vector<float>(values + i * width, values + (i + 1) * width), expected[i]) << texts[i];
    heddle_free(values);
    ASSERT_EQ(heddle_embed(opened.get(), nullptr, 0, &values, &error), HEDDLE_OK) << "no texts, no embeddings";
    heddle_free(values);
  }
}

TEST_F(Library, RanksAreThoseOfTheCommand) {
  const EncoderFolder encoder("bert-rank");
  const ModelHandle opened = open_on_cpu(encoder.path);
  ASSERT_TRUE(opened);
  const heddle_model_info* info = heddle_model_get_info(opened.get());
  EXPECT_TRUE(info->can_rank);
  EXPECT_FALSE(info->can_generate || info->can_chat || info->can_embed);
  const std::vector<const char*> documents{"a cat", "dog", "zebra"};
  float* scores = nullptr;
  ASSERT_EQ(heddle_rank(opened.get(), "what cat", documents.data(), 3, 0, &scores, &error), HEDDLE_OK) << error.message;
  const Result printed =
      heddle({"rerank", encoder.path, "--query", "what cat", "a cat", "dog", "zebra", "--json", "--device", "cpu"});
  std::istringstream lines(printed.out);
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json row = parse_json(line, "line");
    EXPECT_EQ(scores[row["index"].get<size_t>()], row["score"].get<float>());
  }
  EXPECT_EQ(count, 3u);
  heddle_free(scores);
  std::string long_text;
  for (int i = 0; i < 300; ++i) long_text += "a cat ";
  const char* one = long_text.c_str();
  EXPECT_EQ(heddle_rank(opened.get(), "what cat", &one, 1, 0, &scores, &error), HEDDLE_INVALID);
  ASSERT_EQ(heddle_rank(opened.get(), "what cat", &one, 1, 1, &scores, &error), HEDDLE_OK) << error.message;
  EXPECT_TRUE(scores[0] >= 0 && scores[0] <= 1) << scores[0];
  heddle_free(scores);
  expect_says(refused(opened, greedy("cat", 1)), {"generates no text"});
}

TEST_F(Library, ThreadsEmbedAtOnce) {
  const auto embedding_of_text = [this](const std::string& text) {
    const char* one = text.c_str();
    float* values = nullptr;
    EXPECT_EQ(heddle_embed(model.get(), &one, 1, &values, nullptr), HEDDLE_OK);
    const std::vector<float> row(values, values + heddle_model_get_info(model.get())->embedding_width);
    heddle_free(values);
    return row;
  };
  const std::vector<std::string> texts{"a cat", "two dogs and a bird", "the sea", "rain"};
  std::vector<std::vector<float>> alone, together(texts.size());
  for (const std::string& text : texts) alone.push_back(embedding_of_text(text));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < texts.size(); ++i) threads.emplace_back([&, i] { together[i] = embedding_of_text(texts[i]); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

size_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  size_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident;
}

TEST(LibraryMemory, OpeningAgainAndAgainKeepsNothing) {
  if (sanitized) GTEST_SKIP() << "the address sanitizer keeps what was released, and finds leaks itself";
  const auto once = [] {
    const ModelHandle model = open_on_cpu("weft");
    EXPECT_EQ(generated(model, greedy("Once", 3)).empty(), false);
  };
  for (int i = 0; i < 5; ++i) once();
  const size_t before = resident_pages();
  for (int i = 0; i < 20; ++i) once();
  EXPECT_LE(resident_pages(), before + 2048) << "pages of 4 KiB: 8 MiB for 20 models of 15 MB";
}

}  // namespace
}  // namespace heddle::test
