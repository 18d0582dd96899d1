// Constrained completions: what finishes is a text of the grammar, and a request gets the same answer alone, in a
// crowd, with speculation and from every backend. The model is random, so it goes wherever the grammar lets it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar/json_schema.h"
#include "tests/engine/engine_fixture.h"
#include "tests/support/refused.h"

namespace heddle::test::fake {
namespace {

using engine::Constrained;
using engine::EngineOptions;
using engine::FinishReason;
using engine::Request;
using engine::Speculation;

// Every byte of JSON in ASCII, and longer tokens that cross the borders of terminals; the last two end a text.
std::vector<std::string> json_texts() {
  std::vector<std::string> texts{"{", "}", "[", "]", ":", ",", "\"", "\\", " ", "\n", "-", "+", ".", "/"};
  for (char c = '0'; c <= '9'; ++c) texts.emplace_back(1, c);
  for (char c = 'a'; c <= 'z'; ++c) texts.emplace_back(1, c);
  for (const char* text : {"{\"", "\":", "\",\"", "\"}", "}}", "true", "false", "null", "12", "ab", "[[", "]]", ": ",
                           ", ", "\": \"", "\", \"a", "\xc3", "\xa9", "\xc3\xa9"})
    texts.emplace_back(text);
  texts.insert(texts.end(), {"", ""});
  return texts;
}

const std::shared_ptr<const grammar::Vocabulary>& json_vocabulary() {
  static const auto vocabulary = std::make_shared<const grammar::Vocabulary>(json_texts());
  return vocabulary;
}
uint32_t tokens() { return uint32_t(json_vocabulary()->size()); }

// The longest token at each place.
std::vector<uint32_t> longest_tokens(std::string_view text) {
  std::vector<uint32_t> found;
  while (!text.empty()) {
    uint32_t best = tokens();
    for (uint32_t token = 0; token < tokens(); ++token) {
      const std::string& one = (*json_vocabulary())[token];
      if (text.starts_with(one) && one.size() > (best < tokens() ? (*json_vocabulary())[best].size() : 0)) best = token;
    }
    if (best == tokens()) return {};
    found.push_back(best);
    text.remove_prefix((*json_vocabulary())[best].size());
  }
  return found;
}

Constrained constrained(grammar::Grammar grammar, std::vector<uint32_t> end_tokens = {tokens() - 1, tokens() - 2},
                        const grammar::ParseLimits& limits = {}) {
  auto compiled = std::make_shared<grammar::CompiledGrammar>(std::move(grammar), limits);
  return {.masks = std::make_shared<grammar::TokenMasks>(std::move(compiled), json_vocabulary()),
          .end_tokens = std::move(end_tokens),
          .tokenize = longest_tokens};
}
Constrained schema(const std::string& text) {
  return constrained(grammar::json_schema(nlohmann::ordered_json::parse(text)));
}

Constrained literal(std::string_view text) {
  grammar::Grammar g;
  const auto start = g.rule();
  g.add_choice(start, {g.terminal(g.languages.text(text))});
  g.set_start(start);
  return constrained(std::move(g));
}

const std::vector<Constrained>& schemas() {
  static const std::vector<Constrained> all{
      schema(R"({"type": "boolean"})"),
      schema(R"({"enum": ["abc", "abd", 12, null, [true]]})"),
      schema(R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}},
                 "required": ["a", "b"], "additionalProperties": false})"),
      schema(R"({"type": "array", "items": {"type": "integer", "minimum": 3, "maximum": 120}, "maxItems": 4})"),
      schema(R"({"type": "string", "maxLength": 6})"),
      schema(R"({"type": "string", "pattern": "^[a-c]{2,5}$"})"),
      schema(R"({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
                 "required": ["next"], "additionalProperties": false})"),
      schema(R"({"const": {"aabbccddee": [1, 2, 3, "abcabcabcabc"], "null": null}})"),
      literal(R"({"abc": [12, true, "xyz, ab"], "a": null})"),
  };
  return all;
}

model::Model json_model() { return fake_model(256, tokens(), 3); }

std::vector<uint32_t> prompt_of(uint32_t count, uint32_t first) {
  std::vector<uint32_t> prompt(count);
  for (uint32_t i = 0; i < count; ++i) prompt[i] = (first * 7 + i * (1 + first % 3)) % tokens();
  return prompt;
}

Request constrained_request(uint32_t number, uint32_t max_tokens = 60) {
  Request request = seeded(prompt_of(3 + number % 9, number), max_tokens, number);
  request.constraint = schemas()[number % schemas().size()];
  request.stops = {{tokens() - 1}, {tokens() - 2}};
  return request;
}

// In every way that tokens are picked, with some that have no constraint.
std::vector<Request> constrained_crowd(uint32_t count, bool for_device = false) {
  std::vector<Request> all;
  for (uint32_t i = 0; i < count; ++i) {
    Request& request = all.emplace_back(constrained_request(i));
    if (i % 11 == 5) request.constraint.reset();
    if (i % 7 == 1) request.sampling.temperature = 0;
    if (i % 7 == 2) request.sampling.top_k = 5;
    if (i % 7 == 3) request.sampling.presence_penalty = 0.5f;
    if (i % 7 == 3) request.sampling.repetition_penalty = 1.3f;
    if (i % 7 == 4) request.sampling.logprobs = 3;
    if (i % 7 == 5) request.sampling.top_p = 0.7f;
    if (i % 7 == 6) request.sampling.logit_bias = {{i % tokens(), 4.f}, {(i + 9) % tokens(), -6.f}};
    if (for_device) continue;
    if (i % 13 == 1) request.sampling.mirostat = 2;
    if (i % 13 == 2) request.sampling.dry_multiplier = 0.8f;
    if (i % 13 == 3) request.sampling.logprobs_after = request.sampling.logprobs.has_value();
    if (i % 13 == 4) request.sampling.xtc_probability = 0.5f;
    if (i % 13 == 5) request.n = 3;
  }
  return all;
}

std::string text_of(const Answer& answer) {
  std::string text;
  for (const uint32_t token : answer.tokens()) text += (*json_vocabulary())[token];
  return text;
}

// What has finished is a whole text, and what ran out of tokens the beginning of one.
template <class Fixture>
uint32_t expect_kept(const Fixture& fixture) {
  uint32_t finished = 0;
  for (const auto& [id, completions] : fixture.answers) {
    const Request& request = fixture.requests.at(id);
    if (!request.constraint) continue;
    for (const Answer& answer : completions) {
      grammar::Position at(request.constraint->masks->grammar());
      EXPECT_TRUE(at.take(text_of(answer))) << text_of(answer);
      if (answer.finish_reason == FinishReason::stop) {
        EXPECT_TRUE(at.may_end()) << text_of(answer);
        ++finished;
      } else {
        EXPECT_EQ(answer.finish_reason, FinishReason::length) << answer.reason;
        EXPECT_EQ(answer.picks.size(), request.max_tokens);
      }
    }
  }
  return finished;
}

template <class Backend>
class EngineConstraintTest : public ::testing::Test {};
using Backends = ::testing::Types<FakeBackend, FakeDevice>;
TYPED_TEST_SUITE(EngineConstraintTest, Backends);

TYPED_TEST(EngineConstraintTest, ACrowdKeepsItsConstraintsAndGetsTheAnswersOfRequestsAlone) {
  for (const Speculation speculation : {Speculation::off, Speculation::automatic, Speculation::on}) {
    SCOPED_TRACE(int(speculation));
    EngineFixture<TypeParam> fixture(fake_limits(600), {.speculation = speculation}, json_model());
    for (const Request& request : constrained_crowd(64)) fixture.submit(request);
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_GT(expect_kept(fixture), 40u);
    EXPECT_EQ(fixture.metrics().faults, 0u);
    EXPECT_GE(fixture.metrics().accepted, speculation == Speculation::on ? 20u : 0u);
  }
}

TYPED_TEST(EngineConstraintTest, OneAfterAnotherIsTheSame) {
  EngineFixture<TypeParam> fixture(fake_limits(100), {}, json_model());
  for (const Request& request : constrained_crowd(24)) {
    fixture.submit(request);
    fixture.run();
  }
  fixture.expect_as_alone();
  expect_kept(fixture);
}

TYPED_TEST(EngineConstraintTest, SurvivesPreemption) {
  EngineFixture<TypeParam> fixture(fake_limits(40), {}, json_model());
  for (const Request& request : constrained_crowd(16)) fixture.submit(request);
  fixture.run();
  fixture.expect_as_alone();
  expect_kept(fixture);
  EXPECT_GT(fixture.metrics().preemptions, 0u);
}

TYPED_TEST(EngineConstraintTest, CancelledAmongOthers) {
  EngineFixture<TypeParam> fixture(fake_limits(400), {}, json_model());
  std::vector<engine::RequestId> ids;
  for (const Request& request : constrained_crowd(12)) ids.push_back(fixture.submit(request));
  for (int i = 0; i < 4; ++i) fixture.step();
  for (size_t i = 0; i < ids.size(); i += 3) fixture.engine->cancel(ids[i]);
  fixture.run();
  for (size_t i = 0; i < ids.size(); ++i)
    for (uint32_t index = 0; index < fixture.requests[ids[i]].n; ++index) {
      const Answer& answer = fixture.answer(ids[i], index);
      expect_same(answer, fixture.alone(ids[i], index), answer.finish_reason != FinishReason::cancelled);
    }
}

// Batches follow one another on the device also where each waits for the masks of its picks.
TEST(EngineConstraint, BatchesFollowOneAnother) {
  EngineFixture<FakeDevice> fixture(fake_limits(600), {.speculation = Speculation::off}, json_model());
  fixture.backend.followed_rows = 32;
  std::vector<Request> crowd = constrained_crowd(24, true);
  for (const Request& request : crowd) fixture.submit(request);
  fixture.run();
  fixture.expect_as_alone();
  expect_kept(fixture);
  EXPECT_GT(fixture.backend.followed, 20u);
  EXPECT_EQ(fixture.backend.logits_rows, 0u);
}

// Text that the grammar forces is proposed, and verified in few steps, where that pays.
TYPED_TEST(EngineConstraintTest, SpeculationProposesWhatIsForced) {
  for (const Speculation speculation : {Speculation::off, Speculation::automatic, Speculation::on}) {
    SCOPED_TRACE(int(speculation));
    EngineFixture<TypeParam> fixture(fake_limits(200), {.speculation = speculation}, json_model());
    fixture.backend.cost = {.step = 0.004, .row = 0.0001, .free_rows = 16};
    // as the tokenizer writes it, which this model does not know
    fixture.backend.change_logits = [](std::span<float> logits) {
      for (uint32_t token = 0; token < tokens(); ++token)
        logits[token] += 9 * float((*json_vocabulary())[token].size());
    };
    Request request = constrained_request(0, 200);
    const std::string text =
        "[" + std::string(10, '{') + R"("abc": "ab", "k": "true", "a": null)" + std::string(10, '[');
    request.constraint = literal(text);
    for (uint32_t i = 0; i < 3; ++i) {  // until the times of batches are known
      fixture.submit(seeded(prompt_of(20 + 9 * i, i), 40, i));
      fixture.run();
    }
    const auto proposed = fixture.metrics().proposed, accepted = fixture.metrics().accepted;
    const auto id = fixture.submit(request);
    const uint32_t steps = fixture.run();
    EXPECT_EQ(text_of(fixture.answer(id)), text);
    EXPECT_EQ(fixture.answer(id).finish_reason, FinishReason::stop);
    const auto size = uint32_t(fixture.answer(id).picks.size());
    if (speculation == Speculation::off) {
      EXPECT_GE(steps, size);
      EXPECT_EQ(fixture.metrics().proposed, proposed);
    } else {
      EXPECT_LT(steps, size / 2);
      EXPECT_EQ(fixture.metrics().proposed - proposed, fixture.metrics().accepted - accepted);
    }
  }
}

TEST(EngineConstraint, EndsWithoutAnEndTokenWhereNothingCanFollow) {
  EngineFixture<> fixture(fake_limits(100), {}, json_model());
  Request request = constrained_request(0);
  request.constraint = literal("\"ab\"");
  request.sampling.logit_bias = {{tokens() - 1, 100.f}};
  const auto id = fixture.submit(request);
  fixture.run();
  EXPECT_EQ(text_of(fixture.answer(id)), "\"ab\"");
  EXPECT_EQ(fixture.answer(id).finish_reason, FinishReason::stop);
  for (const engine::Pick& pick : fixture.answer(id).picks) EXPECT_LT(pick.id, tokens() - 2);
}

TEST(EngineConstraint, TheLastTokenOfTheTextIsAStopAlsoAtTheLimit) {
  EngineFixture<> fixture(fake_limits(100), {}, json_model());
  Request request = constrained_request(8, 200);
  const auto whole = fixture.submit(request);
  fixture.run();
  request.max_tokens = uint32_t(fixture.answer(whole).picks.size());
  const auto exact = fixture.submit(request);
  request.max_tokens -= 1;
  const auto less = fixture.submit(request);
  fixture.run();
  EXPECT_EQ(fixture.answer(exact).finish_reason, FinishReason::stop);
  EXPECT_EQ(fixture.answer(less).finish_reason, FinishReason::length);
}

// The text may go on: without end tokens it does, and end tokens are picked only where the grammar allows an end.
TEST(EngineConstraint, EndTokens) {
  grammar::Grammar letters;
  const auto start = letters.rule();
  const auto pair = letters.terminal(letters.languages.text("ab"));
  letters.add_choice(start, {pair});
  letters.add_choice(start, {start, pair});
  letters.set_start(start);
  EngineFixture<> fixture(fake_limits(100), {}, json_model());
  Request request = constrained_request(0, 20);
  request.constraint = constrained(std::move(letters));
  request.sampling.logit_bias = {{tokens() - 1, 2.f}};
  const auto ends = fixture.submit(request);
  request.constraint->end_tokens.clear();
  const auto goes_on = fixture.submit(request);
  fixture.run();
  EXPECT_EQ(fixture.answer(ends).finish_reason, FinishReason::stop);
  EXPECT_EQ(fixture.answer(ends).picks.back().id, tokens() - 1);
  EXPECT_EQ(fixture.answer(goes_on).finish_reason, FinishReason::length);
  EXPECT_EQ(fixture.answer(goes_on).picks.size(), 20u);
  fixture.expect_as_alone();
}

// A byte that no token has: the text ends if it may, and else the request fails and says why.
TYPED_TEST(EngineConstraintTest, AVocabularyThatLacksBytes) {
  const auto letters_then = [](bool may_stop) {
    grammar::Grammar g;
    const auto start = g.rule();
    g.add_choice(start, {g.terminal(g.languages.text("ab@"))});
    if (may_stop) g.add_choice(start, {g.terminal(g.languages.text("ab"))});
    g.set_start(start);
    return constrained(std::move(g), {});
  };
  EngineFixture<TypeParam> fixture(fake_limits(100), {}, json_model());
  Request request = constrained_request(0);
  request.constraint = letters_then(true);
  const auto may = fixture.submit(request);
  request.constraint = letters_then(false);
  const auto must = fixture.submit(request);
  fixture.run();
  EXPECT_EQ(fixture.answer(may).finish_reason, FinishReason::stop);
  EXPECT_EQ(text_of(fixture.answer(may)), "ab");
  EXPECT_EQ(fixture.answer(must).finish_reason, FinishReason::failed);
  EXPECT_NE(fixture.answer(must).reason.find("a token that the vocabulary does not have"), std::string::npos);
}

// Its error comes in the middle of a text, when a token is taken or a mask is found; the others go on.
TYPED_TEST(EngineConstraintTest, AGrammarThatIsTooAmbiguousFailsItsOwnRequestAlone) {
  grammar::Grammar ambiguous;
  const auto start = ambiguous.rule();
  ambiguous.add_choice(start, {});
  ambiguous.add_choice(start, {ambiguous.terminal(ambiguous.languages.text("a"))});
  ambiguous.add_choice(start, std::vector<grammar::Symbol>(20, start));
  ambiguous.set_start(start);
  EngineFixture<TypeParam> fixture(fake_limits(400), {}, json_model());
  Request request = constrained_request(0, 200);
  request.constraint = constrained(std::move(ambiguous), {}, {.items = 50'000});
  const auto fails = fixture.submit(request);
  for (uint32_t i = 0; i < 8; ++i) fixture.submit(constrained_request(i));
  fixture.run();
  const Answer answer = fixture.answer(fails);
  EXPECT_EQ(answer.finish_reason, FinishReason::failed);
  EXPECT_TRUE(answer.reason.starts_with("the grammar is too ambiguous after ")) << answer.reason;
  EXPECT_GT(answer.picks.size(), 10u);
  fixture.answers.erase(fails);
  fixture.expect_as_alone();
  EXPECT_GT(expect_kept(fixture), 5u);
}

TEST(EngineConstraint, RefusesMasksOfAnotherVocabulary) {
  EngineFixture<> fixture(fake_limits(100), {}, fake_model(256, tokens() + 1));
  EXPECT_REFUSED(fixture.submit(constrained_request(0)), "constraint: expected masks of 72 tokens");
  EngineFixture<> other(fake_limits(100), {}, json_model());
  Request request = constrained_request(0);
  request.constraint->end_tokens = {tokens()};
  EXPECT_REFUSED(other.submit(request), "constraint: expected end tokens below");
  request.constraint->masks = nullptr;
  EXPECT_REFUSED(other.submit(request), "constraint: expected masks, found none");
}

}  // namespace
}  // namespace heddle::test::fake
