// Generations through the C functions: the same texts as the program's, stopped, cancelled, from several threads, and
// while the model is closed.
#include "library/generation.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/library/open_library.h"
#include "tests/support/folder.h"

namespace heddle::test {
namespace {

struct LibraryGeneration : testing::Test {
  ModelHandle model = open_on_cpu("weft");
  heddle_error error{};
};

// Of `heddle run`, without the newline at its end.
std::string run_text(std::vector<std::string> more) {
  std::vector<std::string> arguments{"run", "weft", "--device", "cpu"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Result result = heddle(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out.substr(0, result.out.size() - 1);
}

TEST_F(LibraryGeneration, TheTextIsThatOfRun) {
  const std::string story = run_text({"-p", "Once upon a time", "-n", "40", "--temp", "0"});
  EXPECT_GT(story.size(), 40u);
  EXPECT_EQ(generated(model, greedy("Once upon a time", 40)), story);

  heddle_request request;
  heddle_request_init(&request, sizeof request);  // the defaults of `heddle run`
  const uint64_t seed = 0xfedcba9876543210;
  request.prompt = "The dog";
  request.seed = &seed;
  request.max_tokens = 30;
  EXPECT_EQ(generated(model, request), run_text({"-p", "The dog", "-n", "30", "--seed", std::to_string(seed)}));
  request.repetition_penalty = 1.5f;
  request.presence_penalty = 0.7f;
  request.frequency_penalty = 0.3f;
  request.top_k = 7;
  request.min_p = 0;
  request.top_p = 0.8f;
  request.temperature = 1.3f;
  EXPECT_EQ(generated(model, request), run_text({"-p",
                                                 "The dog",
                                                 "-n",
                                                 "30",
                                                 "--seed",
                                                 std::to_string(seed),
                                                 "--repeat-penalty",
                                                 "1.5",
                                                 "--presence-penalty",
                                                 "0.7",
                                                 "--frequency-penalty",
                                                 "0.3",
                                                 "--top-k",
                                                 "7",
                                                 "--min-p",
                                                 "0",
                                                 "--top-p",
                                                 "0.8",
                                                 "--temp",
                                                 "1.3"}));
}

TEST_F(LibraryGeneration, AConversationIsAnsweredAsByRun) {
  heddle_request request = greedy(nullptr, 60);
  request.messages = R"([{"role": "user", "content": "hi"}])";
  const std::string answer = run_text({"--chat", "-p", "hi", "--temp", "0", "-n", "60"});
  EXPECT_EQ(generated(model, request), answer);
  // as tokens
  char* prompt = nullptr;
  ASSERT_EQ(heddle_render_chat(model.get(), request.messages, nullptr, &prompt, &error), HEDDLE_OK);
  uint32_t* tokens = nullptr;
  request.messages = nullptr;
  ASSERT_EQ(heddle_tokenize(model.get(), prompt, HEDDLE_PARSE_SPECIAL, &tokens, &request.token_count, &error),
            HEDDLE_OK);
  request.tokens = tokens;
  EXPECT_EQ(generated(model, request), answer);
  heddle_free(tokens);
  heddle_free(prompt);
}

TEST_F(LibraryGeneration, TheResultHasTextTokensAndFigures) {
  heddle_request request = greedy(nullptr, 0);
  request.messages = R"([{"role": "user", "content": "hi"}])";
  const GenerationHandle generation = start(model, request);
  EXPECT_EQ(heddle_generation_get_result(generation.get()), nullptr) << "before the end";
  std::string text;
  std::vector<uint32_t> tokens;
  const heddle_piece* piece = nullptr;
  while (heddle_generation_next(generation.get(), &piece, &error) == HEDDLE_OK && piece) {
    text.append(piece->text, piece->length);
    EXPECT_EQ(piece->text[piece->length], 0);
    tokens.insert(tokens.end(), piece->tokens, piece->tokens + piece->token_count);
  }
  const heddle_result* result = heddle_generation_get_result(generation.get());
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(std::string(result->text, result->length), text);
  EXPECT_EQ(std::vector<uint32_t>(result->tokens, result->tokens + result->token_count), tokens);
  EXPECT_EQ(result->finish, HEDDLE_FINISH_STOP);
  EXPECT_EQ(result->stop, nullptr);
  EXPECT_EQ(result->prompt_tokens, 6u);
  EXPECT_GT(result->generating_seconds, 0);
  char* decoded = nullptr;
  ASSERT_EQ(heddle_detokenize(model.get(), tokens.data(), tokens.size(), 0, &decoded, nullptr, &error), HEDDLE_OK);
  EXPECT_EQ(decoded, text) << "the end token is no text";
  heddle_free(decoded);
  EXPECT_EQ(heddle_generation_next(generation.get(), &piece, &error), HEDDLE_OK) << "the end stays the end";
  EXPECT_EQ(piece, nullptr);
}

TEST_F(LibraryGeneration, StopStringsAndLimits) {
  heddle_request request = greedy(nullptr, 0);
  request.messages = R"([{"role": "user", "content": "hi"}])";
  const char* stops[] = {"never said", "tell you"};
  request.stop = stops;
  request.stop_count = 2;
  GenerationHandle generation = start(model, request);
  EXPECT_EQ(take_all(generation), "Hello! I can ");
  EXPECT_EQ(heddle_generation_get_result(generation.get())->finish, HEDDLE_FINISH_STOP);
  EXPECT_STREQ(heddle_generation_get_result(generation.get())->stop, "tell you");
  request.stop_count = 0;
  request.max_tokens = 2;
  generation = start(model, request);
  EXPECT_EQ(take_all(generation), "Hello!");
  EXPECT_EQ(heddle_generation_get_result(generation.get())->finish, HEDDLE_FINISH_LENGTH);
  EXPECT_EQ(heddle_generation_get_result(generation.get())->token_count, 2u);
}

TEST_F(LibraryGeneration, KeepsToASchemaAGrammarAndAPattern) {
  const Folder folder;
  const std::string schema = R"({"type": "object", "properties": {"n": {"type": "integer"}, "name": {"enum": ["cat"]}},
    "required": ["n", "name"], "additionalProperties": false})";
  heddle_request request = greedy("A cat:", 60);
  request.json_schema = schema.c_str();
  EXPECT_EQ(generated(model, request), run_text({"-p", "A cat:", "--temp", "0", "-n", "60", "--schema",
                                                 folder.write("schema.json", schema).string()}));
  request.json_schema = nullptr;
  request.regex = "(yes|no), [0-9]{3}!";
  EXPECT_EQ(generated(model, request),
            run_text({"-p", "A cat:", "--temp", "0", "-n", "60", "--regex", "(yes|no), [0-9]{3}!"}));
  request.grammar = "root ::= \"a\"";
  expect_says(refused(model, request), {"regex: expected one constraint, found grammar as well"});
  request.regex = nullptr;
  const GenerationHandle generation = start(model, request);
  EXPECT_EQ(take_all(generation), "a");
  EXPECT_EQ(heddle_generation_get_result(generation.get())->finish, HEDDLE_FINISH_STOP);
  request.grammar = "root ::= ";
  expect_says(refused(model, request), {"grammar"});
}

TEST_F(LibraryGeneration, ACallbackStopsIt) {
  struct Seen {
    std::string text;
    int left = 3;
  } seen;
  const auto on_piece = [](void* data, const heddle_piece* piece) {
    Seen& to = *static_cast<Seen*>(data);
    to.text.append(piece->text, piece->length);
    return int(--to.left == 0);
  };
  const heddle_request request = greedy("Once upon a time", 0);
  heddle_generation* generation = nullptr;
  ASSERT_EQ(heddle_generate(model.get(), &request, on_piece, &seen, &generation, &error), HEDDLE_OK) << error.message;
  const GenerationHandle owner(generation);
  const heddle_result* result = heddle_generation_get_result(generation);
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(seen.left, 0) << "it is not called again";
  EXPECT_EQ(result->finish, HEDDLE_FINISH_CANCELLED);
  EXPECT_EQ(result->text, seen.text);
  EXPECT_EQ(result->token_count, 3u);
  EXPECT_TRUE(run_text({"-p", "Once upon a time", "-n", "10", "--temp", "0"}).starts_with(seen.text));
  // without a callback, and without a result
  const heddle_request short_request = greedy("Once", 2);
  EXPECT_EQ(heddle_generate(model.get(), &short_request, nullptr, nullptr, nullptr, &error), HEDDLE_OK);
}

TEST_F(LibraryGeneration, ThreadsGenerateAtOnce) {
  const std::vector<std::string> prompts{"Once upon a time", "The dog", "A little girl", "It was"};
  std::vector<std::string> alone, together(prompts.size());
  for (const std::string& prompt : prompts) alone.push_back(generated(model, greedy(prompt.c_str(), 25)));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < prompts.size(); ++i)
    threads.emplace_back([&, i] { together[i] = generated(model, greedy(prompts[i].c_str(), 25)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

TEST_F(LibraryGeneration, AnotherThreadCancels) {
  const GenerationHandle generation = start(model, greedy("Once upon a time", 0));
  const heddle_piece* piece = nullptr;
  ASSERT_EQ(heddle_generation_next(generation.get(), &piece, &error), HEDDLE_OK);
  ASSERT_NE(piece, nullptr);
  std::thread([&] { heddle_generation_cancel(generation.get()); }).join();
  EXPECT_EQ(take_all(generation), "") << "what was not taken is dropped";
  EXPECT_EQ(heddle_generation_get_result(generation.get())->finish, HEDDLE_FINISH_CANCELLED);
  heddle_generation_cancel(generation.get());  // of one that has ended: no effect
  heddle_generation_cancel(nullptr);
  heddle_generation_free(start(model, greedy("Once", 0)).release());  // one that has not ended
}

TEST_F(LibraryGeneration, TheModelIsClosedMeanwhile) {
  for (int round = 0; round < 3; ++round) {
    if (!model) model = open_on_cpu("weft");
    std::vector<GenerationHandle> open;
    for (const char* prompt : {"Once upon a time", "The dog"}) open.push_back(start(model, greedy(prompt, 0)));
    std::vector<heddle_finish> finishes(2);
    std::vector<std::thread> waiting;
    for (size_t i = 0; i < 2; ++i)
      waiting.emplace_back([&, i] {
        take_all(open[i]);
        finishes[i] = heddle_generation_get_result(open[i].get())->finish;
      });
    const GenerationHandle untouched = start(model, greedy("A girl", 0));
    model.reset();
    for (std::thread& thread : waiting) thread.join();
    EXPECT_EQ(finishes, std::vector<heddle_finish>(2, HEDDLE_FINISH_CANCELLED));
    heddle_generation_cancel(untouched.get());
    take_all(untouched);
    EXPECT_EQ(heddle_generation_get_result(untouched.get())->finish, HEDDLE_FINISH_CANCELLED);
  }
}

TEST_F(LibraryGeneration, WhatCannotBeDoneIsRefused) {
  expect_says(refused(model, greedy(nullptr, 1)), {"expected one of prompt, messages and tokens, found none"});
  heddle_request request = greedy("a", 1);
  request.messages = "[]";
  expect_says(refused(model, request), {"expected one of prompt, messages and tokens, found several"});
  request.prompt = nullptr;
  expect_says(refused(model, request), {"messages: expected a list"});
  request = greedy("a", 1);
  request.top_p = 2;
  expect_says(refused(model, request), {"top_p"});
  request = greedy("a", 1);
  const char* empty = "";
  request.stop = &empty;
  request.stop_count = 1;
  expect_says(refused(model, request), {"stop: expected texts, found an empty one"});
  request = greedy(nullptr, 1);
  const uint32_t beyond = 1u << 30;
  request.tokens = &beyond;
  request.token_count = 1;
  expect_says(refused(model, request), {"expected tokens below", "1073741824"});
  const std::string long_text(100000, 'x');
  expect_says(refused(model, greedy(long_text.c_str(), 1)), {"the prompt is too long"});
  const heddle_piece* piece = nullptr;
  EXPECT_EQ(heddle_generation_next(nullptr, &piece, &error), HEDDLE_INVALID);
  expect_says(error.message, {"generation: expected a pointer, found NULL"});
  request = greedy("a", 1);
  EXPECT_EQ(heddle_generation_start(model.get(), &request, nullptr, &error), HEDDLE_INVALID);
  EXPECT_EQ(heddle_generation_start(nullptr, &request, nullptr, nullptr), HEDDLE_INVALID);
}

// BOS alone where the model has one, as with `heddle run`.
TEST_F(LibraryGeneration, TheEmptyPromptIsAsForRun) {
  const Result result = heddle({"run", "weft", "--device", "cpu", "-p", "", "-n", "5", "--temp", "0"});
  if (result.status == 0)
    EXPECT_EQ(generated(model, greedy("", 5)) + "\n", result.out);
  else
    EXPECT_NE(result.err.find(refused(model, greedy("", 5))), std::string::npos) << result.err;
}

}  // namespace
}  // namespace heddle::test
