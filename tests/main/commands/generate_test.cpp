// Feeding, picking and stopping, on weft: greedy, so that what it says is known.
#include "main/commands/generate.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "main/chat/conversation.h"
#include "main/chat/interrupt.h"
#include "tests/main/small_model.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

using text::TokenId;

constexpr const char* greeting = "Hello! I can tell you a little story, or say what heddle is.";

struct Generating : testing::Test {
  std::unique_ptr<RunningModel> running =
      open_running(std::string(HEDDLE_SOURCE_DIR) + "/models/weft/weft-q8_0.gguf", {.device = "cpu"});
  Generator generator{*running};
  GenerateRequest request{.sampling = {.temperature = 0}};

  std::vector<TokenId> ids(const std::vector<Message>& messages) const { return chat_ids(*running, messages, 0); }
  std::vector<TokenId> hi() const { return ids({{"user", "hi"}}); }
};

TEST_F(Generating, UntilTheModelEnds) {
  std::string shown;
  size_t picks = 0;
  request.show = [&](std::string_view text) { shown += text; };
  request.picked = [&](const engine::Pick&) { ++picks; };
  const Generated generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.text, greeting);
  EXPECT_EQ(shown, greeting);
  EXPECT_EQ(generated.ending, Ending::model);
  EXPECT_EQ(generated.prompt, 6u);
  EXPECT_EQ(generated.fed, 6u);
  EXPECT_EQ(generated.made, 17u);
  EXPECT_EQ(picks, 17u);
  expect_says(figures(generated), {"prompt 6 tokens,", "generated 17 tokens", "(the model ended)"});
}

TEST_F(Generating, ASecondTurnFeedsOnlyWhatIsNew) {
  const Generated first = generator.generate(hi(), request);
  const std::vector<TokenId> prompt = ids({{"user", "hi"}, {"assistant", first.text}, {"user", "What is heddle?"}});
  const Generated second = generator.generate(prompt, request);
  // all of the first turn but the token that ended it, which was picked and not computed
  EXPECT_EQ(second.fed, prompt.size() - (first.prompt + first.made - 1));
  expect_says(figures(second), {"(22 computed before)"});
  Generator fresh(*running);
  const Generated alone = fresh.generate(prompt, request);
  EXPECT_EQ(alone.fed, prompt.size());
  EXPECT_EQ(second.text, alone.text);
  EXPECT_EQ(generator.length(), fresh.length());

  // the same again: the last token is computed for its logits
  EXPECT_EQ(generator.generate(prompt, request).fed, 1u);
  // another beginning: nothing but BOS and the role is of use
  EXPECT_EQ(generator.generate(hi(), request).text, greeting);
}

TEST_F(Generating, StopTextsAndLimits) {
  request.stops = {"tell you", "never said"};  // across tokens
  Generated generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.text, "Hello! I can ");
  EXPECT_EQ(generated.ending, Ending::stop_text);
  request.stops.clear();
  request.tokens = 2;
  generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.text, "Hello!");
  EXPECT_EQ(generated.made, 2u);
  EXPECT_EQ(generated.ending, Ending::tokens);
}

TEST_F(Generating, TheContextIsTheLimit) {
  request.sampling.logit_bias[1] = -INFINITY;  // <|end|>
  const Generated generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.ending, Ending::context);
  EXPECT_EQ(generator.length(), generator.context());
  EXPECT_EQ(generated.prompt + generated.made, generator.context() + 1);  // the last one is picked and not computed

  const std::vector<TokenId> full(generator.context(), 5);
  EXPECT_REFUSED(generator.generate(full, request), "too long", "expected fewer than 512", "found 512");
  EXPECT_REFUSED(generator.generate({}, request), "found an empty one");
  EXPECT_EQ(generator.length(), generator.context());  // nothing was touched
}

TEST_F(Generating, StopsWhereItIsInterrupted) {
  std::atomic<bool> interrupted = true;
  request.interrupted = &interrupted;
  Generated generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.ending, Ending::interrupted);
  EXPECT_EQ(generated.fed, 0u);
  EXPECT_EQ(generated.text, "");
  interrupted = false;
  request.show = [&](std::string_view) { interrupted = true; };
  generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.text, "Hello");
  EXPECT_EQ(generated.made, 1u);
  EXPECT_EQ(generated.ending, Ending::interrupted);
}

TEST(Interrupting, OnlyAsLongAsItLives) {
  const auto before = ::signal(SIGINT, SIG_DFL);
  {
    const Interrupt interrupt;
    EXPECT_FALSE(interrupt.flag());
    ::raise(SIGINT);
    EXPECT_TRUE(interrupt.flag());
  }
  EXPECT_FALSE(Interrupt().flag());
  EXPECT_EQ(::signal(SIGINT, SIG_IGN), SIG_DFL);
  {
    const Interrupt interrupt;
    ::raise(SIGINT);
    EXPECT_FALSE(interrupt.flag());  // who ignores it goes on doing so
  }
  EXPECT_EQ(::signal(SIGINT, before), SIG_IGN);
}

}  // namespace
}  // namespace heddle::test
