// Which samplings a device can do, and what becomes of their fields.
#include "engine/sampling/device_picking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "engine/sampling/numbers.h"

namespace heddle::test {
namespace {

using engine::Sampling;

std::optional<model::Picking> picking(const Sampling& sampling) {
  return engine::device_picking(engine::Sampler(sampling, 100), std::vector<uint32_t>{4, 5, 6}, 2);
}

TEST(DevicePicking, NothingIsOnByDefault) {
  const auto p = picking({.seed = 9});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->temperature, 1);
  EXPECT_EQ(p->top_k, 0u);
  EXPECT_EQ(p->top_p, 1);
  EXPECT_EQ(p->log_min_p, -INFINITY);
  EXPECT_EQ(p->repetition, 1);
  EXPECT_TRUE(p->biases.empty());
  EXPECT_EQ(p->seed, 9u);
  EXPECT_EQ(p->picks, 1u);
  EXPECT_EQ(p->text, (std::vector<uint32_t>{4, 5, 6}));
  EXPECT_EQ(p->prompt, 2u);
  EXPECT_FALSE(p->logprob);
}

TEST(DevicePicking, FieldsAreThoseOfTheSampling) {
  const auto p = picking({.temperature = 0.5f,
                          .top_k = 30,
                          .top_p = 0.9f,
                          .min_p = 0.05f,
                          .repetition_penalty = 1.1f,
                          .repetition_last_n = -1,
                          .presence_penalty = 0.5f,
                          .frequency_penalty = 0.25f,
                          .logit_bias = {{7, 1.5f}, {8, -INFINITY}},
                          .logprobs = 0});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->temperature, 0.5f);
  EXPECT_EQ(p->top_k, 30u);
  EXPECT_EQ(p->top_p, 0.9f);
  EXPECT_EQ(p->log_min_p, engine::log_of(double(0.05f)));
  EXPECT_EQ(p->repetition, 1.1f);
  EXPECT_EQ(p->repetition_last, ~0u);
  EXPECT_EQ(p->presence, 0.5f);
  EXPECT_EQ(p->frequency, 0.25f);
  EXPECT_EQ(p->biases, (std::vector<std::pair<uint32_t, float>>{{7, 1.5f}, {8, -INFINITY}}));
  EXPECT_TRUE(p->logprob);
  EXPECT_EQ(picking({.top_k = -1})->top_k, 0u);
  EXPECT_EQ(picking({.repetition_penalty = 2, .repetition_last_n = 0})->repetition, 1);
}

TEST(DevicePicking, AStepThatIsNotNamedIsNotDone) {
  Sampling sampling{.temperature = 0.5f, .top_k = 3, .min_p = 0.1f, .order = {"top_k"}};
  const auto p = picking(sampling);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->temperature, 1);
  EXPECT_EQ(p->top_k, 3u);
  EXPECT_EQ(p->log_min_p, -INFINITY);
}

TEST(DevicePicking, AnotherOrderIsOnlyTheSamplers) {
  EXPECT_FALSE(picking({.temperature = 0.5f, .top_k = 3, .order = {"temperature", "top_k"}}));
  EXPECT_FALSE(picking({.top_p = 0.5f, .min_p = 0.1f, .order = {"min_p", "top_p"}}));
  // what is off may stand anywhere
  EXPECT_TRUE(picking({.top_k = 3, .order = {"temperature", "top_k"}}));
  EXPECT_TRUE(picking({.temperature = 0.5f, .order = {"temperature", "dry", "xtc", "top_k"}}));
}

TEST(DevicePicking, WhatTheDeviceDoesNotKnow) {
  const std::vector<std::function<void(Sampling&)>> changes{
      [](Sampling& s) { s.dry_multiplier = 0.8f; },
      [](Sampling& s) { s.xtc_probability = 0.5f; },
      [](Sampling& s) { s.typical_p = 0.9f; },
      [](Sampling& s) { s.mirostat = 2; },
      [](Sampling& s) { s.top_n_sigma = 1; },
      [](Sampling& s) { s.dynamic_range = 0.2f; },
      [](Sampling& s) { s.min_keep = 2; },
      [](Sampling& s) { s.logprobs = 1; },
      [](Sampling& s) { s.logprobs = 0, s.logprobs_after = true; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Sampling sampling;
    changes[i](sampling);
    EXPECT_FALSE(picking(sampling)) << i;
  }
}

}  // namespace
}  // namespace heddle::test
