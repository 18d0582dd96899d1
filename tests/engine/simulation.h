// Random traffic on the fake backend: arrivals, lengths, priorities, several completions, stops, cancellations, faults,
// callbacks that throw. Every event is compared with what the request would have got alone.
#pragma once
#include <optional>
#include <unordered_map>

#include "engine/engine.h"
#include "tests/engine/alone.h"
#include "tests/engine/engine_fixture.h"
#include "tests/support/shorter.h"

namespace heddle::test::fake {

struct Traffic {
  uint32_t requests = 2000;
  uint32_t open = 40;  // at most at a time
  uint32_t context = 160, longest_prompt = 100, longest_answer = 30;
  model::Limits limits = fake_limits(300, 4, 64);
  Cost cost{.noise = 0.1};
  engine::EngineOptions options;
  float repetition = 0;    // of the model
  double cancelled = 0.1;  // part of requests
  double throwing = 0.03;  // part of requests
  double fault = 0;        // chance in a step
  double unusable = 0;     // the same
  bool penalties = true;   // in some requests
  double turns = 0;        // part of requests that continue a completion: its prompt, the answer, and something new
  uint32_t clients = 1;
  uint32_t window = 0, chunk = 0;  // of the model
  double cached = 0.2;  // tokens of prompts that are found in the cache, at least, for each one that is computed
  std::optional<model::Limits> draft;  // of a draft model
  double draft_right = 1;              // part of its logits that are those of the model
  std::optional<double> head_right;    // the same, of the model's own head for multi-token prediction
  // Where options have a store: called now and then, while the engine is there.
  std::function<void()> disturb = {};
};

struct Tally {
  uint64_t ended = 0, whole = 0, failed = 0, cancelled = 0, tokens = 0, steps = 0;
  double longest_wait = 0;  // for a first token
  double longest_gap = 0;   // between two tokens, where no blocks were lost in between
  engine::Metrics metrics;
};

// Changes the logits of rows, but for a part of them.
inline std::function<void(std::span<float>)> wrong_logits(double right, uint64_t seed) {
  return [right, random = std::mt19937_64(seed)](std::span<float> logits) mutable {
    if (double(random() >> 11) * 0x1p-53 >= right) logits[random() % logits.size()] += 9;
  };
}

template <class Backend = FakeBackend>
class Simulation {
 public:
  Simulation(const Traffic& traffic, uint64_t seed)
      : traffic_(traffic),
        random_(seed),
        model_(with_window(fake_model(traffic.context, 16, traffic.repetition), traffic.window, traffic.chunk)),
        backend_(traffic.head_right ? (model_ = with_head(model_)) : model_, traffic.limits, seed) {
    backend_.cost = traffic.cost;
    if (traffic.head_right) backend_.change_predictions = wrong_logits(*traffic.head_right, seed);
    engine::EngineOptions options = traffic.options;
    options.now = [this] { return backend_.clock; };
    if (traffic.draft) add_draft(options, seed);
    engine_.emplace(model_, backend_, traffic.limits, options);
    for (auto& beginning : beginnings_) beginning = tokens(traffic.longest_prompt);
  }

  Tally run() {
    uint32_t left = traffic_.requests;
    while ((left > 0 || !watched_.empty()) && !::testing::Test::HasFailure()) {
      for (uint32_t burst = one_in(3) ? below(4) : 0; burst > 0 && left > 0 && watched_.size() < traffic_.open; --burst)
        if (!submit())
          break;
        else
          --left;
      if (one_in(8) && !watched_.empty()) cancel_one();
      if (traffic_.disturb && one_in(20)) traffic_.disturb();
      if (traffic_.options.store && one_in(10)) engine_->save_some();
      if (chance(traffic_.fault)) backend_.fault("a fault");
      if (chance(traffic_.unusable)) backend_.fault("the end", true);
      if (draft_ && chance(traffic_.fault)) draft_->fault("a fault of the draft");
      if (traffic_.limits.state_slots && chance(traffic_.fault)) backend_.copy_fault = true;
      const bool idle = engine_->idle();
      const bool worked = engine_->step();
      EXPECT_TRUE(worked == !idle || traffic_.options.store) << "with a store, it may wait for that";
      engine_->check_invariants();
      ++tally_.steps;
      if (!worked) backend_.clock += 0.01;
      if (!engine_->stopped().empty()) break;  // and every request has ended
    }
    EXPECT_TRUE(watched_.empty());
    EXPECT_TRUE(engine_->idle());
    tally_.metrics = engine_->metrics();
    EXPECT_EQ(tally_.metrics.blocks_in_use, 0u);
    EXPECT_EQ(tally_.metrics.windows_in_use, 0u);
    EXPECT_EQ(tally_.metrics.slots_in_use, 0u);
    EXPECT_EQ(tally_.metrics.snapshots_taken - tally_.metrics.snapshots_dropped, tally_.metrics.snapshots);
    EXPECT_EQ(tally_.metrics.waiting + tally_.metrics.running, 0u);
    return tally_;
  }

  engine::Engine& engine() { return *engine_; }

 private:
  void add_draft(engine::EngineOptions& options, uint64_t seed) {
    draft_.emplace(model_, *traffic_.draft, seed);
    draft_->other_clock = &backend_.clock;
    draft_->cost = {.step = 0.0005, .row = 0.00004, .noise = 0.1};
    draft_->change_logits = wrong_logits(traffic_.draft_right, seed);
    options.draft = {.model = &model_, .backend = &*draft_, .limits = *traffic_.draft};
  }

  struct Watched {
    engine::Request request;
    std::vector<Answer> completions;
    std::vector<double> last;           // token
    std::vector<uint64_t> preemptions;  // by then
    uint32_t open;
    double submitted;
    std::vector<bool> cancelled, finished;  // per completion
    // tokens of all completions
    uint32_t received = 0, cancel_at = ~0u, finish_one_at = ~0u, cancel_other_at = ~0u, throw_at = ~0u;
  };

  uint64_t below(uint64_t limit) { return random_() % limit; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  bool chance(double part) { return double(random_() >> 11) * 0x1p-53 < part; }
  std::vector<uint32_t> tokens(uint32_t count) {
    std::vector<uint32_t> some(count);
    for (uint32_t& token : some) token = uint32_t(below(model_.vocabulary));
    return some;
  }

  engine::Request request() {
    engine::Request r;
    const auto longest = uint32_t(one_in(4) ? traffic_.longest_prompt : std::max(1u, traffic_.longest_prompt / 6));
    const auto length = uint32_t(1 + below(longest));
    r.prompt = tokens(length);
    if (!one_in(3)) {  // begins as others do
      const auto& beginning = beginnings_[below(beginnings_.size())];
      std::copy_n(beginning.begin(), below(length + 1), r.prompt.begin());
    }
    if (chance(traffic_.turns) && !conversations_.empty()) {
      const auto& before = conversations_[below(conversations_.size())];
      const uint32_t capacity = traffic_.limits.kv_blocks * traffic_.limits.block_tokens;
      if (before.size() + length < std::min(traffic_.context, capacity))
        r.prompt.insert(r.prompt.begin(), before.begin(), before.end());
    }
    r.max_tokens = one_in(20) ? engine::no_limit : uint32_t(1 + below(traffic_.longest_answer));
    if (one_in(20)) r.max_tokens = 0;
    if (one_in(8)) r.prompt_logprobs = uint32_t(below(3));
    r.embed = one_in(20);
    r.trace = one_in(4);
    r.sampling.seed = random_();
    r.sampling.temperature = one_in(2) ? 0 : 0.8f;
    if (traffic_.penalties && one_in(4)) r.sampling.repetition_penalty = 1.2f;
    if (traffic_.penalties && one_in(6)) r.sampling.frequency_penalty = 0.3f;
    if (one_in(5)) r.sampling.logprobs = traffic_.penalties ? uint32_t(below(3)) : 0;
    if (one_in(6)) r.sampling.logit_bias[uint32_t(below(16))] = one_in(2) ? -INFINITY : 1.0f;
    for (uint64_t stops = below(3); stops > 0; --stops) r.stops.push_back(tokens(uint32_t(1 + below(2))));
    if (one_in(6)) r.n = uint32_t(2 + below(3));
    r.priority = int(below(5)) - 2;
    r.reuse = !one_in(10);
    if (traffic_.clients > 1) r.client = below(traffic_.clients);
    if (traffic_.clients > 1 && one_in(4)) r.ordinal = uint32_t(below(4));
    if (one_in(3)) r.speculation = engine::Speculation(below(3));
    return r;
  }

  bool submit() {
    Watched w{.request = request()};
    w.completions.resize(w.request.n);
    w.last.resize(w.request.n);
    w.preemptions.resize(w.request.n);
    w.cancelled.resize(w.request.n);
    w.finished.resize(w.request.n);
    w.open = w.request.n;
    w.submitted = backend_.clock;
    if (chance(traffic_.cancelled)) w.finish_one_at = uint32_t(1 + below(10));
    if (chance(traffic_.cancelled)) (one_in(2) ? w.cancel_at : w.cancel_other_at) = uint32_t(1 + below(10));
    if (chance(traffic_.throwing)) w.throw_at = uint32_t(1 + below(10));
    try {
      const auto id = engine_->submit(w.request, [this](const engine::Event& event) { on_event(event); });
      watched_.emplace(id, std::move(w));
      return true;
    } catch (const engine::Busy&) {
      return false;
    }
  }

  void cancel_one() {
    const auto it = std::next(watched_.begin(), ptrdiff_t(below(watched_.size())));
    if (chance(traffic_.cancelled)) cancel(it);
  }

  void cancel(typename std::unordered_map<engine::RequestId, Watched>::iterator it) {
    engine_->cancel(it->first);
    it->second.cancelled.assign(it->second.cancelled.size(), true);
  }

  void finish_one(engine::RequestId id, Watched& w, uint32_t index) {
    engine_->finish(id, index);
    if (!w.completions[index].picks.empty() && !w.cancelled[index]) w.finished[index] = true;
  }

  void on_event(const engine::Event& event) {
    const auto found = watched_.find(event.request);
    ASSERT_NE(found, watched_.end()) << "an event of a request that has ended";
    Watched& w = found->second;
    Answer& answer = w.completions.at(event.index);
    ASSERT_EQ(answer.finish_reason, engine::FinishReason::none) << "an event after the end";
    note(w.request, event, answer);
    if (event.finish_reason == engine::FinishReason::none) {
      token(w, answer, event);
      EXPECT_FALSE(w.cancelled[event.index] || w.finished[event.index]) << "a token after it was cancelled or finished";
      if (++w.received == w.cancel_at) cancel(found);
      if (w.received == w.finish_one_at) finish_one(found->first, w, uint32_t(below(w.request.n)));
      if (w.received == w.cancel_other_at) cancel(std::next(watched_.begin(), ptrdiff_t(below(watched_.size()))));
      if (w.received == w.throw_at) w.cancelled.assign(w.cancelled.size(), true);
      if (w.received == w.throw_at) throw std::runtime_error("thrown");
      return;
    }
    answer.finish_reason = event.finish_reason;
    ended(w, answer, event);
    if (--w.open == 0) watched_.erase(found);
  }

  void token(Watched& w, Answer& answer, const engine::Event& event) {
    ++tally_.tokens;
    const uint64_t preemptions = engine_->metrics().preemptions;
    if (answer.picks.empty())
      tally_.longest_wait = std::max(tally_.longest_wait, backend_.clock - w.submitted);
    else if (w.preemptions[event.index] == preemptions)
      tally_.longest_gap = std::max(tally_.longest_gap, backend_.clock - w.last[event.index]);
    w.last[event.index] = backend_.clock;
    w.preemptions[event.index] = preemptions;
    answer.picks.push_back(event.pick);
  }

  void ended(const Watched& w, const Answer& answer, const engine::Event& event) {
    ++tally_.ended;
    const bool cancelled = event.finish_reason == engine::FinishReason::cancelled,
               failed = event.finish_reason == engine::FinishReason::failed;
    tally_.cancelled += cancelled;
    const bool finished = w.finished[event.index];
    EXPECT_TRUE(failed || cancelled == (w.cancelled[event.index] && !finished))
        << "cancelled requests, and no others, end as cancelled";
    EXPECT_TRUE(failed || !finished || event.finish_reason == engine::FinishReason::stop);
    tally_.failed += failed;
    tally_.whole += !cancelled && !failed;
    if (traffic_.turns > 0) remember(w, answer);
    EXPECT_EQ(event.generated, answer.picks.size());
    EXPECT_EQ(event.prompt_tokens, w.request.prompt.size());
    EXPECT_LE(event.cached_tokens, event.prompt_tokens);
    expect_adds_up(w, event);
    const auto& limits = traffic_.limits;
    expect_same(answer, answer_alone(model_, w.request, event.index, limits.kv_blocks * limits.block_tokens),
                !cancelled && !failed && !finished);
  }

  void remember(const Watched& w, const Answer& answer) {
    if (conversations_.size() > 10) conversations_.erase(conversations_.begin());
    std::vector<uint32_t>& all = conversations_.emplace_back(w.request.prompt);
    for (const uint32_t token : answer.tokens()) all.push_back(token);
  }

  void expect_adds_up(const Watched& w, const engine::Event& event) {
    const engine::Timing& t = event.timing;
    EXPECT_TRUE(t.queue >= 0 && t.prompt >= 0 && t.generating >= 0 && t.device >= 0);
    EXPECT_NEAR(t.queue + t.prompt + t.generating, backend_.clock - w.submitted, 1e-9);
    EXPECT_LE(t.device, t.prompt + t.generating + 1e-9);
    if (!event.steps) return;
    EXPECT_EQ(event.steps->size(), t.steps);
    double device = 0, last = 0;
    uint32_t generated = 0, rows = 0;
    for (const engine::StepTime& step : *event.steps) {
      EXPECT_GE(step.start, last - 1e-9);
      EXPECT_LE(step.device, step.seconds + 1e-9);
      EXPECT_GE(step.all_rows, step.rows);
      EXPECT_GE(step.sequences, 1u);
      last = step.start + step.seconds;
      device += step.device;
      generated += step.generated;
      rows += step.rows;
    }
    EXPECT_NEAR(device, t.device, 1e-9);
    EXPECT_LE(last, t.queue + t.prompt + t.generating + 1e-9);
    EXPECT_EQ(generated, event.generated);
    EXPECT_TRUE(event.generated == 0 || rows + event.cached_tokens >= event.prompt_tokens + event.generated - 1);
  }

  const Traffic traffic_;
  std::mt19937_64 random_;
  model::Model model_;
  Backend backend_;
  std::optional<Backend> draft_;
  std::optional<engine::Engine> engine_;
  std::array<std::vector<uint32_t>, 6> beginnings_;
  std::vector<std::vector<uint32_t>> conversations_;  // that ended last
  std::unordered_map<engine::RequestId, Watched> watched_;
  Tally tally_;
};

// With what every simulation shows.
template <class Backend = FakeBackend>
Tally simulate(const Traffic& traffic, uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Simulation<Backend> simulation(traffic, seed);
  const Tally tally = simulation.run();
  EXPECT_GT(tally.whole, traffic.requests / 2);
  EXPECT_GT(tally.cancelled, 0u);
  EXPECT_GT(double(tally.metrics.prompt_cached), traffic.cached * double(tally.metrics.prompt_computed));
  // Priorities differ by up to 4 s. Of those open at a time few take longer than 0.2 s, if each were alone.
  const double later = traffic.clients > 1 ? 30 : 0;  // the fourth of completions asked for together waits 30 s longer
  EXPECT_LT(tally.longest_wait, 4 + 0.2 * traffic.open + later);
  if (::testing::Test::HasFailure()) fmt::print("with seed {}, after {} steps\n", seed, tally.steps);
  return tally;
}

}  // namespace heddle::test::fake
