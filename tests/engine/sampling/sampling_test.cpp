// Which parameters are refused; the message names the field, what was expected and what was found.
#include "engine/sampling/sampling.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/support/refused.h"

namespace heddle::engine {
namespace {

TEST(Sampling, TheDefaultIsValid) {
  validate({}, 1);
  validate({.temperature = 0, .top_k = -1, .logit_bias = {{9, -std::numeric_limits<float>::infinity()}}}, 10);
  EXPECT_EQ(default_order().size(), 10u);
  EXPECT_EQ(default_order().front(), "logit_bias");
  EXPECT_EQ(default_order().back(), "temperature");
  EXPECT_EQ(name_of(Step::typical_p), "typical_p");
  EXPECT_EQ(steps_of({.order = {"min_p", "dry"}}), (std::vector<Step>{Step::min_p, Step::dry}));
}

TEST(Sampling, RefusesNumbersOutOfRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_REFUSED(validate({.temperature = -0.5f}, 10), "temperature", "at least 0", "found -0.5");
  EXPECT_REFUSED(validate({.temperature = nan}, 10), "temperature", "at least 0", "found nan");
  EXPECT_REFUSED(validate({.temperature = infinity}, 10), "temperature", "found inf");
  EXPECT_REFUSED(validate({.dynamic_range = -1}, 10), "dynamic_range");
  EXPECT_REFUSED(validate({.dynamic_exponent = -1}, 10), "dynamic_exponent");
  EXPECT_REFUSED(validate({.top_k = -2}, 10), "top_k", "-1", "found -2");
  EXPECT_REFUSED(validate({.top_p = 1.5f}, 10), "top_p", "0 to 1", "found 1.5");
  EXPECT_REFUSED(validate({.min_p = -0.25f}, 10), "min_p", "0 to 1", "found -0.25");
  EXPECT_REFUSED(validate({.typical_p = 2}, 10), "typical_p", "0 to 1", "found 2");
  EXPECT_REFUSED(validate({.top_n_sigma = infinity}, 10), "top_n_sigma", "found inf");
  EXPECT_REFUSED(validate({.xtc_probability = 1.25f}, 10), "xtc_probability", "0 to 1", "found 1.25");
  EXPECT_REFUSED(validate({.xtc_threshold = -1}, 10), "xtc_threshold", "0 to 1", "found -1");
  EXPECT_REFUSED(validate({.min_keep = 0}, 10), "min_keep", "1 to 10", "found 0");
  EXPECT_REFUSED(validate({.min_keep = 11}, 10), "min_keep", "1 to 10", "found 11");
  EXPECT_REFUSED(validate({.mirostat = 1}, 10), "mirostat", "0 (off) or 2", "found 1");
  EXPECT_REFUSED(validate({.mirostat_tau = -1}, 10), "mirostat_tau", "found -1");
  EXPECT_REFUSED(validate({.mirostat_eta = 2}, 10), "mirostat_eta", "0 to 1", "found 2");
  EXPECT_REFUSED(validate({.repetition_penalty = 0}, 10), "repetition_penalty", "0.01 to 100", "found 0");
  EXPECT_REFUSED(validate({.repetition_last_n = -2}, 10), "repetition_last_n", "-1", "found -2");
  EXPECT_REFUSED(validate({.presence_penalty = 3}, 10), "presence_penalty", "-2 to 2", "found 3");
  EXPECT_REFUSED(validate({.frequency_penalty = nan}, 10), "frequency_penalty", "-2 to 2", "found nan");
  EXPECT_REFUSED(validate({.dry_multiplier = -1}, 10), "dry_multiplier", "at least 0", "found -1");
  EXPECT_REFUSED(validate({.dry_base = 0.5f}, 10), "dry_base", "at least 1", "found 0.5");
  EXPECT_REFUSED(validate({.dry_allowed_length = 0}, 10), "dry_allowed_length", "1", "found 0");
  EXPECT_REFUSED(validate({.dry_penalty_last_n = -7}, 10), "dry_penalty_last_n", "-1", "found -7");
  EXPECT_REFUSED(validate({.logprobs = 11}, 10), "logprobs", "0 to 10", "found 11");
  EXPECT_REFUSED(validate({}, 0), "vocabulary", "at least 1");
}

TEST(Sampling, RefusesInvalidTokens) {
  EXPECT_REFUSED(validate({.logit_bias = {{10, 1.f}}}, 10), "logit_bias", "below 10", "found 10");
  EXPECT_REFUSED(validate({.logit_bias = {{3, std::numeric_limits<float>::infinity()}}}, 10), "logit_bias of token 3",
                 "finite number or -infinity", "found inf");
  EXPECT_REFUSED(validate({.dry_breakers = {{1}, {}}}, 10), "dry_breakers", "at least one token", "none");
  EXPECT_REFUSED(validate({.dry_breakers = {{1, 12}}}, 10), "dry_breakers", "below 10", "found 12");
}

TEST(Sampling, RefusesAWrongOrder) {
  EXPECT_REFUSED(validate({.order = {"top_k", "topp"}}, 10), "order", "top_n_sigma", "found \"topp\"");
  EXPECT_REFUSED(validate({.order = {"top_k", "dry", "top_k"}}, 10), "order", "once", "\"top_k\" twice");
}

}  // namespace
}  // namespace heddle::engine
