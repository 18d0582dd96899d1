// The models of tests/model/fixtures and the encoders of tests/model/data on a GPU against the reference backend: each
// text alone, token by token, and seven texts at once.
//
// models_on_gpu [--as TARGET] [--kv q8] [--part I/N] [NAME ...]
// run where tests/model/fixtures is found: the root of the tree
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/error.h"
#include "cpu/cpu.h"
#include "cuda/device.h"
#include "formats/checkpoint.h"
#include "gpu/gpu.h"
#include "model/forward.h"
#include "model/load.h"
#include "tests/model/encoder_fixture.h"

namespace heddle::test {
namespace {

// With q8 both round to the same grid, and a value between two of its steps may go either way. So may an expert: of the
// mixtures llama4-chunks is at 0.995, as far as the reference with q8 is from the reference with f16.
constexpr double least_cosine_of_f16 = 0.9999, least_cosine_of_q8 = 0.999;
model::KvFormat kv = model::KvFormat::f16;
double least_cosine = least_cosine_of_f16;

struct Closeness {
  double cosine = 1;
  uint32_t rows = 0, same_best = 0;
  void add(std::span<const float> right, std::span<const float> found, size_t width) {
    check(right.size() == found.size(), "as many values from both");
    for (size_t at = 0; at < right.size(); at += width) {
      double both = 0, one = 0, other = 0;
      for (size_t i = at; i < at + width; ++i) {
        both += double(right[i]) * found[i];
        one += double(right[i]) * right[i];
        other += double(found[i]) * found[i];
      }
      const double here = both / std::sqrt(one * other);
      cosine = here < cosine || std::isnan(here) ? here : cosine;
      const auto best = [&](std::span<const float> all) {
        return std::max_element(all.begin() + long(at), all.begin() + long(at + width)) - all.begin();
      };
      ++rows;
      same_best += best(right) == best(found);
    }
  }
};

// Texts with the tokens of the fixture, which no expert is chosen by a hair for, each a step behind the one before it.
struct Texts {
  const Fixture& fixture;
  const model::Model& model;
  const model::Limits& limits;

  // Of each text the next tokens, up to the end that it has in this step.
  model::Batch batch(uint32_t texts, std::vector<uint32_t>& computed, uint32_t end, bool long_text) const {
    model::Batch to;
    to.long_text = long_text;
    for (uint32_t sequence = 0; sequence < texts; ++sequence) {
      for (uint32_t& next = computed[sequence]; next + sequence < end; ++next) {
        to.states.push_back(uint32_t(to.tokens.size()));
        if (model.output) to.outputs.push_back(uint32_t(to.tokens.size()));
        to.tokens.push_back(fixture.ids[next]);
        to.positions.push_back(next);
        to.sequences.push_back(uint32_t(to.blocks.size()));
      }
      const uint32_t each = limits.kv_blocks / 7;
      std::vector<uint32_t>& blocks = to.blocks.emplace_back();
      for (uint32_t i = 0; i < each; ++i) blocks.push_back(sequence * each + i);
      if (model::has_states(model)) to.slots.push_back(6 - sequence);
    }
    return to;
  }
};

Closeness run(const Fixture& fixture, const model::Model& model, bool crowd) {
  const model::Limits limits{.rows = 256, .kv_blocks = 7 * 4, .block_tokens = 16, .kv = kv, .state_slots = 7};
  const auto reference = cpu::make_reference(model, limits);
  const auto backend = gpu::make_gpu(model, limits, {.preload = false});
  const Texts texts{fixture, model, limits};
  Closeness result;
  const auto compare = [&](const model::Batch& batch) {
    model::forward(model, *reference, batch);
    model::forward(model, *backend, batch);
    const model::Result right = reference->result(), found = backend->result();
    result.add(right.states, found.states, model.width);
    if (model.output) result.add(right.logits, found.logits, model.vocabulary);
  };
  // Two tokens of every sequence of the batch, by the model's head for multi-token prediction.
  const auto predict = [&](const model::Batch& before) {
    model::Batch batch;
    batch.predicts = true;
    batch.blocks = before.blocks;
    for (uint32_t row = 0; row < before.tokens.size(); ++row) {
      if (row + 1 < before.tokens.size() && before.sequences[row + 1] == before.sequences[row]) continue;
      batch.after.push_back(row);
      batch.outputs.push_back(uint32_t(batch.tokens.size()));
      batch.tokens.push_back((before.tokens[row] + 1) % model.vocabulary);
      batch.positions.push_back(before.positions[row] + 1);
      batch.sequences.push_back(before.sequences[row]);
    }
    for (uint32_t guess = 0; guess < 2; ++guess) {
      compare(batch);
      std::iota(batch.after.begin(), batch.after.end(), 0u);
      for (uint32_t& token : batch.tokens) token = (token * 5 + 2) % model.vocabulary;
      for (uint32_t& position : batch.positions) ++position;
    }
  };
  const auto length = uint32_t(fixture.ids.size());
  const bool long_text = model.short_text && length > model.short_text;
  const uint32_t count = crowd ? 7 : 1;
  std::vector<uint32_t> computed(count);
  const auto feed = [&](uint32_t end) {
    const model::Batch batch = texts.batch(count, computed, end, long_text);
    compare(batch);
    if (model::next_head(model) && end < length) predict(batch);
  };
  // Whole texts of encoders, token by token, or several prompts at first.
  if (!model::generates(model)) {
    feed(length);
    return result;
  }
  for (uint32_t end = crowd ? length / 2 : 1; end <= length; ++end) feed(end);
  return result;
}

// A long prompt in two batches, with a short text beside the second one, as latent attention takes them apart.
Closeness run_long(const Fixture& fixture, const model::Model& model) {
  const model::Limits limits{.rows = 512, .kv_blocks = 64, .block_tokens = 16, .kv = kv};
  const auto reference = cpu::make_reference(model, limits);
  const auto backend = gpu::make_gpu(model, limits, {.preload = false});
  Closeness result;
  constexpr uint32_t first = 300, all = 617, other = 21, blocks_of_prompt = 40;
  for (const bool second : {false, true}) {
    model::Batch batch;
    const auto add = [&](uint32_t sequence, uint32_t begin, uint32_t end) {
      for (uint32_t i = begin; i < end; ++i) {
        batch.states.push_back(uint32_t(batch.tokens.size()));
        batch.outputs.push_back(uint32_t(batch.tokens.size()));
        batch.tokens.push_back(fixture.ids[(i * 7 + i / 5) % fixture.ids.size()]);
        batch.positions.push_back(i);
        batch.sequences.push_back(sequence);
      }
    };
    batch.blocks.resize(2);
    for (uint32_t i = 0; i < limits.kv_blocks; ++i) batch.blocks[i >= blocks_of_prompt].push_back(i);
    second ? add(0, first, all) : add(0, 0, first);
    if (second) add(1, 0, other);
    model::forward(model, *reference, batch);
    model::forward(model, *backend, batch);
    const model::Result right = reference->result(), found = backend->result();
    result.add(right.states, found.states, model.width);
    result.add(right.logits, found.logits, model.vocabulary);
  }
  return result;
}

// An encoder or reranker: the states of all its texts in one batch.
Closeness run_encoder(const EncoderFixture& fixture, const model::Model& model) {
  const model::Limits limits{.rows = 512, .kv_blocks = 64, .block_tokens = 16, .kv = kv};
  const auto reference = cpu::make_reference(model, limits);
  const auto backend = gpu::make_gpu(model, limits, {.preload = false});
  const auto right = states_of(model, *reference, limits, fixture.texts, fixture.types);
  const auto found = states_of(model, *backend, limits, fixture.texts, fixture.types);
  Closeness result;
  for (size_t i = 0; i < right.size(); ++i) result.add(right[i], found[i], model.width);
  return result;
}

int main_of(std::vector<std::string> args) {
  std::vector<std::string> names;
  size_t part = 0, parts = 1;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--as")
      cuda::treat_gpus_as(args.at(++i));
    else if (args[i] == "--kv") {
      check(args.at(++i) == "q8", "--kv q8");
      kv = model::KvFormat::q8;
      least_cosine = least_cosine_of_q8;
    } else if (args[i] == "--part")
      check(std::sscanf(args.at(++i).c_str(), "%zu/%zu", &part, &parts) == 2 && part < parts, "--part 0/4");
    else
      names.push_back(args[i]);
  }
  if (names.empty()) {
    names = Fixture::names();
    for (const std::string& name : EncoderFixture::names()) names.push_back("encoder " + name);
  }
  uint32_t failed = 0, refused = 0, passed = 0;
  for (size_t i = part; i < names.size(); i += parts) try {
      const Folder folder;
      if (names[i].starts_with("encoder ")) {
        const EncoderFixture fixture(names[i].substr(8));
        const model::Model model = model::load(formats::open_checkpoint(fixture.write_in(folder, quant::Format::f16)));
        const Closeness all = run_encoder(fixture, model);
        ++(all.cosine >= least_cosine ? passed : failed);
        fmt::print("{} {}: cosine {:.7f} of {} states\n", all.cosine >= least_cosine ? "ok    " : "FAILED", names[i],
                   all.cosine, all.rows);
        continue;
      }
      const Fixture fixture(names[i]);
      fixture.write(folder, fixture.config, quant::Format::f16);
      const model::Model model =
          model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context, .next_head = true});
      const Closeness alone = run(fixture, model, false), crowd = run(fixture, model, true);
      bool good = alone.cosine >= least_cosine && crowd.cosine >= least_cosine;
      if (names[i] == "deepseek2-heads") {
        const Closeness prompt = run_long(fixture, model::load(formats::open_checkpoint(folder.path())));
        fmt::print("       {}: cosine {:.7f} in a long prompt\n", names[i], prompt.cosine);
        good = good && prompt.cosine >= least_cosine;
      }
      ++(good ? passed : failed);
      fmt::print("{} {}: cosine {:.7f} alone, {:.7f} of seven; same best {} of {}\n", good ? "ok    " : "FAILED",
                 names[i], alone.cosine, crowd.cosine, alone.same_best + crowd.same_best, alone.rows + crowd.rows);
    } catch (const Error& error) {
      ++refused;
      fmt::print("REFUSED {}: {}\n", names[i], error.what());
    }
  fmt::print("{} passed, {} failed, {} refused\n", passed, failed, refused);
  return failed || refused ? 1 : 0;
}

}  // namespace
}  // namespace heddle::test

int main(int count, char** args) {
  try {
    return heddle::test::main_of({args + 1, args + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
